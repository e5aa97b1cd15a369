"""Catalogs that are lost, doubled or damaged: no org ever meets another's data, and what cannot be used is said."""
import shutil

import pytest

from support.cluster import BUILD, Client, Cluster, Process

ALL = "START a = events(k: 200) RETURN a.summary"


def start_second_coordinator(cluster):
    """Another coordinator, with a catalog of its own, on the same shards; → (process, url, admin key)."""
    words = [BUILD / "heddle-coordinator", "--data", cluster.data / "second", "--listen", "127.0.0.1:0"]
    for endpoint in cluster.endpoints:
        words += ["--shard", endpoint]
    process = Process(words, cluster.data / "second.log")
    url = process.wait_ready()
    return process, url, (cluster.data / "second" / "admin.key").read_text().strip()


def test_two_clusters_on_the_same_shards_do_not_meet():
    with Cluster(2) as cluster:
        first = cluster.new_org("first", partitions=4)
        first.ok("save_memory", {"event_id": "secret", "summary": "of the first"})
        process, url, key = start_second_coordinator(cluster)
        try:
            admin = Client(url, key)
            second = Client(url, admin.send("POST", "/v1/admin/orgs", {"name": "second", "partitions": 4}).json["key"])
            assert second.query(ALL)["rows"] == []
            second.ok("save_memory", {"event_id": "secret", "summary": "of the second"})
            assert second.query(ALL)["rows"] == [["of the second"]]
            assert admin.send("DELETE", "/v1/admin/orgs/second").status == 200
        finally:
            process.kill()
        answer = first.query(ALL)
        assert answer["rows"] == [["of the first"]] and not answer["partial"]


def test_a_catalog_made_anew_over_old_shards_shows_nothing_old():
    with Cluster(2) as cluster:
        cluster.new_org("a", partitions=4).ok("save_memory", {"summary": "old"})
        assert cluster.coordinator.stop() == 0
        shutil.rmtree(cluster.data / "coordinator")
        cluster.start_coordinator()
        again = cluster.new_org("a", partitions=4)
        assert again.query(ALL)["rows"] == []


@pytest.mark.parametrize(
    "content, said",
    [(b"junk" * 5000, "no catalog"), (b"SQLite format 3\0" + b"\0" * 5000, "damaged|no catalog|malformed"), (None, "damaged|malformed")],
    ids=["other bytes", "a header alone", "cut in half"],
)
def test_a_damaged_catalog_is_refused_and_left_as_it_is(content, said):
    import re

    with Cluster(1) as cluster:
        cluster.new_org("a")
        assert cluster.coordinator.stop() == 0
        path = cluster.data / "coordinator" / "catalog.db"
        path.write_bytes(content if content is not None else path.read_bytes()[: path.stat().st_size // 2])
        before = path.read_bytes()
        process = Process(cluster.coordinator.words[:-2], cluster.data / "again.log", is_ready_told=False)
        assert process.child.wait(60) == 1
        assert re.search(said, process.log()), process.log()
        assert path.read_bytes() == before


def test_a_lost_admin_key_file_does_not_change_the_key():
    with Cluster(1) as cluster:
        key, path = cluster.admin_key(), cluster.data / "coordinator" / "admin.key"
        for text in ("", "x\n", "k" * 40 + "\n"):
            assert cluster.coordinator.stop() == 0
            path.write_text(text)
            path.chmod(0o644)
            cluster.start_coordinator()
            assert Client(cluster.url, key).send("GET", "/v1/admin/orgs").status == 200
            assert Client(cluster.url, "k" * 40).send("GET", "/v1/admin/orgs").status == 401
        assert cluster.coordinator.log().count("stays in force") == 3 and "chmod 600" in cluster.coordinator.log()

"""Shards that die, disks that fill up: every acknowledged memory is there, whole, in every index, once; answers say what they lack."""
import os
import shutil
import signal
import subprocess
import threading

import pytest

from support.cluster import Cluster, Serve, wait_until

EVENTS, IN_GROUP, BATCH = 3000, 50, 40
WALK_TIME = "2025-01-01T%02d:%02d:%02dZ"


def event_id(number):
    return "e%05d" % number


def vector_of(number):
    """Far from every other's."""
    return [float(number % 97 + 1), float(number // 97 % 89 + 1), float(number % 89 - 44), float((number * 7) % 83 - 41), 1.0, float(number % 13), 2.0, float(number % 5)]


def memory_of(number):
    group = number // IN_GROUP
    return {
        "event_id": event_id(number),
        "summary": "summary of %d" % number,
        "content": "content of %d " % number * 20,
        "timestamp": WALK_TIME % (number // 3600, number // 60 % 60, number % 60),
        "entities": [{"name": "own %d" % number, "type": "own"}, {"name": "group %d" % group, "type": "group"}],
        "tags": ["group/%d" % group, {"name": "all", "kind": "refers"}],
        "thread": "t%d" % group,
        "order_index": number % IN_GROUP,
        "vector": vector_of(number),
    }


class Importer(threading.Thread):
    """Saves everything in batches and writes down what was acknowledged. What it is not told about it saves again."""

    def __init__(self, client):
        super().__init__()
        self.client, self.acknowledged, self.doubtful, self.error = client, set(), 0, None

    def run(self):
        try:
            pending = list(range(EVENTS))
            while pending:
                batch, pending = pending[:BATCH], pending[BATCH:]
                pending = self.save(batch) + pending
        except Exception as error:  # told to the test, which fails with it
            self.error = error

    def save(self, batch):
        """→ those to save again."""
        reply = self.client.tool("save_memories", {"memories": [memory_of(number) for number in batch]})
        if reply.status != 200:
            assert reply.status in (429, 503), (reply.status, reply.body)
            return batch
        again = []
        for number, result in zip(batch, reply.json["results"]):
            if result["status"] == "ok" or result["reason"] == "already_exists":
                self.acknowledged.add(number)
                continue
            assert result["reason"] in ("shard_unavailable", "busy", "timeout"), result
            if result.get("outcome") == "unknown":
                assert result["event_id"] == event_id(number)
                self.doubtful += 1
            again.append(number)
        return again


def rows(client, query, **params):
    answer = client.query(query, params)
    assert answer["partial"] is False, answer["truncated"]
    return answer["rows"]


def check_whole(client, numbers):
    """Exactly these events are there, in every index, once."""
    expected = sorted(numbers)
    found = []
    for at in range(0, EVENTS, 200):
        ids = [event_id(number) for number in range(at, min(at + 200, EVENTS))]
        found += [row[0] for row in rows(client, "START a = events(ids: $ids) RETURN a.id LIMIT 200", ids=ids)]
    assert found == [event_id(number) for number in expected]
    assert client.ok("describe_memory_graph", {})["counts"] == {"events": len(expected), "vectors": len(expected)}
    for group in range(EVENTS // IN_GROUP):
        members = [event_id(number) for number in expected if number // IN_GROUP == group]
        if not members:
            continue
        name = "group %d" % group
        assert rows(client, "START a = events(entity: $n, k: 200) RETURN a.id ORDER BY a.id LIMIT 200", n=name) == [[m] for m in members]
        assert rows(client, "START a = events(tag: $n, k: 200) RETURN a.id ORDER BY a.id LIMIT 200", n=name.replace(" ", "/")) == [[m] for m in members]
        walk = "START a = events(entity: $n, k: 200) MATCH (a)-[:NEXT {source: 'thread'}]->(b) RETURN a.id, b.id ORDER BY a.id LIMIT 200"
        assert rows(client, walk, n=name) == [list(pair) for pair in zip(members, members[1:])]
        first, last = (WALK_TIME % (n // 3600, n // 60 % 60, n % 60) for n in (group * IN_GROUP, (group + 1) * IN_GROUP))
        timeline = rows(client, "START a = events(since: $s, until: $u, k: 200) RETURN a.id LIMIT 200", s=first, u=last)
        assert timeline == [[m] for m in reversed(members)]
        counts = "START a = events(entity: $n, k: 200) MATCH (a)-[:PARTICIPATED_IN]-(e) RETURN e.name, e.event_count, count(*) LIMIT 200"
        assert sorted(rows(client, counts, n=name)) == sorted([[name, len(members), len(members)]] + [["own %d" % int(m[1:]), 1, 1] for m in members])
    for number in expected[:: max(1, len(expected) // 150)]:
        assert rows(client, "START a = events(vector: $v, k: 1, exact: true) RETURN a.id, a.score", v=vector_of(number)) == [[event_id(number), 1.0]]
        assert rows(client, "START a = events(entity: $n) RETURN a.id", n="own %d" % number) == [[event_id(number)]]
        read = client.ok("get_memory_content", {"event_id": event_id(number)})
        assert (read["event"]["summary"], read["content"]) == ("summary of %d" % number, "content of %d " % number * 20)
        assert [tag["name"] for tag in read["event"]["tags"]] == ["group/%d" % (number // IN_GROUP), "all"]


def present(client):
    found = set()
    for at in range(0, EVENTS, 200):
        ids = [event_id(number) for number in range(at, min(at + 200, EVENTS))]
        found |= {int(row[0][1:]) for row in rows(client, "START a = events(ids: $ids) RETURN a.id LIMIT 200", ids=ids)}
    return found


@pytest.mark.parametrize("victim", [0, 1])
def test_a_shard_killed_in_the_middle_of_an_import(victim):
    with Cluster(2, coordinator_words=["--deadline", "60s"]) as cluster:
        client = cluster.new_org("crash", partitions=4, embedding="none", dimension=8)
        importer = Importer(cluster.client(client.key))
        importer.start()
        for share in (0.2, 0.5):
            wait_until(lambda: len(importer.acknowledged) > EVENTS * share or importer.error, "the import comes on")
            acknowledged = set(importer.acknowledged)
            cluster.kill_shard(victim)
            cluster.restart_shard(victim)
            wait_until(lambda: client.send("GET", "/readyz").status == 200, "the shard is known again")
            assert acknowledged <= present(client), "an acknowledged memory is gone"
        # Once more, and this time what is there is looked at in every index before the rest is saved.
        cluster.coordinator.kill()
        importer.join(120)
        acknowledged = set(importer.acknowledged)
        cluster.kill_shard(victim)
        cluster.kill_shard(1 - victim)
        cluster.restart_shard(victim)
        cluster.restart_shard(1 - victim)
        cluster.start_coordinator()
        client = cluster.client(client.key)
        there = present(client)
        assert acknowledged <= there, "an acknowledged memory is gone"
        check_whole(client, there)
        rest = Importer(cluster.client(client.key))
        rest.run()
        assert rest.error is None, rest.error
        check_whole(client, range(EVENTS))


def test_serve_starts_a_killed_shard_again():
    with Serve(2) as serve:
        client = serve.new_org("crash", partitions=4, embedding="none", dimension=8)
        importer = Importer(serve.client(client.key))
        importer.start()
        for share in (0.1, 0.3, 0.6):
            wait_until(lambda: len(importer.acknowledged) > EVENTS * share or importer.error, "the import comes on")
            pids = wait_until(lambda: len(serve.shard_pids()) == 2 and serve.shard_pids(), "both shards run")
            os.kill(pids[0], signal.SIGKILL)
            wait_until(lambda: len(serve.shard_pids()) == 2 and pids[0] not in serve.shard_pids(), "the shard was started again")
        importer.join(300)
        assert importer.error is None, importer.error
        wait_until(serve.is_ready, "ready again")
        check_whole(client, range(EVENTS))
        assert serve.stop() == 0


def fill(client, count=200):
    memories = [{"event_id": "m%d" % n, "summary": "memory %d" % n, "entities": [{"name": "all"}, {"name": "each"}], "thread": "t", "order_index": n, "vector": [1, n]} for n in range(count)]
    for at in range(0, count, 500):
        assert {result["status"] for result in client.ok("save_memories", {"memories": memories[at : at + 500]})["results"]} == {"ok"}


def test_a_dead_shard_makes_answers_partial_and_is_named():
    with Cluster(2, coordinator_words=["--deadline", "20s"]) as cluster:
        client = cluster.new_org("partial", partitions=4, embedding="none", dimension=2)
        other = cluster.new_org("elsewhere", partitions=1, embedding="none", dimension=2)
        fill(client)
        fill(other, 10)
        whole = {tuple(row) for row in rows(client, "START a = events(k: 200) RETURN a.id LIMIT 200")}
        assert len(whole) == 200
        shards = cluster.admin("GET", "/stats")["shards"]
        dead = 1
        cluster.kill_shard(dead)
        uuid = next(shard["uuid"] for shard in shards if shard["endpoint"] == cluster.endpoints[dead])
        queries = {
            "START a = events(k: 200) RETURN a.id LIMIT 200": True,
            "START a = events(entity: 'all', k: 200) RETURN a.id LIMIT 200": True,
            "START a = events(vector: [1, 5], k: 20) RETURN a.id": True,
            "START a = events(ids: $ids) RETURN a.id LIMIT 200": True,
        }
        for query in queries:
            answer = client.query(query, {"ids": ["m%d" % n for n in range(200)]})
            assert answer["partial"] is True
            cuts = [cut for cut in answer["truncated"] if cut["cap"] == "shard_unavailable"]
            assert cuts and any(uuid in cut["detail"] for cut in cuts), answer["truncated"]
            assert 0 < len(answer["rows"]) < 200 and {tuple(row) for row in answer["rows"]} <= whole
        # Figures that need every partition are null, never wrong.
        answer = client.query("START a = events(entity: 'all', k: 3) MATCH (a)-[s:SHARES]-(b), (a)-[:PARTICIPATED_IN]-(e) RETURN s.weight, e.event_count, s.count")
        assert answer["partial"] and answer["rows"] and {tuple(row) for row in answer["rows"]} == {(None, None, 2)}
        assert client.query("START a = events(entity: 'all', k: 3) MATCH (a)-[s:SHARES {min_w: 0.1}]-(b) RETURN b")["rows"] == []
        connected = "START a = events(entity: 'all', k: 3) MATCH (a)-[:PARTICIPATED_IN]-(e {name: 'all'})-[c:CONNECTED {min: %d}]-(f) %s RETURN DISTINCT f.name, c.event_count, c"
        sure = client.query(connected % (30, ""))  # of 200 common events the shard that is left has so many at the least
        assert sure["partial"] and sure["rows"] == [["each", None, {"event_count": None}]]
        assert client.query(connected % (200, ""))["rows"] == [], "what is not sure is left out"
        assert client.query(connected % (1, "WHERE c.event_count > 0"))["rows"] == []
        # What would depend on what it holds is not answered.
        for row in client.query("START a = events(k: 200) MATCH (a)-[:NEXT]->(b) RETURN a.id, b.id LIMIT 200")["rows"]:
            pytest.fail("the next of a thread was told without one of its partitions: %s" % row)
        # Saving: what goes to a shard that lives is saved, the rest is told.
        results = client.ok("save_memories", {"memories": [{"event_id": "new%d" % n, "summary": "x"} for n in range(40)]})["results"]
        failed = [result for result in results if result["status"] == "error"]
        assert 0 < len(failed) < 40
        for result in failed:
            assert result["reason"] in ("shard_unavailable", "timeout"), result
            if result.get("outcome") == "unknown":  # it was sent: then it says what to ask for
                assert result["event_id"].startswith("new") and result["hint"]
        assert client.send("GET", "/readyz").status == 503 and client.send("GET", "/healthz").status == 200
        cluster.restart_shard(dead)
        wait_until(lambda: client.send("GET", "/readyz").status == 200, "ready again")
        saved = {result["event_id"] for result in results if result["status"] == "ok"}
        after = client.query("START a = events(ids: $ids) RETURN a.id LIMIT 200", {"ids": ["new%d" % n for n in range(40)]})
        assert after["partial"] is False and saved <= {row[0] for row in after["rows"]}
        assert len(rows(client, "START a = events(entity: 'all', k: 200) RETURN a LIMIT 200")) == 200


def test_with_no_shard_left_it_is_an_error_not_an_empty_answer():
    with Cluster(1, coordinator_words=["--deadline", "5s"]) as cluster:
        client = cluster.new_org("alone", embedding="none", dimension=2)
        fill(client, 5)
        cluster.kill_shard(0)
        for query in ("START a = events(k: 5) RETURN a", "START a = events(ids: ['m1']) RETURN a", "START a = events(entity: 'all') MATCH (a)-[:SHARES]-(b) RETURN b"):
            reply = client.tool("query_memory_graph", {"query": query})
            assert (reply.status, reply.json["reason"]) == (503, "shard_unavailable"), reply.body
        for tool, arguments in (("save_memory", {"event_id": "x", "summary": "x"}), ("delete_memory", {"event_id": "m1"}), ("get_memory_content", {"event_id": "m1"})):
            reply = client.tool(tool, arguments)
            assert reply.status in (503, 504) and reply.json["reason"] in ("shard_unavailable", "timeout"), (tool, reply.body)
        cluster.restart_shard(0)
        wait_until(lambda: client.send("GET", "/readyz").status == 200, "ready again")
        assert len(rows(client, "START a = events(k: 5) RETURN a")) == 5


def test_a_stopped_shard_costs_the_deadline_and_no_more():
    with Cluster(2, coordinator_words=["--deadline", "1s"]) as cluster:
        client = cluster.new_org("frozen", partitions=4, embedding="none", dimension=2)
        fill(client)
        os.kill(cluster.shards[1].pid, signal.SIGSTOP)
        try:
            answer = client.query("START a = events(k: 200) RETURN a.id LIMIT 200")
            assert answer["partial"] and 0 < len(answer["rows"]) < 200
        finally:
            os.kill(cluster.shards[1].pid, signal.SIGCONT)
        wait_until(lambda: not client.query("START a = events(k: 200) RETURN a.id LIMIT 200")["partial"], "whole again")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 96 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root")
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)], capture_output=True).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(small_disk):
    with Cluster(1, data=small_disk) as cluster:
        client = cluster.new_org("full", embedding="none", dimension=8)
        saved, refused = [], None
        for number in range(200):
            memories = [{"event_id": "b%d-%d" % (number, n), "summary": "x", "content": os.urandom(12000).hex()[:20000]} for n in range(50)]
            reply = client.tool("save_memories", {"memories": memories})
            results = reply.json["results"]
            saved += [result["event_id"] for result in results if result["status"] == "ok"]
            refused = next((result for result in results if result["status"] != "ok"), None)
            if refused:
                break
        assert refused, "the disk never filled up"
        assert refused["reason"] == "internal" and "no room" in refused["detail"], refused
        assert str(small_disk) not in refused["detail"], "a caller is not told this machine's paths"
        doubtful = {result["event_id"] for result in results if result.get("outcome") == "unknown"}
        reply = client.tool("save_memory", {"event_id": "one-more", "summary": "x", "content": "y" * 50000})
        assert reply.status == 503

        # Reads go on, and nothing is half there.
        def all_there():
            for at in range(0, len(saved), 200):
                found = rows(client, "START a = events(ids: $ids) RETURN a.id LIMIT 200", ids=saved[at : at + 200])
                assert [row[0] for row in found] == saved[at : at + 200]
            known = len(saved) + len(client.query("START a = events(ids: $ids) RETURN a LIMIT 200", {"ids": sorted(doubtful)})["rows"])
            assert client.ok("describe_memory_graph", {})["counts"]["events"] == known

        all_there()
        assert cluster.shards[0].child.poll() is None and cluster.coordinator.child.poll() is None
        # With room again, writes go on without a restart.
        subprocess.run(["mount", "-o", "remount,size=256m", str(small_disk)], check=True)
        wait_until(lambda: client.tool("save_memory", {"event_id": "after", "summary": "x", "replace": True}).status == 200, "writes go on")
        saved.append("after")
        all_there()
        cluster.kill_shard(0)
        cluster.restart_shard(0)
        wait_until(lambda: client.send("GET", "/readyz").status == 200, "ready again")
        all_there()
        cluster.stop()
    shutil.rmtree(small_disk / "shard0", ignore_errors=True)

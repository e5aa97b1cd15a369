"""Starting and stopping the programs: exit codes, ports and folders that are taken, shards over TCP."""
import json
import os
import signal
import socket
import subprocess

import pytest

from support.cluster import BUILD, Cluster, Process, Serve, clean_environment, free_port, run_heddle, wait_until


def run(words, timeout=60):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, env=clean_environment())


def test_sigterm_ends_all_with_0(tmp_path):
    cluster = Cluster(2, data=tmp_path)
    client = cluster.new_org("one", partitions=4)
    client.ok("save_memory", {"event_id": "e", "summary": "x"})
    assert cluster.stop() == [0, 0, 0]
    again = Cluster(2, data=tmp_path)
    client = again.client(client.key)
    assert client.query("START a = events(ids: ['e']) RETURN a.summary")["rows"] == [["x"]]
    assert again.stop() == [0, 0, 0]


def test_sigint_too(tmp_path):
    with Cluster(1, data=tmp_path) as cluster:
        for process in (cluster.coordinator, cluster.shards[0]):
            process.child.send_signal(signal.SIGINT)
            assert process.child.wait(60) == 0


def test_logs_are_json_lines(tmp_path):
    with Cluster(1, data=tmp_path) as cluster:
        cluster.new_org("one").ok("save_memory", {"summary": "x"})
        cluster.stop()
        for process in (cluster.coordinator, cluster.shards[0]):
            lines = process.log().splitlines()
            assert lines and all({"ts", "level", "msg"} <= json.loads(line).keys() for line in lines)


def test_two_shards_over_tcp():
    with Cluster(2, is_tcp=True, shard_words=["--metrics-listen", "127.0.0.1:0"]) as cluster:
        client = cluster.new_org("tcp", partitions=4)
        memories = [{"event_id": "e%d" % n, "summary": "event %d" % n, "entities": [{"name": "all"}]} for n in range(100)]
        assert {result["status"] for result in client.ok("save_memories", {"memories": memories})["results"]} == {"ok"}
        answer = client.query("START a = events(entity: 'all', k: 200) MATCH (a)-[:PARTICIPATED_IN]-(e) RETURN count(*), max(e.event_count)")
        assert answer["rows"] == [[100, 100]] and answer["partial"] is False
        assert {shard["partitions"] for shard in cluster.admin("GET", "/stats")["shards"]} == {2}
        assert cluster.stop() == [0, 0, 0]


def test_a_coordinator_waits_for_its_shards(tmp_path):
    """Started before its shard, it is ready when the shard is."""
    endpoint = "tcp://127.0.0.1:%d" % free_port()
    coordinator = Process([BUILD / "heddle-coordinator", "--data", tmp_path / "c", "--listen", "127.0.0.1:0", "--shard", endpoint], tmp_path / "c.log")
    shard = None
    try:
        wait_until(lambda: coordinator.log() or coordinator.child.poll() is not None, "it has said something")
        assert coordinator.child.poll() is None, coordinator.log()
        shard = Process([BUILD / "heddle-shard", "--data", tmp_path / "s", "--listen", endpoint], tmp_path / "s.log")
        shard.wait_ready()
        assert coordinator.wait_ready().startswith("http://127.0.0.1:")
    finally:
        coordinator.kill()
        if shard:
            shard.kill()


# --- what is taken ---


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run([BUILD / "heddle-coordinator", "--data", tmp_path / "c", "--listen", "127.0.0.1:%d" % port, "--shard", "tcp://127.0.0.1:1"])
        assert done.returncode == 1 and str(port) in done.stderr and "in use" in done.stderr
        done = run([BUILD / "heddle-shard", "--data", tmp_path / "s", "--listen", "tcp://127.0.0.1:%d" % port])
        assert done.returncode in (1, 2) and str(port) in done.stderr and "in use" in done.stderr
        done = run([BUILD / "heddle", "serve", "--data", tmp_path / "d", "--listen", "127.0.0.1:%d" % port])
        assert done.returncode == 1 and str(port) in done.stderr and "in use" in done.stderr


def test_a_folder_that_is_in_use(tmp_path):
    with Cluster(1, data=tmp_path) as cluster:
        done = run([BUILD / "heddle-shard", "--data", cluster.shard_data(0), "--listen", "ipc://%s/x.sock" % tmp_path])
        assert done.returncode == 1 and str(cluster.shard_data(0)) in done.stderr and "in use" in done.stderr
        assert cluster.new_org("still").ok("save_memory", {"summary": "x"}), "the one that has it is not disturbed"
    with Serve(1) as serve:
        done = run_heddle(["serve", "--data", serve.data, "--listen", "127.0.0.1:%d" % free_port()])
        assert done.returncode == 1 and str(serve.data) in done.stderr
        assert serve.is_ready()


def test_a_folder_of_another_version(tmp_path):
    with Cluster(1, data=tmp_path) as cluster:
        cluster.stop()
        path = cluster.shard_data(0) / "format"
    before = path.read_text()
    assert "1" in before
    path.write_text(before.replace("1", "999"))
    done = run([BUILD / "heddle-shard", "--data", path.parent, "--listen", "ipc://%s/x.sock" % tmp_path])
    assert done.returncode in (1, 2) and "999" in done.stderr and "version" in done.stderr
    path.write_text(before)
    with Cluster(1, data=tmp_path):
        pass


def test_a_serve_folder_of_another_version(tmp_path):
    data = tmp_path / "d"
    with Serve(1, data=data) as serve:
        assert serve.stop() == 0
    path = data / "heddle.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "format": 999}))
    done = run_heddle(["serve", "--data", data, "--listen", "127.0.0.1:%d" % free_port()])
    assert done.returncode == 1 and "999" in done.stderr


def test_a_folder_that_is_something_else(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    done = run([BUILD / "heddle-shard", "--data", tmp_path, "--listen", "ipc://%s/x.sock" % tmp_path])
    assert done.returncode in (1, 2) and "precious.txt" in done.stderr
    done = run_heddle(["serve", "--data", tmp_path, "--listen", "127.0.0.1:%d" % free_port()])
    assert done.returncode == 1 and done.stderr
    assert set(os.listdir(tmp_path)) <= {"precious.txt", "heddle.lock"}


# --- settings ---


@pytest.mark.parametrize(
    "program, words, named",
    [
        ("heddle-coordinator", ["--lissten", "127.0.0.1:0"], "--listen"),
        ("heddle-coordinator", ["--data", "/tmp/x", "--shard", "tcp://127.0.0.1:1", "--workers", "many"], "--workers"),
        ("heddle-coordinator", ["--data", "/tmp/x"], "--shard"),
        ("heddle-coordinator", ["--data", "/tmp/x", "--shard", "tcp://127.0.0.1:1", "--listen", "0.0.0.0:0"], "--allow-public-http"),
        ("heddle-shard", ["--data", "/tmp/x", "--listen", "tcp://0.0.0.0:0"], "--allow-plain-tcp"),
        ("heddle-shard", ["--listen", "tcp://127.0.0.1:0"], "--data"),
        ("heddle-shard", ["--data", "/tmp/x", "--memory", "lots"], "--memory"),
    ],
)
def test_wrong_settings_are_named(program, words, named):
    done = run([BUILD / program, *words])
    assert done.returncode in (1, 2) and named in done.stderr


@pytest.mark.parametrize("program", ["heddle", "heddle-coordinator", "heddle-shard"])
def test_help_and_version(program):
    assert "--" in run([BUILD / program, "--help"]).stdout
    assert run([BUILD / program, "--version"]).returncode == 0


def test_the_admin_key_is_private_and_stays(tmp_path):
    with Cluster(1, data=tmp_path) as cluster:
        path = tmp_path / "coordinator" / "admin.key"
        assert path.stat().st_mode & 0o777 == 0o600
        key = cluster.admin_key()
        cluster.stop()
    with Cluster(1, data=tmp_path) as cluster:
        assert cluster.admin_key() == key


def test_metrics(cluster, org):
    org.ok("save_memory", {"summary": "x"})
    org.query("START a = events(k: 5) RETURN a")
    text = org.send("GET", "/metrics").body.decode()
    assert "heddle_tool_seconds" in text and "# HELP" in text and "# TYPE" in text
    for line in text.splitlines():
        assert line.startswith("#") or float(line.rsplit(" ", 1)[1]) >= 0
    assert org.org not in text and org.key not in text


def test_a_tool_that_is_switched_off_is_neither_listed_nor_served():
    with Cluster(1, coordinator_words=["--tools-off", "delete_memory"]) as cluster:
        client = cluster.new_org("one")
        assert "delete_memory" not in {tool["name"] for tool in client.send("GET", "/v1/tools").json["tools"]}
        assert client.tool("delete_memory", {"event_id": "x"}).status == 404
        assert client.ok("save_memory", {"summary": "x"})

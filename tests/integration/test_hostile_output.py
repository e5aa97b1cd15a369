"""The command line where its output, or its standard descriptors, are not what one would wish."""
import os
import subprocess

import pytest

from support.cluster import BUILD, Process, clean_environment, free_port

QUERY = "query 'START a = events(k: 5) RETURN a.id'"


@pytest.fixture
def shell(cluster, org):
    org.ok("save_memory", {"event_id": "e", "summary": "x"})
    key_file = "--admin-key-file %s" % (cluster.data / "coordinator" / "admin.key")

    def run(command, redirections):
        command = command.replace("KEY", key_file)
        environment = clean_environment({"HEDDLE_URL": cluster.url, "HEDDLE_KEY": org.key})
        return subprocess.run(["sh", "-c", "%s %s %s" % (BUILD / "heddle", command, redirections)], env=environment, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("command", [QUERY, QUERY + " --json", QUERY + " --format csv", "status KEY", "admin org list KEY", "--help", "help query", "--version"])
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_output_that_cannot_be_written_is_no_success(shell, command, redirection):
    done = shell(command, redirection)
    assert done.returncode == 1 and "output" in done.stderr, done


@pytest.mark.parametrize("redirections", ["2>&-", "2>/dev/full", "<&-", "<&- 2>&-"])
def test_other_descriptors_do_not_matter_to_a_query(shell, redirections):
    done = shell(QUERY + " --format csv", redirections)
    assert done.returncode == 0 and done.stdout.split() == ["a.id", "e"], done


def test_a_closed_input_cannot_be_imported(shell):
    done = shell("import jsonl -", "<&-")
    assert done.returncode == 1 and "descriptor" in done.stderr, done


def test_no_control_character_of_others_reaches_the_terminal(shell, org):
    org.ok("save_memory", {"event_id": "e", "summary": "a\x1b]0;title\x07b\u009b31mc\rd\ne", "replace": True})
    for query in ("START a = events(k: 5) RETURN a, a.summary", "START a = events(entity: $n, k: 5) RETURN a.summary"):
        done = shell("query '%s' -p \"n=$(printf 'x\\033[31my\\rz')\"" % query, "")
        assert done.returncode == 0 and not {c for c in done.stdout if c != "\n" and (c < " " or "\x7f" <= c <= "\x9f")}, repr(done.stdout)


def test_logs_never_go_into_a_file_of_ours(tmp_path):
    """A server whose standard error is closed must not take that number for a file or a socket, and then log into it."""
    data = tmp_path / "data"
    words = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", BUILD / "heddle-shard", "--data", data, "--listen", "tcp://127.0.0.1:%d" % free_port(), "--log-level", "debug"]
    process = Process(words, tmp_path / "log")
    process.wait_ready()
    held = [(process_fd(process.pid, number)) for number in (0, 1, 2)]
    assert process.stop() == 0
    assert held == ["/dev/null"] * 3
    assert all(b'"process":"heddle-shard"' not in path.read_bytes() for path in data.rglob("*") if path.is_file())


def process_fd(pid, number):
    return os.readlink("/proc/%d/fd/%d" % (pid, number))

"""The `heddle` command against a cluster of `heddle serve`: importing, asking, exit codes."""
import csv
import io
import json
import os
import subprocess

import pytest

from support.cluster import ROOT, Serve, run_heddle


@pytest.fixture(scope="module")
def serve():
    with Serve(2) as running:
        yield running
        assert running.stop() == 0


@pytest.fixture
def key(serve, request):
    done = run_heddle(["admin", "org", "create", request.node.name.replace("[", "-").replace("]", "")[:60], "--partitions", "4", "--data", serve.data, "--json"])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["key"]


@pytest.fixture
def heddle(serve, key):
    """Runs a command as the test's org; → CompletedProcess."""
    return lambda *words, **more: run_heddle(words, serve.url, key, **more)


@pytest.fixture
def ask(serve, key):
    client = serve.client(key)
    yield lambda query, **params: client.query(query, params)["rows"]
    client.close()


# --- import jsonl ---


def lines(*memories):
    return "".join(json.dumps(memory, ensure_ascii=False) + "\n" for memory in memories)


def test_import_jsonl_is_resumable(heddle, ask, tmp_path):
    path = tmp_path / "memories.jsonl"
    first = [{"event_id": "e%d" % n, "summary": "기억 %d" % n, "prev_event_id": "e%d" % (n - 1) if n else None} for n in range(300)]
    path.write_text(lines(*first, {"summary": "without an id"}))
    done = json.loads(heddle("import", "jsonl", path, "--json").stdout)
    assert (done["added"], done["already_there"], done["refused"]) == (301, 0, 0)
    path.write_text(lines(*first, {"summary": "without an id"}, {"event_id": "new", "summary": "new", "prev_event_id": "e299"}))
    done = json.loads(heddle("import", "jsonl", path, "--json").stdout)
    assert (done["added"], done["already_there"], done["refused"]) == (1, 301, 0)
    assert ask("START a = events(ids: ['e298']) MATCH (a)-[n:NEXT*1..3]->(b) RETURN b.id, n.hops") == [["e299", 1], ["new", 2]]


def test_a_bad_line_is_told_by_its_number_and_stops_nothing(heddle, ask):
    text = '{"event_id": "a", "summary": "a"}\n{"summary": \n\n{"event_id": "b", "summary": ""}\n[]\n{"event_id": "c", "summary": "c"}'
    done = heddle("import", "jsonl", "-", stdin=text)
    assert done.returncode == 1
    for number in (2, 4, 5):
        assert "line %d" % number in done.stderr
    assert ask("START a = events(k: 10) RETURN a.id ORDER BY a.id") == [["a"], ["c"]]


def test_strict_stops_at_the_first_bad_line(heddle, ask):
    good = lines(*({"event_id": "e%d" % n, "summary": "x"} for n in range(5)))
    done = heddle("import", "jsonl", "-", "--strict", "--batch", "1", "--in-flight", "1", stdin=good + "{\n" + lines({"event_id": "after", "summary": "x"}))
    assert done.returncode == 1 and "line 6" in done.stderr
    assert ask("START a = events(ids: ['after']) RETURN a") == []


def test_import_of_what_cannot_be_read(heddle, tmp_path):
    assert heddle("import", "jsonl", tmp_path / "nothing").returncode == 1
    assert heddle("import", "git", tmp_path).returncode == 1
    assert heddle("import", "jsonl", "-", stdin="").returncode == 0


# --- import git ---


class Repository:
    def __init__(self, path):
        self.path, self.time = path, 1700000000
        self.git("init", "-q", "-b", "main")

    def git(self, *words, stdin=None, **environment):
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", **environment}
        done = subprocess.run(["git", "-C", str(self.path), *words], input=stdin, capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode(errors="replace").strip()

    def commit(self, message, author="Ann <ann@example.org>", files=None, words=(), encoding=None):
        """→ the event id of the commit."""
        for name, text in (files or {}).items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)
        self.git("add", "-A")
        self.time += 60
        name, _, email = author.partition(" <")
        environment = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email.rstrip(">"), "GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email.rstrip(">"),
                       "GIT_AUTHOR_DATE": "%d +0900" % self.time, "GIT_COMMITTER_DATE": "%d +0900" % self.time}  # fmt: skip
        options = ["-c", "i18n.commitEncoding=" + encoding] if encoding else []
        message = message if isinstance(message, bytes) else message.encode()
        self.git(*options, "commit", "-q", "--allow-empty", "--allow-empty-message", "--no-verify", "--cleanup=verbatim", "-F", "-", *words, stdin=message, **environment)
        return "git:" + self.git("rev-parse", "HEAD")


def test_import_git(heddle, ask, tmp_path):
    (tmp_path / "repository").mkdir()
    repository = Repository(tmp_path / "repository")
    first = repository.commit("Begin\n\nBecause of #12 and #7.", files={"src/a.c": "int a;\n" * 20, "docs/README": "x"})
    second = repository.commit("Add b\n\nCo-authored-by: Bo <bo@example.org>", files={"src/b.c": "int b;"})
    repository.git("checkout", "-q", "-b", "side")
    side = repository.commit("On the side", author="Zoë <zoe@example.org>", files={"lib/c.c": "int c;"})
    repository.git("checkout", "-q", "main")
    third = repository.commit("x" * 700, files={"src/a.c": "int a2;\n" * 20})
    repository.time += 60
    date = "%d +0000" % repository.time
    repository.git("-c", "user.name=Ann", "-c", "user.email=a@x", "merge", "-q", "--no-ff", "-m", "Merge side", "side", GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)
    merge = "git:" + repository.git("rev-parse", "HEAD")
    repository.git("mv", "docs/README", "src/README")
    moved = repository.commit("Move")
    empty = repository.commit("", files={"src/d": "d"})
    latin = repository.commit("Größe".encode("latin-1"), encoding="ISO-8859-1", files={"src/e": "e"})
    broken = repository.commit(b"bad \xff bytes", files={"src/f": "f"})
    many = repository.commit("Many files", files={"many/%03d" % n: str(n) for n in range(100)})

    done = heddle("import", "git", repository.path, "--json")
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert counted["added"] == 10 and counted["refused"] == 0
    chain = [first, second, third, merge, moved, empty, latin, broken, many]
    for before, after in zip(chain, chain[1:]):
        assert ask("START a = events(ids: [$id]) MATCH (a)-[:NEXT {source: 'thread'}]->(b) RETURN b.id", id=before) == [[after]]
    assert ask("START a = events(ids: [$id]) MATCH (a)<-[n:NEXT]-(b) RETURN b.id, n.source, a.thread", id=side) == [[second, "explicit", None]]
    summaries = {row[0]: row[1] for row in ask("START a = events(k: 50) RETURN a.id, a.summary LIMIT 50")}
    assert summaries[empty] == "(no subject)" and summaries[latin] == "Größe"
    assert summaries[broken].startswith("bad ") and summaries[broken].endswith(" bytes")
    assert len(summaries[third]) <= 500 and summaries[third].startswith("x" * 400)
    assert ask("START a = events(ids: [$id]) RETURN a.timestamp", id=first) == [["2023-11-14T22:14:20Z"]]
    entities = "START a = events(ids: [$id]) MATCH (a)<-[:PARTICIPATED_IN]-(e) RETURN e.name, e.type ORDER BY e.type, e.name LIMIT 200"
    assert ask(entities, id=first) == [["docs/README", "file"], ["src/a.c", "file"], ["#12", "issue"], ["#7", "issue"], ["Ann", "person"]]
    assert ask(entities, id=second) == [["src/b.c", "file"], ["Ann", "person"], ["Bo", "person"]]
    assert len(ask(entities, id=many)) == 64 and any(many[4:12] in str(warning) or "64" in str(warning) for warning in counted["warnings"])
    tags = "START a = events(ids: [$id]) MATCH (a)-[m:MEMBER_OF]->(t) RETURN t.name, m.kind ORDER BY t.name, m.kind"
    assert ask(tags, id=first) == [["docs", "contains"], ["src", "contains"]]
    assert ["docs", "refers"] in ask(tags, id=moved)
    again = json.loads(heddle("import", "git", repository.path, "--json").stdout)
    assert (again["added"], again["already_there"]) == (0, 10)
    later = repository.commit("Later", files={"src/z": "z"})
    again = json.loads(heddle("import", "git", repository.path, "--json").stdout)
    assert again["added"] == 1
    assert ask("START a = events(ids: [$id]) MATCH (a)-[:NEXT]->(b) RETURN b.id", id=many) == [[later]]


def test_import_of_this_repository(heddle, ask):
    if subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True).returncode != 0:
        pytest.skip("not a git checkout")
    count = int(subprocess.run(["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=True).stdout)
    done = json.loads(heddle("import", "git", ROOT, "--json").stdout)
    assert done["added"] >= count and done["refused"] == 0


# --- query ---


def test_query_says_how_complete_it_is(heddle):
    heddle("import", "jsonl", "-", stdin=lines(*({"event_id": "e%02d" % n, "summary": "memory, \"%d\"" % n, "entities": [{"name": "김민서"}]} for n in range(30))))
    query = "START a = events(entity: $who, k: 3) RETURN a.id, a.summary ORDER BY a.id"
    done = heddle("query", query, "-p", "who=김민서")
    assert done.returncode == 0 and "complete" in done.stdout and "memory" in done.stdout
    done = heddle("query", query, "-p", "who=김민서", "--format", "csv")
    table = list(csv.reader(io.StringIO(done.stdout)))
    assert table[0] == ["a.id", "a.summary"] and len(table) == 4 and table[1][1].startswith('memory, "')
    done = heddle("query", query, "-p", "who=김민서", "--json")
    assert json.loads(done.stdout)["row_count"] == 3
    done = heddle("query", query, "-p", "who=김민서", "-b", "scanned=2")
    assert done.returncode == 3 and "partial" in done.stdout and "scanned" in done.stdout


def test_query_shows_where_it_was_rejected(heddle):
    query = "START a = events(k: 3)\nMATCH (a)-[:SHAERS]-(b)\nRETURN b"
    done = heddle("query", query)
    assert done.returncode == 2
    text = done.stdout + done.stderr
    shown = text.splitlines()
    at = next(i for i, line in enumerate(shown) if "SHAERS" in line and "MATCH" in line)
    assert shown[at + 1].index("^") == shown[at].index("SHAERS")
    assert "SHARES" in text and "NEXT" in text


def test_other_failures_are_1(heddle, serve):
    assert heddle("query", "START a = events(k: 3) RETURN a", "-p", "novalue").returncode == 1
    assert run_heddle(["query", "START a = events(k: 3) RETURN a"], serve.url, "wrong").returncode == 1
    assert run_heddle(["query", "START a = events(k: 3) RETURN a"], "http://127.0.0.1:1", "wrong").returncode == 1
    assert run_heddle(["nothing-of-this-name"]).returncode == 1


def test_status(serve, key):
    done = run_heddle(["status", "--data", serve.data, "--json"], serve.url)
    status = json.loads(done.stdout)
    assert done.returncode == 0 and len(status["shards"]) == 2 and all(shard["alive"] for shard in status["shards"])
    assert run_heddle(["status", "--data", serve.data], serve.url).returncode == 0


def test_every_command_has_help():
    for command in ("serve", "admin org create", "admin org list", "admin org show", "admin org delete", "admin key create", "admin key list", "admin key revoke", "import git",
                    "import jsonl", "query", "status"):  # fmt: skip
        done = run_heddle([*command.split(), "--help"])
        assert done.returncode == 0 and "--" in done.stdout, command

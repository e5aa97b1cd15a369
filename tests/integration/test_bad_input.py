"""What must be met with a clear error, the process alive."""
import json

import pytest


@pytest.fixture(autouse=True)
def still_alive(cluster, org):
    """After every test: the same processes run, and a query is answered."""
    org.ok("save_memory", {"event_id": "before", "summary": "before"})
    yield
    assert cluster.coordinator.child.poll() is None and all(shard.child.poll() is None for shard in cluster.shards)
    fresh = cluster.client(org.key)
    answer = fresh.query("START a = events(ids: ['before']) RETURN a.summary")
    fresh.close()
    assert answer["rows"] == [["before"]]


def is_clear(reply, status=400, reason="invalid_argument"):
    answer = reply.json
    assert (reply.status, answer["status"], answer["error"], answer["reason"]) == (status, "error", reason, reason), reply.body[:500]
    assert len(answer["detail"]) > 10
    return answer


def is_nothing_saved(org):
    assert [row[0] for row in org.query("START a = events(k: 200) RETURN a.id")["rows"]] == ["before"]


BYTES = {
    "invalid UTF-8": b"a\xffb",
    "an overlong NUL": b"a\xc0\x80b",
    "a surrogate in UTF-8": b"a\xed\xa0\x80b",
    "cut in a character": b"a\xe2\x82",
    "beyond Unicode": b"a\xf4\x90\x80\x80",
    "a lone high surrogate": b"a\\ud800b",
    "a lone low surrogate": b"a\\udc00b",
    "surrogates the wrong way round": b"\\udc00\\ud800",
    "NUL": b"a\\u0000b",
    "a raw control character": b"a\x01b",
}
FIELDS = {
    "summary": b'{"summary": "%s"}',
    "content": b'{"summary": "x", "content": "%s"}',
    "an entity's name": b'{"summary": "x", "entities": [{"name": "%s"}]}',
    "an entity's type": b'{"summary": "x", "entities": [{"name": "n", "type": "%s"}]}',
    "a tag": b'{"summary": "x", "tags": ["%s"]}',
    "a thread": b'{"summary": "x", "thread": "%s"}',
    "an argument's name": b'{"summary": "x", "%s": 1}',
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("what", BYTES)
def test_bytes_that_are_no_text(org, what, field):
    is_clear(org.tool("save_memory", FIELDS[field] % BYTES[what]))
    is_nothing_saved(org)


@pytest.mark.parametrize("what", BYTES)
def test_bytes_that_are_no_text_in_a_query(org, what):
    for body in (
        b'{"query": "START a = events(entity: \'%s\') RETURN a"}',
        b'{"query": "START a = events(entity: $n) RETURN a", "params": {"n": "%s"}}',
        b'{"query": "START a = events(k: 5) RETURN a", "params": {"%s": 1}}',
    ):
        reply = org.tool("query_memory_graph", body % BYTES[what])
        assert reply.status == 400 and reply.json["status"] == "error" and reply.json["detail"]


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "\u0085", "a\u007fb", "\u2028", "   ", ""])
def test_control_characters_and_blanks_in_names(org, name):
    for memory in ({"entities": [{"name": name}]}, {"tags": [name]}, {"thread": name}):
        reply = org.tool("save_memory", {"summary": "x", **memory})
        if name == "\u2028" and reply.status == 200:  # no control character; trimmed away it is an empty name
            pytest.fail("an empty name was taken")
        is_clear(reply)
    is_nothing_saved(org)


def test_a_summary_of_501_characters(org):
    is_clear(org.tool("save_memory", {"summary": "x" * 501}))
    is_clear(org.tool("save_memory", {"summary": "기" * 501}))
    is_clear(org.tool("save_memory", {"summary": ""}))
    is_clear(org.tool("save_memory", {}))
    is_nothing_saved(org)


VECTORS = {
    "too short": "[1, 2, 3]", "too long": json.dumps([1] * 257), "empty": "[]", "NaN": "[NaN" + ", 1" * 255 + "]", "infinite": "[Infinity" + ", 1" * 255 + "]",
    "infinite as a double": "[1e999" + ", 1" * 255 + "]", "infinite as a float": "[1e39" + ", 1" * 255 + "]", "all zero": json.dumps([0] * 256),
    "zero as floats": "[1e-60" + ", 0" * 255 + "]", "texts": json.dumps(["1"] * 256), "nested": json.dumps([[1]] * 256), "null inside": "[null" + ", 1" * 255 + "]",
    "no list": "1", "a text": '"[1]"', "an object": "{}", "true": json.dumps([True] * 256),
}  # fmt: skip


@pytest.mark.parametrize("what", VECTORS)
def test_vectors_that_are_none(org, what):
    is_clear(org.tool("save_memory", ('{"summary": "x", "vector": %s}' % VECTORS[what]).encode()))
    is_nothing_saved(org)
    reply = org.tool("query_memory_graph", ('{"query": "START a = events(vector: $v) RETURN a", "params": {"v": %s}}' % VECTORS[what]).encode())
    assert reply.status == 400 and reply.json["detail"]
    if "blocked_by" in reply.json:  # JSON that does not decode is no query yet
        assert reply.json["blocked_by"] == "params"


@pytest.mark.parametrize("opening, closing", [("(", ")"), ("[", "]"), ("{", "}"), ("NOT ", ""), ("/* ", " */"), ("`", "`"), ("-[", "]")])
@pytest.mark.parametrize("count", [33, 1000, 100_000])
def test_nested_brackets_in_a_query(org, opening, closing, count):
    for query in (
        "START a = events(k: 5) WHERE " + opening * count + "a.id = 'x'" + closing * count + " RETURN a",
        "START a = events(ids: " + opening * count + closing * count + ") RETURN a",
        opening * count,
        "START a = events(k: 5) MATCH (a)" + opening * count,
    ):
        reply = org.tool("query_memory_graph", {"query": query})
        answer = reply.json
        if answer["status"] == "ok":
            assert opening in ("/* ", "`"), query[:100]
            continue
        assert reply.status == 400 and answer["detail"] and answer["reason"] == "rejected", reply.body[:300]


@pytest.mark.parametrize("opening, closing", [(b"[", b"]"), (b'{"a":', b"}"), (b'{"summary": [', b"]}")])
def test_nested_brackets_in_a_body(org, opening, closing):
    for count in (50, 100_000, 2_000_000):
        reply = org.tool("save_memory", opening * count + b"1" + closing * count)
        assert reply.status in (400, 413) and reply.json["detail"], reply.body[:300]


@pytest.mark.parametrize("body", [b"", b" ", b"{", b'{"summary"', b'{"summary": "x"', b'{"summary": "x",}', b'{"summary": "x"} x', b"[]", b"null", b"3", b'"x"', b"\xef\xbb\xbf{}",
                                  b'{"summary": "x", "summary": "y"}', b'{"summary": 1e400}', b"\x00", b'{"summary": "x"}{"summary": "y"}'])  # fmt: skip
def test_bodies_that_are_no_object(org, body):
    is_clear(org.tool("save_memory", body))
    is_nothing_saved(org)


def test_a_body_over_16_mib(org):
    reply = org.tool("save_memory", b'{"summary": "x", "content": "' + b"y" * (16 << 20) + b'"}')
    is_clear(reply, 413, "too_large")
    is_nothing_saved(org)


def test_a_body_of_just_16_mib_is_read(org):
    head = b'{"memories": [{"event_id": "big", "summary": "x"}]'
    body = head + b" " * ((16 << 20) - len(head) - 1) + b"}"
    assert org.tool("save_memories", body).json["results"][0]["status"] == "ok"


@pytest.mark.parametrize("field, value", [
    ("summary", 3), ("summary", ["x"]), ("content", 3), ("entities", "Ann"), ("entities", ["Ann"]), ("entities", [{}]), ("entities", [{"name": 3}]),
    ("entities", [{"name": "x%d" % n} for n in range(65)]), ("tags", "x"), ("tags", [3]), ("tags", [{"name": "x", "kind": "has"}]), ("tags", ["t%d" % n for n in range(33)]),
    ("timestamp", "yesterday"), ("timestamp", 1700000000), ("timestamp", "2025-02-30"), ("timestamp", "2025-01-01T25:00:00Z"), ("timestamp", ""),
    ("order_index", "1"), ("order_index", 1.5), ("order_index", 2**63), ("thread", 3), ("event_id", ""), ("event_id", "a b"), ("event_id", "é"),
    ("replace", "yes"), ("replace", 1), ("idempotency_key", 3), ("allow_truncation_marker", "no"), ("prev_event_id", "a b"), ("prev_event_id", 3),
])  # fmt: skip
def test_values_of_the_wrong_kind(org, field, value):
    is_clear(org.tool("save_memory", {"summary": "x", field: value}))
    is_nothing_saved(org)


@pytest.mark.parametrize("arguments", [
    {}, {"query": 3}, {"query": ""}, {"query": " "}, {"query": "START a = events(k: 5) RETURN a", "params": []}, {"query": "START a = events(k: 5) RETURN a", "budget": {"scanned": -1}},
    {"query": "START a = events(k: 5) RETURN a", "budget": {"scanned": "1"}}, {"query": "START a = events(k: 5) RETURN a", "budget": {"nope": 1}},
    {"query": "START a = events(k: 5) RETURN a", "budget": []}, {"query": "x" * 9000},
    {"query": "START a = events(entity: $n) RETURN a", "params": {"n": "x" * (300 << 10)}},
])  # fmt: skip
def test_query_arguments_of_the_wrong_kind(org, arguments):
    reply = org.tool("query_memory_graph", arguments)
    assert reply.status == 400 and reply.json["status"] == "error" and reply.json["detail"], reply.body[:300]


def test_half_a_request_then_silence(cluster, org):
    """A connection that dies in the middle of a body disturbs nobody."""
    import socket

    host, port = cluster.url.removeprefix("http://").split(":")
    for piece in (b"POST /v1/tools/save_memory HTTP/1.1\r\n", b"POST /v1/tools/save_memory HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", b"\x16\x03\x01\x00\xa5",
                  b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"POST /v1/tools/save_memory HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"):  # fmt: skip
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            try:
                connection.sendall(piece)
            except OSError:
                pass

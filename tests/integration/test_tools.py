"""The tools' answers over HTTP (docs/tools.md): saving, replacing, deleting, reading."""
import re

import pytest

from support.text import entity_id, tag_id


def summaries(client, start, params=None):
    answer = client.query("START a = events(%s) RETURN a.summary LIMIT 200" % start, params)
    return [row[0] for row in answer["rows"]]


def test_a_saved_memory_is_found_by_everything_it_has(org):
    saved = org.ok(
        "save_memory",
        {
            "event_id": "deploy-1",
            "summary": "The deploy failed",
            "content": "All of it.",
            "entities": [{"name": " Jürgen ", "type": "person"}, {"name": "db"}],
            "tags": ["ops", {"name": "ops/deploy", "kind": "refers"}],
            "thread": "t",
            "order_index": 3,
            "timestamp": "2025-03-01T12:00:00+09:00",
        },
    )
    assert saved["event_id"] == "deploy-1" and saved["created"] is True and saved["warnings"] == []
    assert saved["entities"] == [
        {"id": entity_id("Jürgen"), "name": "Jürgen", "type": "person"},
        {"id": entity_id("db"), "name": "db", "type": None},
    ]
    for start in ("ids: ['deploy-1']", "entity: 'Jürgen'", "tag: 'ops/deploy'", "text: 'deploy', k: 1", "k: 1", "since: '2025-03-01', until: '2025-03-02'"):
        assert summaries(org, start) == ["The deploy failed"], start
    read = org.ok("get_memory_content", {"event_id": "deploy-1"})
    event = read["event"]
    assert read["found"] is True and (read["content"], read["page"], read["pages"]) == ("All of it.", 1, 1)
    assert (event["timestamp"], event["order_index"], event["thread"]) == ("2025-03-01T03:00:00Z", 3, "t")
    assert [(tag["id"], tag["kind"]) for tag in event["tags"]] == [(tag_id("ops"), "contains"), (tag_id("ops/deploy"), "refers")]
    assert event["prev"] == event["next"] == event["resolved_by"] == []


def test_an_id_is_made_where_none_is_given(org):
    ids = {org.ok("save_memory", {"summary": "again"})["event_id"] for _ in range(3)}
    assert len(ids) == 3 and all(re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", id_) for id_ in ids)


def test_the_same_id_again_needs_replace(org):
    org.ok("save_memory", {"event_id": "e", "summary": "old", "entities": [{"name": "Ann"}], "tags": ["x"], "thread": "t"})
    refusal = org.refused("save_memory", {"event_id": "e", "summary": "new"}, 409, "already_exists")
    assert "replace" in refusal["hint"]
    replaced = org.ok("save_memory", {"event_id": "e", "summary": "new", "entities": [{"name": "Bo"}], "replace": True})
    assert replaced["replaced"] is True and not replaced.get("created")
    assert summaries(org, "ids: ['e']") == summaries(org, "entity: 'Bo'") == ["new"]
    for gone in ("entity: 'Ann'", "tag: 'x'"):
        answer = org.query("START a = events(%s) RETURN a" % gone)
        assert answer["rows"] == [] and len(answer["start"]["unresolved"]) == 1, "what the old record had is gone"
    assert org.ok("get_memory_content", {"event_id": "e"})["event"]["thread"] is None
    assert org.ok("save_memory", {"event_id": "fresh", "summary": "x", "replace": True})["created"] is True


def test_deleting_removes_everywhere_and_twice_is_no_error(org):
    for id_, prev in (("a", None), ("b", "a"), ("c", "b")):
        org.ok("save_memory", {"event_id": id_, "summary": id_, "entities": [{"name": "only " + id_}], "prev_event_id": prev})
    assert org.ok("delete_memory", {"event_id": "b"})["deleted"] is True
    assert org.ok("delete_memory", {"event_id": "b"})["deleted"] is False
    assert org.ok("delete_memory", {"event_id": "never"})["deleted"] is False
    assert org.ok("get_memory_content", {"event_id": "b"})["found"] is False
    assert sorted(summaries(org, "k: 10")) == ["a", "c"] and sorted(summaries(org, "text: 'b', k: 20")) == ["a", "c"]
    assert org.query("START a = events(entity: 'only b') RETURN a")["start"]["unresolved"] == ["only b"]
    # c's edge from b stays hidden until b lives again; b's own edge from a went with it.
    walk = "START a = events(ids: [$id]) MATCH (a)-[n:NEXT]->(b) RETURN b.id, n.source"
    assert org.query(walk, {"id": "a"})["rows"] == []
    org.ok("save_memory", {"event_id": "b", "summary": "b again"})
    assert org.query(walk, {"id": "b"})["rows"] == [["c", "explicit"]] and org.query(walk, {"id": "a"})["rows"] == []


def test_saving_again_with_the_same_key_answers_as_the_first_time(org):
    first = org.ok("save_memory", {"summary": "once", "idempotency_key": "k1"})
    again = org.ok("save_memory", {"summary": "once", "idempotency_key": "k1"})
    assert again["event_id"] == first["event_id"] and again["created"] is True
    with_id = {"event_id": "fixed", "summary": "fixed", "idempotency_key": "k2"}
    assert org.ok("save_memory", with_id)["created"] and org.ok("save_memory", with_id)["created"]
    org.refused("save_memory", {**with_id, "idempotency_key": "k3"}, 409, "already_exists")
    # Another record under a used key is not saved, and the answer does not speak of it: the id is the first one's.
    other = org.ok("save_memory", {**with_id, "summary": "another", "entities": [{"name": "nobody"}]})
    assert other["event_id"] == "fixed" and other["created"] and "entities" not in other and "another record" in other["warnings"][0]
    assert org.query("START a = events(entity: 'nobody') RETURN a")["start"]["unresolved"] == ["nobody"]
    assert len(summaries(org, "k: 200")) == 2
    batch = [{"summary": "one", "idempotency_key": "k1", "event_id": first["event_id"]}, {"summary": "two", "prev_event_id": first["event_id"]}]
    assert [result["status"] for result in org.ok("save_memories", {"memories": batch})["results"]] == ["ok", "ok"]


def test_each_of_many_stands_or_falls_alone(org):
    memories = [
        {"event_id": "first", "summary": "first"},
        {"event_id": "bad", "summary": ""},
        {"event_id": "second", "summary": "second", "prev_event_id": "first"},
        {"event_id": "orphan", "summary": "its predecessor was refused", "prev_event_id": "bad"},
        {"event_id": "grandchild", "summary": "and so was this one's", "prev_event_id": "orphan"},
        {"event_id": "first", "summary": "doubled in one call"},
        {"event_id": "early", "summary": "names what comes later", "prev_event_id": "late"},
        {"event_id": "late", "summary": "late"},
        {"summary": "without an id"},
    ]
    results = org.ok("save_memories", {"memories": memories})["results"]
    assert [result["status"] for result in results] == ["ok", "error", "ok", "error", "error", "error", "error", "ok", "ok"]
    assert results[5]["reason"] == "already_exists"
    assert sorted(summaries(org, "k: 200")) == ["first", "late", "second", "without an id"]
    rows = org.query("START a = events(ids: ['first']) MATCH (a)-[:NEXT]->(b) RETURN b.id")["rows"]
    assert rows == [["second"]]


def test_replacing_twice_in_one_call_leaves_the_last(org):
    memories = [{"event_id": "e", "summary": str(n), "replace": True, "entities": [{"name": "n%d" % n}]} for n in range(5)]
    results = org.ok("save_memories", {"memories": memories})["results"]
    assert [result["status"] for result in results] == ["ok"] * 5
    assert summaries(org, "k: 10") == ["4"] and summaries(org, "entity: 'n4'") == ["4"]
    assert org.query("START a = events(entity: ['n0', 'n1', 'n2', 'n3']) RETURN a")["rows"] == []


def test_five_hundred_at_once_and_no_more(org):
    memories = [{"event_id": "m%d" % n, "summary": "memory %d" % n, "entities": [{"name": "all"}]} for n in range(500)]
    assert {result["status"] for result in org.ok("save_memories", {"memories": memories})["results"]} == {"ok"}
    answer = org.query("START a = events(entity: 'all') MATCH (a)-[:PARTICIPATED_IN]-(e) RETURN e.event_count LIMIT 1")
    assert answer["rows"] == [[500]] and answer["start"]["hub"] is True
    org.refused("save_memories", {"memories": memories + [{"summary": "one more"}]}, 400, "invalid_argument")


def test_rules_of_prev_event_id(org):
    refusal = org.refused("save_memory", {"event_id": "x", "summary": "x", "prev_event_id": "nobody"}, 400, "invalid_argument")
    assert "nobody" in refusal["detail"]
    assert org.ok("get_memory_content", {"event_id": "x"})["found"] is False
    org.refused("save_memory", {"event_id": "x", "summary": "x", "prev_event_id": "x"}, 400, "invalid_argument")
    org.ok("save_memory", {"event_id": "p", "summary": "p", "thread": "t", "order_index": 1})
    org.ok("save_memory", {"event_id": "q", "summary": "q", "thread": "t", "order_index": 2, "prev_event_id": "p"})
    event = org.ok("get_memory_content", {"event_id": "q"})["event"]
    assert event["prev"] == [{"id": "p", "source": "thread"}], "a pair that is both is the thread's"


def test_a_thread_is_ordered_by_index_then_time_then_id(org):
    def save(id_, index, second):
        memory = {"event_id": id_, "summary": id_, "thread": "t", "timestamp": "2025-01-01T00:00:%02dZ" % second}
        org.ok("save_memory", {**memory, **({} if index is None else {"order_index": index})})

    for id_, index, second in (("z", None, 1), ("c", 2, 9), ("y", None, 0), ("a", 1, 30), ("b", 2, 5), ("d", 2, 9), ("n", -7, 59)):
        save(id_, index, second)
    order = "n a b c d y z".split()
    for before, after in zip(order, order[1:]):
        rows = org.query("START a = events(ids: [$id]) MATCH (a)-[n:NEXT]->(b) RETURN b.id, n.source", {"id": before})["rows"]
        assert rows == [[after, "thread"]]
        assert org.ok("get_memory_content", {"event_id": after})["event"]["prev"] == [{"id": before, "source": "thread"}]


def test_content_comes_in_pages_cut_at_characters(org):
    text = "".join("%d: 기억 \U0001F980 é\n" % n for n in range(4000))[:40000]
    org.ok("save_memory", {"event_id": "long", "summary": "long", "content": text})
    first = org.ok("get_memory_content", {"event_id": "long"})
    pages = [org.ok("get_memory_content", {"event_id": "long", "page": page + 1}) for page in range(first["pages"])]
    assert "".join(page["content"] for page in pages) == text
    assert all(len(page["content"]) <= 16000 for page in pages) and [page["page"] for page in pages] == list(range(1, len(pages) + 1))
    for page in (0, -1, len(pages) + 1, 2**40, "1", 1.5):
        assert org.tool("get_memory_content", {"event_id": "long", "page": page}).status == 400


def test_lengths_are_counted_in_characters(org):
    assert org.ok("save_memory", {"summary": "\U0001F980" * 500, "content": "文" * 50000, "event_id": "x" * 64})["created"]
    assert len(org.ok("get_memory_content", {"event_id": "x" * 64, "page": 4})["content"]) == 2000
    hint = org.refused("save_memory", {"summary": "é" * 501}, 400, "invalid_argument")["hint"]
    assert "prev_event_id" in hint
    assert "prev_event_id" in org.refused("save_memory", {"summary": "x", "content": "x" * 50001}, 400, "invalid_argument")["hint"]
    org.refused("save_memory", {"summary": "x", "event_id": "x" * 65}, 400, "invalid_argument")


@pytest.mark.parametrize("marker", ["[truncated]", "<response clipped>", "…12 tokens truncated…"])
def test_truncation_markers_are_refused_unless_allowed(org, marker):
    for memory in ({"summary": "cut " + marker}, {"summary": "x", "content": "a\n" + marker + "\nb"}):
        org.refused("save_memory", memory, 400, "truncation_marker_detected")
        assert org.ok("save_memory", {**memory, "allow_truncation_marker": True})["created"]


def test_payload_as_object_and_as_text(org):
    assert org.ok("save_memory", {"payload": {"event_id": "p1", "summary": "an object"}})["event_id"] == "p1"
    assert org.ok("save_memory", {"payload": '{"event_id": "p2", "summary": "a text"}'})["event_id"] == "p2"
    for payload in ('{"summary": ', "[]", "3", {"summary": "x", "bogus": 1}):
        org.refused("save_memory", {"payload": payload}, 400, "invalid_argument")


def test_null_stands_for_absent(org):
    nulls = {name: None for name in ("content", "entities", "tags", "timestamp", "thread", "order_index", "prev_event_id", "event_id", "vector")}
    assert org.ok("save_memory", {"summary": "x", **nulls})["created"]


@pytest.mark.parametrize(
    "tool, arguments, unknown, known",
    [
        ("save_memory", {"summary": "x", "sumary": "y"}, "sumary", "summary"),
        ("save_memory", {"summary": "x", "entities": [{"name": "a", "kind": "b"}]}, "kind", "type"),
        ("save_memories", {"memories": [], "atomic": True}, "atomic", "memories"),
        ("delete_memory", {"id": "x"}, "id", "event_id"),
        ("get_memory_content", {"event_id": "x", "pages": 1}, "pages", "page"),
        ("query_memory_graph", {"query": "START a = events(k: 5) RETURN a", "parameters": {}}, "parameters", "params"),
        ("describe_memory_graph", {"verbose": True}, "verbose", ""),
    ],
)
def test_an_unknown_argument_is_named_with_the_known_ones(org, tool, arguments, unknown, known):
    detail = org.refused(tool, arguments, 400, "invalid_argument")["detail"]
    assert '"%s"' % unknown in detail and known in detail


def test_describe_tells_what_there_is(bare):
    before = bare.ok("describe_memory_graph", {})
    assert before["counts"]["events"] == 0
    bare.ok("save_memory", {"event_id": "a", "summary": "a", "vector": [1] * 8})
    bare.ok("save_memory", {"event_id": "b", "summary": "b"})
    after = bare.ok("describe_memory_graph", {})
    assert after["counts"]["events"] == 2 and after["counts"]["vectors"] == 1
    assert after["embedding"]["provider"] == "none" and after["embedding"]["dimension"] == 8
    assert {"deadline", "frontier", "scanned", "measured", "rows", "bytes", "vectors_exact"} <= after["caps"].keys()
    assert "START" in after["language"] and after["recipes"]


@pytest.mark.parametrize("provider", ["org", "bare"])
def test_the_recipes_in_describe_run(request, provider):
    org = request.getfixturevalue(provider)
    org.ok("save_memory", {"event_id": "a", "summary": "a", "entities": [{"name": "Ann"}], "tags": ["x"]})
    recipes = org.ok("describe_memory_graph", {})["recipes"]
    assert {"bridges", "thread", "co-participation", "by tag"} <= {recipe["name"] for recipe in recipes}
    for recipe in recipes:
        answer = org.query(recipe["query"], recipe["params"])
        assert not [note for note in answer["notes"] if "not used" in note], recipe


def test_what_only_the_org_can_tell_of_a_start_is_refused_too(bare):
    def refusal(query, params=None):
        answer = bare.refused("query_memory_graph", {"query": query, "params": params}, 400, "rejected")
        return answer["blocked_by"], answer["line"], answer["column"]

    for prefix in ("", "EXPLAIN "):
        at = len(prefix + "START a = events(vector: ") + 1
        assert refusal(prefix + "START a = events(vector: [1, 0]) RETURN a") == ("grammar", 1, at)
        assert refusal(prefix + "START a = events(vector: $v) RETURN a", {"v": [1, 0]}) == ("params", 1, at)
        assert refusal(prefix + "START a = events(text: 'x') RETURN a") == ("params", 1, at - 2)


def test_a_budget_leaves_room_for_a_row(bare):
    bare.ok("save_memory", {"event_id": "a", "summary": "a"})
    query = "START a = events(k: 5) RETURN a.id"
    bare.refused("query_memory_graph", {"query": query, "budget": {"rows": 0}}, 400, "invalid_argument")
    answer = bare.query(query, budget={"rows": 1})
    assert answer["rows"] == [["a"]] and answer["budget"]["used"]["rows"] == 1 and not answer["partial"]


def test_the_list_of_tools_has_schemas_and_annotations(org):
    tools = {tool["name"]: tool for tool in org.send("GET", "/v1/tools").json["tools"]}
    assert {"save_memory", "save_memories", "delete_memory", "query_memory_graph", "get_memory_content", "describe_memory_graph"} <= tools.keys()
    for name, tool in tools.items():
        assert tool["description"] and tool["inputSchema"]["type"] == "object" and tool["outputSchema"]["type"] == "object"
        if name in ("query_memory_graph", "get_memory_content", "describe_memory_graph"):
            assert tool["annotations"]["readOnlyHint"] is True and tool["annotations"]["idempotentHint"] is True
        else:
            assert tool["annotations"]["readOnlyHint"] is False


# --- the built-in embedding ---


def test_the_built_in_embedding_finds_what_is_spelt_alike(org):
    texts = ["The checkout service lost its database connection", "Lunch menu for the summer party", "검색 서비스가 느려졌다", "certificate renewed by hand"]
    for number, text in enumerate(texts):
        org.ok("save_memory", {"event_id": "e%d" % number, "summary": text})
    for number, text in enumerate(texts):
        rows = org.query("START a = events(text: $q, k: 4) RETURN a.id, a.score", {"q": text})["rows"]
        assert rows[0] == ["e%d" % number, 1.0] and rows[1][1] < 0.9
    rows = org.query("START a = events(text: 'database connections of the checkout', k: 1) RETURN a.id")["rows"]
    assert rows == [["e0"]]


def test_the_built_in_embedding_is_the_same_everywhere(new_org):
    answers = []
    for partitions in (1, 4):
        client = new_org(partitions=partitions)
        for number, text in enumerate(("one apple", "two apples", "deux pommes", "りんご")):
            client.ok("save_memory", {"event_id": str(number), "summary": text, "timestamp": "2025-01-01"})
        answers.append(client.query("START a = events(text: 'apple', k: 4) RETURN a, a.score")["rows"])
    assert answers[0] == answers[1] and len(answers[0]) == 4


@pytest.mark.parametrize("text", ["!", "\U0001F980", "a", "…—", "\u0301", "  x  ", "١٢٣"])
def test_any_text_can_be_embedded(org, text):
    org.ok("save_memory", {"event_id": "e", "summary": text})
    rows = org.query("START a = events(text: $q) RETURN a.id, a.score", {"q": text})["rows"]
    assert rows == [["e", 1.0]]


def test_without_an_embedding_text_is_refused_with_the_way_out(bare):
    refusal = bare.refused("query_memory_graph", {"query": "START a = events(text: 'x') RETURN a"}, 400, "rejected")
    assert refusal["blocked_by"] == "params" and "vector" in refusal["hint"]


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_budget_that_is_enough_for_the_walk_as_written_is_enough(new_org, partitions):
    bare = new_org(embedding="none", dimension=8, partitions=partitions)
    ids = ["e%d" % i for i in range(6)]
    for i, id_ in enumerate(ids):
        bare.ok("save_memory", {"event_id": id_, "summary": id_, "entities": [{"name": "x"}], "vector": [1 + (i == j) for j in range(8)]})
    walk = "START a = events(ids: $ids) MATCH (a)-[:SHARES]-(b), (a)-[f:FAR {max: 1}]-(b) RETURN a.id, b.id, f.cos LIMIT 200"
    whole = bare.query(walk, {"ids": ids})
    assert len(whole["rows"]) == 30 and not whole["partial"]
    # 15 pairs, each in both directions: one cosine a pair is what the walk needs, whatever the plan measured with more to spend.
    just = bare.query(walk, {"ids": ids}, budget={"measured": 15})
    assert just["rows"] == whole["rows"] and not just["partial"] and just["budget"]["used"]["measured"] == 15
    less = bare.query(walk, {"ids": ids}, budget={"measured": 14})
    assert less["partial"] and less["truncated"][0]["cap"] == "measured" and len(less["rows"]) == 28

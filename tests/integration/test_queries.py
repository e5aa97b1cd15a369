"""Cases of the language that a random query comes to too seldom."""
import json
import math

import pytest

from support import oracle
from support.graph import Graph
from support.differ import check_complete


def save(client, *memories):
    for at in range(0, len(memories), 500):
        results = client.ok("save_memories", {"memories": list(memories[at : at + 500])})["results"]
        assert {result["status"] for result in results} == {"ok"}, results


def rows(client, query, **params):
    answer = client.query(query, params)
    assert answer["partial"] is False
    return answer["rows"]


@pytest.fixture(params=[1, 4])
def graph(request, new_org):
    """An org of one or of four partitions."""
    return new_org(embedding="none", dimension=2, partitions=request.param)


def test_distinct_values_of_many_events(graph):
    save(graph, *({"event_id": "e%d" % n, "summary": "x", "thread": "thread %02d" % (n % 72)} for n in range(72 * 30)))
    answer = graph.query("START a = events(k: 200) RETURN DISTINCT a.thread ORDER BY a.thread LIMIT 100")
    assert [row[0] for row in answer["rows"]] == ["thread %02d" % n for n in range(72)]
    assert not answer["notes"]


def test_more_than_twenty_names_that_fold_together(graph):
    names = ["".join(letter.upper() if bits >> i & 1 else letter for i, letter in enumerate("abcde")) for bits in range(32)]
    save(graph, *({"event_id": "e%d-%d" % (n, copy), "summary": "x", "entities": [{"name": name}]} for n, name in enumerate(names[1:]) for copy in range(n % 3 + 1)))
    answer = graph.query("START a = events(entity: 'abcde', k: 200) MATCH (a)-[:PARTICIPATED_IN]-(e) RETURN DISTINCT e.name, e.id, e.event_count LIMIT 200")
    by_rank = sorted(((n % 3 + 1, name) for n, name in enumerate(names[1:])), reverse=True)
    counts = sorted((row[2] for row in answer["rows"]), reverse=True)
    assert counts == [count for count, _ in by_rank][:20] and answer["start"]["entities_truncated"] is True
    assert rows(graph, "START a = events(entity: 'ABCDE', k: 200) RETURN count(*)") == [[len(names[1:]) and (30 % 3 + 1)]], "an exact match does not fold"


def test_collect_keeps_a_hundred_and_says_so(graph):
    save(graph, *({"event_id": "e%03d" % n, "summary": "x", "timestamp": "2025-01-01", "order_index": n % 150} for n in range(180)))
    answer = graph.query("START a = events(k: 200) RETURN collect(a.order_index), count(DISTINCT a.order_index), sum(a.order_index), avg(a.order_index)")
    expected = [n % 150 for n in range(180)]
    assert answer["rows"] == [[expected[:100], 150, sum(expected), sum(expected) / 180]]
    assert len(answer["notes"]) == 1 and "collect" in answer["notes"][0]
    assert graph.query("START a = events(k: 100) RETURN collect(a.order_index)")["notes"] == []


def test_the_default_limit_says_what_it_cut(graph):
    save(graph, *({"event_id": "e%02d" % n, "summary": "x", "timestamp": "2025-01-01"} for n in range(21)))
    assert graph.query("START a = events(k: 21) RETURN a")["notes"] == [oracle.DEFAULT_LIMIT_NOTE]
    assert graph.query("START a = events(k: 20) RETURN a")["notes"] == []
    assert graph.query("START a = events(k: 21) RETURN a LIMIT 20")["notes"] == []
    for limit, count in (("21", 21), ("200", 21), ("1", 1), ("$n", 7)):
        answer = graph.query("START a = events(k: 21) RETURN a.id LIMIT " + limit, {"n": 7} if limit == "$n" else {})
        assert [row[0] for row in answer["rows"]] == ["e%02d" % n for n in range(count)] and answer["partial"] is False


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "'5'", "201", "2147483648", "9223372036854775808", "null", "true", "[1]", "1 2", ""])
def test_limits_that_are_none(org, limit):
    refusal = org.refused("query_memory_graph", {"query": "START a = events(k: 1) RETURN a LIMIT " + limit}, 400, "rejected")
    assert refusal["blocked_by"] in ("syntax", "grammar") and refusal["line"] == 1


@pytest.mark.parametrize("limit", [0, -1, 1.5, "5", 201, 2**31, 2**62, None, True, [1], {}])
def test_limit_parameters_that_are_none(org, limit):
    refusal = org.refused("query_memory_graph", {"query": "START a = events(k: 1) RETURN a LIMIT $n", "params": {"n": limit}}, 400, "rejected")
    assert refusal["blocked_by"] == "params"


@pytest.mark.parametrize("k, taken", [(1, 1), (20, 20), (21, 20), (2**40, 20)])
def test_k_of_a_search_is_clamped(graph, k, taken):
    save(graph, *({"event_id": "e%d" % n, "summary": "x", "vector": [1, n]} for n in range(30)))
    for query in ("START a = events(vector: [1, 2], k: %d) RETURN a LIMIT 200" % k, "START a = events(vector: [1, 2], since: '2000-01-01', k: $k) RETURN a LIMIT 200"):
        answer = graph.query(query, {"k": k} if "$k" in query else {})
        assert (len(answer["rows"]), answer["start"]["k"], len(answer["notes"])) == (taken, taken, int(k > 20))
    for wrong in (0, -1):
        reply = graph.tool("query_memory_graph", {"query": "START a = events(vector: [1, 2], k: %d) RETURN a" % wrong})
        assert reply.status == 400


def test_an_empty_org(graph):
    for start, kind in (("k: 5", "newest"), ("vector: [1, 0]", "vector"), ("ids: ['x']", "ids"), ("ids: []", "ids"), ("entity: 'x'", "entity"), ("tag: 't'", "tag"), ("vector: [1, 0], tag: 't'", "scoped")):
        answer = graph.query("START a = events(%s) MATCH (a)-[s:SHARES]-(b)-[f:FAR]-(a) RETURN a, b, count(*)" % start)
        assert answer["rows"] == [] and answer["start"]["kind"] == kind and answer["partial"] is False
    assert rows(graph, "START a = events(k: 5) RETURN count(*), collect(a), min(a.timestamp)") == [[0, [], None]]


def test_a_ring_of_three(graph):
    save(graph, *({"event_id": id_, "summary": id_} for id_ in "abc"))
    for id_, prev in (("a", "c"), ("b", "a"), ("c", "b")):
        save(graph, {"event_id": id_, "summary": id_, "prev_event_id": prev, "replace": True})
    assert rows(graph, "START a = events(ids: ['a']) MATCH (a)-[n:NEXT*]->(b) RETURN b.id, n.hops ORDER BY n.hops") == [["b", 1], ["c", 2]]
    assert rows(graph, "START a = events(ids: ['a']) MATCH (a)-[:NEXT]->(b)-[:NEXT]->(c)-[:NEXT]->(d) RETURN d.id") == [["a"]]
    assert rows(graph, "START a = events(ids: ['a']) MATCH (a)-[:NEXT*1..3]->(a) RETURN a") == []
    assert rows(graph, "START a = events(ids: ['a']) MATCH (a)-[n:NEXT*3]->(b) RETURN b") == []


def test_a_diamond(graph):
    save(graph, *({"event_id": id_, "summary": id_, "prev_event_id": prev} for id_, prev in (("a", None), ("c", "a"), ("b", "a"), ("d", "b"))))
    save(graph, {"event_id": "t1", "summary": "t1", "thread": "t", "order_index": 1, "prev_event_id": "c"}, {"event_id": "t2", "summary": "t2", "thread": "t", "order_index": 2, "prev_event_id": "b"})
    found = rows(graph, "START a = events(ids: ['a']) MATCH (a)-[n:NEXT*1..3]->(x) RETURN x.id, n.hops, n.source ORDER BY n.hops, x.id")
    assert found == [["b", 1, "explicit"], ["c", 1, "explicit"], ["d", 2, "explicit"], ["t1", 2, "explicit"], ["t2", 2, "explicit"]]


@pytest.mark.parametrize("star", ["*0..1", "*3..1", "*1..4", "*4", "*0", "*5..", "*..0"])
def test_lengths_out_of_range(org, star):
    refusal = org.refused("query_memory_graph", {"query": "START a = events(k: 1) MATCH (a)-[:NEXT%s]->(b) RETURN b" % star}, 400, "rejected")
    assert refusal["blocked_by"] == "grammar"


@pytest.mark.parametrize("written", ["2025-03-01T12:00:00Z", "2025-03-01T21:00:00+09:00", "2025-03-01T12:00:00.000000Z", "2025-03-01T12:00", "2025-03-01 12:00:00", "2025-03-01T11:59:00-00:01"])
def test_the_same_instant_however_written(graph, written):
    save(graph, {"event_id": "e", "summary": "x", "timestamp": "2025-03-01T12:00:00Z"}, {"event_id": "later", "summary": "x", "timestamp": "2025-03-01T12:00:00.000001Z"})
    assert rows(graph, "START a = events(k: 5) WHERE a.timestamp = $t RETURN a.id", t=written) == [["e"]]
    assert rows(graph, "START a = events(k: 5) WHERE a.timestamp > $t RETURN a.id, a.timestamp", t=written) == [["later", "2025-03-01T12:00:00.000001Z"]]
    assert rows(graph, "START a = events(until: $t) RETURN a", t=written) == [] and len(rows(graph, "START a = events(since: $t) RETURN a", t=written)) == 2


@pytest.mark.parametrize(
    "piece, names",
    [
        ("strasse", ["Straße"]), ("STRASSE", ["Straße"]), ("ａｂ", ["ＡＢＣ", "abc"]), ("b", None), ("김", ["김민서"]), ("ᄀ", []), ("東", ["東京"]), ("zoe", []), ("ZOË", ["Zoë"]),
        ("Zoe\u0308", ["Zoë"]), ("db\u00adpri", ["dbprimary"]), ("\u00ad\u00ad", None), ("i\u0307s", ["İstanbul"]), ("is", []), ("京", ["東京"]), ("BC", ["ＡＢＣ", "abc"]),
    ],
)  # fmt: skip
def test_contains(graph, piece, names):
    """None: too short to be asked, or nothing is left of it."""
    save(graph, {"event_id": "e", "summary": "x", "entities": [{"name": name} for name in ("Straße", "ＡＢＣ", "abc", "김민서", "東京", "Zoe\u0308", "dbprimary", "İstanbul")]})
    arguments = {"query": "START a = events(k: 1) MATCH (a)-[:PARTICIPATED_IN]-(e) WHERE e.name CONTAINS $p RETURN e.name ORDER BY e.name", "params": {"p": piece}}
    if piece == "b":
        assert graph.refused("query_memory_graph", arguments, 400, "rejected")["blocked_by"] == "params"
    elif names is None:
        assert graph.tool("query_memory_graph", arguments).status in (200, 400)
    else:
        assert [row[0] for row in graph.ok("query_memory_graph", arguments)["rows"]] == sorted(names)


def test_an_event_that_carries_a_tag_in_both_kinds(graph):
    save(graph, {"event_id": "e", "summary": "x", "tags": ["t", {"name": "t", "kind": "refers"}]})
    assert rows(graph, "START a = events(tag: 't') MATCH (a)-[m:MEMBER_OF]->(t) RETURN m.kind, t.event_count ORDER BY m.kind") == [["contains", 1], ["refers", 1]]
    assert rows(graph, "START a = events(tag: 't') RETURN count(*)") == [[1]]


def test_a_type_is_that_of_the_earliest_event_that_gives_one(graph):
    save(graph,
         {"event_id": "c", "summary": "x", "timestamp": "2025-01-03", "entities": [{"name": "Ann", "type": "late"}]},
         {"event_id": "b", "summary": "x", "timestamp": "2025-01-02", "entities": [{"name": "Ann", "type": "middle"}]},
         {"event_id": "a", "summary": "x", "timestamp": "2025-01-01", "entities": [{"name": "Ann"}]})  # fmt: skip
    query = "START a = events(entity: 'Ann', k: 1) MATCH (a)-[:PARTICIPATED_IN]-(e) RETURN e.type"
    assert rows(graph, query) == [["middle"]]
    graph.ok("delete_memory", {"event_id": "b"})
    assert rows(graph, query) == [["late"]]
    save(graph, {"event_id": "a", "summary": "x", "timestamp": "2025-01-01", "replace": True, "entities": [{"name": "Ann", "type": "early"}]})
    assert rows(graph, query) == [["early"]]


def test_equal_keys_come_in_the_same_order_every_time(new_org):
    answers = set()
    for partitions in (1, 2, 4):
        client = new_org(embedding="none", dimension=2, partitions=partitions)
        save(client, *({"event_id": "e%03d" % (n * 37 % 200), "summary": "x", "timestamp": "2025-01-01", "entities": [{"name": "all"}]} for n in range(200)))
        for _ in range(5):
            answers.add(json.dumps(client.query("START a = events(entity: 'all', k: 200) RETURN a.timestamp, a.id ORDER BY a.timestamp DESC LIMIT 200")["rows"]))
    assert len(answers) == 1 and json.loads(answers.pop())[0][1] == "e000"


@pytest.mark.parametrize("count", [499, 500, 501, 900])
def test_the_flag_is_set_exactly_when_something_is_missing(graph, count):
    save(graph, *({"event_id": "e%04d" % n, "summary": "x", "entities": [{"name": "hub"}] + ([{"name": "start"}] if n == 0 else [])} for n in range(count)))
    walk = "START a = events(entity: 'start') MATCH (a)-[:PARTICIPATED_IN]-(e)-[:PARTICIPATED_IN]-(b) WHERE e.name = 'hub' RETURN "
    full = graph.query(walk + "b.id LIMIT 200")
    assert full["partial"] is False and graph.query(walk + "count(b)")["rows"] == [[count - 1]]
    for items in ("b.id LIMIT 200", "count(b)"):
        whole = graph.query(walk + items)
        answer = graph.ok("query_memory_graph", {"query": walk + items, "budget": {"rows": 500}})
        assert answer["partial"] is (answer["rows"] != whole["rows"]), answer["truncated"]
        for cap in ("rows", "scanned", "frontier"):
            used = graph.query(walk + items)["budget"]["used"][cap]
            assert graph.ok("query_memory_graph", {"query": walk + items, "budget": {cap: used}})["partial"] is False
            if cap == "scanned":
                assert graph.ok("query_memory_graph", {"query": walk + items, "budget": {cap: used - 1}})["partial"] is True


def test_bytes_cut_whole_rows_and_say_so(graph):
    save(graph, *({"event_id": "e%02d" % n, "summary": "s" * 400, "timestamp": "2025-01-01"} for n in range(40)))
    full = graph.query("START a = events(k: 40) RETURN a LIMIT 40")
    for size in (1, 500, 3000, full["budget"]["used"]["bytes"] - 1, full["budget"]["used"]["bytes"]):
        answer = graph.ok("query_memory_graph", {"query": "START a = events(k: 40) RETURN a LIMIT 40", "budget": {"bytes": size}})
        assert answer["rows"] == full["rows"][: answer["row_count"]] and answer["budget"]["used"]["bytes"] <= size
        assert answer["partial"] is (answer["row_count"] < 40) is (size < full["budget"]["used"]["bytes"])


def save_meetings(graph):
    """Who met how often: Ann and Bo in 12 events, Ann and Cy in 5, Bo and Cy in 3, Ann and Di once; Ed is always alone."""
    groups = [("Ann", "Bo", "Cy")] * 3 + [("Ann", "Bo")] * 9 + [("Cy", "Ann")] * 2 + [("Ann", "Di"), ("Ed",), ("Ann", "Ed"), ("Ann", "Bo")]
    save(graph, *({"event_id": "m%02d" % n, "summary": "x", "timestamp": "2025-01-01", "entities": [{"name": name} for name in names]} for n, names in enumerate(groups)))
    save(graph, {"event_id": "m16", "summary": "changed", "timestamp": "2025-01-01", "entities": [{"name": "Ann"}], "replace": True})
    graph.ok("delete_memory", {"event_id": "m17"})


def test_connected_counts_common_live_events(graph):
    save_meetings(graph)
    walk = "START a = events(ids: ['m00']) MATCH (a)-[:PARTICIPATED_IN]-(e {name: 'Ann'}) MATCH (e)-[c:CONNECTED%s]-(f) "
    assert rows(graph, walk % "" + "RETURN f.name, c.event_count, c ORDER BY c.event_count DESC") == [
        ["Bo", 12, {"event_count": 12}], ["Cy", 5, {"event_count": 5}], ["Di", 1, {"event_count": 1}]]  # fmt: skip
    assert rows(graph, walk % " {min: 5}" + "RETURN f.name ORDER BY f.name") == [["Bo"], ["Cy"]]
    assert rows(graph, walk % " {min: 6}" + "RETURN f.name") == [["Bo"]]
    assert rows(graph, walk % " {min: 13}" + "RETURN f.name") == rows(graph, walk % " {min: 5000000000}" + "RETURN f.name") == []
    assert rows(graph, walk % "" + "WHERE c.event_count < 12 RETURN sum(c.event_count), min(c.event_count)") == [[6, 1]]


def test_connected_is_one_relation_either_way(graph):
    save_meetings(graph)
    start = "START a = events(ids: ['m00']) MATCH (a)-[:PARTICIPATED_IN]-(e {name: 'Ann'}) "
    assert rows(graph, start + "MATCH (e)-[:CONNECTED]-(f)-[:CONNECTED]-(g) WHERE f.name = 'Bo' RETURN g.name") == [["Cy"]], "not back over the same"
    back = rows(graph, start + "MATCH (e)-[:CONNECTED]-(f) MATCH (f)-[:CONNECTED]-(g) WHERE f.name = 'Bo' RETURN g.name ORDER BY g.name")
    assert back == [["Ann"], ["Cy"]], "in a clause of its own it may be the same"
    assert rows(graph, start + "MATCH (e)-[:CONNECTED]-(e) RETURN e") == [], "nobody is connected to itself"
    both = "MATCH (a)-[:PARTICIPATED_IN]-(f) MATCH (e)-[c:CONNECTED {min: %d}]-(f) RETURN f.name, c.event_count ORDER BY f.name"
    assert rows(graph, start + both % 1) == [["Bo", 12], ["Cy", 5]]
    assert rows(graph, start + both % 6) == [["Bo", 12]]


def test_connected_under_a_cap_gives_exact_counts_or_nothing(graph):
    save_meetings(graph)
    query = "START a = events(ids: ['m00']) MATCH (a)-[:PARTICIPATED_IN]-(e)-[c:CONNECTED {min: 2}]-(f) RETURN e.name, f.name, c.event_count"
    full = graph.query(query)
    used, whole = full["budget"]["used"]["scanned"], {tuple(row) for row in full["rows"]}
    assert whole == {(x, y, n) for pair, n in {("Ann", "Bo"): 12, ("Ann", "Cy"): 5, ("Bo", "Cy"): 3}.items() for x, y in (pair, pair[::-1])}
    found = set()
    for size in range(1, used + 1):
        answer = graph.ok("query_memory_graph", {"query": query, "budget": {"scanned": size}})
        got = {tuple(row) for row in answer["rows"]}
        assert answer["partial"] is (size < used) and got <= whole and answer["budget"]["used"]["scanned"] <= size
        found.add(len(got))
    assert found > {0, 6}, "what was read to its end comes back before the rest can"


def test_explain_runs_nothing(graph):
    save(graph, {"event_id": "e", "summary": "x", "entities": [{"name": "Ann"}]})
    answer = graph.query("EXPLAIN START a = events(entity: $n) MATCH (a)-[s:SHARES]-(b) RETURN b", {"n": "Ann"})
    assert answer["rows"] == [] and answer["plan"] and answer["budget"]["used"]["scanned"] == 0


@pytest.mark.parametrize(
    "construct, match",
    [("RESOLVED_BY", "(a)-[:RESOLVED_BY]->(b)"), ("SAME_AS", "(a)-[:PARTICIPATED_IN]-(e)-[:SAME_AS]-(b)")],
)  # fmt: skip
def test_what_comes_later_is_refused_by_name(org, construct, match):
    refusal = org.refused("query_memory_graph", {"query": "START a = events(k: 1) MATCH %s RETURN b" % match}, 400, "rejected")
    assert refusal["blocked_by"] == "grammar" and construct in refusal["detail"] and "not available yet" in refusal["detail"]


def test_a_parameter_that_is_not_used_gives_a_note(org):
    answer = org.query("START a = events(k: 1) RETURN a", {"spare": 1})
    assert len(answer["notes"]) == 1 and "spare" in answer["notes"][0]


def test_a_named_relation_without_properties(graph):
    """PARTICIPATED_IN has none: it comes back empty, and DISTINCT takes all of them for the same."""
    save(graph, {"event_id": "e", "summary": "x", "timestamp": "2025-01-01", "entities": [{"name": "Ann"}, {"name": "Bo"}]})
    model = Graph()
    model.save({"event_id": "e", "summary": "x", "timestamp": "2025-01-01", "entities": [{"name": "Ann"}, {"name": "Bo"}]})
    answer = graph.query("START a = events(k: 1) MATCH (a)-[p:PARTICIPATED_IN]-(e) RETURN DISTINCT p")
    assert answer["rows"] == [[{}]]
    query = {"start": {"var": "a", "args": [["k", ["lit", 1]]]}, "match": [[{"nodes": [{"var": "a"}, {"var": "e"}], "rels": [{"var": "p", "name": "PARTICIPATED_IN", "arrow": "", "star": None, "props": []}]}]],
             "where": None, "distinct": True, "items": [[["var", "p"], None]], "order": [], "limit": None, "params": {}}  # fmt: skip
    check_complete(answer, oracle.Oracle(model).answer(query, ["p"]))


def at_angle(id_, degrees, **more):
    return {"event_id": id_, "summary": id_, "timestamp": "2025-01-01", "vector": [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))], **more}


def similar_events(graph):
    save(graph, at_angle("a", 0), at_angle("b", 10), at_angle("c", 25), at_angle("d", 25), at_angle("e", 90), {"event_id": "n", "summary": "n", "timestamp": "2025-01-01"})


def ends(client, query):
    return [tuple(row) for row in rows(client, query)]


def test_similar_goes_from_the_end_that_the_walk_comes_from(graph):
    similar_events(graph)
    assert ends(graph, "START a = events(ids: ['a']) MATCH (a)-[:SIMILAR {k: 3}]-(b) RETURN b.id") == [("b",), ("c",), ("d",)]
    assert ends(graph, "START a = events(ids: ['a']) MATCH (b)-[:SIMILAR {k: 3}]-(a) RETURN b.id") == [("b",), ("c",), ("d",)]
    assert ends(graph, "START a = events(ids: ['b']) MATCH (a)-[:SIMILAR {k: 2}]-(b) RETURN b.id") == [("a",), ("c",)], "ties go to the smaller id"
    assert ends(graph, "START a = events(ids: ['a']) MATCH (a)-[s:SIMILAR {min: 0.95}]-(b) RETURN b.id, s") == [("b", {"cos": 0.984808})]
    assert ends(graph, "START a = events(ids: ['n']) MATCH (a)-[:SIMILAR]-(b) RETURN b.id") == [], "without a vector there are no neighbours"
    assert ends(graph, "START a = events(ids: ['e']) MATCH (a)-[s:SIMILAR {k: 50}]-(b) RETURN b.id, s.cos ORDER BY s.cos DESC") == [
        ("c", 0.422618), ("d", 0.422618), ("b", 0.173648), ("a", 0.0)]  # fmt: skip


def test_similar_with_both_ends_bound_filters_from_the_left_one(new_org):
    for partitions in (1, 4):
        client = new_org(embedding="none", dimension=2, partitions=partitions)
        save(client, at_angle("a", 0, entities=[{"name": "Ann"}]), at_angle("b", 30, entities=[{"name": "Ann"}]), at_angle("c", 40))
        # The nearest of a is b; the nearest of b is c.
        reach = "START x = events(ids: ['a']) MATCH (x)-[:SHARES]-(y), "
        assert ends(client, reach + "(x)-[:SIMILAR {k: 1}]-(y) RETURN y.id") == [("b",)]
        assert ends(client, reach + "(y)-[:SIMILAR {k: 1}]-(x) RETURN y.id") == []
        # Either order names the same relation, so one clause does not use it twice.
        assert ends(client, "START x = events(ids: ['b']) MATCH (x)-[:SIMILAR {k: 1}]-(y)-[:SIMILAR {k: 2}]-(z) RETURN z.id") == [("a",)]
        assert ends(client, "START x = events(ids: ['b']) MATCH (x)-[:SIMILAR {k: 1}]-(y) MATCH (y)-[:SIMILAR {k: 2}]-(z) RETURN z.id") == [("a",), ("b",)]


def test_similar_that_is_cut_says_so(graph):
    similar_events(graph)
    query = "START a = events(ids: ['a']) MATCH (a)-[:SIMILAR {k: 3}]-(b) RETURN b.id"
    full = graph.query(query)
    step = next(step for step in full["plan"] if step["op"] == "similar")
    assert step["search"] == "exact" and full["budget"]["used"]["measured"] == 5 and not full["notes"]
    for cap in (1, 2, 3, 4):
        answer = graph.ok("query_memory_graph", {"query": query, "budget": {"measured": cap}})
        assert answer["partial"] and answer["truncated"][0]["relation"] == "SIMILAR" and answer["truncated"][0]["cap"] == "measured"
        assert any("SIMILAR was cut: its events are the best of what was examined" in note for note in answer["notes"])
        assert answer["budget"]["used"]["measured"] <= cap
    assert graph.ok("query_memory_graph", {"query": query, "budget": {"measured": 5}})["rows"] == full["rows"]


@pytest.mark.parametrize("params", ["k: 0", "k: 51", "k: 1.5", "min: 1.5", "min: 'x'", "exact: 1", "max: 1"])
def test_similar_refuses_what_is_out_of_range(org, params):
    refusal = org.refused("query_memory_graph", {"query": "START a = events(k: 1) MATCH (a)-[:SIMILAR {%s}]-(b) RETURN b" % params}, 400, "rejected")
    assert refusal["blocked_by"] == "grammar"

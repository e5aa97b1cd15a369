"""SHARES of a variable length: by distance, with the last step that the language says, and honest where the walk was cut."""
import pytest

from support.cluster import Cluster


def save(client, **events):
    memories = [{"event_id": id_, "summary": "x", "timestamp": "2025-01-01", "entities": [{"name": name} for name in names]} for id_, names in events.items()]
    assert {result["status"] for result in client.ok("save_memories", {"memories": memories})["results"]} == {"ok"}


def rows(client, query):
    answer = client.query(query)
    assert answer["partial"] is False, answer["truncated"]
    return answer["rows"]


def names_of(via):
    return [entity["name"] for entity in via]


@pytest.fixture(params=[1, 4])
def graph(request, new_org):
    """An org of one or of four partitions."""
    return new_org(embedding="none", dimension=2, partitions=request.param)


def test_by_distance(graph):
    save(graph, e0=["A"], e1=["A", "B"], e2=["B", "C"], e3=["C", "D"], e4=["D"], far=["Z"])
    query = "START a = events(ids: ['e0']) MATCH (a)-[s:SHARES%s]-(b) RETURN b.id, s.hops, s.via"
    full = [["e1", 1, ["A"]], ["e2", 2, ["B"]], ["e3", 3, ["C"]]]
    for length, first, end in (("*", 0, 3), ("*1", 0, 1), ("*2", 1, 2), ("*..2", 0, 2), ("*2..", 1, 3), ("*1..3", 0, 3), ("*3", 2, 3)):
        found = [[id_, hops, names_of(via)] for id_, hops, via in rows(graph, query % length)]
        assert found == full[first:end], length


def test_a_nearer_event_is_not_an_end_of_a_longer_walk(graph):
    """A triangle: two steps come round to every event, none of them is two steps away; the start is no end either."""
    save(graph, e0=["A"], e1=["A"], e2=["A"])
    assert rows(graph, "START a = events(ids: ['e0']) MATCH (a)-[:SHARES*2..]-(b) RETURN b") == []
    assert rows(graph, "START a = events(ids: ['e0']) MATCH (a)-[:SHARES*]-(b), (a)-[:SHARES*]-(a) RETURN b") == []


def test_the_last_step_has_the_largest_weight_then_comes_from_the_smallest_id(graph):
    save(graph, s=["A"], p2=["A", "X"], p1=["A", "Y"], end=["X", "Y"])
    query = "START a = events(ids: ['s']) MATCH (a)-[s:SHARES*2]-(b) WHERE b.id = 'end' RETURN b.id, s.count, s.via, s.weight"
    ((end, count, via, weight),) = rows(graph, query)
    assert (end, count, names_of(via)) == ("end", 1, ["Y"]), "equal weights: p1 before p2"
    save(graph, other=["Y"])  # Y is no longer as rare
    ((end, count, via, heavier),) = rows(graph, query)
    assert (end, count, names_of(via)) == ("end", 1, ["X"]) and heavier > weight  # of one event more
    save(graph, p3=["A", "X", "Y"])
    ((end, count, via, _),) = rows(graph, query)
    assert (count, names_of(via)) == (2, ["X", "Y"])


def test_parameters_hold_for_each_step(graph):
    save(graph, e0=["A", "B"], e1=["A", "B", "C"], e2=["C", "D"], e3=["A", "D"])
    assert rows(graph, "START a = events(ids: ['e0']) MATCH (a)-[s:SHARES* {min: 2}]-(b) RETURN b.id, s.hops") == [["e1", 1]]
    light, heavy = sorted(row[0] for row in rows(graph, "START a = events(ids: ['e0']) MATCH (a)-[s:SHARES]-(b) RETURN s.weight"))
    query = "START a = events(ids: ['e0']) MATCH (a)-[s:SHARES* {min_w: %s}]-(b) RETURN b.id, s.hops"
    assert rows(graph, query % heavy) == [["e1", 1]]
    assert rows(graph, query % light) == [["e1", 1], ["e2", 2], ["e3", 1]]


def test_with_both_ends_bound_it_counts_from_the_left(graph):
    save(graph, a=["A"], m=["A", "B"], b=["B"])
    both = "START a = events(ids: ['a']) MATCH (a)-[:SHARES*]-(b) MATCH (%s)-[s:SHARES*]-(%s) WHERE b.id = 'b' RETURN s.via, s.hops"
    ((via, hops),) = rows(graph, both % ("a", "b"))
    assert (names_of(via), hops) == (["B"], 2)
    ((via, hops),) = rows(graph, both % ("b", "a"))
    assert (names_of(via), hops) == (["A"], 2)


def test_it_takes_no_part_in_uniqueness(graph):
    save(graph, e0=["A"], e1=["A"])
    assert rows(graph, "START a = events(ids: ['e0']) MATCH (a)-[:SHARES*1]-(b)-[:SHARES*1]-(c) RETURN c.id") == [["e0"]]
    assert rows(graph, "START a = events(ids: ['e0']) MATCH (a)-[:SHARES]-(b)-[:SHARES*1]-(c) RETURN c.id") == [["e0"]]
    assert rows(graph, "START a = events(ids: ['e0']) MATCH (a)-[:SHARES]-(b)-[:SHARES]-(c) RETURN c.id") == []


def test_a_cut_walk_says_so(graph):
    save(graph, s=["A"], p1=["A", "X"], p2=["A", "Y"], p3=["A", "Z"], q1=["X"], q2=["Y"], q3=["Z"])
    walk = "START a = events(ids: ['s']) MATCH (a)-[s:SHARES%s]-(b) RETURN b.id, s.hops"
    answer = graph.ok("query_memory_graph", {"query": walk % "*", "budget": {"frontier": 2}})
    (cut,) = answer["truncated"]
    assert (cut["relation"], cut["cap"], cut["limit"], cut["reached"]) == ("SHARES", "frontier", 2, 3)
    assert any("upper bound" in note for note in answer["notes"])
    assert sorted(answer["rows"])[:3] == [["p1", 1], ["p2", 1], ["p3", 1]] and len(answer["rows"]) == 5
    answer = graph.ok("query_memory_graph", {"query": walk % "*3", "budget": {"frontier": 2}})
    assert answer["partial"] and answer["rows"] == [], "what was met could be nearer than three steps"
    answer = graph.ok("query_memory_graph", {"query": walk % "*", "budget": {"frontier": 3}})
    assert answer["partial"] is False and len(answer["rows"]) == 6 and answer["budget"]["used"]["frontier"] == 3


def test_many_ends_and_many_starts(graph):
    """Lists too long to be looked through one by one; ties that only ids decide; an event is asked for once, whoever comes by it."""
    save(graph, **{"m%02d" % n: ["hub", "own %d" % n] for n in range(60)}, **{"n%02d" % n: ["own %d" % n, "rim"] for n in range(60)})
    answer = graph.query("START a = events(entity: 'hub', k: 60) MATCH (a)-[s:SHARES*2]-(b) RETURN count(*), count(DISTINCT b), min(s.hops), max(s.count)")
    assert answer["rows"] == [[60 * 59 * 1, 60, 2, 1]] and answer["partial"] is False
    assert rows(graph, "START a = events(entity: 'hub', k: 60) MATCH (a)-[:SHARES]-(b), (a)-[:SHARES*1..2]-(b) RETURN count(*)") == [[60 * 59 + 60]]


def test_without_a_shard_weights_are_null():
    with Cluster(2, coordinator_words=["--deadline", "20s"]) as cluster:
        client = cluster.new_org("partial", partitions=4, embedding="none", dimension=2)
        save(client, **{"m%d" % n: ["all", "own %d" % (n // 2)] for n in range(40)})
        cluster.kill_shard(1)
        walk = "START a = events(entity: 'all', k: 3) MATCH (a)-[s:SHARES%s]-(b) RETURN s.weight, s.hops, s.count LIMIT 200"
        answer = client.query(walk % "*")
        assert answer["partial"] and answer["rows"] and {row[0] for row in answer["rows"]} == {None} and {row[1] for row in answer["rows"]} == {1}
        assert any("upper bound" in note for note in answer["notes"])
        assert client.query(walk % "* {min_w: 0.1}")["rows"] == [] and client.query(walk % "*2..")["rows"] == []

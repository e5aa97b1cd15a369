"""The oracle itself, on cases whose answer a person can see; and that the comparison does fail."""
import copy
import json
import pathlib

import pytest

from support import differ, figures, instants, oracle, render, text
from support.graph import Graph

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "text" / "nfkc_casefold.txt"


@pytest.mark.parametrize(
    "given, folded",
    [
        ("Straße", "strasse"), ("STRASSE", "strasse"), ("ẞ", "ss"), ("İ", "i̇"), ("ＡＢＣ", "abc"), ("Ｚｏë", "zoë"), ("Zoe\u0308", "zoë"), ("ﬁle", "file"),
        ("db\u00adprimary", "dbprimary"), ("a\u200bb\ufeffc", "abc"), ("\u1100\u1175\u11b7", "김"), ("김민서", "김민서"), ("東京", "東京"), ("ΣΑΣ", "σασ"), ("①", "1"), ("Ǆ", "dž"),
    ],
)  # fmt: skip
def test_nfkc_casefold(given, folded):
    assert text.nfkc_casefold(given) == folded


def test_nfkc_casefold_of_the_golden_file():
    count = 0
    for line in GOLDEN.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        given, folded, _ = ("".join(chr(int(code, 16)) for code in part.split()) for part in line.split("|"))
        assert text.nfkc_casefold(given) == folded
        count += 1
    assert count > 500


def test_figures():
    assert figures.round6(0.1234565) == 0.123456 and figures.round6(-1e-9) == 0 and str(figures.round6(-1e-9)) == "0.0"
    assert figures.cosine([1.0, 0.0], [0.0, 2.0]) == 0 and figures.cosine([3.0], [-0.5]) == -1
    # Nine elements: the ninth is added to the first lane, and the lanes are added pairwise.
    a, b = [1e16, 1.0, -1e16, 0, 0, 0, 0, 0, 1.0], [1.0] * 9
    assert figures.dot(a, b) == ((1e16 + 1.0) + 1.0) + (-1e16 + 0)


def test_instants():
    assert instants.write(instants.parse("2025-03-01T12:00:00.120+09:00")) == "2025-03-01T03:00:00.12Z"
    assert instants.parse("2025-03-01") == instants.parse("2025-03-01T00:00:00") == instants.parse("2025-02-28T23:00:00-01:00")


def small_graph():
    graph = Graph()
    for id_, names, second in (("a", "xy", 3), ("b", "xy", 2), ("c", "y", 1), ("d", "", 0)):
        graph.save({"event_id": id_, "summary": id_, "timestamp": "2025-01-01T00:00:0%dZ" % second, "entities": [{"name": n} for n in names], "thread": "t"})
    return graph


def ask(graph, match, items, **more):
    query = {"start": {"var": "a", "args": [["ids", ["lit", ["a"]]]]}, "match": match, "where": None, "distinct": False, "items": items, "order": [],
             "limit": None, "params": {}, "style": 0, **more}  # fmt: skip
    return oracle.Oracle(graph).answer(query, render.render(query)[1])


def path(*parts):
    """("a", rel, "b", rel, "c") with rel a name, or (name, arrow, star)."""
    rels = []
    for part in parts[1::2]:
        name, arrow, star = part if isinstance(part, tuple) else (part, "", None)
        rels.append({"name": name, "arrow": arrow, "star": star, "var": "r%d" % len(rels), "props": []})
    return {"nodes": [{"var": part} for part in parts[0::2]], "rels": rels}


def test_weight_is_the_sum_of_lifts():
    answer = ask(small_graph(), [[path("a", "SHARES", "b")]], [[["prop", "b", "id"], None], [["prop", "r0", "weight"], None], [["prop", "r0", "count"], None]])
    assert answer.rows == [["b", 1.945910, 2], ["c", 0.847298, 1]]  # ln 3 + ln(1 + 4 / 3), and ln(1 + 4 / 3)


def test_a_relation_is_used_once_in_a_clause():
    through = path("a", "PARTICIPATED_IN", "e", "PARTICIPATED_IN", "b")
    answer = ask(small_graph(), [[through]], [[["prop", "b", "id"], None]])
    assert sorted(row[0] for row in answer.rows) == ["b", "b", "c"]
    two_clauses = [[path("a", "PARTICIPATED_IN", "e")], [path("e", "PARTICIPATED_IN", "b")]]
    answer = ask(small_graph(), two_clauses, [[["prop", "b", "id"], None]])
    assert sorted(row[0] for row in answer.rows) == ["a", "a", "b", "b", "c"]


def test_distance_on_a_ring():
    graph = small_graph()
    for id_, prev in (("a", "c"), ("b", "a"), ("c", "b")):
        graph.save({"event_id": id_, "summary": id_, "timestamp": "2025-01-01", "prev_event_id": prev})
    answer = ask(graph, [[path("a", ("NEXT", ">", "*1..3"), "b")]], [[["prop", "b", "id"], None], [["prop", "r0", "hops"], None]])
    assert sorted(answer.rows) == [["b", 1], ["c", 2]]
    answer = ask(graph, [[path("a", ("NEXT", "<", "*2"), "b")]], [[["prop", "b", "id"], None], [["prop", "r0", "hops"], None]])
    assert answer.rows == [["b", 2]]


def test_logic_with_null():
    evaluator = oracle.Evaluator(small_graph(), {}, {})
    null, yes, no = ["lit", None], ["lit", True], ["lit", False]
    assert evaluator.of(["and", [null, no]], {}) is False and evaluator.of(["and", [null, yes]], {}) is None
    assert evaluator.of(["or", [null, yes]], {}) is True and evaluator.of(["or", [null, no]], {}) is None
    assert evaluator.of(["not", null], {}) is None
    assert evaluator.of(["in", ["lit", 1], ["lit", [2, None]]], {}) is None and evaluator.of(["in", ["lit", 1], ["lit", [1, None]]], {}) is True
    assert evaluator.of(["in", null, ["lit", []]], {}) is False and evaluator.of(["cmp", ["<"], [["lit", 1], ["lit", "1"]]], {}) is None


def test_the_comparison_fails_where_answers_differ():
    expected = ask(small_graph(), [[path("a", "SHARES", "b")]], [[["prop", "b", "id"], None]])
    right = {"status": "ok", "columns": expected.columns, "rows": expected.rows, "row_count": 2, "start": expected.start, "partial": False, "truncated": [], "notes": []}
    differ.check_complete(right, expected)
    for change in ({"rows": expected.rows[::-1]}, {"rows": expected.rows[:1]}, {"row_count": 1}, {"columns": ["b"]}, {"partial": True}, {"notes": ["x"]},
                   {"start": {**expected.start, "count": 2}}, {"truncated": [{}]}, {"rows": [["b"], [None]]}):  # fmt: skip
        with pytest.raises(differ.Difference):
            differ.check_complete({**copy.deepcopy(right), **change}, expected)
    assert not differ.is_same(1, True) and not differ.is_same([1, 2], [2, 1]) and differ.is_same({"a": [1.0]}, {"a": [1]})


def test_a_query_survives_being_kept():
    """What is written to tests/regress reads back as the same text."""
    for seed in range(5):
        case = differ.Case(seed, 10)
        for query in case.queries:
            assert render.render(json.loads(json.dumps(query))) == render.render(query)

"""Asks Heddle and the oracle the same and compares. Shared by the random tests, the replays and the command line in tests/random."""
import json
import random
import re

from . import generator, oracle, render
from .graph import Graph

CAPS = ("frontier", "scanned", "measured", "rows")


class Difference(AssertionError):
    """Heddle and the oracle disagree."""


def is_same(left, right):
    """JSON values; 1 and 1.0 are the same number, true is no number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


def check(is_so, what, *values):
    if not is_so:
        raise Difference(what + "".join("\n  " + json.dumps(value, ensure_ascii=False, default=str)[:3000] for value in values))


def load(client, operations):
    """Applies a graph's operations through the tools, consecutive saves in one call; → the Graph they make."""
    graph, pending = Graph(), []

    def flush():
        if pending:
            for result in client.ok("save_memories", {"memories": pending})["results"]:
                assert result["status"] == "ok", "a save was refused: %s" % result  # no Difference: the case itself is wrong
            pending.clear()

    for operation in operations:
        graph.apply(operation)
        if "save" in operation:
            pending.append(operation["save"])
            if len(pending) == 500:
                flush()
        else:
            flush()
            client.ok("delete_memory", {"event_id": operation["delete"]})
    flush()
    return graph


def check_notes(expected, notes):
    """Each expected pattern finds its own note, and none is left over."""
    left = list(notes)
    for pattern in expected:
        found = next((note for note in left if re.search(pattern, note)), None)
        check(found is not None, "a note is missing: " + pattern, notes)
        left.remove(found)
    check(not left, "notes that the language does not ask for", left)


def check_complete(answer, expected):
    """An answer that is not partial is the oracle's, exactly."""
    check(answer["status"] == "ok", "not ok", answer)
    check(answer["columns"] == expected.columns, "columns differ", answer["columns"], expected.columns)
    check(is_same(answer["rows"], expected.rows), "rows differ", {"heddle": answer["rows"]}, {"oracle": expected.rows})
    check(answer["row_count"] == len(expected.rows), "row_count", answer["row_count"], len(expected.rows))
    check(is_same(answer["start"], expected.start), "start differs", {"heddle": answer["start"]}, {"oracle": expected.start})
    check(answer["partial"] is False and answer["truncated"] == [], "called partial", answer["truncated"])
    check_notes(expected.notes, answer["notes"])


def without_run(answer):
    """What has to be the same bytes however many partitions there are."""
    return json.dumps({key: value for key, value in answer.items() if key not in ("plan", "budget")}, ensure_ascii=False)


def variable_length_vars(query):
    return [rel["var"] for paths in query["match"] for path in paths for rel in path["rels"] if rel.get("star") and rel.get("var")]


def mentions(expr, names):
    if isinstance(expr, list):
        if len(expr) > 1 and expr[0] in ("var", "prop") and expr[1] in names:
            return True
        return any(mentions(part, names) for part in expr)
    return False


def mask(row, query):
    """What depends on the properties of a variable-length relation, out of the way."""
    names = variable_length_vars(query)
    return [None if mentions(expr, names) else cell for cell, (expr, _) in zip(row, query["items"])]


class FullRows:
    """All rows of the full answer, before LIMIT; of a start (or SIMILAR) that was cut, those of any events there could be."""

    def __init__(self, graph, query, columns):
        self.graph, self.query, self.columns, self.known = graph, query, columns, {}

    def get(self, is_start_cut, is_similar_cut):
        """None: more than a naive evaluator should hold."""
        key = (is_start_cut, is_similar_cut)
        if key not in self.known:
            try:
                naive = oracle.Oracle(self.graph, is_similar_unbounded=is_similar_cut)
                self.known[key] = naive.answer(self.query, self.columns, is_k_unbounded=is_start_cut).full_rows
            except oracle.TooBig:
                self.known[key] = None
        return self.known[key]


def check_partial(full_rows, query, answer):
    """A partial answer says what was cut, and holds only rows of the full answer, before LIMIT, with the figures they have there."""
    check(bool(answer["truncated"]), "partial, and nothing is named", answer)
    for cut in answer["truncated"]:
        check({"stage", "cap", "limit", "reached"} <= cut.keys(), "a truncation record lacks members", cut)
    if not answer["rows"]:
        check(any(re.search("not confirmed", note) for note in answer["notes"]), "0 rows with partial, and no note", answer["notes"])
    is_similar_cut = any(cut.get("relation") == "SIMILAR" and cut["cap"] == "measured" for cut in answer["truncated"])
    has_note = any(re.search("SIMILAR was cut: .* best of what was examined", note) for note in answer["notes"])
    check(is_similar_cut == has_note, "a SIMILAR that was cut, and no note (or the note alone)", answer["truncated"], answer["notes"])
    if any(expr[0] == "agg" for expr, _ in query["items"]):
        check(any(re.search("aggregat", note) for note in answer["notes"]), "aggregates over a partial walk, and no note", answer["notes"])
        return
    names = variable_length_vars(query)
    is_start_cut = any(cut["stage"] == "start" for cut in answer["truncated"])
    is_walk_cut = any(cut.get("relation") in ("NEXT", "SHARES") for cut in answer["truncated"])
    if is_walk_cut and names and mentions(query["where"], names):
        return
    full = full_rows.get(is_start_cut, is_similar_cut)
    if full is None:
        return
    change = (lambda row: mask(row, query)) if is_walk_cut else (lambda row: row)
    left = {}
    for row in full:
        key = oracle.identity(change(row))
        left[key] = left.get(key, 0) + 1
    for row in answer["rows"]:
        key = oracle.identity(change(row))
        check(left.get(key, 0) > 0, "a row that the full answer does not have", row)
        left[key] -= 1


def ask(client, query, budget=None):
    text, columns = render.render(query)
    arguments = {"query": text, "params": query["params"]}
    if budget:
        arguments["budget"] = budget
    reply = client.tool("query_memory_graph", arguments)
    check(reply.status == 200, "refused: " + text, reply.json)
    return reply.json, columns


def check_pair(clients, graph, query):
    """One query over the same graph in several orgs: the same bytes, and the oracle's. False: too big for the oracle."""
    _, columns = render.render(query)
    try:
        expected = oracle.Oracle(graph).answer(query, columns)
    except oracle.TooBig:
        return False
    answers = [ask(client, query)[0] for client in clients]
    for answer in answers:
        check_complete(answer, expected)
    for answer in answers[1:]:
        check(without_run(answer) == without_run(answers[0]), "other bytes on other partitions", answers[0], answer)
    return True


def check_budgets(client, graph, query, sizes):
    """The report tells the truth under caps of several sizes."""
    _, columns = render.render(query)
    try:
        expected = oracle.Oracle(graph).answer(query, columns)
    except oracle.TooBig:
        return False
    full, _ = ask(client, query)
    check_complete(full, expected)
    used = full["budget"]["used"]
    full_rows = FullRows(graph, query, columns)

    def under(budget):
        answer, _ = ask(client, query, budget)
        for cap, size in budget.items():
            check(answer["budget"]["used"][cap] <= size, "more used than the cap allows: " + cap, answer["budget"])
        if answer["partial"]:
            check_partial(full_rows, query, answer)
        else:
            check(answer["truncated"] == [], "cut, and not partial", answer["truncated"])
            check_complete(answer, expected)
        return answer

    exact = {cap: max(1, used[cap]) for cap in CAPS}
    answer = under(exact)
    check(not answer["partial"], "partial under caps that just fit", exact, answer["truncated"])
    for cap in CAPS:
        for size in {*sizes, used[cap] - 1, used[cap]}:
            if size < 1:
                continue
            answer = under({cap: size})
            if size >= used[cap]:
                check(not answer["partial"], "partial under a cap that just fits", {cap: size}, answer["truncated"])
    return True


class Case:
    """Graph and queries of one seed."""

    def __init__(self, seed, query_count):
        rng = random.Random(seed)
        self.seed = seed
        self.data = generator.make_graph(rng)
        graph = Graph()
        for operation in self.data["operations"]:
            graph.apply(operation)
        self.queries = [self.make_query(rng, graph) for _ in range(query_count)]

    def make_query(self, rng, graph):
        """Of a few the first that finds something: what finds nothing proves little, but has to come up too."""
        attempts = rng.choice((1, 6))
        for _ in range(attempts):
            query = generator.make_query(rng, graph, self.data["dimension"])
            try:
                if oracle.Oracle(graph, rows_max=3000).answer(query, None).rows:
                    break
            except oracle.TooBig:
                pass
        return query


def open_orgs(cluster, name, dimension, partitions=(1, 4)):
    settings = {"dimension": dimension, "embedding": "none"}
    return [cluster.new_org("%s-p%d" % (name, p), partitions=p, **settings) for p in partitions]


def drop_orgs(cluster, name, partitions=(1, 4)):
    for p in partitions:
        cluster.admin("DELETE", "/orgs/%s-p%d" % (name, p))

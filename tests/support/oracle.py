"""The naive evaluator: answers a query structure (render.py) over a Graph with nested loops, no planner and no index.

Written from docs/language.md alone. Slow and obvious is the point: where it and Heddle disagree, one of them reads the language
wrongly. It covers what runs today; RESOLVED_BY and SAME_AS are refused by Heddle."""
import math
import re
from dataclasses import dataclass

from . import figures, instants, text

DEFAULT_LIMIT_NOTE = "rows cut to the default LIMIT 20; add LIMIT to return more"
COLLECT_MAX = 100
NAME_NODES_MAX = 20


class TooBig(Exception):
    """The query has more rows than a naive evaluator should hold."""


@dataclass(frozen=True)
class Instant:
    us: int


@dataclass(frozen=True)
class Node:
    label: str  # Event, Entity, Tag
    id: str


class Relation:
    """A relation as a row holds it: its properties, and what it is for uniqueness (None: takes no part)."""

    def __init__(self, properties, identity):
        self.properties, self.identity = properties, identity


class Answer:
    def __init__(self, columns, rows, full_rows, start, notes):
        self.columns, self.rows, self.full_rows, self.start, self.notes = columns, rows, full_rows, start, notes


# --- START ---


def match_names(graph, label, name):
    """One normalised name or id → (node ids, were there more than 20)."""
    nodes = graph.entities() if label == "Entity" else graph.tags()
    found = [id_ for id_, facts in nodes.items() if facts[0] == name or id_ == name]
    if not found:
        found = [id_ for id_, facts in nodes.items() if text.nfkc_casefold(facts[0]) == text.nfkc_casefold(name)]
    found.sort(key=lambda id_: (-nodes[id_][-1], id_))
    return found[:NAME_NODES_MAX], len(found) > NAME_NODES_MAX


class Start:
    """The anchor set: `events` in order with their scores, and the `start` object of the answer."""

    def __init__(self, graph, args, is_k_unbounded):
        self.graph, self.args, self.scores, self.notes = graph, args, {}, []
        self.object = {}
        self.unresolved = []
        if "ids" in args:
            self.by_ids()
        else:
            self.by_scope(is_k_unbounded)
        self.object["count"] = len(self.events)

    def by_ids(self):
        ids = list(dict.fromkeys(self.args["ids"]))
        self.events = [id_ for id_ in ids if id_ in self.graph.events]
        self.object = {"kind": "ids", "unresolved": [id_ for id_ in ids if id_ not in self.graph.events]}

    def names_filter(self, label, key):
        """The predicate of entity/entity_all (tag/tag_all), and start.…_truncated; None, None where neither is given."""
        given_all = self.args.get(key + "_all")
        given_any = self.args.get(key)
        if given_all is None and given_any is None:
            return None
        given = given_all if given_all is not None else given_any
        given = [given] if isinstance(given, str) else given
        sets, is_truncated = [], False
        for name in map(text.normalise_name, given):  # before anything else, so also in `unresolved`
            ids, is_cut = match_names(self.graph, label, name)
            is_truncated = is_truncated or is_cut
            if not ids and name not in self.unresolved:
                self.unresolved.append(name)
            sets.append(set(ids))
        self.object["entities_truncated" if label == "Entity" else "tags_truncated"] = is_truncated
        self.object["unresolved"] = self.unresolved
        of_event = self.graph.entity_ids if label == "Entity" else self.graph.tag_ids
        every = given_all is not None
        return lambda id_: (all if every else any)(bool(set(of_event(id_)) & wanted) for wanted in sets)

    def by_scope(self, is_k_unbounded):
        args = self.args
        filters = {}
        for key in args:  # in the order written: `unresolved` is in the order given
            if key in ("entity", "entity_all"):
                filters["entity"] = self.names_filter("Entity", "entity")
            elif key in ("tag", "tag_all"):
                filters["tag"] = self.names_filter("Tag", "tag")
        has_span = "since" in args or "until" in args
        is_ranked = "vector" in args
        since = instants.parse(args["since"]) if "since" in args else -math.inf
        until = instants.parse(args["until"]) if "until" in args else math.inf
        scope = [
            event
            for event in self.graph.events.values()
            if since <= event.timestamp < until and all(keep(event.id) for keep in filters.values())
        ]
        k_max = 20 if is_ranked else 200
        k = args.get("k", 5)
        if k > k_max:
            self.notes.append(r"\bk\b")
            k = k_max
        self.object["k"] = k
        if is_k_unbounded:
            k = 10**9
        if is_ranked:
            vector = figures.to_vector(args["vector"])
            scope = [event for event in scope if event.vector is not None]
            self.scores = {event.id: figures.cosine(event.vector, vector) for event in scope}
            scope.sort(key=lambda event: (-self.scores[event.id], event.id))
        else:
            scope.sort(key=lambda event: (-event.timestamp, event.id))
        self.events = [event.id for event in scope[:k]]
        self.describe(scope, filters, has_span, is_ranked)

    def describe(self, scope, filters, has_span, is_ranked):
        has_more = len(scope) > len(self.events)
        if is_ranked and (filters or has_span):
            self.object.update(kind="scoped", scoped_mode="exact", candidates={"count": len(scope), "exact": True}, filled=True)
            self.object["has_more"] = has_more
        elif is_ranked:
            self.object.update(kind="vector", search="exact")
        else:
            self.object["kind"] = "_".join(key for key in ("entity", "tag") if key in filters) or "newest"
            if self.object["kind"] != "entity":
                self.object["has_more"] = has_more
            if self.object["kind"] in ("entity", "tag"):
                self.object["hub"] = has_more


# --- relations: what can stand at the other end ---


class Walker:
    """For a relation pattern and the node the walk comes from: every (other node, Relation) there is."""

    def __init__(self, graph, is_similar_unbounded=False):
        self.graph, self.memo, self.is_similar_unbounded = graph, {}, is_similar_unbounded

    def edges(self, rel, props, node, is_rightwards):
        """Edges of `rel` from `node`; is_rightwards: `node` stands to its left."""
        key = (rel["name"], rel["arrow"], rel.get("star"), repr(sorted(props.items())), node, is_rightwards)
        if key not in self.memo:
            self.memo[key] = list(getattr(self, rel["name"].lower())(rel, props, node, is_rightwards))
        return self.memo[key]

    def shares(self, rel, props, node, is_rightwards):
        if rel.get("star"):
            yield from self.shares_walk(rel, props, node, is_rightwards)
            return
        for other in self.graph.events:
            if other == node.id:
                continue
            shared = self.graph.shared(node.id, other)
            weight = figures.round6(sum_in_order(math.log(1 + self.graph.count / df) for df, _, _ in shared))
            if len(shared) >= props.get("min", 1) and weight >= props.get("min_w", 0):
                via = [{"id": id_, "name": name} for _, name, id_ in shared]
                properties = {"count": len(shared), "weight": weight, "via": via, "hops": 1}
                yield Node("Event", other), Relation(properties, ("SHARES", *sorted((node.id, other))))

    def shares_walk(self, rel, props, node, is_rightwards):
        def step(here):
            return {there.id: relation for there, relation in self.edges({**rel, "star": None}, props, Node("Event", here), is_rightwards)}

        low, high = star_bounds(rel["star"])
        distance, ring = {node.id: 0}, [node.id]
        for hops in range(1, high + 1):
            ring = sorted({there for here in ring for there in step(here) if there not in distance})
            for there in ring:
                distance[there] = hops
        for there, hops in distance.items():
            if there != node.id and hops >= low:
                nearer = [here for here in step(there) if distance.get(here) == hops - 1]  # no arrow: the steps back are those that lead here
                last = min(nearer, key=lambda here: (-step(here)[there].properties["weight"], here))
                yield Node("Event", there), Relation({**step(last)[there].properties, "hops": hops}, None)

    def similar(self, rel, props, node, is_rightwards):
        cosines = {other: self.graph.cosine(node.id, other) for other in self.graph.events if other != node.id}
        order = sorted((-cos, other) for other, cos in cosines.items() if cos is not None)
        for _, other in order if self.is_similar_unbounded else order[: props.get("k", 10)]:
            if cosines[other] >= props.get("min", -1):
                yield Node("Event", other), Relation({"cos": cosines[other]}, ("SIMILAR", *sorted((node.id, other))))

    def far(self, rel, props, node, is_rightwards):
        for other in self.graph.events:
            cos = self.graph.cosine(node.id, other)
            if cos is not None and cos < props.get("max", 0.5):
                yield Node("Event", other), Relation({"cos": cos}, ("FAR", *sorted((node.id, other))))

    def participated_in(self, rel, props, node, is_rightwards):
        if node.label == "Event":
            others = [Node("Entity", id_) for id_ in self.graph.entity_ids(node.id)]
        else:
            others = [Node("Event", id_) for id_ in self.graph.events if node.id in self.graph.entity_ids(id_)]
        for other in others:
            yield other, Relation({}, ("PARTICIPATED_IN", *sorted((node.id, other.id))))

    def connected(self, rel, props, node, is_rightwards):
        common = {}
        for id_ in self.graph.events:
            entities = self.graph.entity_ids(id_)
            if node.id in entities:
                for other in entities:
                    common[other] = common.get(other, 0) + 1
        for other, count in common.items():
            if other != node.id and count >= props.get("min", 1):
                yield Node("Entity", other), Relation({"event_count": count}, ("CONNECTED", *sorted((node.id, other))))

    def member_of(self, rel, props, node, is_rightwards):
        for event in self.graph.events.values():
            for name, kind in event.tags:
                ends = (Node("Event", event.id), Node("Tag", text.tag_id(name)))
                if node in ends and props.get("kind", kind) == kind:
                    other = ends[1] if node == ends[0] else ends[0]
                    yield other, Relation({"kind": kind}, ("MEMBER_OF", ends[0].id, ends[1].id, kind))

    def next(self, rel, props, node, is_rightwards):
        is_forwards = (rel["arrow"] == ">") == is_rightwards
        edges = {ends: source for ends, source in self.graph.next_edges().items() if props.get("source", source) == source}
        steps = {}  # from → {to: source}, in the direction of the walk
        for (before, after), source in edges.items():
            here, there = (before, after) if is_forwards else (after, before)
            steps.setdefault(here, {})[there] = source
        if not rel.get("star"):
            for there, source in steps.get(node.id, {}).items():
                ends = (node.id, there) if is_forwards else (there, node.id)
                yield Node("Event", there), Relation({"source": source, "hops": 1}, ("NEXT", *ends))
            return
        low, high = star_bounds(rel["star"])
        distance, ring = {node.id: 0}, [node.id]
        for hops in range(1, high + 1):
            ring = sorted({there for here in ring for there in steps.get(here, {}) if there not in distance})
            for there in ring:
                distance[there] = hops
        for there, hops in distance.items():
            if there != node.id and hops >= low:
                last = min(here for here in steps if there in steps[here] and distance.get(here) == hops - 1)
                yield Node("Event", there), Relation({"source": steps[last][there], "hops": hops}, None)


def star_bounds(star):
    low, dots, high = re.fullmatch(r"\*(\d*)(\.\.)?(\d*)", star).groups()
    if not dots:
        return (int(low), int(low)) if low else (1, 3)
    return int(low or 1), int(high or 3)


def sum_in_order(values):
    total = 0.0
    for value in values:
        total += value
    return total


# --- expressions: three-valued logic ---


class Evaluator:
    def __init__(self, graph, params, scores):
        self.graph, self.params, self.scores = graph, params, scores

    def value(self, expr):
        if expr[0] == "param":
            return self.params[expr[1]]
        if expr[0] == "list":
            return [self.value(item) for item in expr[1]]
        return expr[1]

    def of(self, expr, row):
        return getattr(self, "eval_" + expr[0])(expr, row)

    def eval_lit(self, expr, row):
        return expr[1]

    eval_list = eval_param = lambda self, expr, row: self.value(expr)

    def eval_var(self, expr, row):
        return row[expr[1]]

    def eval_cos(self, expr, row):
        return self.graph.cosine(row[expr[1]].id, row[expr[2]].id)

    def eval_prop(self, expr, row):
        of, name = row[expr[1]], expr[2]
        if isinstance(of, Relation):
            return of.properties[name]
        if name == "id":
            return of.id
        if of.label == "Entity":
            return dict(zip(("name", "type", "event_count"), self.graph.entities()[of.id]))[name]
        if of.label == "Tag":
            return dict(zip(("name", "event_count"), self.graph.tags()[of.id]))[name]
        event = self.graph.events[of.id]
        if name == "timestamp":
            return Instant(event.timestamp)
        if name == "score":
            return self.scores.get(of.id)
        return {"summary": event.summary, "order_index": event.order_index, "thread": event.thread}[name]

    def eval_isnull(self, expr, row):
        return self.of(expr[1], row) is None

    def eval_notnull(self, expr, row):
        return self.of(expr[1], row) is not None

    def eval_not(self, expr, row):
        value = self.of(expr[1], row)
        return None if value is None else not value

    def eval_and(self, expr, row):
        values = [self.of(part, row) for part in expr[1]]
        return False if False in values else None if None in values else True

    def eval_or(self, expr, row):
        values = [self.of(part, row) for part in expr[1]]
        return True if True in values else None if None in values else False

    def eval_cmp(self, expr, row):
        """a < b < c means a < b AND b < c."""
        sides = [self.of(side, row) for side in expr[2]]
        values = [compare(op, left, right) for op, left, right in zip(expr[1], sides, sides[1:])]
        return False if False in values else None if None in values else True

    def eval_in(self, expr, row):
        value, items = self.of(expr[1], row), self.value(expr[2])
        results = [compare("=", value, item) for item in items]
        return True if True in results else None if None in results else False

    def eval_contains(self, expr, row):
        value, piece = self.of(expr[1], row), self.value(expr[2])
        if value is None or piece is None:
            return None
        return text.nfkc_casefold(piece) in text.nfkc_casefold(value)


def kind_of(value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return type(value).__name__


def compare(op, left, right):
    if left is None or right is None:
        return None
    if isinstance(left, Instant) and isinstance(right, str):
        right = Instant(instants.parse(right))
    elif isinstance(right, Instant) and isinstance(left, str):
        left = Instant(instants.parse(left))
    if kind_of(left) != kind_of(right):
        return None
    if isinstance(left, Instant):
        left, right = left.us, right.us
    if op == "=":
        return left == right
    if op == "<>":
        return left != right
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]


# --- the query ---


class Oracle:
    def __init__(self, graph, rows_max=20000, is_similar_unbounded=False):
        self.graph, self.walker, self.rows_max = graph, Walker(graph, is_similar_unbounded), rows_max

    def answer(self, query, columns, is_k_unbounded=False, masked=()):
        """`masked`: relation variables whose properties are not to be looked at (they come back as None)."""
        self.query, self.masked = query, set(masked)
        self.notes = []
        plain = Evaluator(self.graph, query["params"], {})
        args = {key: plain.value(value) for key, value in query["start"]["args"]}
        start = Start(self.graph, args, is_k_unbounded)
        self.notes += start.notes
        self.evaluator = Evaluator(self.graph, query["params"], start.scores)
        rows = self.walk(start.events)
        rows = [row for row in rows if query.get("where") is None or self.evaluator.of(query["where"], row) is True]
        position = {id_: i for i, id_ in enumerate(start.events)}
        rows.sort(key=lambda row: self.total_order(row, position))
        output = self.project(rows)
        limit = 20 if query.get("limit") is None else plain.value(query["limit"])
        if query.get("limit") is None and len(output) > limit:
            self.notes.append("^" + re.escape(DEFAULT_LIMIT_NOTE) + "$")
        return Answer(columns, output[:limit], output, start.object, self.notes)

    # --- MATCH ---

    def walk(self, start_ids):
        rows = [{self.query["start"]["var"]: Node("Event", id_)} for id_ in start_ids]
        bound = {self.query["start"]["var"]}
        self.node_slots, self.relation_slots = [self.query["start"]["var"]], []
        for m, paths in enumerate(self.query["match"]):
            for row in rows:
                row["used"] = frozenset()
            for p, path in enumerate(paths):
                slots = [node.get("var") or "node %d.%d.%d" % (m, p, i) for i, node in enumerate(path["nodes"])]
                self.node_slots += slots
                self.relation_slots += [rel.get("var") or "rel %d.%d.%d" % (m, p, i) for i, rel in enumerate(path["rels"])]
                rows = self.walk_path(rows, path, slots, bound, (m, p))
        return rows

    def walk_path(self, rows, path, slots, bound, place):
        first = next(i for i, slot in enumerate(slots) if slot in bound)
        rows = [row for row in rows if self.passes_props(row, slots[first], path["nodes"][first])]
        steps = [(i, i, i + 1, True) for i in range(first, len(path["rels"]))]
        steps += [(i, i + 1, i, False) for i in reversed(range(first))]
        for index, here, there, is_rightwards in steps:
            rel = path["rels"][index]
            slot = rel.get("var") or "rel %d.%d.%d" % (*place, index)
            if slots[there] in bound and not is_rightwards:
                here, there, is_rightwards = there, here, True  # both ends bound: counted from the left one
            if rel["name"] == "FAR":
                assert slots[there] in bound, "FAR with an end unbound is refused"
                if self.graph.has_event_without_vector() and "vector" not in self.notes:
                    self.notes.append("vector")
            if rel["name"] == "MEMBER_OF" and not rel["arrow"]:
                self.notes.append("MEMBER_OF")  # a line for each arrow that was filled in
            rows = self.expand(rows, rel, slot, slots[here], slots[there], slots[there] in bound, is_rightwards)
            bound.add(slots[there])
            # Of a node that both ends name, the map was looked at when it was bound, and holds for each place it is written.
            rows = [row for row in rows if all(self.passes_props(row, slots[i], path["nodes"][i]) for i in (here, there))]
        return rows

    def expand(self, rows, rel, slot, here, there, is_filter, is_rightwards):
        props = {name: self.evaluator.value(value) for name, value in rel.get("props") or []}
        out = []
        for row in rows:
            for other, relation in self.walker.edges(rel, props, row[here], is_rightwards):
                if is_filter and row[there] != other:
                    continue
                if relation.identity is not None and relation.identity in row["used"]:
                    continue
                used = row["used"] if relation.identity is None else row["used"] | {relation.identity}
                out.append({**row, there: other, slot: relation, "used": used})
                if len(out) > self.rows_max:
                    raise TooBig()
        return out

    def passes_props(self, row, slot, node):
        for name, value in node.get("props") or []:
            if compare("=", self.evaluator.eval_prop(["prop", slot, name], row), self.evaluator.value(value)) is not True:
                return False
        return True

    # --- order ---

    def total_order(self, row, position):
        kinds = [row[slot].properties.get("kind", "") for slot in self.relation_slots if slot in row]
        return (position[row[self.query["start"]["var"]].id], [row[slot].id for slot in self.node_slots], kinds)

    def sort_key(self, value):
        if isinstance(value, Node):
            return value.id
        return value.us if isinstance(value, Instant) else value

    def sort(self, entries):
        """By each ORDER BY key from the last to the first, equals keeping their order; nulls last either way."""
        for index, (_, way) in reversed(list(enumerate(self.query.get("order") or []))):
            some = [entry for entry in entries if entry[1][index] is not None]
            none = [entry for entry in entries if entry[1][index] is None]
            some.sort(key=lambda entry: self.sort_key(entry[1][index]), reverse=way == "DESC")
            entries = some + none
        return entries

    # --- RETURN ---

    def output(self, value):
        if isinstance(value, Instant):
            return instants.write(value.us)
        if isinstance(value, Relation):
            return {name: self.output(property_) for name, property_ in value.properties.items()}
        if not isinstance(value, Node):
            return value
        if value.label == "Event":
            event = self.graph.events[value.id]
            return {"id": event.id, "summary": event.summary, "timestamp": instants.write(event.timestamp), "order_index": event.order_index}
        if value.label == "Entity":
            name, type_, _ = self.graph.entities()[value.id]
            return {"id": value.id, "name": name, "type": type_}
        return {"id": value.id, "name": self.graph.tags()[value.id][0]}

    def item(self, expr, row):
        if expr[0] in ("var", "prop") and expr[1] in self.masked:
            return None
        return self.evaluator.of(expr, row)

    def order_indexes(self):
        """Of each ORDER BY key, the item it names (by alias or by being the same), or None."""
        items = self.query["items"]
        out = []
        for expr, _ in self.query.get("order") or []:
            by_alias = [i for i, (_, alias) in enumerate(items) if expr[0] == "var" and alias == expr[1]]
            same = [i for i, (item, _) in enumerate(items) if item == expr]
            out.append((by_alias + same + [None])[0])
        return out

    def project(self, rows):
        items = self.query["items"]
        if any(expr[0] == "agg" for expr, _ in items):
            tuples = self.aggregate(rows)
        else:
            tuples = [([self.item(expr, row) for expr, _ in items], row) for row in rows]
        if self.query.get("distinct"):
            seen = {}
            for values, row in tuples:
                seen.setdefault(identity([self.output(value) for value in values]), (values, row))
            tuples = list(seen.values())
        indexes = self.order_indexes()
        order = self.query.get("order") or []
        entries = []
        for values, row in tuples:
            keys = [values[i] if i is not None else self.evaluator.of(expr, row) for i, (expr, _) in zip(indexes, order)]
            entries.append((values, keys))
        entries = self.sort(entries)
        return [[self.output(value) for value in values] for values, _ in entries]

    def aggregate(self, rows):
        items = self.query["items"]
        keys = [i for i, (expr, _) in enumerate(items) if expr[0] != "agg"]
        groups = {}
        for row in rows:  # in the total order: a group stands where its first row would
            values = {i: self.item(items[i][0], row) for i in keys}
            groups.setdefault(identity([self.output(values[i]) for i in keys]), (values, []))[1].append(row)
        if not keys and not groups:
            groups[""] = ({}, [])
        out = []
        for values, members in groups.values():
            out.append(([values[i] if i in values else self.fold(items[i][0], members) for i in range(len(items))], None))
        return out

    def fold(self, expr, rows):
        _, function, is_distinct, inner = expr
        if inner is None:
            return len(rows)
        values = [value for value in (self.evaluator.of(inner, row) for row in rows) if value is not None]
        if is_distinct:
            firsts = {}
            for value in values:
                firsts.setdefault(identity([self.output(value)]), value)
            values = list(firsts.values())
        if function == "count":
            return len(values)
        if function == "collect":
            if len(values) > COLLECT_MAX and "collect" not in self.notes:
                self.notes.append("collect")
            return [self.output(value) for value in values[:COLLECT_MAX]]
        if not values:
            return None
        if function == "sum":
            return sum_of(values)
        if function == "avg":
            return sum_of(values) / len(values)
        return (min if function == "min" else max)(values, key=self.sort_key)


def sum_of(values):
    total = 0
    for value in values:
        total += value
    return total


def identity(values):
    """What DISTINCT and grouping compare: what would come back; nodes by id; 1 and 1.0 alike; true is not 1."""

    def part(value):
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return repr(value)
        if isinstance(value, (int, float)):
            return repr(float(value)) if abs(value) < 2**53 else repr(value)
        if isinstance(value, list):
            return "[" + ",".join(part(item) for item in value) + "]"
        return "{" + ",".join(key + ":" + part(value[key]) for key in sorted(value)) + "}"

    return part(values)

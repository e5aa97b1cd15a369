"""Random graphs and random queries over them, each from a seed. Small, and made so that edges meet: hubs, ties, nulls, rings."""
import random

from . import figures, instants, text

# Names that fold together or nearly do: composed, decomposed, capitals, full-width, sharp s, dotted I, Hangul, Han, ignorables.
NAMES = ["Ann", "ann", "ANN", "Bo", "J\u00fcrgen", "Ju\u0308rgen", "J\u00dcRGEN", "\uae40\ubbfc\uc11c", "\u1100\u1175\u11b7", "\u6771\u4eac", "\uff21\uff22\uff23", "abc",
         "Stra\u00dfe", "STRASSE", "\u0130stanbul", "na\u00efve", "auth service", "db\u00adprimary", "dbprimary", "\u30c6\u30b9\u30c8", "\u30b5\u30fc\u30d3\u30b9", "x/y z", "Zo\u00eb",
         "file.c", "#12", "q\"uote", "back\\slash", "it's", "\U0001F980 crab"]  # fmt: skip
TAG_NAMES = ["ops", "Ops", "ops/backup", "ops/deploy", "\u8a08\u753b", "\u00e9t\u00e9", "e\u0301te\u0301", "plan", "plan/2025", "security"]
TYPES = [None, None, "person", "system", "file"]
WORDS = "index cache deploy rotated expired failed again plan later disk queue \u691c\u7d22 \uae30\uc5b5 caf\u00e9".split()
BASE_US = instants.parse("2025-03-01T00:00:00Z")


class GraphMaker:
    def __init__(self, rng):
        self.rng = rng
        self.dimension = rng.choice((1, 2, 3, 7, 8, 9, 17, 24))
        self.has_ties = rng.random() < 0.4  # vectors from few values: many equal cosines
        self.vector_share = rng.choice((1.0, 1.0, 0.8, 0.3, 0.0))
        self.names = rng.sample(NAMES, rng.randint(2, min(18, len(NAMES))))
        self.tags = rng.sample(TAG_NAMES, rng.randint(1, len(TAG_NAMES)))
        self.threads = ["t%d" % i for i in range(rng.randint(1, 4))]
        self.hub = rng.choice(self.names) if rng.random() < 0.5 else None
        self.span = rng.choice((3, 50, 100000))  # few seconds: many equal timestamps
        self.live, self.graph_ids = [], []

    def vector(self):
        rng = self.rng
        while True:
            if self.has_ties:
                values = [float(rng.choice((-1, 0, 0, 1))) for _ in range(self.dimension)]
            else:
                values = [rng.gauss(0, 1) for _ in range(self.dimension)]
            values = figures.to_vector(values)
            if any(values):
                return values

    def timestamp_us(self):
        us = BASE_US + self.rng.randrange(self.span) * 1_000_000
        return us + self.rng.choice((0, 0, 0, 500_000, 123_456, 1))

    def memory(self, event_id):
        rng = self.rng
        count = rng.choice((0, 1, 2, 2, 3, 3, 4, 6))
        names = rng.sample(self.names, min(count, len(self.names)))
        if self.hub and self.hub not in names and rng.random() < 0.7:
            names.append(self.hub)
        memory = {
            "event_id": event_id,
            "summary": " ".join(rng.choices(WORDS, k=rng.randint(1, 5))),
            "timestamp": instants.write_with_offset(self.timestamp_us(), rng.choice((0, 0, 540, -330))),
        }
        if names:
            memory["entities"] = [{"name": name, "type": rng.choice(TYPES)} for name in names]
        tags = []
        for tag in rng.sample(self.tags, min(rng.choice((0, 0, 1, 2, 3)), len(self.tags))):
            tags += rng.choice(([tag], [{"name": tag, "kind": "refers"}], [{"name": tag}, {"name": tag, "kind": "refers"}]))
        if tags:
            memory["tags"] = tags
        if rng.random() < 0.6:
            memory["thread"] = rng.choice(self.threads)
            if rng.random() < 0.6:
                memory["order_index"] = rng.choice((0, 1, 2, 3, -5, 7, 2**40))
        elif rng.random() < 0.1:
            memory["order_index"] = rng.randrange(5)
        if rng.random() < self.vector_share:
            memory["vector"] = self.vector()
        if self.live and rng.random() < 0.4:
            prev = rng.choice(self.live)
            if prev != event_id:
                memory["prev_event_id"] = prev
        return memory

    def make(self):
        """Operations: saves first, then replaces and deletes, some ids born again."""
        rng, operations = self.rng, []
        count = rng.choices((0, 1, 2, 5, 12, 25, 40, 60), (1, 1, 1, 2, 4, 4, 4, 3))[0]
        for number in range(count):
            event_id = rng.choice(("e%d", "E.%d", "e:%d-x", "%d")) % number
            operations.append({"save": self.memory(event_id)})
            self.live.append(event_id)
        known = list(self.live)
        for _ in range(rng.choice((0, 0, 1, count // 3, count // 2)) if count else 0):
            event_id = rng.choice(known)
            if event_id in self.live and rng.random() < 0.4:
                operations.append({"delete": event_id})
                self.live.remove(event_id)
                continue
            memory = self.memory(event_id)
            if event_id in self.live:
                memory["replace"] = True
            else:
                self.live.append(event_id)
            operations.append({"save": memory})
        return {"dimension": self.dimension, "operations": operations}


def make_graph(rng):
    return GraphMaker(rng).make()


# --- queries ---

ENDS = {"SHARES": ("Event", "Event"), "FAR": ("Event", "Event"), "NEXT": ("Event", "Event"), "SIMILAR": ("Event", "Event"),
        "PARTICIPATED_IN": ("Entity", "Event"), "MEMBER_OF": ("Event", "Tag"), "CONNECTED": ("Entity", "Entity")}  # fmt: skip
PROPERTIES = {
    "Event": {"id": "string", "summary": "string", "timestamp": "instant", "order_index": "number", "thread": "string"},
    "Entity": {"id": "string", "name": "string", "type": "string", "event_count": "number"},
    "Tag": {"id": "string", "name": "string", "event_count": "number"},
    "SHARES": {"count": "number", "weight": "number", "hops": "number"},
    "FAR": {"cos": "number"},
    "SIMILAR": {"cos": "number"},
    "NEXT": {"source": "string", "hops": "number"},
    "PARTICIPATED_IN": {},
    "MEMBER_OF": {"kind": "string"},
    "CONNECTED": {"event_count": "number"},
}


class QueryMaker:
    def __init__(self, rng, graph, dimension):
        self.rng, self.graph, self.dimension = rng, graph, dimension
        self.params, self.vars, self.rels = {}, {"a": "Event"}, {}
        self.var_count, self.rel_count = 0, 0

    # --- values ---

    def value(self, value, param_share=0.25):
        if self.rng.random() < param_share:
            name = self.rng.choice(("p%d", "q_%d", "P%d")) % len(self.params)
            self.params[name] = value
            return ["param", name]
        if isinstance(value, list) and value and self.rng.random() < 0.2:
            return ["list", [self.value(item) for item in value]]
        return ["lit", value]

    def a_name(self, label):
        nodes = self.graph.entities() if label == "Entity" else self.graph.tags()
        rng = self.rng
        pool = NAMES if label == "Entity" else TAG_NAMES
        way = rng.random()
        if not nodes or way < 0.15:
            return rng.choice(pool + ["nobody"])
        id_ = rng.choice(sorted(nodes))
        name = nodes[id_][0]
        if way < 0.25:
            return id_
        if way < 0.4:
            return rng.choice((name.upper(), name.lower(), text.nfkc_casefold(name) or name, "  " + name + "\t"))
        return name

    def an_event_id(self):
        if not self.graph.events or self.rng.random() < 0.1:
            return "none-%d" % self.rng.randrange(3)
        return self.rng.choice(sorted(self.graph.events))

    def an_instant(self):
        us = BASE_US + self.rng.randrange(-2, 60) * 1_000_000
        if self.graph.events and self.rng.random() < 0.7:
            us = self.graph.events[self.rng.choice(sorted(self.graph.events))].timestamp
        return instants.write_with_offset(us, self.rng.choice((0, 540, -60)))

    # --- START ---

    def start(self):
        rng, args = self.rng, []
        way = rng.random()
        if way < 0.2:
            args.append(["ids", self.value([self.an_event_id() for _ in range(rng.choice((0, 1, 1, 2, 4, 8)))])])
            return args
        for label, key in (("Entity", "entity"), ("Tag", "tag")):
            if rng.random() < 0.35:
                shape = rng.random()
                names = [self.a_name(label) for _ in range(rng.randint(1, 3))]
                if shape < 0.6:
                    args.append([key, self.value(names[0])])
                else:
                    args.append([key if shape < 0.8 else key + "_all", self.value(names)])
        if rng.random() < 0.35:
            vector = [rng.choice((-1.0, 0.0, 1.0)) for _ in range(self.dimension)]
            if not any(vector) or rng.random() < 0.6:
                vector = figures.to_vector([rng.gauss(0, 1) for _ in range(self.dimension)])
            args.append(["vector", self.value(vector, 0.8)])
            if rng.random() < 0.2:
                args.append(["exact", ["lit", rng.random() < 0.7]])
        if rng.random() < 0.15:
            args.append(["since", self.value(self.an_instant())])
        if rng.random() < 0.15:
            args.append(["until", self.value(self.an_instant())])
        if rng.random() < 0.7 or not args:
            args.append(["k", self.value(rng.choice((1, 2, 3, 5, 10, 20, 21, 50, 250)))])
        rng.shuffle(args)
        return args

    # --- MATCH ---

    def new_node(self, label, bound):
        """A node pattern for the far end of a relation: new, anonymous, or one that is bound."""
        rng = self.rng
        same = [var for var in sorted(bound) if self.vars.get(var) == label]
        if same and rng.random() < 0.15:
            return {"var": rng.choice(same)}
        if self.var_count >= 6 or rng.random() < 0.3:
            return {"var": None}
        self.var_count += 1
        var = rng.choice(("%s%d", "%s_%d")) % (label[:2].lower(), self.var_count)
        self.vars[var] = label
        return {"var": var}

    def relation(self, here_label, bound_events):
        """A relation that can leave a node of that label, and the label of its other end; which end `here` is."""
        rng = self.rng
        names = ["PARTICIPATED_IN", "CONNECTED"] if here_label == "Entity" else ["MEMBER_OF"] if here_label == "Tag" else [
            "SHARES", "SHARES", "SIMILAR", "SIMILAR", "NEXT", "NEXT", "PARTICIPATED_IN", "PARTICIPATED_IN", "MEMBER_OF", "FAR"]  # fmt: skip
        name = rng.choice(names)
        if name == "FAR" and not bound_events:
            name = "SHARES"
        rel = {"name": name, "var": None, "arrow": "", "star": None, "props": []}
        self.rel_count += 1
        if rng.random() < 0.5 and self.var_count < 8:
            self.var_count += 1
            rel["var"] = "r%d" % self.var_count
        if name == "SHARES":
            if rng.random() < 0.3:
                rel["star"] = rng.choice(("*", "*1", "*2", "*3", "*1..3", "*..2", "*2..", "*2..3", "*1..1"))
            if rng.random() < 0.5:
                rel["props"].append(["min", self.value(rng.choice((1, 2, 3)))])
            if rng.random() < 0.3:
                rel["props"].append(["min_w", self.value(rng.choice((0, 0.5, 1.5, 3)))])
        elif name == "SIMILAR":
            if rng.random() < 0.7:
                rel["props"].append(["k", self.value(rng.choice((1, 2, 3, 5, 50)))])
            if rng.random() < 0.3:
                rel["props"].append(["min", self.value(rng.choice((-1, -0.2, 0, 0.3, 0.7, 1)))])
            if rng.random() < 0.1:
                rel["props"].append(["exact", self.value(rng.choice((True, False)))])
        elif name == "FAR" and rng.random() < 0.7:
            rel["props"].append(["max", self.value(rng.choice((-0.2, 0, 0.3, 0.5, 0.9, 1)))])
        elif name == "NEXT":
            if rng.random() < 0.4:
                rel["star"] = rng.choice(("*", "*1", "*2", "*3", "*1..3", "*..2", "*2..", "*2..3", "*1..1"))
            if rng.random() < 0.2:
                rel["props"].append(["source", self.value(rng.choice(("thread", "explicit")))])
        elif name == "CONNECTED" and rng.random() < 0.5:
            rel["props"].append(["min", self.value(rng.choice((1, 2, 2, 3)))])
        elif name == "MEMBER_OF" and rng.random() < 0.3:
            rel["props"].append(["kind", self.value(rng.choice(("contains", "refers")))])
        return rel

    def far_label(self, name, here_label):
        first, second = ENDS[name]
        return second if here_label == first else first

    def arrow(self, rel, left_label):
        """As the relation and the label on its left allow."""
        rng = self.rng
        if rel["name"] == "NEXT":
            return rng.choice("<>")
        if rel["name"] in ("PARTICIPATED_IN", "MEMBER_OF"):
            return rng.choice(("", ">" if left_label == ENDS[rel["name"]][0] else "<"))
        return ""

    def path(self, bound):
        """A path through a bound variable, and the variables it binds; None where a FAR would come to an unbound end."""
        rng = self.rng
        anchor = rng.choice(sorted(bound))
        nodes, labels, rels = [{"var": anchor}], [self.vars[anchor]], []
        inside = {anchor}
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
            if self.rel_count >= 5:
                break
            is_right = rng.random() < 0.7
            here = labels[-1] if is_right else labels[0]
            events = [var for var in sorted(bound | inside) if self.vars[var] == "Event"]
            rel = self.relation(here, events)
            label = self.far_label(rel["name"], here)
            if rel["name"] == "FAR":
                node = {"var": rng.choice(events)}
            else:
                node = self.new_node(label, bound | inside)
            if node["var"]:
                inside.add(node["var"])
            if rng.random() < 0.15:
                node["label"] = label
            if rng.random() < 0.06:
                node["props"] = [self.node_property(label)]
            if is_right:
                rel["arrow"] = self.arrow(rel, here)
                nodes, labels, rels = nodes + [node], labels + [label], rels + [rel]
            else:
                rel["arrow"] = self.arrow(rel, label)
                nodes, labels, rels = [node] + nodes, [label] + labels, [rel] + rels
        path = {"nodes": nodes, "rels": rels}
        return path, inside

    def node_property(self, label):
        name = self.rng.choice(sorted(name for name, type_ in PROPERTIES[label].items() if type_ in ("string", "number")))
        return [name, self.value(self.sample(label, name, PROPERTIES[label][name]))]

    def is_walkable(self, path, bound):
        """Are FAR's ends bound when the walk gets there?"""
        bound = set(bound)
        slots = [node["var"] or "node %d" % i for i, node in enumerate(path["nodes"])]
        first = next(i for i, slot in enumerate(slots) if slot in bound)
        for index, there in [(i, i + 1) for i in range(first, len(path["rels"]))] + [(i, i) for i in reversed(range(first))]:
            if path["rels"][index]["name"] == "FAR" and slots[there] not in bound:
                return False
            bound.add(slots[there])
        return True

    def matches(self):
        rng, bound, out = self.rng, {"a"}, []
        for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3))):
            paths = []
            for _ in range(rng.choice((1, 1, 1, 2))):
                if self.rel_count >= 5:
                    break
                before = (dict(self.vars), self.var_count, self.rel_count, dict(self.params))
                path, inside = self.path(bound)
                if not path["rels"] or not self.is_walkable(path, bound):
                    self.vars, self.var_count, self.rel_count, self.params = before
                    continue
                paths.append(path)
                bound |= inside
                self.rels.update({rel["var"]: rel for rel in path["rels"] if rel["var"]})
            if paths:
                out.append(paths)
        self.vars = {var: label for var, label in self.vars.items() if var in bound}
        return out

    # --- WHERE ---

    def sample(self, label, name, type_):
        """A value that the property may well have."""
        rng, graph = self.rng, self.graph
        if type_ == "instant":
            return self.an_instant()
        if name == "id":
            return self.an_event_id() if label == "Event" else rng.choice(sorted(graph.entities() if label == "Entity" else graph.tags()) or ["x"])
        if name == "name":
            return self.a_name(label)
        if name in ("thread", "type", "source", "kind"):
            return rng.choice({"thread": ["t0", "t1", "t2"], "type": ["person", "system"], "source": ["thread", "explicit"], "kind": ["contains", "refers"]}[name])
        if name == "summary":
            return rng.choice(WORDS)
        return rng.choice((0, 1, 2, 3, 1.5, -5, 0.25))

    def properties(self, types):
        """Every (variable, property) of one of the types."""
        out = []
        for var, label in sorted(self.vars.items()):
            out += [(var, label, name, type_) for name, type_ in PROPERTIES[label].items() if type_ in types]
            if var == "a" and "number" in types:
                out.append((var, label, "score", "number"))
        for var, rel in sorted(self.rels.items()):
            out += [(var, rel["name"], name, type_) for name, type_ in PROPERTIES[rel["name"]].items() if type_ in types]
        return out

    def atom(self):
        rng, way = self.rng, self.rng.random()
        var, label, name, type_ = rng.choice(self.properties(("string", "number", "instant")))
        prop = ["prop", var, name]
        if way < 0.1:
            return [rng.choice(("isnull", "notnull")), prop]
        if way < 0.2:
            items = [self.sample(label, name, type_) for _ in range(rng.randint(0, 3))]
            if rng.random() < 0.3:
                items.append(None)
            return ["in", prop, self.value(items)]
        if way < 0.3:
            named = [v for v, l in sorted(self.vars.items()) if l in ("Entity", "Tag")]
            if named:
                var = rng.choice(named)
                return ["contains", ["prop", var, "name"], self.value(self.piece(self.vars[var]))]
        if way < 0.4:
            pairs = [(v, w) for v, l in sorted(self.vars.items()) for w, m in sorted(self.vars.items()) if l == m and v != w]
            if pairs:
                left, right = rng.choice(pairs)
                if self.vars[left] == "Event" and rng.random() < 0.5:
                    return ["cmp", [rng.choice(("<", ">="))], [["cos", left, right], self.value(rng.choice((0, 0.5, -0.1, 1)))]]
                return ["cmp", [rng.choice(("=", "<>"))], [["var", left], ["var", right]]]
        if way < 0.5:
            same = [p for p in self.properties((type_,)) if p[:3] != (var, label, name)]
            if same:
                other = rng.choice(same)
                return ["cmp", [self.op()], [prop, ["prop", other[0], other[2]]]]
        if way < 0.55:
            low, high = (self.value(self.sample(label, name, type_)) for _ in range(2))
            return ["cmp", ["<=", "<"], [low, prop, high]]
        value = None if rng.random() < 0.05 else self.sample(label, name, type_)
        return ["cmp", [self.op()], [prop, self.value(value)]]

    def op(self):
        return self.rng.choice(("=", "<>", "<", "<=", ">", ">="))

    def piece(self, label):
        name = self.a_name(label)
        at = self.rng.randrange(len(name))
        piece = name[at : at + self.rng.randint(1, 4)]
        if self.rng.random() < 0.3:
            piece = self.rng.choice((piece.upper(), piece.lower()))
        return piece if len(piece) >= 2 or not piece.isascii() else "an"

    def condition(self, depth):
        rng = self.rng
        if depth == 0 or rng.random() < 0.45:
            return self.atom()
        way = rng.random()
        if way < 0.25:
            return ["not", self.condition(depth - 1)]
        return ["and" if way < 0.6 else "or", [self.condition(depth - 1) for _ in range(rng.randint(2, 3))]]

    # --- RETURN ---

    def plain_item(self):
        rng, way = self.rng, self.rng.random()
        if way < 0.4:
            return ["var", rng.choice(sorted(self.vars) + sorted(self.rels))]
        if way < 0.48:
            events = [var for var, label in sorted(self.vars.items()) if label == "Event"]
            return ["cos", rng.choice(events), rng.choice(events)]
        if way < 0.52:
            return self.atom()
        var, _, name, _ = rng.choice(self.properties(("string", "number", "instant")))
        return ["prop", var, name]

    def aggregate(self):
        rng, way = self.rng, self.rng.random()
        if way < 0.2:
            return ["agg", "count", False, None]
        function = rng.choice(("count", "count", "min", "max", "sum", "avg", "collect"))
        if function in ("sum", "avg"):
            var, _, name, _ = rng.choice(self.properties(("number",)))
            return ["agg", function, rng.random() < 0.3, ["prop", var, name]]
        if function in ("count", "collect") and rng.random() < 0.5:
            return ["agg", function, rng.random() < 0.6, ["var", rng.choice(sorted(self.vars))]]
        var, _, name, _ = rng.choice(self.properties(("string", "number", "instant")))
        return ["agg", function, rng.random() < 0.4, ["prop", var, name]]

    def is_sortable(self, expr):
        if expr[0] == "var":
            return expr[1] in self.vars
        return expr[0] in ("prop", "cos", "cmp", "in", "contains", "isnull", "notnull") or (expr[0] == "agg" and expr[1] != "collect")

    def returns(self):
        """items, distinct, order."""
        rng = self.rng
        is_aggregated, is_distinct = rng.random() < 0.3, rng.random() < 0.2
        exprs = [self.plain_item() for _ in range(rng.choice((0, 1, 1, 2)) if is_aggregated else rng.randint(1, 4))]
        if is_aggregated:
            exprs += [self.aggregate() for _ in range(rng.randint(1, 3))]
            rng.shuffle(exprs)
        items, seen = [], []
        for expr in exprs:
            if expr not in seen:
                seen.append(expr)
                items.append([expr, "c%d" % len(items) if rng.random() < 0.4 else None])
        order = []
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
            if is_aggregated or is_distinct or rng.random() < 0.5:
                expr, alias = rng.choice(items)
                if not self.is_sortable(expr):
                    continue
                if alias and rng.random() < 0.7:
                    expr = ["var", alias]
            else:
                expr = rng.choice((self.plain_item, lambda: ["prop", *self.pick_property()]))()
                if not self.is_sortable(expr):
                    continue
            if all(expr != known for known, _ in order):
                order.append([expr, rng.choice(("", "ASC", "DESC"))])
        return items, is_distinct, order

    def pick_property(self):
        var, _, name, _ = self.rng.choice(self.properties(("string", "number", "instant")))
        return var, name

    def make(self):
        rng = self.rng
        query = {"start": {"var": "a", "args": self.start()}, "match": self.matches(), "where": None}
        if rng.random() < 0.5:
            query["where"] = self.condition(rng.randint(0, 3))
        query["items"], query["distinct"], query["order"] = self.returns()
        query["limit"] = self.value(rng.choice((1, 2, 5, 20, 50, 200))) if rng.random() < 0.6 else None
        query["params"] = self.params
        query["style"] = rng.randrange(1, 10**9) if rng.random() < 0.7 else 0
        return query


def make_query(rng, graph, dimension):
    """A query that the language accepts."""
    return QueryMaker(rng, graph, dimension).make()

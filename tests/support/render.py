"""A query as a structure → the text that Heddle is asked, and the columns that text has.

The structure is plain JSON, so that a failing one can be kept in a file:

    {"start": {"var": "a", "args": [[key, value], ..]},
     "match": [[path, ..], ..],                       one list of paths for each MATCH
     "where": expr or null, "distinct": bool, "items": [[expr, alias or null], ..],
     "order": [[expr, "ASC" | "DESC" | ""], ..], "limit": value or null,
     "params": {name: value}, "style": int}

    path   {"nodes": [{"var", "label", "props": [[name, value], ..]}, ..], "rels": [rel, ..]}
    rel    {"var", "name", "arrow": "" | ">" | "<", "star": null or "*1..3" as written, "props": [[name, value], ..]}
    value  ["lit", JSON value] | ["param", name] | ["list", [value, ..]]
    expr   value | ["var", v] | ["prop", v, property] | ["cos", v, w] | ["cmp", [op, ..], [expr, ..]] | ["in", expr, value]
           | ["contains", expr, value] | ["isnull", expr] | ["notnull", expr] | ["and", [expr, ..]] | ["or", [expr, ..]]
           | ["not", expr] | ["agg", function, distinct, expr or null]

`style` seeds spelling that means nothing: the case of keywords, quotes, escapes, blanks and comments."""
import random

KEYWORDS = {"START", "MATCH", "WHERE", "RETURN", "DISTINCT", "AS", "ORDER", "BY", "ASC", "DESC", "LIMIT", "AND", "OR", "NOT", "IN",
            "CONTAINS", "IS", "NULL", "TRUE", "FALSE"}  # fmt: skip


class Renderer:
    def __init__(self, style):
        self.rng = random.Random(style)
        self.is_plain = style == 0

    def keyword(self, word):
        if self.is_plain or self.rng.random() < 0.6:
            return word
        return "".join(self.rng.choice((c.lower(), c.upper())) for c in word)

    def gap(self):
        """What may stand between two tokens that need something between them."""
        if self.is_plain or self.rng.random() < 0.8:
            return " "
        return self.rng.choice(("\n", "  ", "\t", " /* a, b */ ", " // c\n", "\r\n"))

    def string(self, value):
        quote = '"' if self.is_plain else self.rng.choice("'\"")
        out = []
        for character in value:
            escape = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", quote: "\\" + quote}.get(character)
            if escape is None and not self.is_plain and self.rng.random() < 0.05:
                units = character.encode("utf-16-be")
                escape = "".join("\\u%02x%02x" % (units[i], units[i + 1]) for i in range(0, len(units), 2))
            out.append(escape or character)
        return quote + "".join(out) + quote

    def literal(self, value):
        if value is None:
            return self.keyword("NULL").lower() if self.is_plain else self.keyword("NULL")
        if value is True or value is False:
            word = "TRUE" if value else "FALSE"
            return word.lower() if self.is_plain else self.keyword(word)
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, list):
            return "[" + ", ".join(self.literal(item) for item in value) + "]"
        return repr(value)

    def value(self, value):
        if value[0] == "param":
            return "$" + value[1]
        if value[0] == "list":
            return "[" + ", ".join(self.value(item) for item in value[1]) + "]"
        return self.literal(value[1])

    def name(self, name):
        if name.upper() in KEYWORDS or not name.replace("_", "a").isalnum() or not name.isascii():
            return "`" + name + "`"
        return name

    def props(self, props):
        return "{" + ", ".join(self.name(name) + ": " + self.value(value) for name, value in props) + "}"

    def node(self, node):
        text = "(" + (self.name(node["var"]) if node.get("var") else "")
        if node.get("label"):
            text += ":" + node["label"]
        if node.get("props"):
            text += (" " if len(text) > 1 else "") + self.props(node["props"])
        return text + ")"

    def relation(self, rel):
        body = "[" + (self.name(rel["var"]) if rel.get("var") else "") + ":" + rel["name"] + (rel.get("star") or "")
        if rel.get("props"):
            body += " " + self.props(rel["props"])
        body += "]"
        return {"": "-%s-", ">": "-%s->", "<": "<-%s-"}[rel["arrow"]] % body

    def path(self, path):
        text = self.node(path["nodes"][0])
        for rel, node in zip(path["rels"], path["nodes"][1:]):
            text += self.relation(rel) + self.node(node)
        return text

    def operand(self, expr):
        """An expression where a comparison's side or a NOT's operand stands."""
        text = self.expr(expr)
        return "(" + text + ")" if expr[0] in ("and", "or", "not", "cmp", "in", "contains", "isnull", "notnull") else text

    def expr(self, expr):
        kind = expr[0]
        if kind in ("lit", "param", "list"):
            return self.value(expr)
        if kind == "var":
            return self.name(expr[1])
        if kind == "prop":
            return self.name(expr[1]) + "." + self.name(expr[2])
        if kind == "cos":
            return self.keyword("COS").lower() + "(" + self.name(expr[1]) + ", " + self.name(expr[2]) + ")"
        if kind == "cmp":
            text = self.operand(expr[2][0])
            for op, side in zip(expr[1], expr[2][1:]):
                text += " " + op + " " + self.operand(side)
            return text
        if kind == "in":
            return self.operand(expr[1]) + " " + self.keyword("IN") + " " + self.value(expr[2])
        if kind == "contains":
            return self.operand(expr[1]) + " " + self.keyword("CONTAINS") + " " + self.value(expr[2])
        if kind in ("isnull", "notnull"):
            middle = self.keyword("NOT") + " " if kind == "notnull" else ""
            return self.operand(expr[1]) + " " + self.keyword("IS") + " " + middle + self.keyword("NULL")
        if kind in ("and", "or"):
            word = " " + self.keyword(kind.upper()) + " "
            return word.join(self.operand(part) for part in expr[1])
        if kind == "not":
            return self.keyword("NOT") + " " + self.operand(expr[1])
        if kind == "agg":
            inner = "*" if expr[3] is None else self.expr(expr[3])
            return expr[1] + "(" + (self.keyword("DISTINCT") + " " if expr[2] else "") + inner + ")"
        raise ValueError(kind)


def render(query):
    """→ (text, columns)."""
    r = Renderer(query.get("style", 0))
    columns = []
    args = ", ".join(key + ": " + r.value(value) for key, value in query["start"]["args"])
    parts = [r.keyword("START") + r.gap() + r.name(query["start"]["var"]) + " = events(" + args + ")"]
    for paths in query["match"]:
        parts.append(r.keyword("MATCH") + r.gap() + ", ".join(r.path(path) for path in paths))
    if query.get("where") is not None:
        parts.append(r.keyword("WHERE") + r.gap() + r.expr(query["where"]))
    items, texts = [], {}
    for expr, alias in query["items"]:
        item = r.expr(expr)
        texts[repr(expr)] = item
        columns.append(alias or item)
        items.append(item + (" " + r.keyword("AS") + " " + r.name(alias) if alias else ""))
    distinct = r.keyword("DISTINCT") + " " if query.get("distinct") else ""
    parts.append(r.keyword("RETURN") + r.gap() + distinct + ", ".join(items))
    if query.get("order"):
        keys = [(texts.get(repr(expr)) or r.expr(expr)) + (" " + r.keyword(way) if way else "") for expr, way in query["order"]]
        parts.append(r.keyword("ORDER") + " " + r.keyword("BY") + r.gap() + ", ".join(keys))
    if query.get("limit") is not None:
        parts.append(r.keyword("LIMIT") + r.gap() + r.value(query["limit"]))
    text = parts[0]
    for part in parts[1:]:
        text += r.gap() + part
    return text, columns

#!/usr/bin/env python3
"""Writes the seeds of fuzz_query and fuzz_json and the word list of fuzz_query; scripts/fuzz --seeds calls it.

Queries come from tests/golden/refusals.txt (accepted and refused ones) and the sample's recipes, JSON bodies from the sample memory
and from a list below of what a caller may get wrong.
"""
import json
import os
import re
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
REFUSED_EVERY = 4  # of the refused queries, one in so many: they are much alike


def path(*parts):
    return os.path.join(ROOT, *parts)


def fresh(target):
    folder = path("tests/fuzz/corpus", target)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def golden_cases():
    """(text, params, is_accepted) of each case; values that are no JSON are left out."""
    query, params, out = None, {}, []
    for line in open(path("tests/golden/refusals.txt"), encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("query> "):
            query, params = line[7:], {}
        elif line.startswith("> ") and query is not None:
            query += "\n" + line[2:]
        elif line.startswith("param> "):
            name, _, value = line[7:].partition(" = ")
            try:
                params[name] = json.loads(value.replace("'", '"'))
            except ValueError:
                pass
        elif line.startswith("answer> ") and query is not None:
            out.append((query, params, line[8:] == "ok"))
            query = None
    return out


def write_queries():
    folder = fresh("fuzz_query")
    cases = golden_cases()
    refused = [c for c in cases if not c[2]][::REFUSED_EVERY]
    recipes = [(r["query"], r["params"], True) for r in json.load(open(path("docs/sample/recipes.json"), encoding="utf-8"))]
    for kind, some in (("accepted", [c for c in cases if c[2]]), ("refused", refused), ("recipe", recipes)):
        for n, (text, params, _) in enumerate(some, 1):
            with open(f"{folder}/{kind}-{n:03}", "wb") as f:
                f.write(text.encode("utf-8", "surrogateescape"))
                if params:
                    f.write(b"\0" + json.dumps(params, ensure_ascii=False, separators=(",", ":")).encode())


def write_words():
    words = set()
    for name in ("coordinator/language/keywords.def", "common/graph.def"):
        for line in open(path(name), encoding="utf-8"):
            m = re.match(r'(?:KEYWORD|CONSTRUCT|LABEL|RELATION|PROPERTY)\(\w+, "([^"]+)"', line)
            if m:
                words.add(m.group(1))
    words.update("events ids entity entity_all tag tag_all since until exact vector text min max min_w cos( count( collect( "
                 "sum( avg( min( max( -[: ]- ]-> <-[ *1..3 <> =~ .. $p // /* */ '2025-01-01'".split())
    with open(path("tests/fuzz/fuzz_query.dict"), "w", encoding="utf-8") as f:
        f.write("# Made by make_seeds.py.\n")
        for word in sorted(words):
            f.write('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"\n')


QUERY, CONTENT, DESCRIBE, SAVE, SAVE_MANY, DELETE = range(6)  # as in coordinator/tools/tools.def
BODIES = [
    (QUERY, {"query": "START a = events(k: 5) RETURN a.id", "params": {"q": "x"}, "budget": {"rows": 5, "deadline_ms": None}}),
    (QUERY, {"query": "START a = events(vector: $v) RETURN a", "params": {"v": [1, 0.5, -2e300], "deep": [[[[1]]]], "map": {}}}),
    (QUERY, {"query": 5, "budget": {"none": 1}}),
    (CONTENT, {"event_id": "pt-1", "page": 2}),
    (CONTENT, {"event_id": "no id", "page": 0}),
    (DESCRIBE, {}),
    (DESCRIBE, {"unknown": 1}),
    (DELETE, {"event_id": "A.b_c:d-9"}),
    (DELETE, {"event_id": None}),
    (SAVE, {"summary": "s"}),
    (SAVE, {"summary": " S ", "content": "c\nd", "entities": [{"name": "  Ada ", "type": "person"}, {"name": "e\u0301"}],
            "tags": ["t", {"name": "t", "kind": "refers"}, {"name": "u", "kind": None}], "timestamp": "2025-01-31T10:20:30.5+09:00",
            "thread": " th ", "order_index": -3, "prev_event_id": "p:1", "event_id": "A.b_c:d-9", "vector": [1, -2.5, 0],
            "replace": True, "idempotency_key": "k", "allow_truncation_marker": False, "payload": None}),
    (SAVE, {"summary": "a \u20265 tokens truncated\u2026 [TRUNCATED] b"}),
    (SAVE, {"summary": "s", "entities": [{"name": "x", "type": "a"}, {"name": "x", "type": "b"}, {"name": ""}]}),
    (SAVE, {"summary": "s", "vector": [0, 0, 0], "event_id": "a", "prev_event_id": "a"}),
    (SAVE_MANY, {"memories": [{"summary": "one", "event_id": "e1"}, {"summary": "two", "event_id": "e2", "prev_event_id": "e1"},
                              {"summary": "again", "event_id": "e1", "replace": True}, 7, {"summary": "t", "prev_event_id": "e9"}]}),
    (SAVE_MANY, {"memories": {}}),
]
RAW = [b"", b"[]", b"{", b'{"a":1,"a":2}', b'{"summary":"\\u0000\\ud800"}', b'{"summary":"\xff"}', b'{"order_index":1e999}',
       b"[" * 200, b'{"summary":"s","order_index":99999999999999999999}']


def write_bodies():
    folder = fresh("fuzz_json")
    with open(path("docs/sample/platform-team.jsonl"), encoding="utf-8") as f:
        memories = [json.loads(line) for _, line in zip(range(4), f)]
    bodies = BODIES + [(SAVE, memory) for memory in memories] + [(SAVE_MANY, {"memories": memories[:2]})]
    raw = [(tool, json.dumps(body, ensure_ascii=False).encode()) for tool, body in bodies] + [(SAVE, text) for text in RAW]
    for n, (tool, text) in enumerate(raw, 1):
        with open(f"{folder}/body-{n:02}", "wb") as f:
            f.write(bytes([tool, n % 12]) + text)  # 12: three orgs, four moods of the shards


def main():
    write_queries()
    write_words()
    write_bodies()


if __name__ == "__main__":
    main()

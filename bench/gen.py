#!/usr/bin/env python3
"""A memory of the size and shape that Heddle is measured on, and the queries to measure with. Python 3.11, nothing else.

    bench/gen.py --out DIR [--events 100000] [--dimension 256] [--queries 700] [--seed 1]

DIR/memories.jsonl   one save_memory object a line, in the order of time
DIR/queries.tsv      kind TAB body of POST /v1/tools/query_memory_graph
DIR/facts.json       what was made

Its shape (N events):
  entities   N/5 names; popularity 1/rank, none in more than 2 % of the events; 2..8 an event, half of them from the topic of its
             thread (12 entities shared by about 200 events), so that pairs of events do share several
  threads    5..50 events each, up to 64 growing at a time
  tags       0..3 an event out of N/200, popularity 1/(rank + 10)
  vectors    unit length, around N/100 centres that lie around N/2000 super-centres; 70 % of a thread's events are in its home
             cluster, the others anywhere, so that events that share entities and yet are far apart exist
Every number has at most six decimals. The same arguments make the same files."""
import argparse
import bisect
import itertools
import json
import math
import pathlib
import random
import time
from datetime import datetime, timedelta, timezone

TYPES = ("person", "organisation", "place", "product", "concept")
SYLLABLES = "ka lo mer tis un bar que zo fi dal pe ro wyn gar hes il jo vu nam sy".split()
WORDS = ("after agreed alert asked backup because before billing branch broke budget build cache call change check client closed cluster code "
         "config contract customer data date deadline decided delay deploy design disk draft drill error estimate failed fixed flag found graph "
         "handover index invoice issue key latency launch leak letter limit list log lost meeting memory merge metric migration missed model moved "
         "network noted old open order outage owner page paid part patch people plan point price queue question quick read reason release report "
         "request restart review rollback room route sample saved scale sent server shard shipped slow sold start station still store system table "
         "team test thread ticket timeout token train tried turned update version visit waited week window work wrote").split()

QUERIES = {
    "bridges": "START a = events(ids: [$id]) MATCH (a)-[s:SHARES {min: 2}]-(b)-[f:FAR {max: 0.5}]-(a) RETURN b, s.weight, s.count, s.via, f.cos ORDER BY s.weight DESC LIMIT 10",
    "thread": "START a = events(ids: [$id]) MATCH (a)-[n:NEXT*1..3]->(b) RETURN b, n.hops ORDER BY n.hops",
    "co-participation": "START a = events(vector: $v, k: 5) MATCH (a)-[:PARTICIPATED_IN]-(e)-[:PARTICIPATED_IN]-(b) RETURN e, count(DISTINCT b) AS n ORDER BY n DESC, e.name LIMIT 15",
    "scoped": "START a = events(entity: $e, vector: $v, k: 20) RETURN a, a.score",
    "nearest": "START a = events(vector: $v, k: 10, exact: true) RETURN a, a.score",
    "newest": "START a = events(entity: $e, k: 20) RETURN a",
}  # fmt: skip


def expected_counts(kinds, total, cap):
    """1/rank, scaled so that the sum is `total` and none is above `cap`: what the capped ones lose the others get."""
    weights = [1 / (rank + 1) for rank in range(kinds)]
    capped, rest = 0, sum(weights)
    while capped < kinds and (total - capped * cap) * weights[capped] / rest > cap:
        rest -= weights[capped]
        capped += 1
    scale = (total - capped * cap) / rest
    return [cap] * capped + [scale * weight for weight in weights[capped:]]


class Drawer:
    """Draws indexes with given weights, many at a time."""

    def __init__(self, rng, weights):
        self.rng, self.sums, self.ready = rng, list(itertools.accumulate(weights)), []

    def draw(self):
        if not self.ready:
            top = self.sums[-1]
            self.ready = [bisect.bisect_right(self.sums, self.rng.random() * top) for _ in range(8192)]
        return self.ready.pop()


class Vectors:
    def __init__(self, rng, dimension, clusters):
        self.rng, self.dimension = rng, dimension
        share = 1 / math.sqrt(dimension)
        self.noise = [rng.gauss(0, share) for _ in range((1 << 18) + dimension)]  # any slice of it has about unit length
        supers = [self.unit(self.slice()) for _ in range(max(2, clusters // 20))]
        self.centres = [self.unit([a + b for a, b in zip(supers[c % len(supers)], self.slice())]) for c in range(clusters)]

    def slice(self):
        at = self.rng.randrange(len(self.noise) - self.dimension)
        return self.noise[at : at + self.dimension]

    def unit(self, values):
        scale = 1 / math.sqrt(sum(map(float.__mul__, values, values)))
        return [value * scale for value in values]

    def near(self, base, low, high):
        """A unit vector at some distance from `base`, with six decimals."""
        step = self.rng.uniform(low, high) * self.rng.choice((-1, 1))
        values = [a + step * b for a, b in zip(base, self.slice())]
        scale = 1 / math.sqrt(sum(map(float.__mul__, values, values)))
        return [round(value * scale, 6) for value in values]


class Maker:
    def __init__(self, arguments):
        self.n, self.seed = arguments.events, arguments.seed
        rng = self.stream("names")
        kinds = max(20, self.n // 5)
        self.names = ["%s %s %d" % ("".join(rng.choices(SYLLABLES, k=2)).title(), "".join(rng.choices(SYLLABLES, k=3)).title(), i) for i in range(kinds)]
        self.types = rng.choices(TYPES, k=kinds)
        self.by_rank = rng.sample(range(kinds), kinds)
        self.tags = ["%s/%d" % (rng.choice(WORDS), i) for i in range(max(20, self.n // 200))]
        self.cap = max(8, self.n // 50)
        self.popular = Drawer(self.stream("entities"), expected_counts(kinds, self.n * 5, self.cap))
        self.tag_drawer = Drawer(self.stream("tags"), [1 / (rank + 10) for rank in range(len(self.tags))])
        self.used = [0] * kinds
        self.topics = []
        for _ in range(max(1, self.n // 200)):
            topic = set()
            while len(topic) < min(12, kinds):
                topic.add(self.by_rank[self.popular.draw()])
            self.topics.append(sorted(topic))
        self.clusters = max(4, self.n // 100)
        self.vectors = Vectors(self.stream("vectors"), arguments.dimension, self.clusters)
        self.rng = self.stream("events")
        self.thread_count = 0

    def stream(self, name):
        """Streams of their own, so that a change of one feature moves no other."""
        return random.Random("%d/%s" % (self.seed, name))

    def new_thread(self):
        self.thread_count += 1
        rng = self.rng
        return {"name": "thread-%06d" % self.thread_count, "left": rng.randint(5, 50), "at": 0, "topic": rng.choice(self.topics), "home": rng.randrange(self.clusters)}

    def entities(self, topic):
        wanted, found, tries = self.rng.randint(2, 8), [], 0
        while len(found) < wanted:
            tries += 1
            of_topic = tries < 40 and self.rng.random() < 0.5
            entity = self.rng.choice(topic) if of_topic else self.by_rank[self.popular.draw()]
            if entity not in found and self.used[entity] < self.cap:
                found.append(entity)
                self.used[entity] += 1
        return found

    def sentence(self, least, most):
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(least, most)))

    def events(self):
        """Yields (id, entities, vector, memory)."""
        rng = self.rng
        growing = [self.new_thread() for _ in range(min(64, max(1, self.n // 50)))]
        moment, most_ms = datetime(2025, 1, 1, tzinfo=timezone.utc), max(2, 365 * 86400_000 // self.n)
        for number in range(self.n):
            slot = rng.randrange(len(growing))
            thread = growing[slot]
            entities = self.entities(thread["topic"])
            cluster = thread["home"] if rng.random() < 0.7 else rng.randrange(self.clusters)
            vector = self.vectors.near(self.vectors.centres[cluster], 0.35, 0.95)
            moment += timedelta(milliseconds=rng.randint(1, most_ms))
            id_ = "%08x-%06d" % (rng.getrandbits(32), number)
            tags = sorted({self.tags[self.tag_drawer.draw()] for _ in range(rng.randint(0, 3))})
            memory = {
                "event_id": id_,
                "summary": "%s and %s: %s" % (self.names[entities[0]], self.names[entities[1]], self.sentence(7, 16)),
                "content": self.sentence(40, 120) + ".",
                "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "thread": thread["name"],
                "order_index": thread["at"],
                "entities": [{"name": self.names[entity], "type": self.types[entity]} for entity in entities],
                "tags": tags,
                "vector": vector,
            }
            thread["at"] += 1
            thread["left"] -= 1
            if thread["left"] == 0:
                growing[slot] = self.new_thread()
            yield id_, entities, vector, memory


def write_queries(maker, path, count, ids, entities_of, vectors):
    """`count` of each kind, each with an anchor of its own; entities are drawn through an event, so popular ones come up more."""
    rng = maker.stream("queries")
    picked = lambda: rng.sample(range(len(ids)), min(count, len(ids)))  # noqa: E731
    with open(path, "w") as out:

        def put(kind, **params):
            out.write("%s\t%s\n" % (kind, json.dumps({"query": QUERIES[kind], "params": params}, separators=(",", ":"))))

        for kind in ("bridges", "thread"):
            for at in picked():
                put(kind, id=ids[at])
        for kind in ("co-participation", "nearest"):
            for at in picked():
                put(kind, v=maker.vectors.near(vectors(at), 0.2, 0.5))
        for kind in ("scoped", "newest"):
            seen = set()
            for _ in range(count * 20):
                at = rng.randrange(len(ids))
                entity = rng.choice(entities_of[at])
                if entity in seen:
                    continue
                seen.add(entity)
                put(kind, e=maker.names[entity], **({"v": maker.vectors.near(vectors(at), 0.2, 0.5)} if kind == "scoped" else {}))
                if len(seen) == count:
                    break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--queries", type=int, default=700)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    maker = Maker(arguments)
    ids, entities_of, places, kept = [], [], [], None
    path = arguments.out / "memories.jsonl"
    with open(path, "w") as out:
        for id_, entities, vector, memory in maker.events():
            places.append(out.tell())
            out.write(json.dumps(memory, separators=(",", ":")) + "\n")
            ids.append(id_)
            entities_of.append(entities)
    with open(path) as kept:

        def vectors(at):
            kept.seek(places[at])
            return json.loads(kept.readline())["vector"]

        write_queries(maker, arguments.out / "queries.tsv", arguments.queries, ids, entities_of, vectors)
    used = sorted(maker.used, reverse=True)
    facts = {"events": len(ids), "dimension": arguments.dimension, "seed": arguments.seed, "threads": maker.thread_count, "entities": sum(1 for n in used if n),
             "participations": sum(used), "most_events_of_an_entity": used[0], "median_events_of_an_entity": used[sum(1 for n in used if n) // 2]}  # fmt: skip
    (arguments.out / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps(facts), "in %.0f s" % (time.monotonic() - began))


if __name__ == "__main__":
    main()

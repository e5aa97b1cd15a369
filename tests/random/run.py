#!/usr/bin/env python3
"""Random graphs and queries on Heddle and on the oracle.

    tests/random/run.py --seeds 1..500              graphs of these seeds, 40 queries each, P = 1 and P = 4 over two shards (--partitions, --shards)
    tests/random/run.py --seeds 17                  one seed again
    tests/random/run.py --seeds 1..200 --budgets    the same under lowered caps
    tests/random/run.py --replay FILE               a kept case

A seed that fails is written to --keep FOLDER (tests/regress by default) as a file that the test run replays from then on.
HEDDLE_BUILD names the build folder."""
import argparse
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support import differ  # noqa: E402
from support.cluster import Cluster  # noqa: E402


def read_seeds(text):
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def keep(folder, name, case, query, error, is_budget):
    """The smallest set of operations found by leaving some out is not sought here: `--shrink` does that."""
    path = pathlib.Path(folder) / (name + ".json")
    kept = {"what": str(error).splitlines()[0], "seed": case.seed, "budgets": is_budget, "dimension": case.data["dimension"],
            "operations": case.data["operations"], "query": query}  # fmt: skip
    path.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    return path


def check_query(clients, graph, query, is_budget):
    if is_budget:
        return all([differ.check_budgets(client, graph, query, sizes=(1, 2, 3, 5, 10, 100)) for client in clients])
    return differ.check_pair(clients, graph, query)


def run_seed(cluster, seed, arguments, totals):
    case = differ.Case(seed, arguments.queries)
    name = "random-%d" % seed
    clients = differ.open_orgs(cluster, name, case.data["dimension"], arguments.partitions)
    failed = False
    try:
        graph = differ.load(clients[0], case.data["operations"])
        for client in clients[1:]:
            differ.load(client, case.data["operations"])
        for index, query in enumerate(case.queries):
            try:
                totals["pairs" if check_query(clients, graph, query, arguments.budgets) else "too big"] += 1
            except differ.Difference as error:
                failed = True
                kind = "budget" if arguments.budgets else "pair"
                path = keep(arguments.keep, "%s-%d-%d" % (kind, seed, index), case, query, error, arguments.budgets)
                print("seed %d, query %d: %s\n  %s\n  kept in %s" % (seed, index, error, differ.render.render(query)[0], path), flush=True)
                totals["failed"] += 1
                if totals["failed"] >= arguments.failures:
                    raise SystemExit(1)
    finally:
        for client in clients:
            client.close()
        differ.drop_orgs(cluster, name, arguments.partitions)
    return not failed


def holds(cluster, name, kept):
    """Does the kept case hold? (False: it still fails.)"""
    clients = differ.open_orgs(cluster, name, kept["dimension"])
    try:
        graphs = [differ.load(client, kept["operations"]) for client in clients]
        check_query(clients, graphs[0], kept["query"], kept["budgets"])
        return None
    except differ.Difference as error:
        return error
    finally:
        for client in clients:
            client.close()
        differ.drop_orgs(cluster, name)


def shrink(cluster, kept):
    """Leaves out operations, halves first, while the case still fails."""
    number = 0
    size = max(1, len(kept["operations"]) // 2)
    while size >= 1:
        at = 0
        while at < len(kept["operations"]):
            smaller = {**kept, "operations": kept["operations"][:at] + kept["operations"][at + size :]}
            number += 1
            try:
                fails = holds(cluster, "shrink-%d" % number, smaller) is not None
            except AssertionError:
                fails = False  # an operation that no longer stands
            if fails:
                kept = smaller
            else:
                at += size
        size //= 2
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1..50", help="one seed, or FIRST..LAST")
    parser.add_argument("--queries", type=int, default=40, help="queries a graph")
    parser.add_argument("--budgets", action="store_true", help="under lowered caps")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--partitions", type=lambda text: tuple(map(int, text.split(","))), default=(1, 4), help="of the orgs that are compared: 1,4")
    parser.add_argument("--keep", default=str(pathlib.Path(__file__).resolve().parents[1] / "regress"), help="folder for failing cases")
    parser.add_argument("--failures", type=int, default=5, help="stop after as many")
    parser.add_argument("--replay", help="a kept case")
    parser.add_argument("--shrink", action="store_true", help="with --replay: find a smaller case, and write it over the file")
    arguments = parser.parse_args()
    totals = {"pairs": 0, "too big": 0, "failed": 0}
    began = time.monotonic()
    with Cluster(arguments.shards, coordinator_words=["--deadline", "60s"]) as cluster:
        if arguments.replay:
            kept = json.loads(pathlib.Path(arguments.replay).read_text())
            print(differ.render.render(kept["query"])[0], json.dumps(kept["query"]["params"], ensure_ascii=False))
            error = holds(cluster, "replay", kept)
            if error is not None and arguments.shrink:
                kept = shrink(cluster, kept)
                pathlib.Path(arguments.replay).write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
                error = holds(cluster, "replay-small", kept)
                print("%d operations are left" % len(kept["operations"]))
            print(error or "holds")
            return 1 if error else 0
        for seed in read_seeds(arguments.seeds):
            run_seed(cluster, seed, arguments, totals)
            if seed % 20 == 0:
                print("seed %d: %s, %.0f s" % (seed, totals, time.monotonic() - began), flush=True)
    print("seeds %s: %s, %.0f s" % (arguments.seeds, totals, time.monotonic() - began))
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

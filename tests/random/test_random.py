"""Random graphs and queries: Heddle with P = 1 and with P = 4 over two shards, and the oracle, give the same.

HEDDLE_SEEDS=FIRST..LAST runs other seeds, tests/random/run.py as many as one likes."""
import json
import os
import pathlib

import pytest

from support import differ
from support.cluster import Cluster

REGRESS = sorted((pathlib.Path(__file__).resolve().parents[1] / "regress").glob("*.json"))
QUERIES, BUDGET_QUERIES, BLOCK = 40, 8, 5


def seeds(default):
    first, _, last = os.environ.get("HEDDLE_SEEDS", default).partition("..")
    return list(range(int(first), int(last or first) + 1))


def blocks(numbers):
    return [numbers[at : at + BLOCK] for at in range(0, len(numbers), BLOCK)]


def name_of(block):
    return "%d..%d" % (block[0], block[-1])


def run(cluster, seed, query_count, check, partitions=(1, 4)):
    """Every query of one seed; a difference names how to run it again."""
    case = differ.Case(seed, query_count)
    name = "seed-%d-%d" % (seed, query_count)
    clients = differ.open_orgs(cluster, name, case.data["dimension"], partitions)
    try:
        graph = [differ.load(client, case.data["operations"]) for client in clients][0]
        return sum(check(clients, graph, query) for query in case.queries)
    except differ.Difference as error:
        raise differ.Difference("seed %d (tests/random/run.py --seeds %d keeps it): %s" % (seed, seed, error)) from error
    finally:
        for client in clients:
            client.close()
        differ.drop_orgs(cluster, name, partitions)


def check_budgets(clients, graph, query):
    return all([differ.check_budgets(client, graph, query, sizes=(1, 2, 5, 20)) for client in clients])


@pytest.mark.parametrize("block", blocks(seeds("1..60")), ids=name_of)
def test_answers_are_the_oracles_on_any_partitions(cluster, block):
    print("seeds", name_of(block))
    compared = sum(run(cluster, seed, QUERIES, differ.check_pair) for seed in block)
    assert compared > len(block) * QUERIES // 2, "most pairs have to be small enough for the oracle"


@pytest.mark.parametrize("block", blocks(seeds("1001..1015")), ids=name_of)
def test_the_report_tells_the_truth_under_caps(cluster, block):
    print("seeds", name_of(block))
    compared = sum(run(cluster, seed, BUDGET_QUERIES, check_budgets) for seed in block)
    assert compared > len(block) * BUDGET_QUERIES // 2


LAYOUTS = {
    "one shard": (dict(shards=1), (1, 8)),  # a whole org on one shard is walked in chains
    "three shards": (dict(shards=3), (2, 8)),
    "without the planner's rules": (dict(shards=2, environment={"HEDDLE_PLAN_RULES": "off"}), (1, 4)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_answers_do_not_depend_on_the_way_they_are_found(layout):
    settings, partitions = LAYOUTS[layout]
    with Cluster(coordinator_words=["--deadline", "60s"], **settings) as cluster:
        for seed in seeds("2001..2008"):
            print("seed", seed)
            run(cluster, seed, QUERIES, differ.check_pair, partitions)
            run(cluster, seed, 2, check_budgets, partitions)


@pytest.mark.parametrize("path", REGRESS, ids=lambda path: path.stem)
def test_what_once_failed(cluster, path):
    kept = json.loads(path.read_text())
    name = "regress-" + path.stem
    clients = differ.open_orgs(cluster, name, kept["dimension"])
    try:
        graph = [differ.load(client, kept["operations"]) for client in clients][0]
        if kept["budgets"]:
            for client in clients:
                differ.check_budgets(client, graph, kept["query"], sizes=(1, 2, 3, 5, 10, 100))
        else:
            differ.check_pair(clients, graph, kept["query"])
    finally:
        for client in clients:
            client.close()
        differ.drop_orgs(cluster, name)

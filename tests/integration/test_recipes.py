"""The recipes on the sample memory: their golden answers, whatever the number of partitions.

HEDDLE_GOLDEN_WRITE=1 writes the golden file anew; read what changed before you keep it."""
import json
import os

import pytest

from support.cluster import ROOT

SAMPLE = ROOT / "docs" / "sample"
GOLDEN = ROOT / "tests" / "golden" / "recipes.json"
RUN = ("plan", "budget")


@pytest.fixture(scope="module")
def recipes():
    return json.loads((SAMPLE / "recipes.json").read_text())


@pytest.fixture(scope="module")
def orgs(cluster):
    memories = [json.loads(line) for line in (SAMPLE / "platform-team.jsonl").read_text().splitlines()]
    clients = {}
    for partitions in (1, 2, 4, 8):
        clients[partitions] = cluster.new_org("sample-p%d" % partitions, partitions=partitions)
        for at in range(0, len(memories), 500):
            results = clients[partitions].ok("save_memories", {"memories": memories[at : at + 500]})["results"]
            assert {result["status"] for result in results} == {"ok"}
    yield clients
    for client in clients.values():
        client.close()


def answer(client, recipe):
    return {key: value for key, value in client.query(recipe["query"], recipe["params"]).items() if key not in RUN}


def test_golden_answers(orgs, recipes):
    answers = {recipe["name"]: answer(orgs[4], recipe) for recipe in recipes}
    if os.environ.get("HEDDLE_GOLDEN_WRITE"):
        GOLDEN.write_text(json.dumps(answers, ensure_ascii=False, indent=1) + "\n")
    assert answers == json.loads(GOLDEN.read_text())
    for name, found in answers.items():
        assert found["rows"] and not found["partial"], "%s finds something worth reading, all of it" % name


def test_the_same_bytes_on_any_partitions(orgs, recipes):
    for recipe in recipes:
        texts = {json.dumps(answer(client, recipe), ensure_ascii=False) for client in orgs.values()}
        assert len(texts) == 1, recipe["name"]


def test_the_same_bytes_every_time(orgs, recipes):
    for recipe in recipes:
        assert len({json.dumps(answer(orgs[4], recipe)) for _ in range(10)}) == 1

import itertools
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from support.cluster import BUILD, Cluster  # noqa: E402


def pytest_report_header(config):
    return "programs: %s" % BUILD


def pytest_collection_modifyitems(config, items):
    missing = [name for name in ("heddle", "heddle-coordinator", "heddle-shard") if not (BUILD / name).exists()]
    if missing:
        pytest.exit("not built: %s in %s; run scripts/build, or name the folder in HEDDLE_BUILD" % (", ".join(missing), BUILD), 2)


@pytest.fixture(scope="session")
def cluster():
    """Two shards and a coordinator that all tests share; every test makes orgs of its own. Tests that break things start their own.
    The deadline is long, so that a slow machine cuts no answer."""
    with Cluster(2, coordinator_words=["--deadline", "60s"]) as running:
        yield running
        assert running.coordinator.child.poll() is None, "the coordinator died:\n" + running.coordinator.log()[-4000:]
        for shard in running.shards:
            assert shard.child.poll() is None, "a shard died:\n" + shard.log()[-4000:]


numbers = itertools.count()


@pytest.fixture
def new_org(cluster):
    """Makes an org of a name that is used once; → a client with its key, `client.org` its name."""
    clients = []

    def make(**settings):
        name = "org-%d" % next(numbers)
        client = cluster.new_org(name, **{"partitions": 4, **settings})
        client.org = name
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def org(new_org):
    """An org of four partitions over two shards, with the built-in embedding."""
    return new_org()


@pytest.fixture
def bare(new_org):
    """The same without an embedding: callers bring vectors of 8 numbers."""
    return new_org(embedding="none", dimension=8)

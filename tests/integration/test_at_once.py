"""Many callers at once: each sees what was acknowledged to it, nobody sees another's, and time runs out cleanly."""
import threading

import pytest

from support.cluster import Cluster

WRITERS, ROUNDS = 6, 40


class Worker(threading.Thread):
    def __init__(self, client, number, work):
        super().__init__()
        self.client, self.number, self.work, self.error = client, number, work, None

    def run(self):
        try:
            self.work(self.client, self.number)
        except BaseException as error:  # told to the test, which fails with it
            self.error = error
        finally:
            self.client.close()


def run_all(workers):
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
        assert not worker.is_alive(), "a caller waits for ever"
        if worker.error:
            raise worker.error


def test_what_was_acknowledged_is_seen_by_the_next_query(cluster, new_org):
    org = new_org(embedding="none", dimension=4)

    def work(client, number):
        mine = "writer %d" % number
        for n in range(ROUNDS):
            id_ = "w%d-%d" % (number, n)
            vector = [number + 1, n + 1, 1, 0]
            client.ok("save_memory", {"event_id": id_, "summary": "s%d" % n, "entities": [{"name": mine}, {"name": "all"}], "thread": mine, "order_index": n, "vector": vector})
            answer = client.query("START a = events(entity: $e, k: 200) MATCH (a)-[:PARTICIPATED_IN]-(e {name: $e}) RETURN count(a), max(e.event_count)", {"e": mine})
            assert answer["rows"] == [[n + 1, n + 1]]
            assert client.query("START a = events(vector: $v, k: 1) RETURN a.score", {"v": vector})["rows"] == [[1.0]]
            if n:
                rows = client.query("START a = events(ids: [$id]) MATCH (a)<-[:NEXT]-(b) RETURN b.id", {"id": id_})["rows"]
                assert rows == [["w%d-%d" % (number, n - 1)]]
            if n % 10 == 9:  # put in its own place again, and taken out and back
                client.ok("save_memory", {"event_id": id_, "summary": "new", "replace": True, "entities": [{"name": mine}, {"name": "all"}], "thread": mine, "order_index": n})
                assert client.query("START a = events(ids: [$id]) RETURN a.summary", {"id": id_})["rows"] == [["new"]]
                client.ok("delete_memory", {"event_id": id_})
                assert client.query("START a = events(ids: [$id]) RETURN a", {"id": id_})["rows"] == []
                client.ok("save_memory", {"event_id": id_, "summary": "back", "entities": [{"name": mine}, {"name": "all"}], "thread": mine, "order_index": n})

    run_all([Worker(cluster.client(org.key), number, work) for number in range(WRITERS)])
    total = org.query("START a = events(entity: 'all', k: 1) MATCH (a)-[:PARTICIPATED_IN]-(e {name: 'all'}) RETURN e.event_count")
    assert total["rows"] == [[WRITERS * ROUNDS]]


def test_one_answer_is_over_one_state(cluster, new_org):
    """A writer replaces events so that two figures of each always agree; no answer may mix two versions."""
    org = new_org(embedding="none", dimension=2, partitions=4)
    done = threading.Event()

    def memory(number, version):
        return {"event_id": "e%d" % number, "summary": "version %d" % version, "order_index": version, "thread": "version %d" % version, "replace": True, "timestamp": "2025-01-01",
                "entities": [{"name": "all"}, {"name": "v%d" % version}]}  # fmt: skip

    org.ok("save_memories", {"memories": [memory(number, 0) for number in range(40)]})

    def write(client, _):
        try:
            for version in range(1, 60):
                client.ok("save_memories", {"memories": [memory(number, version % 7) for number in range(40)]})
        finally:
            done.set()

    def read(client, _):
        query = "START a = events(entity: 'all', k: 200) MATCH (a)-[:PARTICIPATED_IN]-(e) WHERE e.name <> 'all' RETURN a.id, a.order_index, a.summary, a.thread, e.name LIMIT 200"
        shares = "START a = events(ids: ['e0']) MATCH (a)-[s:SHARES]-(b) RETURN b.id, s.count LIMIT 200"
        while not done.is_set():
            rows = client.query(query)["rows"]
            assert [row[0] for row in rows] == sorted({row[0] for row in rows}) and len(rows) == 40, "each event once"
            for _, order, summary, thread, name in rows:
                assert summary == thread == "version %d" % order and name == "v%d" % order
            assert len(client.query(shares)["rows"]) == 39

    run_all([Worker(cluster.client(org.key), number, write if number == 0 else read) for number in range(4)])


def test_orgs_at_once_do_not_mix(cluster, new_org):
    orgs = [new_org(embedding="none", dimension=2, partitions=partitions) for partitions in (1, 2, 4, 4)]

    def work(client, number):
        for n in range(30):
            client.ok("save_memory", {"event_id": "e%d" % n, "summary": "of org %d" % number, "entities": [{"name": "shared name"}]})
            answer = client.query("START a = events(entity: 'shared name', k: 200) RETURN DISTINCT a.summary, count(*)")
            assert answer["rows"] == [["of org %d" % number, n + 1]]

    run_all([Worker(cluster.client(org.key), number, work) for number, org in enumerate(orgs)])


@pytest.mark.parametrize("deadline", [1, 2, 5, 20])
def test_a_deadline_that_passes_cuts_and_breaks_nothing(deadline, new_org):
    client = new_org(embedding="none", dimension=2, partitions=4)
    memories = [{"event_id": "e%d" % n, "summary": "x" * 100, "entities": [{"name": "n%d" % (n % 7)}, {"name": "all"}], "vector": [1, n]} for n in range(3000)]
    for at in range(0, 3000, 500):
        client.ok("save_memories", {"memories": memories[at : at + 500]})
    query = "START a = events(entity: 'all', k: 200) MATCH (a)-[:SHARES]-(b)-[:PARTICIPATED_IN]-(e) RETURN e.name, count(DISTINCT b), max(cos(a, b)) LIMIT 200"
    for _ in range(10):
        reply = client.tool("query_memory_graph", {"query": query, "budget": {"deadline": deadline}})
        answer = reply.json
        if reply.status == 200:
            assert answer["partial"] is bool(answer["truncated"]) and answer["budget"]["caps"]["deadline"] == deadline
            if answer["partial"]:
                # A shard that has not answered by the deadline is told as such.
                assert {cut["cap"] for cut in answer["truncated"]} <= {"deadline", "shard_unavailable"}
        else:
            assert (reply.status, answer["reason"]) in ((504, "timeout"), (503, "shard_unavailable")), answer
        assert client.query("START a = events(ids: ['e1']) RETURN a.id")["rows"] == [["e1"]], "the next query is not disturbed"


def test_more_callers_than_there_is_room_for():
    """What cannot be taken is refused at once as busy, and nothing hangs."""
    with Cluster(1, coordinator_words=["--workers", "2", "--org-queue-max", "2", "--queue-max", "4"]) as cluster:
        org = cluster.new_org("busy", embedding="none", dimension=2)
        memories = [{"event_id": "e%d" % n, "summary": "x", "entities": [{"name": "all"}]} for n in range(500)]
        org.ok("save_memories", {"memories": memories})
        statuses = []

        def work(client, _):
            for _ in range(10):
                reply = client.tool("query_memory_graph", {"query": "START a = events(entity: 'all', k: 200) MATCH (a)-[:PARTICIPATED_IN]-(e)-[:PARTICIPATED_IN]-(b) RETURN count(*)"})
                if reply.status == 429:
                    assert reply.json["reason"] == "busy" and int(reply.headers["Retry-After"]) >= 0
                else:
                    assert reply.status == 200 and reply.json["rows"] == [[200 * 499]]
                statuses.append(reply.status)

        run_all([Worker(cluster.client(org.key), number, work) for number in range(16)])
        assert len(statuses) == 160 and 200 in statuses and 429 in statuses

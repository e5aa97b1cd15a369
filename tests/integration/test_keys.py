"""Who may do what, and that an org never sees another's."""
import pytest


def make_key(cluster, org, roles, name=None):
    return cluster.admin("POST", "/orgs/%s/keys" % org.org, {"name": name or "-".join(roles), "roles": roles})


@pytest.mark.parametrize("key", [None, "", "x", "hk_" + "0" * 64, "é", "a" * 5000])
def test_no_key_or_an_unknown_one_is_401(cluster, key):
    client = cluster.client()
    try:
        headers = {} if key is None else {"Authorization": ("Bearer " + key).encode("utf-8").decode("latin-1")}
        for method, path in (("POST", "/v1/tools/query_memory_graph"), ("GET", "/v1/tools"), ("GET", "/v1/admin/orgs")):
            reply = client.send(method, path, {"query": "START a = events(k: 5) RETURN a"} if method == "POST" else None, headers=headers)
            assert reply.status == 401 and reply.json["reason"] == "unauthorized", (reply.status, reply.body)
    finally:
        client.close()


def test_roles(cluster, org):
    query = {"query": "START a = events(k: 5) RETURN a"}
    reader = cluster.client(make_key(cluster, org, ["read"])["key"])
    writer = cluster.client(make_key(cluster, org, ["write"])["key"])
    admin = cluster.client(make_key(cluster, org, ["admin"])["key"])
    assert reader.ok("query_memory_graph", query)
    for tool, arguments in (("save_memory", {"summary": "x"}), ("delete_memory", {"event_id": "x"}), ("save_memories", {"memories": []})):
        reader.refused(tool, arguments, 403, "forbidden")
    assert writer.ok("save_memory", {"summary": "x"})
    for client in (reader, writer, org):
        for path in ("/orgs", "/orgs/" + org.org, "/stats"):
            assert client.send("GET", "/v1/admin" + path).status == 403
    assert admin.send("GET", "/v1/admin/orgs/" + org.org).status == 200
    for client in (reader, writer, admin):
        client.close()


def test_an_orgs_admin_key_knows_no_other_org(cluster, new_org):
    mine, other = new_org(), new_org()
    admin = cluster.client(make_key(cluster, mine, ["admin"])["key"])
    for path in ("/orgs/" + other.org, "/orgs/%s/keys" % other.org, "/orgs/does-not-exist"):
        assert admin.send("GET", "/v1/admin" + path).status == 403, "also for what does not exist: existence is not told"
    assert admin.send("DELETE", "/v1/admin/orgs/" + other.org).status == 403
    assert other.org not in admin.send("GET", "/v1/admin/orgs").body.decode()
    assert other.org not in admin.send("GET", "/v1/admin/stats").body.decode()
    admin.close()


def test_a_revoked_key_is_unknown(cluster, org):
    made = make_key(cluster, org, ["read", "write"], "to-be-revoked")
    client = cluster.client(made["key"])
    assert client.ok("save_memory", {"summary": "x"})
    keys = cluster.admin("GET", "/orgs/%s/keys" % org.org)["keys"]
    mine = next(key for key in keys if key["name"] == "to-be-revoked")
    assert made["key"] not in str(keys), "keys are shown once"
    cluster.admin("DELETE", "/orgs/%s/keys/%s" % (org.org, mine["id"]))
    client.refused("save_memory", {"summary": "x"}, 401, "unauthorized")
    assert org.ok("save_memory", {"summary": "x"}), "the org's other keys go on"
    client.close()


def test_other_orgs_do_not_exist(new_org):
    mine, theirs = new_org(), new_org()
    theirs.ok("save_memory", {"event_id": "secret", "summary": "their secret", "entities": [{"name": "Ann"}], "tags": ["t"], "thread": "x"})
    mine.ok("save_memory", {"event_id": "open", "summary": "mine", "thread": "x"})
    start = mine.query("START a = events(ids: ['secret', 'open']) RETURN a.id")
    assert start["rows"] == [["open"]] and start["start"]["unresolved"] == ["secret"]
    assert mine.ok("get_memory_content", {"event_id": "secret"}) == {"status": "ok", "found": False, "event_id": "secret"}
    assert mine.ok("delete_memory", {"event_id": "secret"})["deleted"] is False
    mine.refused("save_memory", {"summary": "x", "prev_event_id": "secret"}, 400, "invalid_argument")
    for start in ("entity: 'Ann'", "tag: 't'"):
        assert mine.query("START a = events(%s) RETURN a" % start)["start"]["unresolved"], start
    assert mine.query("START a = events(ids: ['open']) MATCH (a)-[:NEXT]->(b) RETURN b")["rows"] == []
    for query in ("text: 'their secret', k: 20", "k: 200"):
        assert [row[0] for row in mine.query("START a = events(%s) RETURN a.id" % query)["rows"]] == ["open"]
    assert mine.ok("save_memory", {"event_id": "secret", "summary": "an id of my own"})["created"] is True
    assert theirs.query("START a = events(ids: ['secret']) RETURN a.summary")["rows"] == [["their secret"]]


def test_a_deleted_org_is_gone_and_its_name_is_free(cluster, new_org):
    client = new_org()
    client.ok("save_memory", {"event_id": "e", "summary": "x"})
    cluster.admin("DELETE", "/orgs/" + client.org)
    client.refused("query_memory_graph", {"query": "START a = events(k: 5) RETURN a"}, 401, "unauthorized")
    again = cluster.new_org(client.org, partitions=4)
    assert again.query("START a = events(k: 200) RETURN a")["rows"] == []
    again.close()


def test_what_there_is_not_is_404(org):
    assert org.send("POST", "/v1/tools/forget_everything", {}).status == 404
    assert org.send("GET", "/v2/tools").status == 404
    assert org.send("GET", "/v1/tools/save_memory").status in (404, 405)


@pytest.mark.parametrize(
    "body",
    [{}, {"name": ""}, {"name": "a b"}, {"name": "x" * 300}, {"name": "ok", "partitions": 3}, {"name": "ok", "partitions": 512},
     {"name": "ok", "dimension": 0}, {"name": "ok", "dimension": 4097}, {"name": "ok", "embedding": "magic"}, {"name": "ok", "bogus": 1}],
)  # fmt: skip
def test_orgs_that_cannot_be(cluster, body):
    client = cluster.client(cluster.admin_key())
    reply = client.send("POST", "/v1/admin/orgs", body)
    assert reply.status == 400 and reply.json["detail"], reply.body
    client.close()


def test_an_orgs_name_is_taken_once(cluster, org):
    client = cluster.client(cluster.admin_key())
    assert client.send("POST", "/v1/admin/orgs", {"name": org.org}).status == 409
    client.close()

"""Requests that no client of ours sends: byte by byte over a socket. Each is met with an answer or a closed connection, never with another
request's answer, and the coordinator goes on."""
import concurrent.futures
import json
import os
import re
import socket
import urllib.parse

import pytest

from support.cluster import BUILD, Client, Process, children_named, free_port, wait_until

QUERY = b'{"query": "START a = events(k: 5) RETURN a.id"}'
PATH = b"/v1/tools/query_memory_graph"


def exchange(cluster, data, seconds=30):
    """Sends the bytes; → all that comes back until the server closes."""
    place = urllib.parse.urlsplit(cluster.url)
    out = b""
    with socket.create_connection((place.hostname, place.port), timeout=seconds) as connection:
        try:
            connection.sendall(data)
            while piece := connection.recv(1 << 16):
                out += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
    return out


def request(org, headers=b"Connection: close\r\n", body=QUERY, method=b"POST", path=PATH, has_length=True):
    length = b"Content-Length: %d\r\n" % len(body) if has_length else b""
    key = b"Authorization: Bearer " + org.key.encode() + b"\r\n"
    return method + b" " + path + b" HTTP/1.1\r\nHost: x\r\n" + key + headers + length + b"\r\n" + body


def statuses(reply):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", reply)]


@pytest.fixture(autouse=True)
def still_alive(cluster, org):
    org.ok("save_memory", {"event_id": "e", "summary": "x"})
    yield
    reply = exchange(cluster, request(org))
    assert statuses(reply) == [200] and json.loads(reply.split(b"\r\n\r\n", 1)[1])["rows"] == [["e"]]


def test_two_readings_of_where_a_body_ends_are_refused(cluster, org):
    """Else a proxy in front and we could see two different requests in the same bytes."""
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(QUERY), QUERY)
    smuggled = request(org)
    for headers, body, has_length in (
        (b"Content-Length: 5\r\n", QUERY + smuggled, True),
        (b"Transfer-Encoding: chunked\r\n", chunks + smuggled, True),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunks + smuggled, False),
        (b"Transfer-Encoding: gzip\r\n", QUERY + smuggled, False),
    ):
        reply = exchange(cluster, request(org, headers, body, has_length=has_length))
        assert statuses(reply) == [400], (headers, reply)


def test_a_chunked_body_is_read(cluster, org):
    chunks = b"".join(b"%x;x=1\r\n%s\r\n" % (1, QUERY[i : i + 1]) for i in range(len(QUERY))) + b"0\r\nX-T: 1\r\n\r\n"
    reply = exchange(cluster, request(org, b"Transfer-Encoding: chunked\r\nConnection: close\r\n", chunks, has_length=False))
    assert statuses(reply) == [200], reply


def test_two_keys_are_refused_whichever_comes_first(cluster, org):
    reply = exchange(cluster, request(org, b"Authorization: Bearer nobody\r\nConnection: close\r\n"))
    assert statuses(reply) == [400], reply


def test_a_slash_or_nul_within_a_name_is_no_path(cluster, org):
    admin = cluster.client(cluster.admin_key())
    for path in ("/v1/admin/orgs/%s%%2Fkeys" % org.org, "/v1/admin/orgs/%s%%2fkeys/1" % org.org, "/healthz%00", "/healthz%00x", "/%zz", "/healthz%", "/healthz%2"):
        for method in ("GET", "DELETE"):
            reply = admin.send(method, path)
            assert reply.status == 400 and reply.json["reason"] == "invalid_argument", (method, path, reply.body)
    for path in ("/%68ealthz", "/v1/admin/orgs/" + "".join("%%%02x" % ord(c) for c in org.org)):
        assert admin.send("GET", path).status == 200, path
    admin.close()


@pytest.mark.parametrize("path", [b"/../../etc/passwd", b"//healthz", b"/healthz/", b"/v1/tools/", b"/v1/tools/../healthz", b"/a%0d%0aX:%20y", b"*", b"/\xff", b"/%ff", b"/" + b"a" * 20000])
def test_paths_to_nowhere(cluster, path):
    reply = exchange(cluster, b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert statuses(reply)[0] in (400, 404) and b"\r\nX: y" not in reply, reply


@pytest.mark.parametrize("method", [b"PUT", b"PATCH", b"DELETE", b"TRACE", b"OPTIONS", b"BREW"])
def test_other_methods_are_405_with_the_right_ones(cluster, org, method):
    reply = exchange(cluster, request(org, method=method))
    assert statuses(reply) == [405] and b"\r\nAllow: POST\r\n" in reply, reply


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/9.9\r\n\r\n", b"GET /healthz\r\n\r\n", b"\r\n\r\n\r\n", b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
     b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(5000)) + b"\r\n", b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
     b"POST " + PATH + b" HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", b"POST " + PATH + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
     b"POST " + PATH + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_http_ends_the_connection(cluster, data):
    # The first bytes of a header that is too long are answered; the rest meets a closed connection.
    place = urllib.parse.urlsplit(cluster.url)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except OSError:
            return
    assert not reply or statuses(reply)[0] >= 400, reply


def test_random_bytes(cluster):
    for size in (1, 16, 1000, 70_000):
        place = urllib.parse.urlsplit(cluster.url)
        with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
            connection.sendall(os.urandom(size))


def test_pipelined_requests_are_answered_in_order(cluster, org):
    queries = [b'{"query": "START a = events(k: 5) RETURN %d AS n LIMIT 1"}' % n for n in range(20)]
    data = b"".join(request(org, b"", body) for body in queries) + request(org)
    reply = exchange(cluster, data)
    assert statuses(reply) == [200] * 21
    at = [reply.index(b'"rows":[[%d]]' % n) for n in range(20)]
    assert at == sorted(at)


def test_many_connections_that_say_nothing(cluster, org):
    place = urllib.parse.urlsplit(cluster.url)
    idle = [socket.create_connection((place.hostname, place.port), timeout=30) for _ in range(900)]
    try:
        assert org.query("START a = events(k: 5) RETURN a.id")["rows"] == [["e"]]
    finally:
        for connection in idle:
            connection.close()


def test_clients_that_leave_before_the_answer(cluster, org):
    place = urllib.parse.urlsplit(cluster.url)
    for _ in range(200):
        with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
            connection.sendall(request(org))
    assert org.query("START a = events(k: 5) RETURN a.id")["rows"] == [["e"]]


def test_connections_leave_the_process_its_own_files(tmp_path):
    """A process that may open few files is filled with connections before its workers have ever reached a shard."""
    words = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", BUILD / "heddle", "serve", "--data", tmp_path / "data", "--shards", 2, "--listen", "127.0.0.1:%d" % (port := free_port())]
    serve, url, idle = Process(words, tmp_path / "log", is_ready_told=False), "http://127.0.0.1:%d" % port, []
    try:
        wait_until(lambda: '"ready: http' in serve.log(), "serve is ready")
        key = (tmp_path / "data" / "admin.key").read_text().strip()
        callers = [Client(url, Client(url, key).send("POST", "/v1/admin/orgs", {"name": "a"}).json["key"]) for _ in range(1)]
        callers += [Client(url, callers[0].key) for _ in range(7)]
        assert all(caller.send("GET", "/healthz").status == 200 for caller in callers)
        before = children_named(serve.pid, "heddle-coordina")
        idle = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(400)]
        with concurrent.futures.ThreadPoolExecutor(len(callers)) as pool:
            for _ in range(5):
                for reply in pool.map(lambda caller: caller.tool("query_memory_graph", {"query": "START a = events(k: 5) RETURN a"}), callers):
                    assert reply.status == 200, reply.body
        assert children_named(serve.pid, "heddle-coordina") == before, serve.log()[-3000:]
    finally:
        for connection in idle:
            connection.close()
        serve.stop()


def test_too_few_files_are_said(tmp_path):
    words = ["sh", "-c", 'ulimit -n 60; exec "$@"', "sh", BUILD / "heddle-coordinator", "--data", tmp_path / "c", "--listen", "127.0.0.1:0", "--shard", "tcp://127.0.0.1:1"]
    process = Process(words, tmp_path / "log", is_ready_told=False)
    assert process.child.wait(60) == 1 and "ulimit -n" in process.log()

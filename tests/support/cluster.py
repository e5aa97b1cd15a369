"""Real processes for tests: shards and a coordinator started one by one, or `heddle serve`; and a plain HTTP client.

Everything listens on loopback, at ports the system gives. What a test starts is stopped by its process id, also when the test
fails: use the classes as context managers, or the fixtures of conftest.py."""
import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEDDLE_BUILD", ROOT / "build")).resolve()
START_S = 60  # generous: a shared machine, perhaps under sanitizers
STOP_S = 60


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(is_so, what, seconds=START_S):
    """Waits for a state; the bound is for what never comes, not for what is slow."""
    end = time.monotonic() + seconds
    while True:
        value = is_so()
        if value:
            return value
        assert time.monotonic() < end, "waited %d s in vain: %s" % (seconds, what)
        time.sleep(0.01)


def clean_environment(extra=None):
    """Without the caller's HEDDLE_* settings, which are the programs' too."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEDDLE_")}
    return {**environment, **(extra or {})}


class Process:
    """One of our programs; `log` is its stderr. With is_ready_told it is asked to write a line to a descriptor when ready."""

    def __init__(self, words, log, is_ready_told=True, environment=None):
        self.words, self.log_path = [str(word) for word in words], pathlib.Path(log)
        pass_fds, self.ready_fd = (), None
        if is_ready_told:
            self.ready_fd, write_fd = os.pipe()
            self.words += ["--ready-fd", str(write_fd)]
            pass_fds = (write_fd,)
        with open(log, "ab") as stderr:
            self.child = subprocess.Popen(
                self.words, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, pass_fds=pass_fds, env=clean_environment(environment)
            )
        if is_ready_told:
            os.close(write_fd)

    @property
    def pid(self):
        return self.child.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_ready(self):
        """The line it writes when ready; fails with its log where it ends instead."""
        line, end = b"", time.monotonic() + START_S
        try:
            while not line.endswith(b"\n"):
                readable, _, _ = select.select([self.ready_fd], [], [], max(0, end - time.monotonic()))
                piece = os.read(self.ready_fd, 4096) if readable else b""
                assert piece, "%s did not become ready:\n%s" % (self.words[0], self.log()[-4000:])
                line += piece
        finally:
            os.close(self.ready_fd)
            self.ready_fd = None
        return line.decode().strip()

    def stop(self):
        """SIGTERM; → the exit code."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        return self.child.wait(STOP_S)

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(STOP_S)
        if self.ready_fd is not None:
            os.close(self.ready_fd)
            self.ready_fd = None


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


class Client:
    """One keep-alive connection; not for several threads."""

    def __init__(self, url, key=None, timeout_s=60):
        place = urllib.parse.urlsplit(url)
        self.key, self.connection = key, http.client.HTTPConnection(place.hostname, place.port, timeout=timeout_s)

    def send(self, method, path, body=None, key=None, headers=None):
        """`body`: bytes as they are, anything else as JSON. → Reply."""
        key = key or self.key
        headers = dict(headers or {})
        if key:
            headers["Authorization"] = "Bearer " + key
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        for attempt in (1, 2):
            try:
                self.connection.request(method, path, body, headers)
                response = self.connection.getresponse()
                return Reply(response.status, response.headers, response.read())
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.connection.close()  # an idle connection that the server closed; the second time it is an answer
                if attempt == 2:
                    raise
            except BaseException:
                self.connection.close()
                raise

    def tool(self, name, arguments):
        """→ Reply of POST /v1/tools/<name>."""
        return self.send("POST", "/v1/tools/" + name, arguments)

    def ok(self, name, arguments):
        """The tool's answer, which has to be one of success."""
        reply = self.tool(name, arguments)
        assert reply.status == 200 and reply.json["status"] == "ok", (name, reply.status, reply.body[:2000])
        return reply.json

    def query(self, text, params=None, **more):
        return self.ok("query_memory_graph", {"query": text, "params": params or {}, **more})

    def refused(self, name, arguments, status, reason):
        """The tool's answer, which has to be that refusal."""
        reply = self.tool(name, arguments)
        answer = reply.json
        assert (reply.status, answer["status"]) == (status, "error"), (reply.status, reply.body[:2000])
        assert answer["error"] == answer["reason"] == reason, answer
        assert answer["detail"], answer
        return answer

    def close(self):
        self.connection.close()


class Served:
    """What clusters have in common: a URL, an admin key, orgs."""

    url = data = None

    def admin_key(self):
        raise NotImplementedError

    def client(self, key=None, timeout_s=60):
        return Client(self.url, key, timeout_s)

    def admin(self, method, path, body=None):
        client = self.client(self.admin_key())
        try:
            reply = client.send(method, "/v1/admin" + path, body)
        finally:
            client.close()
        assert reply.status == 200, (reply.status, reply.body)
        return reply.json

    def new_org(self, name, **settings):
        """→ a client with the org's key. settings: partitions, dimension, embedding."""
        return self.client(self.admin("POST", "/orgs", {"name": name, **settings})["key"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Cluster(Served):
    """Shards and a coordinator as separate programs, over ipc:// or tcp://."""

    def __init__(self, shards=2, is_tcp=False, data=None, coordinator_words=(), shard_words=(), environment=None):
        self.is_owner = data is None
        self.data = pathlib.Path(data or tempfile.mkdtemp(prefix="heddle-test-"))
        self.shard_words, self.coordinator_words = list(shard_words), list(coordinator_words)
        self.shards, self.coordinator, self.environment = [], None, environment
        self.endpoints = []
        for number in range(shards):
            socket_path = "ipc://%s/shard%d.sock" % (self.data, number)
            self.endpoints.append("tcp://127.0.0.1:%d" % free_port() if is_tcp else socket_path)
        try:
            for number in range(shards):
                self.shards.append(self.start_shard(number))
            self.start_coordinator()
        except BaseException:
            self.close()
            raise

    def shard_data(self, number):
        return self.data / ("shard%d" % number)

    def start_shard(self, number):
        words = [BUILD / "heddle-shard", "--data", self.shard_data(number), "--listen", self.endpoints[number], *self.shard_words]
        process = Process(words, self.data / ("shard%d.log" % number))
        try:
            process.wait_ready()
        except BaseException:
            process.kill()
            raise
        return process

    def start_coordinator(self):
        words = [BUILD / "heddle-coordinator", "--data", self.data / "coordinator", "--listen", "127.0.0.1:0", *self.coordinator_words]
        for endpoint in self.endpoints:
            words += ["--shard", endpoint]
        self.coordinator = Process(words, self.data / "coordinator.log", environment=self.environment)
        self.url = self.coordinator.wait_ready()

    def admin_key(self):
        return (self.data / "coordinator" / "admin.key").read_text().strip()

    def kill_shard(self, number):
        self.shards[number].kill()

    def restart_shard(self, number):
        self.shards[number] = self.start_shard(number)

    def stop(self):
        """Orderly, coordinator first; → the exit codes."""
        return [self.coordinator.stop()] + [shard.stop() for shard in self.shards]

    def close(self):
        for process in [self.coordinator, *self.shards]:
            if process:
                process.kill()
        if self.is_owner:
            shutil.rmtree(self.data, ignore_errors=True)


class Serve(Served):
    """`heddle serve`: the embedded way. It prints a line when ready, and restarts shards that die."""

    def __init__(self, shards=2, data=None, words=(), port=None):
        self.is_owner = data is None
        self.data = pathlib.Path(data or tempfile.mkdtemp(prefix="heddle-test-"))
        self.port = port or free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        # Beside the folder, so that the folder holds only what serve puts there.
        self.log_path = self.data.with_name(self.data.name + ".log")
        command = [BUILD / "heddle", "serve", "--data", self.data, "--shards", shards, "--listen", "127.0.0.1:%d" % self.port, *words]
        self.process = Process(command, self.log_path, is_ready_told=False)
        try:
            wait_until(self.is_ready, "heddle serve is ready")
        except BaseException:
            log = self.process.log()
            self.close()
            raise AssertionError("heddle serve did not become ready:\n" + log[-4000:])

    def is_ready(self):
        assert self.process.child.poll() is None, "heddle serve ended:\n" + self.process.log()[-4000:]
        client = self.client()
        try:
            return client.send("GET", "/readyz").status == 200
        except OSError:
            return False
        finally:
            client.close()

    def admin_key(self):
        return (self.data / "admin.key").read_text().strip()

    def shard_pids(self):
        """Process ids of the running shards."""
        return children_named(self.process.pid, "heddle-shard")

    def stop(self):
        return self.process.stop()

    def close(self):
        """SIGTERM first: a killed `serve` could leave its children to themselves for a moment."""
        children = children_named(self.process.pid, "heddle-") if self.process.child.poll() is None else []
        try:
            self.process.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            for pid in children:
                if os.path.exists("/proc/%d" % pid):
                    os.kill(pid, signal.SIGKILL)
        if self.is_owner:
            shutil.rmtree(self.data, ignore_errors=True)
            self.log_path.unlink(missing_ok=True)


def children_named(parent, name):
    """Process ids of a process's children whose command begins so, from /proc."""
    out = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        command, _, rest = stat[stat.index("(") + 1 :].rpartition(")")
        if int(rest.split()[1]) == parent and rest.split()[0] != "Z" and command.startswith(name[:15]):
            out.append(int(entry))
    return sorted(out)


def run_heddle(words, url=None, key=None, stdin=None, timeout_s=300, environment=None):
    """One command of the client; → CompletedProcess with text output."""
    extra = dict(environment or {})
    if url:
        extra["HEDDLE_URL"] = url
    if key:
        extra["HEDDLE_KEY"] = key
    return subprocess.run(
        [str(BUILD / "heddle"), *[str(word) for word in words]],
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=clean_environment(extra),
    )

#!/usr/bin/env python3
"""Measures Heddle end to end: starts `heddle serve`, imports a memory, asks the six kinds of queries over HTTP on loopback.

    bench/gen.py --out DIR                      once; DIR outside the repository
    scripts/build build -DHEDDLE_BENCH=ON
    bench/run.py --data DIR [--shards 2] [--partitions 4] [--clients 1,8] [--rounds 3]

Prints a table in Markdown and, with --json FILE, everything measured. `foreign` is what other processes of the machine used
meanwhile, in cores: figures with much of it say little. So each measurement waits a while for a quiet machine, and is made up to three
times, of which the quietest counts. `CPU` is what the cluster used a query, all processes together."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.cluster import BUILD, Serve, children_named, run_heddle  # noqa: E402

TICK = os.sysconf("SC_CLK_TCK")


def machine_busy_s():
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICK


def used_s(pids):
    total = 0
    for pid in pids:
        try:
            fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICK


class Meter:
    """CPU of the cluster, of a command that is waited for, and of everything else, while it runs."""

    def __init__(self, pids):
        self.pids = pids

    def __enter__(self):
        self.began, self.busy, self.own = time.monotonic(), machine_busy_s(), used_s(self.pids)
        self.waited = sum(os.times()[2:4])
        return self

    def __exit__(self, *_):
        self.took_s = time.monotonic() - self.began
        self.cluster_s = used_s(self.pids) - self.own
        self.command_s = sum(os.times()[2:4]) - self.waited
        self.foreign = max(0, (machine_busy_s() - self.busy - self.cluster_s - self.command_s) / self.took_s)


QUIET_CORES, WAIT_S, ATTEMPTS = 0.2, 20, 3


def wait_for_quiet():
    """Waits a while for the rest of the machine to do little."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        busy = machine_busy_s()
        time.sleep(0.5)
        if (machine_busy_s() - busy) / 0.5 < QUIET_CORES:
            return


def memory_mib(pids):
    total = 0
    for pid in pids:
        for line in pathlib.Path("/proc/%d/status" % pid).read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) / 1024
    return total


def load(serve, key, data, pids, batch, in_flight):
    wait_for_quiet()
    with Meter(pids) as meter:
        done = run_heddle(["import", "jsonl", data / "memories.jsonl", "--json", "--batch", batch, "--in-flight", in_flight], serve.url, key, timeout_s=3600)
    assert done.returncode == 0, done.stderr[-2000:]
    counted = json.loads(done.stdout)
    return {"events": counted["added"], "seconds": meter.took_s, "per_s": counted["added"] / meter.took_s, "cluster_cpu_s": meter.cluster_s, "client_cpu_s": meter.command_s,
            "foreign": meter.foreign, "memory_mib": memory_mib(pids)}  # fmt: skip


def ask(serve, key, queries, kind, clients, count, pids):
    """The quietest of a few attempts; one is enough where nothing else ran."""
    best = None
    for _ in range(ATTEMPTS):
        wait_for_quiet()
        run = ask_once(serve, key, queries, kind, clients, count, pids)
        if best is None or run["foreign"] < best["foreign"]:
            best = run
        if best["foreign"] < QUIET_CORES:
            break
    return best


def ask_once(serve, key, queries, kind, clients, count, pids):
    command = [BUILD / "heddle-bench", "--queries", queries, "--kind", kind, "--clients", clients, "--count", count, "--url", serve.url, "--key", key]
    with Meter(pids) as meter:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    run = json.loads(done.stdout)
    return {**run, "cluster_cpu_ms": meter.cluster_s * 1000 / (run["count"] + 100), "foreign": meter.foreign}


def kinds_of(path):
    return list(dict.fromkeys(line.split("\t", 1)[0] for line in open(path)))


def spread(values, digits):
    low, middle, high = min(values), statistics.median(values), max(values)
    form = "%%.%df" % digits
    return form % middle if form % low == form % high else (form + " (" + form + "–" + form + ")") % (middle, low, high)


def print_table(imported, rounds):
    print("\nImport: %s events/s of %s, synced; memory %.0f MiB; cluster CPU %.1f s, client CPU %.1f s, foreign %.2f\n"
          % (f"{imported['per_s']:,.0f}", f"{imported['events']:,}", imported["memory_mib"], imported["cluster_cpu_s"], imported["client_cpu_s"], imported["foreign"]))  # fmt: skip
    print("| query | clients | p50 ms | p95 ms | p99 ms | per s | CPU ms | answer | foreign |\n|---|---|---|---|---|---|---|---|---|")
    for (kind, clients), runs in rounds.items():
        cells = [spread([run[name] for run in runs], digits) for name, digits in (("p50_ms", 2), ("p95_ms", 2), ("p99_ms", 2), ("per_s", 0), ("cluster_cpu_ms", 1))]
        partial = sum(run["partial"] for run in runs)
        print("| %s | %d | %s | %.1f kB | %.2f |" % (kind + (" (%d partial)" % partial if partial else ""), clients, " | ".join(cells), runs[0]["answer_bytes"] / 1000,
                                                   max(run["foreign"] for run in runs)))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=pathlib.Path, help="what bench/gen.py made")
    parser.add_argument("--folder", type=pathlib.Path, help="where the cluster keeps its data; by default a temporary folder")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--clients", default="1,8")
    parser.add_argument("--kinds", help="these alone, as bridges,thread")
    parser.add_argument("--rounds", type=int, default=3, help="times that all is asked; the table has the median and the range")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    facts = json.loads((arguments.data / "facts.json").read_text())
    queries = arguments.data / "queries.tsv"
    with Serve(arguments.shards, data=arguments.folder, words=["--log-level", "warn"]) as serve:
        pids = children_named(serve.process.pid, "heddle-")
        key = serve.admin("POST", "/orgs", {"name": "bench", "partitions": arguments.partitions, "dimension": facts["dimension"], "embedding": "none"})["key"]
        imported = load(serve, key, arguments.data, pids, arguments.batch, arguments.in_flight)
        print("imported: %s" % json.dumps(imported), flush=True)
        rounds = {}
        for number in range(arguments.rounds):
            for kind in arguments.kinds.split(",") if arguments.kinds else kinds_of(queries):
                for clients in map(int, arguments.clients.split(",")):
                    run = ask(serve, key, queries, kind, clients, arguments.count, pids)
                    rounds.setdefault((kind, clients), []).append(run)
                    print("round %d: %s" % (number + 1, json.dumps(run)), flush=True)
    print_table(imported, rounds)
    if arguments.json:
        arguments.json.write_text(json.dumps({"facts": facts, "import": imported, "runs": [run for runs in rounds.values() for run in runs]}, indent=1) + "\n")


if __name__ == "__main__":
    main()

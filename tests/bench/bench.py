#!/usr/bin/env python3
"""The figures in the README: cold start, restart after a worker's death, memory. Prints a table; asserts nothing.

    python3 tests/bench/bench.py [--binary build/release/bin/muster] [--torchrun .venv/bin/torchrun] [--idle 3]
"""
import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIMIT_S = 60  # limit of any single wait


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(p / 100 * (len(ordered) - 1)))]


def summary(values_ns):
    ms = [v / 1e6 for v in values_ns]
    return (f"median {statistics.median(ms):7.1f} ms   p99 {percentile(ms, 99):7.1f} ms   "
            f"max {max(ms):7.1f} ms   n={len(ms)}")


def records(log):
    """Lines of worker.c: (ns, pid, rank, restart)."""
    try:
        with open(log) as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    return [(int(ns), int(pid), rank, restart) for ns, pid, rank, restart in (line.split() for line in lines)]


def wait_for(what, condition):
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    raise TimeoutError(f"waited {LIMIT_S} s for {what}")


def run_case(case, description, setting):
    """Runs one test case as a program with one option, which is an attribute of its class. Returns the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = getattr(case, setting)
    parser.add_argument("--" + setting, type=type(default), default=default)
    setattr(case, setting, getattr(parser.parse_args(), setting))
    done = unittest.TextTestRunner(verbosity=0).run(unittest.TestSuite([case()]))
    return 0 if done.wasSuccessful() and not done.skipped else 1


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(log, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "PET_", "CLUSTER_SPEC"))}
    return env | {"BENCH_LOG": log} | more


def cold_start(command, folder, times):
    """Nanoseconds from just before the spawn to the worker's first instruction."""
    samples = []
    for i in range(times):
        log = os.path.join(folder, f"cold-{i}")
        before = now_ns()
        subprocess.run(command, env=environment(log, BENCH_EXIT="1"), check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=LIMIT_S)
        samples.append(records(log)[0][0] - before)
        os.unlink(log)
    return samples


class Group:
    """Two nodes with four static workers each."""

    def __init__(self, binary, worker, folder, nodes=2, workers=4):
        self.log = os.path.join(folder, "group")
        self.size = nodes * workers
        port = free_port()
        hosts = [f"127.0.0.{i + 1}:{port}" for i in range(nodes)]
        self.nodes = []
        for i in range(nodes):
            task = {"type": "workerpool0", "index": 0} if i == 0 else {"type": "workerpool1", "index": i - 1}
            spec = {"cluster": {"workerpool0": hosts[:1], "workerpool1": hosts[1:]}, "task": task}
            # A separate file: nodes on two machines would not share the program's pages either.
            own = shutil.copy(binary, os.path.join(folder, f"muster-{i}"))
            self.nodes.append(subprocess.Popen(
                [own, "run", "--nproc-per-node", str(workers), "--max-restarts", "100000",
                 "--restart-delay", "0", "--no-python", worker],
                env=environment(self.log, CLUSTER_SPEC=json.dumps(spec)), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True))
        self.generation(0)

    def generation(self, restart):
        def started():
            mine = [r for r in records(self.log) if r[3] == str(restart)]
            return mine if len(mine) == self.size else None
        return wait_for(f"all workers of restart {restart}", started)

    def restart_times(self, times, idle_s):
        samples = []
        restart = 0
        for _ in range(times):
            present = self.generation(restart)
            time.sleep(idle_s)
            victim = present[len(samples) % self.size][1]
            before = now_ns()
            os.kill(victim, signal.SIGKILL)
            restart += 1
            samples.append(max(r[0] for r in self.generation(restart)) - before)
        return samples

    def memory(self):
        """PSS in MB of all muster processes of each node; the program's pages are shared within a node only."""
        return [sum(pss(pid) for pid in [node.pid] + agents(node.pid)) for node in self.nodes]

    def end(self):
        for node in self.nodes:
            node.send_signal(signal.SIGINT)
        for node in self.nodes:
            node.wait(timeout=LIMIT_S)


def agents(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(p) for p in file.read().split()]
    found = []
    for child in children:
        with open(f"/proc/{child}/cmdline", "rb") as file:
            if file.read().split(b"\0")[1:2] == [b"agent"]:
                found.append(child)
    return found


def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def torchrun_memory(torchrun, folder):
    process = subprocess.Popen([torchrun, "--standalone", "--nproc-per-node", "4", "--no-python",
                                os.path.join(folder, "worker")],
                               env=environment(os.path.join(folder, "torchrun")), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for("torchrun's workers", lambda: len(records(os.path.join(folder, "torchrun"))) == 4)
        return pss(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=LIMIT_S)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build/release/bin/muster"))
    parser.add_argument("--torchrun", default=os.path.join(ROOT, ".venv/bin/torchrun"))
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--idle", type=int, default=3, help="restarts measured after 60 s of idleness each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        worker = os.path.join(folder, "worker")
        subprocess.run(["cc", "-O2", "-static", "-o", worker, os.path.join(HERE, "worker.c")], check=True)
        bare = cold_start([worker], folder, arguments.times)
        muster = cold_start([arguments.binary, "run", "--standalone", "--no-python", worker], folder, arguments.times)
        print("spawn to the worker's first instruction")
        print(f"  bare exec                    {summary(bare)}")
        print(f"  muster run --standalone      {summary(muster)}")
        have_torchrun = os.access(arguments.torchrun, os.X_OK)
        if have_torchrun:
            torchrun = cold_start([arguments.torchrun, "--standalone", "--no-python", worker], folder, 5)
            print(f"  torchrun --standalone        {summary(torchrun)}")
        group = Group(arguments.binary, worker, folder)
        try:
            memory = group.memory()
            print("a worker's death to the last restarted worker's first instruction, 2 nodes x 4 workers")
            print(f"  busy                         {summary(group.restart_times(arguments.times, 0.0))}")
            if arguments.idle > 0:
                os.unlink(group.log)
            group.end()
            group = Group(arguments.binary, worker, folder) if arguments.idle > 0 else None
            if group:
                print(f"  after 60 s idle              {summary(group.restart_times(arguments.idle, 60.0))}")
        finally:
            if group:
                group.end()
        print("memory of all muster processes of a node (PSS)")
        print(f"  the primary                  {memory[0]:.1f} MB")
        print(f"  another node                 {memory[1]:.1f} MB")
        if have_torchrun:
            print(f"  torchrun, one node           {torchrun_memory(arguments.torchrun, folder):.1f} MB")


if __name__ == "__main__":
    main()

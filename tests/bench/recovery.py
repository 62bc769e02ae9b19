#!/usr/bin/env python3
"""Time from a fault to all workers of the next round: 4 nodes of 2 static workers. Prints a table; asserts nothing.

    sudo python3 tests/bench/recovery.py [--times 20]

Needs root for namespaces: without it no node is cut off or killed whole. Ended processes restart at once; after the
loss of a whole node the others go on without it (--nnodes 3:4), and it returns for the next measurement.
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "chaos"), str(HERE.parent / "integration")]
import bench  # noqa: E402
import job as chaos  # noqa: E402
from cluster import kill  # noqa: E402
from faults import Fault  # noqa: E402
from network import Network, can_make_namespaces  # noqa: E402

NODES, WORKERS = 4, 2
QUIET_S = 3.0     # after a death that should disturb nobody; 5 agents in 10 s end a host
BEAT_MS = 500.0   # the last status is at most this old at a cut
MARGIN_S = 1 + chaos.LEASE_S / 100  # the coordinator's margin


class Bench:
    def __init__(self, worker, network=None, gaps=False, **form):
        self.folder = tempfile.TemporaryDirectory(prefix="muster-bench-")
        self.log, self.gaps = os.path.join(self.folder.name, "log"), os.path.join(self.folder.name, "gaps")
        self.job = chaos.Job(NODES, WORKERS, network=network, program=[worker],
                             environment={"BENCH_LOG": self.log, **({"BENCH_GAPS": self.gaps} if gaps else {})}, **form)
        self.job.start_all()
        self.restart = 0
        self.wait_for_round(NODES)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.job.later.clear()
        self.job.close()
        self.folder.cleanup()

    def last_restart(self):
        return max((int(record[3]) for record in bench.records(self.log)), default=0)

    def wait_for_round(self, nodes):
        """The time, in ns, at which the last worker of the awaited round started."""
        def started():
            mine = [record for record in bench.records(self.log) if int(record[3]) == self.restart]
            return len(mine) == nodes * WORKERS and max(record[0] for record in mine)
        return self.job.wait_until(f"all workers of restart {self.restart}", started, bench.LIMIT_S)

    def pause(self, seconds):
        end = chaos.now() + seconds
        self.job.wait_until("a pause", lambda: chaos.now() > end)

    def times(self, count, what, how, place, nodes=NODES):
        """Nanoseconds from the fault to the last worker of the next round."""
        samples = []
        for index in range(count):
            if nodes < NODES:
                self.job.absent.add(place)
            began = bench.now_ns()
            self.job.inject(Fault(what, how, place, index % WORKERS, bench.LIMIT_S, 0.0))
            self.restart += 1
            samples.append(self.wait_for_round(nodes) - began)
            if nodes < NODES:  # returns for the next measurement
                self.job.later.clear()
                self.job.network.heal()
                self.job.absent.clear()
                self.restart += 1
                self.wait_for_round(NODES)
            self.job.wait_until("all nodes running again", self.job.whole)
            self.pause(0.2)
        return samples

    def quiet(self, count, strike):
        """The cost of a death that should not be noticed: restarts, and the longest time, in ns, during which
        a worker did not run."""
        began = bench.now_ns()
        for _ in range(count):
            strike()
            self.pause(QUIET_S)
        gaps = [0]
        if os.path.exists(self.gaps):
            with open(self.gaps, encoding="ascii") as file:
                gaps += [int(line.split()[2]) for line in file if int(line.split()[1]) > began]
        return self.last_restart(), max(gaps)


def show(what, samples, aim):
    print(f"  {what:34} {bench.summary(samples)}   aim {aim}", flush=True)


def show_quiet(what, count, found):
    restarts, gap = found
    longest = f"{gap / 1e6:.1f} ms" if gap else "under 2 ms"
    print(f"  {what:34} {restarts} restarts; a worker's longest time without running: {longest}   n={count}", flush=True)


def with_network(places, run):
    network = Network(places)
    try:
        run(network)
    finally:
        network.close()


def undisturbed(worker, count):
    with Bench(worker, gaps=True) as group:
        show_quiet("(nothing at all)", count, group.quiet(count, lambda: None))
    with Bench(worker, gaps=True) as group:
        show_quiet("an agent killed", count, group.quiet(count, lambda: kill(group.job.nodes[1].agent())))
    with Bench(worker, gaps=True) as group:
        show_quiet("the coordinator's agent killed", count, group.quiet(count, lambda: kill(group.job.nodes[0].agent())))
    with Bench(worker, gaps=True, alone=True) as group:
        show_quiet("muster coordinator killed", count, group.quiet(
            count, lambda: group.job.inject(Fault("coordinator", "killed", NODES, 0, 0.0, 0.0))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    times = parser.parse_args().times
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        worker = os.path.join(folder, "worker")
        subprocess.run(["cc", "-O2", "-static", "-o", worker, str(HERE / "worker.c")], check=True)
        print(f"from a fault to the last worker of the next round, {NODES} nodes x {WORKERS} workers, "
              f"lease {chaos.LEASE_S} s")
        undisturbed(worker, times)
        with Bench(worker) as group:
            show("a worker killed", group.times(times, "worker", "killed", 1), "under 100 ms")
            show("a node's main process killed", group.times(times, "host", "killed", 1), "under 1 s")
            show("the primary's main process killed", group.times(times, "host", "killed", 0), "under 1 s")
        if not can_make_namespaces():
            print("  no namespaces here: no node cut off or killed whole")
            return
        limit = (f"under {chaos.LEASE_S + MARGIN_S + 0.5:.2f} s from the last status, "
                 f"which came up to {BEAT_MS / 1e3:.1f} s before")

        def lost(network):
            for what, how in (("a node cut off", "cut off"), ("a node killed whole", "killed")):
                samples = []
                while len(samples) < times:
                    with Bench(worker, network=network, nnodes=f"{NODES - 1}:{NODES}", settle="0s") as group:
                        for place in range(1, NODES):  # each once: who is lost again and again is held back
                            samples += group.times(1, "node", how, place, NODES - 1)
                show(what, samples[:times], limit)
        with_network(NODES, lost)


if __name__ == "__main__":
    main()

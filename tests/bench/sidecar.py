#!/usr/bin/env python3
"""Time from the end of a training container to all workers of the next round, for nodes in two containers each.

    sudo python3 tests/bench/sidecar.py [--times 5]

2 nodes of 2 workers, of which one suffices (--nnodes 1:2); a container is a PID and mount namespace. Prints a table;
asserts nothing. Root only. The workers are Python's, whose start is part of the time.
"""
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]
import bench  # noqa: E402
from cluster import kill, wait_until  # noqa: E402
from test_sidecar import FAR, RECONNECTED, Sidecar  # noqa: E402
from witness import now  # noqa: E402

QUIET_S = 1.1  # agents that live for less than a second are started at once only five times in a row
LIVES_ON = ("sh", "-c", '"$@"; sleep 1000', "sh")  # a process 1 that outlives the host


class Bench(Sidecar):
    times = 5

    def show(self, what, seconds):
        print(f"  {what:44} {bench.summary([value * 1e9 for value in seconds])}", flush=True)

    def one(self, fault, options, **container):
        job = self.pods(options=("--nnodes", "1:2", *options))
        job.pods[0].start()
        job.pods[1].start_training(**container)
        job.pods[1].start_sidecar()
        job.wait_for_round(0)
        began = now()
        fault(job.pods[1])
        starts = job.wait_for_round(1, workers=2)
        job.open_gate()
        self.assertEqual([0, 0], job.pods[0].exit_codes())
        return max(record["time"] for record in starts.values()) - began

    def measure(self, what, fault, options=FAR, **container):
        self.show(what, [self.one(fault, options, **container) for _ in range(self.times)])

    def agents(self):
        job, starts = self.running(plan=[{"term": "ignore"}])
        pod, took = job.pods[1], []
        for _ in range(4 * self.times):
            seen = len(pod.sidecar.said(RECONNECTED))
            began = now()
            kill(wait_until("an agent", pod.agent))
            wait_until("a new agent", lambda: len(pod.sidecar.said(RECONNECTED)) > seen)
            took.append(now() - began)
            time.sleep(QUIET_S)
        self.check_undisturbed(job, starts)
        self.show("an agent killed: to its connected successor", took)

    def runTest(self):
        print("from a fault to the last worker of the next round, 2 nodes x 2 workers in two containers each")
        self.agents()
        self.measure("a training container killed", lambda pod: kill(pod.training.main()))
        self.measure("the host in it killed", lambda pod: kill(pod.host()))
        self.measure("the same below another process 1, lease 3 s", lambda pod: kill(pod.host()), (), container=LIVES_ON)


if __name__ == "__main__":
    sys.exit(bench.run_case(Bench, __doc__, "times"))

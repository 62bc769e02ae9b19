"""A worker dies: the whole group restarts, and when the budget is spent every node ends with the root cause."""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import cluster
from cluster import ClusterTest

WAYS = {"exit 7": ({"exit": 7}, 7), "SIGSEGV": ({"signal": signal.SIGSEGV}, 139),
        "SIGKILL": ({"signal": signal.SIGKILL}, 137)}
DEADLY = [number for number in range(1, 65) if number not in
          (signal.SIGCHLD, signal.SIGCONT, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
           signal.SIGURG, signal.SIGWINCH, 32, 33)]  # 32 and 33 are the C library's own


# Rank 0 fails first, and leaves a process that holds its standard error; rank 1 crashes once that end was seen.
FAILS_BEFORE_A_CRASH = """
import os, pathlib, signal, subprocess, sys, time
pid = pathlib.Path(sys.argv[1]) / "pid"
if os.environ["RANK"] == "0":
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print("bad data", file=sys.stderr, flush=True)
    pid.with_suffix(".new").write_text(str(os.getpid()))
    pid.with_suffix(".new").rename(pid)
    os._exit(7)
while not pid.exists() or os.path.exists("/proc/" + pid.read_text()): time.sleep(0.001)
os.kill(os.getpid(), signal.SIGSEGV)
"""


def fails(how, **when):
    return {"when": when, "after": "failure", **how}


class Restart(ClusterTest):
    def test_the_group_restarts_with_one_count(self):
        for name, (how, _) in WAYS.items():
            with self.subTest(name):
                job = self.cluster(3, plan=[fails(how, rank=3, restart=0)])
                job.start_all()
                before = job.wait_for_round(0)
                job.open_gate("failure")
                after = job.wait_for_round(1)
                job.open_gate()
                self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
                self.assertEqual(list(range(6)), sorted(after))
                self.assertEqual([before[rank]["place"] for rank in range(6)], [after[rank]["place"] for rank in range(6)])
                self.assert_same_master(after)
                self.assert_rounds_do_not_overlap(job)

    def test_a_taken_port_costs_no_restart(self):
        """This process, which is none of the job's, listens on MASTER_PORT before rank 0 does."""
        job = self.cluster(2, plan=[{"when": {"rank": 0}, "listen": True}], options=["--max-restarts", "0"])
        job.start_all()
        port = int(job.wait_for_round(0)[0]["master_port"])
        with socket.create_server(("", port)):
            job.open_gate()
            self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertNotEqual(port, int(job.wait_for_round(1)[0]["master_port"]))
        for node in job.nodes.values():
            self.assertTrue(node.said(rf"rank 0 on .* exited with code 1: .* \(pid {os.getpid()}\) listens on port {port}"))

    def test_counts_grow_by_one_with_each_failure(self):
        job = self.cluster(2, plan=[{"when": {"rank": 1, "restart": count}, "after": f"failure {count}",
                                      "exit": 1} for count in range(3)])
        job.start_all()
        for count in range(3):
            job.wait_for_round(count)
            job.open_gate(f"failure {count}")
        job.wait_for_round(3)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual([0, 1, 2, 3], sorted(record["restart"] for record in job.records("start", rank=0)))
        self.assert_rounds_do_not_overlap(job)

    def test_ignoring_sigterm_does_not_survive_the_round(self):
        job = self.cluster(2, options=["--shutdown-timeout", "500ms"],
                           plan=[{"when": {"restart": 0}, "term": "ignore"}, fails({"exit": 1}, rank=0, restart=0)])
        job.start_all()
        job.wait_for_round(0)
        job.open_gate("failure")
        job.wait_for_round(1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_descendants_of_a_round_do_not_reach_the_next(self):
        kinds = ["plain", "setsid", "double_fork", "bash", "daemon_in_bash"]
        job = self.cluster(2, nproc=1, plan=[{"when": {"restart": 0}, "spawn": kinds},
                                             fails({"exit": 1}, rank=1, restart=0)])
        job.start_all()
        job.wait_for_round(0)
        for kind in kinds:
            cluster.wait_until(f"descendants of kind {kind}", lambda kind=kind: len(job.descendants_of(kind)) >= 2)
        job.open_gate("failure")
        job.wait_for_round(1)
        for kind in kinds:
            self.assertEqual(set(), job.descendants_of(kind), kind)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())


class BudgetSpent(ClusterTest):
    def test_every_node_ends_with_the_root_cause(self):
        for name, (how, code) in WAYS.items():
            with self.subTest(name):
                job = self.cluster(3, options=["--max-restarts", "1"], reduction_server=True,
                                   plan=[fails({**how, "after": None}, rank=4)])
                job.start_all()
                self.assertEqual({0: code, 1: code, 2: code, 3: 0}, job.exit_codes())
                reports = {re.sub(r"^\S+ \S+ ", "", line) for node in job.nodes.values()
                           for line in node.err().splitlines() if "exit code" in line and f"exit code {code}" in line}
                self.assertEqual(1, len(reports), reports)
                report = reports.pop()
                self.assertRegex(report, r"rank 4\b")
                self.assertRegex(report, r"worker")
                what = how["signal"].name if "signal" in how else f"code {how['exit']}"
                self.assertIn(what, report)
                self.assertEqual({0, 1}, {record["restart"] for record in job.records("start")})

    def test_a_consequential_failure_is_not_the_cause(self):
        job = self.cluster(3, nproc=1, options=["--max-restarts", "0"],
                           plan=[{"term": "exit"}, fails({"exit": 9}, rank=1)])
        job.start_all()
        job.wait_for_round(0)
        job.open_gate("failure")
        self.assertEqual({0: 9, 1: 9, 2: 9}, job.exit_codes())

    def test_the_first_failure_is_the_cause_though_reported_late(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        job = self.cluster(1, options=["--max-restarts", "0"], program=[*cluster.FRESH, "-c", FAILS_BEFORE_A_CRASH, folder])
        job.start_all()
        self.assertEqual({0: 7}, job.exit_codes())

    def test_the_stopped_workers_of_the_other_nodes_are_counted(self):
        job = self.cluster(2, nproc=1, options=["--max-restarts", "0"], plan=[fails({"exit": 9}, rank=1)])
        job.start_all()
        job.wait_for_round(0)
        job.open_gate("failure")
        self.assertEqual({0: 9, 1: 9}, job.exit_codes())
        for node in job.nodes.values():
            others = node.err().split("Failures:\n")[1].split("Root Cause")[0]
            self.assertIn("  1 that muster stopped after the first failure\n", others)


class EveryEnding(unittest.TestCase):
    """One node and one worker: fast enough to test all codes and signals."""

    def run_worker(self, program):
        done = subprocess.run([str(cluster.BINARY), "run", "--standalone", "--no-python", "--", *program],
                              env=cluster.plain_environment(), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=cluster.LIMIT_S)
        return done.returncode, done.stderr

    def test_every_exit_code_passes_through(self):
        for code in range(256):
            with self.subTest(code=code):
                self.assertEqual(code, self.run_worker(["sh", "-c", f"exit {code}"])[0])

    def test_every_deadly_signal_passes_through(self):
        for number in DEADLY:
            with self.subTest(signal=number):
                program = f"import os, signal; os.kill(os.getpid(), {number})"
                if number not in (signal.SIGKILL, signal.SIGSTOP):
                    program = f"import signal; signal.signal({number}, signal.SIG_DFL); {program}"
                self.assertEqual(128 + number, self.run_worker([sys.executable, "-S", "-E", "-c", program])[0])

    def test_missing_programs_are_127_unusable_ones_126(self):
        self.assertEqual(127, self.run_worker(["/nowhere/at/all"])[0])
        with tempfile.NamedTemporaryFile() as plain:  # without execute bit
            self.assertEqual(126, self.run_worker([plain.name])[0])


if __name__ == "__main__":
    cluster.main()

"""The rank whose exception ends the round is named, not a peer that fails because of it, and often ends sooner.

MUSTER_TRIALS=N: so many rounds of each kind of fault (2); one job has all rounds of a kind."""
import itertools
import os
import pathlib
import re
import subprocess
import sys
import unittest

import cluster

TRIALS = int(os.environ.get("MUSTER_TRIALS", "2"))
SCRIPT = pathlib.Path(__file__).with_name("root_cause.py")
RANKS, BAD_RANK = 4, 3
HOW = {"value": "exited with code 1", "exit": "exited with code 2", "record": "exited with code 1",
       "abort": "was killed (SIGABRT)"}


def run(fault, *options, **variables):
    environment = {**os.environ, "FAULT": fault, "BAD_RANK": str(BAD_RANK), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run([str(cluster.BINARY), "run", "--standalone", f"--nproc-per-node={RANKS}",
                           f"--python={sys.executable}", *options, str(SCRIPT)], env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace",
                          timeout=cluster.WAIT_TIMEOUT_S * max(1, TRIALS // 10))


def named(output):
    """The root cause of each round. What stopped it is said first, then the root cause if that is another."""
    causes = []
    said = r"muster: \[(coordinator\] round \d+ ended; root cause: |coordinator\] |host\] error: .*?: )"
    for where, cause in re.findall(said + r"(rank \d+ on \S+ (?:exited with code \d+|was killed \(\w+\)))", output):
        if where != "coordinator] ":
            causes.pop()
        causes.append(re.sub(r" on \S+", "", cause))
    return causes


class RootCause(unittest.TestCase):
    def check(self, fault, **variables):
        ended = run(fault, "--max-restarts", str(TRIALS - 1), "--restart-delay", "0s", "--preload",
                    "torch,torch.distributed", **variables)
        output = ended.stdout + ended.stderr
        self.assertEqual([f"rank {BAD_RANK} {HOW[fault]}"] * TRIALS, named(output), output)

    def test_the_rank_that_ends_is_named(self):
        for fault, destroys in itertools.product(HOW, ("", "1")):
            with self.subTest(fault=fault, destroys=bool(destroys)):
                self.check(fault, DESTROYS=destroys)

    def test_a_rank_that_takes_long_to_exit_is_named(self):
        for fault in ("value", "record"):
            with self.subTest(fault=fault):
                self.check(fault, DESTROYS="1", SLOW_EXIT="30")

    def test_a_rank_that_left_with_0_is_in_the_report(self):
        ended = run("zero", DESTROYS="1")
        self.assertRegex(ended.stdout + ended.stderr,
                         rf"hint +: rank {BAD_RANK} exited with code 0 (while this rank still ran|soon after this failure)")


if __name__ == "__main__":
    unittest.main(verbosity=2)

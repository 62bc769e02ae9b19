"""A training that hangs is seen, the rank that hangs is named with its line, and the job ends with the loss it would have had.

Two nodes of four workers on gloo, one way to hang each.
"""
import time
import unittest

import cluster
import torch

SCRIPT = cluster.ROOT / "tests/torch/hanging.py"
TIMEOUT_S = 10.0
SLACK_S = 2.0


class Hanging:
    """What is tested with both backends."""
    backend = "gloo"
    undisturbed = {}  # by backend: the loss of a job that does not hang, computed once

    def job(self, way, workers=4):
        job = cluster.Cluster(2, SCRIPT, options=["--hang-timeout", f"{TIMEOUT_S:g}s", "--max-restarts", "1"])
        self.addCleanup(job.close)
        job.arguments[1] = str(workers)
        job.arguments[2:2] = ["--log-dir", str(job.path / "logs")]
        job.arguments += [way, str(job.path), self.backend]
        return job

    def loss(self, job):
        found = job.find(r"final loss ([\d.]+)")
        self.assertEqual(len(found), 1, job.output())
        return found[0][1]

    def expected_loss(self):
        if self.backend not in self.undisturbed:
            job = self.job("none")
            job.start_all()
            self.assertEqual(job.exit_codes(), {0: 0, 1: 0}, job.output())
            self.assertFalse(job.find(cluster.ACCUSED), job.output())
            self.undisturbed[self.backend] = self.loss(job)
        return self.undisturbed[self.backend]

    def check(self, way, suspect):
        job = self.job(way)
        job.start_all()
        job.wait_until("the hang to be seen", lambda: job.find("asking all nodes where their workers stand"))
        seen = time.time()
        began = max(float(path.read_text()) for path in job.path.glob("hung-*"))
        self.assertLessEqual(seen - began, TIMEOUT_S + SLACK_S + 1, "one second: between two looks for signs of life")
        self.assertGreater(seen - began, TIMEOUT_S - 2, "not before: two seconds from the last output to the hang")
        self.assertEqual(job.exit_codes(), {0: 0, 1: 0}, job.output())
        self.assertTrue(job.find(suspect), job.output())
        self.assertEqual(self.loss(job), self.expected_loss())
        return job

    def line_of(self, text):
        lines = SCRIPT.read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if text in line)

    def check_sleeping(self):
        return self.check("sleep",
                          rf"suspect: rank 5: it stands elsewhere.*hanging.py:{self.line_of('time.sleep(1000)')}")

    def test_a_rank_that_spins_is_named(self):
        self.check("spin", r"suspect: rank 5: it stands elsewhere.*hanging.py:\d+ \(spin\)")

    def test_a_stopped_rank_is_named(self):
        self.check("stop", r"suspect: rank 5: it is stopped")


class Hangs(Hanging, unittest.TestCase):
    def test_a_rank_that_sleeps_is_named(self):
        self.check_sleeping()

    def test_a_rank_that_reads_from_a_pipe_is_named(self):
        self.check("pipe", rf"suspect: rank 5: it stands elsewhere.*hanging.py:{self.line_of('os.read(')}")

    def test_the_others_of_a_rank_that_has_ended_do_not_even_hang(self):
        """gloo sees that its connections are closed, and the round fails at once."""
        job = self.job("exit")
        job.start_all()
        self.assertEqual(job.exit_codes(), {0: 0, 1: 0}, job.output())
        self.assertTrue(job.find("restart 1 of 1"), job.output())
        self.assertEqual(self.loss(job), self.expected_loss())

    def test_two_ranks_that_wait_for_each_other_are_named(self):
        self.check("deadlock", rf"suspects: ranks 2-3: they stand elsewhere.*hanging.py:{self.line_of('dist.recv(')}")

    def test_of_two_ranks_that_in_no_collective_is_named(self):
        job = self.job("sleep", workers=1)
        job.start_all()
        self.assertEqual(job.exit_codes(), {0: 0, 1: 0}, job.output())
        line = self.line_of("time.sleep(1000)")
        self.assertTrue(job.find(rf"suspect: rank 1: it is in no collective operation.*hanging.py:{line}"), job.output())

    def test_a_loader_in_which_all_ranks_wait_is_shown(self):
        job = self.check("loader", r"no rank differs from the others")
        line = self.line_of("queue.Queue().get()")
        self.assertTrue(job.find(rf"8 ranks \(0-7\): in (?:Queue\.)?get, called at hanging.py:{line} "), job.output())


@unittest.skipUnless(torch.cuda.is_available(), "there is no GPU")
class HangsOnGpus(Hanging, unittest.TestCase):
    """With NCCL, whose waiters spin."""
    backend = "nccl"

    def test_a_rank_that_sleeps_is_named(self):
        job = self.check_sleeping()
        recorded = {path.name: path.stat().st_size for path in job.path.glob("logs/*/attempt_0/nccl_trace_rank_*")}
        self.assertEqual({f"nccl_trace_rank_{rank}" for rank in range(8)}, set(recorded), "flight recorders")
        self.assertGreater(min(recorded.values()), 1000)

    def test_two_ranks_that_wait_for_each_other_are_named(self):
        self.check("deadlock", r"suspects: ranks 2-3: they stand elsewhere.*hanging.py:\d+ \(")


if __name__ == "__main__":
    unittest.main()

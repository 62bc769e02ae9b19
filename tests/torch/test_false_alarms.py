"""A training that is silent for long, paused or without its agents for a while is not taken for one that hangs.

Two nodes of one worker on gloo.
"""
import os
import signal
import time
import unittest

import cluster

SCRIPT = cluster.ROOT / "tests/torch/unhurried.py"
TIMEOUT_S = 8.0
PAUSED_S = 2 * TIMEOUT_S


class FalseAlarms(unittest.TestCase):
    def start(self, way):
        job = cluster.Cluster(2, SCRIPT, options=["--hang-timeout", f"{TIMEOUT_S:g}s"])
        self.addCleanup(job.close)
        job.arguments[1] = "1"
        job.arguments += [way, str(job.path), f"{TIMEOUT_S:g}"]
        job.start_all()
        return job

    def check_trained(self, job):
        self.assertEqual(job.exit_codes(), {0: 0, 1: 0}, job.output())
        self.assertTrue(job.find("trained"), job.output())
        self.assertEqual([], job.find(cluster.ACCUSED), job.output())

    def warm(self, way):
        job = self.start(way)
        job.wait_until("the warm-up", lambda: job.find("^warm$"))
        return job

    def test_a_long_import(self):
        self.check_trained(self.start("import"))

    def test_a_long_checkpoint_of_rank_0_for_which_the_others_wait(self):
        job = self.warm("checkpoint")
        began = time.monotonic()
        self.check_trained(job)
        self.assertGreater(time.monotonic() - began, 2 * TIMEOUT_S, "else it shows nothing")

    def test_an_evaluation_on_rank_0_for_less_than_the_timeout(self):
        self.check_trained(self.warm("evaluation"))

    def test_a_pause_by_the_terminal(self):
        job = self.warm("steps")
        for node in job.nodes.values():
            node.process.send_signal(signal.SIGTSTP)
        end = time.monotonic() + PAUSED_S
        job.wait_until("the end of the pause", lambda: job.find(cluster.ACCUSED) or time.monotonic() > end)
        for node in job.nodes.values():
            node.process.send_signal(signal.SIGCONT)
        self.check_trained(job)

    def test_agents_and_the_coordinator_in_one_of_them_that_are_killed(self):
        job = self.warm("steps")
        for _ in range(3):
            for node in job.nodes.values():
                self.replace_agent(job, node)
        self.check_trained(job)
        self.assertEqual([], job.find("restart 1"), job.output())

    @staticmethod
    def replace_agent(job, node):
        before = job.wait_until("an agent", node.agents)
        os.kill(before[0], signal.SIGKILL)
        job.wait_until("a new agent", lambda: set(node.agents()) - set(before))


if __name__ == "__main__":
    unittest.main()

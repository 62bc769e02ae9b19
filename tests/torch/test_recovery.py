"""A training has the same last loss whether or not a worker, an agent or a host is killed meanwhile."""
import importlib.util
import os
import signal
import unittest

import cluster

STEPS = 30
GATE_STEP = 17  # between two checkpoints
EXAMPLES = cluster.ROOT / "deploy/examples"


class Recovery:
    """The tests, for each of the two example trainings below."""
    script = None
    undisturbed = {}  # by script: the last loss, computed once

    def job(self, *arguments, options=(), nodes=3):
        job = cluster.Cluster(nodes, EXAMPLES / self.script, options=options)
        self.addCleanup(job.close)
        job.arguments += ["--steps", str(STEPS), "--checkpoint", str(job.path / "checkpoint"), *arguments]
        return job

    def job_with_gate(self, options=()):
        """A job that has reached its gate with all workers of the first round alive."""
        job = self.job(options=options)
        self.gate = job.path / "gate"
        job.arguments += ["--gate-step", str(GATE_STEP), "--gate-file", str(self.gate)]
        job.start_all()
        job.wait_until("the gate", lambda: job.find("at the gate"))
        job.wait_until("all six workers", lambda: len(job.workers(0)) == 6)
        return job

    def last_loss(self, job):
        self.assertEqual(job.exit_codes(), {place: 0 for place in range(3)}, job.output())
        found = job.find(r"final loss ([\d.]+)")
        self.assertEqual(len(found), 1, job.output())
        return found[0][1]

    def undisturbed_loss(self):
        if self.script not in self.undisturbed:
            job = self.job()
            job.start_all()
            self.undisturbed[self.script] = self.last_loss(job)
        return self.undisturbed[self.script]

    def kill_host(self, job, place):
        """Kills a node's main process and waits until all of its workers are gone."""
        pids = job.nodes[place].workers(0).values()
        self.assertEqual(len(pids), 2)
        job.nodes[place].kill()
        job.wait_until("the killed host's workers to be gone",
                       lambda: not any(cluster.process_state(pid) for pid in pids))

    def test_a_killed_worker_costs_one_restart(self):
        job = self.job("--kill-rank", "3", "--kill-step", str(GATE_STEP))
        job.start_all()
        self.assertEqual(self.last_loss(job), self.undisturbed_loss())
        self.assertEqual(sorted(job.workers(1)), list(range(6)), "every rank was started again, once")
        self.assertFalse(job.workers(2), job.output())
        self.assertTrue(job.find(rf"starting at step {GATE_STEP // 5 * 5} of {STEPS} with 6 workers, restart 1"))

    def test_killed_agents_disturb_no_worker(self):
        job = self.job_with_gate()
        before = job.workers(0)
        for node in job.nodes.values():
            old = job.wait_until("an agent", node.agents)
            self.assertEqual(len(old), 1, "a host has one agent")
            os.kill(old[0], signal.SIGKILL)
            job.wait_until("a new agent", lambda: set(node.agents()) - set(old))
        self.assertTrue(all(cluster.process_state(pid) for pid in before.values()), job.output())
        self.gate.touch()
        self.assertEqual(self.last_loss(job), self.undisturbed_loss())
        self.assertFalse(job.workers(1), "no worker was started again")

    def test_a_killed_host_takes_its_place_again(self):
        job = self.job_with_gate()
        self.kill_host(job, 1)
        self.gate.touch()
        job.start(1)
        self.assertEqual(self.last_loss(job), self.undisturbed_loss())
        self.assertEqual(sorted(job.nodes[1].workers(1)), [2, 3], "the ranks that its place had before")
        self.assertFalse(job.workers(2), job.output())

    def test_a_killed_primary_host_continues_the_counts(self):
        job = self.job_with_gate()
        self.kill_host(job, 0)
        self.gate.touch()
        job.start(0)
        self.assertEqual(self.last_loss(job), self.undisturbed_loss())
        self.assertEqual(sorted(job.workers(1)), list(range(6)), "the new coordinator went on counting")
        self.assertEqual(sorted(job.nodes[0].workers(1)), [0, 1])

    def test_with_a_range_the_survivors_go_on(self):
        job = self.job_with_gate(options=("--nnodes", "2:3", "--max-restarts", "3"))
        self.kill_host(job, 2)
        self.gate.touch()
        codes = job.exit_codes()
        self.assertEqual((codes[0], codes[1]), (0, 0), job.output())
        self.assertTrue(job.find(r"with 4 workers, restart 1"), job.output())
        loss = job.find(r"final loss ([\d.]+)")[0][1]
        # Four summands are added in another order than six: equal except for the last bits.
        self.assertAlmostEqual(float(loss), float(self.undisturbed_loss()), places=9)


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class DistributedDataParallelTest(Recovery, unittest.TestCase):
    script = "train_ddp.py"


class StandardLibraryTest(Recovery, unittest.TestCase):
    script = "train_stdlib.py"


if __name__ == "__main__":
    unittest.main()

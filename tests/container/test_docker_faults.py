"""Three containers train on one network; one is killed, stopped, paused, cut off or replaced under another address.

Each time the group continues as the README says, and the last loss is that of an undisturbed run.
"""
import unittest

import engine
from engine import docker
from job import GATE, TRAINING, ContainerTest, never, wait_until


class Faults(ContainerTest):
    image, script, settings = "python", "train_stdlib.py", {}

    def at_the_gate(self, **kwargs):
        job = self.job(engine.training(self.image), [f"/examples/{self.script}", *TRAINING, *GATE],
                       **self.settings, **kwargs)
        job.start_all()
        job.wait_for_gate()
        return job

    def assert_continues(self, job, restarts=1):
        """The group has started again so many times, all workers each time, from the newest checkpoint."""
        job.open_gate()
        self.assert_same_loss(job, self.script)
        workers = job.size * job.nproc
        for restart in range(1, restarts + 1):
            self.assertEqual({rank: workers for rank in range(workers)}, job.starts(restart))
        self.assertEqual({}, job.starts(restarts + 1))
        self.assertTrue(job.find(rf"starting at step 15 of 30 with {workers} workers, restart {restarts}"))

    def move(self, job, place):
        """Removes a container and starts another one under its name, with another address."""
        old = job.nodes[place].address()
        job.nodes[place].do("rm", "-f")
        docker("run", "-d", "--label", engine.LABEL, "--network", job.network, "--name",  # takes the free address
               f"{engine.PREFIX}-{job.token}-placeholder", "--entrypoint", "sleep", job.image, "600")
        self.addCleanup(docker, "rm", "-f", f"{engine.PREFIX}-{job.token}-placeholder")
        new = job.start(place)
        wait_until("the new container's address", new.address)
        self.assertNotEqual(old, new.address())


class Killed(Faults):
    def test_a_killed_worker_container_is_replaced(self):
        job = self.at_the_gate()
        job.nodes[1].do("kill")
        self.assertEqual(137, job.nodes[1].exit_code())
        job.start(1)
        self.assert_continues(job)

    def test_a_killed_primary_container_is_replaced(self):
        job = self.at_the_gate()
        job.nodes[0].do("kill")
        self.assertEqual(137, job.nodes[0].exit_code())
        job.start(0)
        self.assert_continues(job)


class Moved(Faults):
    def test_a_worker_returns_under_another_address(self):
        job = self.at_the_gate()
        self.move(job, 2)
        self.assert_continues(job)

    def test_the_primary_returns_under_another_address(self):
        job = self.at_the_gate()
        self.move(job, 0)
        self.assert_continues(job)


class Stopped(Faults):
    def test_a_stopped_worker_container_leaves_in_order(self):
        job = self.at_the_gate()
        job.nodes[1].do("stop")
        self.assertEqual(134, job.nodes[1].exit_code(), "75 as Vertex AI expects it; 137 would be Docker's SIGKILL")
        job.start(1)
        self.assert_continues(job)

    def test_a_stopped_primary_container_leaves_in_order(self):
        job = self.at_the_gate()
        job.nodes[0].do("stop")
        self.assertEqual(134, job.nodes[0].exit_code())
        job.start(0)
        self.assert_continues(job)


class Paused(Faults):
    def test_a_pause_shorter_than_the_lease_disturbs_nobody(self):
        job = self.at_the_gate(options=("--lease", "2m"))
        for place in (1, 0):
            job.nodes[place].do("pause")
            never("a restart", lambda: job.starts(1))
            job.nodes[place].do("unpause")
        job.open_gate()
        self.assert_same_loss(job, self.script)
        self.assertEqual({}, job.starts(1))

    def test_a_worker_container_paused_for_longer_is_replaced(self):
        # A kernel timer kills its main process at the end of the lease. In a frozen container this takes effect when it
        # is resumed, and ends it.
        job = self.at_the_gate()
        job.nodes[1].do("pause")
        job.wait_for("the loss of the paused node", lambda: job.nodes[0].find(r"node 1 \(.*\) was lost"))
        job.nodes[1].do("unpause")
        self.assertEqual(137, job.nodes[1].exit_code())
        job.start(1)
        self.assert_continues(job)

    def test_a_primary_container_paused_for_longer_is_replaced(self):
        job = self.at_the_gate()
        job.nodes[0].do("pause")
        for place in (1, 2):
            job.wait_for("a time beyond the lease", lambda: job.nodes[place].find("still waiting after 10s"))
            self.assertEqual([], job.nodes[place].workers())
        job.nodes[0].do("unpause")
        self.assertEqual(137, job.nodes[0].exit_code())
        job.start(0)
        self.assert_continues(job)


class CutOff(Faults):
    def cut(self, job, place):
        docker("network", "disconnect", job.network, job.nodes[place].container)

    def mend(self, job, place):
        docker("network", "connect", "--alias", job.name_of(place), job.network, job.nodes[place].container)

    def test_a_worker_container_that_returns_takes_its_place_again(self):
        job = self.at_the_gate()
        self.cut(job, 1)
        for place in (0, 1, 2):
            job.wait_for(f"the end of the workers of place {place}", lambda: not job.nodes[place].workers())
        self.mend(job, 1)
        job.wait_for_round(1)
        self.assert_continues(job)

    def test_the_primary_container_returns(self):
        job = self.at_the_gate()
        self.cut(job, 0)
        for place in (0, 1, 2):
            job.wait_for(f"the end of the workers of place {place}", lambda: not job.nodes[place].workers())
        self.mend(job, 0)
        job.wait_for_round(1)
        self.assert_continues(job)


class Torch(Faults):
    """The same with torch, where its own connections and ports have a part."""
    image, script, settings = "torch", "train_ddp.py", {"nproc": 1, "limit": 240.0}

    def test_a_killed_worker_container_is_replaced(self):
        job = self.at_the_gate()
        job.nodes[2].do("kill")
        job.start(2)
        self.assert_continues(job)

    def test_the_primary_returns_under_another_address(self):
        job = self.at_the_gate()
        self.move(job, 0)
        self.assert_continues(job)


if __name__ == "__main__":
    unittest.main(verbosity=2)

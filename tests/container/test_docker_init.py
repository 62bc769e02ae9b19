"""muster as process 1 of a Docker container: signals, `docker stop`, orphans, the death of its main process, memory."""
import unittest

import engine
from job import BUCKET, GATE, TRAINING, ContainerTest, descendants, kill, process_state, wait_until

ORPHANS = 2 * 20  # of both workers, see workers/saver.py


class Process1(ContainerTest):
    def saver(self, conduct, run=(), **kwargs):
        job = self.job(engine.training(), ["/workers/saver.py", BUCKET, conduct], nodes=1, run=run, **kwargs)
        return job, job.start(0)

    def running(self, conduct, **kwargs):
        job, node = self.saver(conduct, **kwargs)
        job.wait_for_round(0)
        return job, node

    def test_docker_exec_tells_how_the_job_is(self):
        _, node = self.running("save")
        said = lambda: engine.call("exec", node.container, "muster", "status", check=False).stdout  # noqa: E731
        wait_until("the job is well", lambda: said().startswith("well: job "))

    def test_docker_stop_leaves_time_to_save(self):
        job, node = self.running("save")
        node.do("stop")
        self.assertEqual(134, node.exit_code(), "75 as Vertex AI expects it; 137 would be Docker's SIGKILL")
        for rank in (0, 1):
            self.assertEqual(20, len((job.bucket / f"saved-{rank}").read_text().splitlines()))

    def test_docker_stop_ends_workers_that_ignore_it_before_docker_does(self):
        _, node = self.running("ignore")
        node.do("stop")
        self.assertEqual(134, node.exit_code(), "137 would be Docker's SIGKILL, 10 s after its SIGTERM")

    def test_user_signals_reach_the_workers(self):
        job, node = self.running("save")
        for name, number in (("USR1", 10), ("USR2", 12)):
            node.do("kill", "--signal", name)
            for rank in (0, 1):
                wait_until(f"SIG{name} at rank {rank}", lambda: (job.bucket / f"signal-{number}-{rank}").exists())

    def test_orphans_are_reaped(self):
        job, node = self.running("orphans")
        main = node.main()
        wait_until("all orphans", lambda: len(node.workers()) == 2 + ORPHANS)
        orphans = set(node.workers())
        job.open_gate()
        wait_until("the end of all orphans", lambda: len(node.workers()) == 2)
        wait_until("no zombie", lambda: not [pid for pid in descendants(main) if process_state(pid) == "Z"])
        self.assertEqual(set(), {pid for pid in orphans if process_state(pid)} - set(node.workers()))

    def test_a_killed_main_process_is_reported_at_once(self):
        # The lease is longer than any wait of this test: only the report can start the next round.
        job = self.job(engine.training(), ["/examples/train_stdlib.py", *TRAINING, *GATE], options=("--lease", "5m"))
        job.start_all()
        job.wait_for_gate()
        self.assertNotEqual(job.nodes[1].main(), job.nodes[1].host())
        kill(job.nodes[1].host())
        self.assertEqual(137, job.nodes[1].exit_code())
        job.wait_for("the report", lambda: job.nodes[0].find(r"node 1 \(.*\) was lost: its main process died"))
        job.start(1)
        job.open_gate()
        self.assert_same_loss(job, "train_stdlib.py")

    def test_a_worker_beyond_the_memory_limit_is_named(self):
        _, node = self.saver("eat", run=["--memory", "128m"], nproc=1, options=("--max-restarts", "0"))
        self.assertEqual(137, node.exit_code())
        self.assertTrue(node.find("killed because memory ran out"), "the report names the cause")


if __name__ == "__main__":
    unittest.main(verbosity=2)

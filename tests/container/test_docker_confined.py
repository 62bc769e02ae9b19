"""Containers with little: users that no file names, no writable folder, no capability, no network; images of other
distributions, and one that holds the binary alone. Each time the training or the program runs to its end."""
import unittest

import engine
from job import GATE, TRAINING, ContainerTest, run_once

NOBODY_KNOWN = "1234567:7654321"  # in no /etc/passwd
TMP_IS_READ_ONLY = ("--mount", "type=tmpfs,destination=/tmp,tmpfs-mode=0555")  # for all users but root
NO_RIGHTS = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges")
STRICT = ("--user", NOBODY_KNOWN, "--read-only", *NO_RIGHTS)
SCRIPT = "train_stdlib.py"


class Confined(ContainerTest):
    def trains(self, *run, options=(), network=None):
        """One node, two workers; the output of both streams."""
        job = self.job(engine.training(), [f"/examples/{SCRIPT}", *TRAINING], nodes=1, options=options, run=run,
                       network=network)
        job.start(0)
        self.assert_same_loss(job, SCRIPT)
        return job.nodes[0].text()

    def test_as_root(self):
        self.trains()

    def test_as_a_user_without_a_name(self):
        self.trains("--user", NOBODY_KNOWN)

    def test_with_a_read_only_root_file_system(self):
        self.trains("--read-only")

    def test_without_capabilities(self):
        self.trains(*NO_RIGHTS)

    def test_without_a_writable_tmp(self):
        self.trains("--user", NOBODY_KNOWN, *TMP_IS_READ_ONLY)

    def test_without_a_network(self):
        self.trains(network="none")

    def test_with_few_processes_and_little_memory(self):
        self.trains("--pids-limit", "64", "--memory", "256m", "--memory-swap", "256m")

    def test_log_files_that_cannot_be_written_cost_a_warning(self):
        output = self.trains(*STRICT, options=("-t", "3"))
        self.assertIn("warning", output)

    def three_lose_one(self, options=()):
        job = self.job(engine.training(), [f"/examples/{SCRIPT}", *TRAINING, *GATE], options=options, run=STRICT)
        job.start_all()
        job.wait_for_gate()
        job.nodes[2].do("kill")
        self.assertEqual(137, job.nodes[2].exit_code())
        job.start(2)
        job.open_gate()
        self.assert_same_loss(job, SCRIPT)
        return job

    def test_three_strict_containers_lose_one(self):
        self.three_lose_one()

    def test_three_strict_containers_lose_one_with_preloaded_workers(self):
        for node in self.three_lose_one(("--preload", "json,socket")).all_nodes:
            self.assertIn("--preload: imported json, socket", node.text())
            self.assertNotIn("start normally", node.text())


class BaseImages(ContainerTest):
    """One binary for any image: /usr/local/bin/muster, copied from the image of deploy/docker/Dockerfile."""

    def two_workers_in(self, name):
        for run in ((), STRICT):
            done = run_once("--network", "none", *run, engine.training(name), "--nproc-per-node", "2", "--no-python",
                            "sh", "-c", "echo worker $RANK of $WORLD_SIZE")
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            self.assertEqual(["worker 0 of 2", "worker 1 of 2"], sorted(done.stdout.splitlines())[-2:])

    def test_debian(self):
        self.two_workers_in("debian")

    def test_ubuntu(self):
        self.two_workers_in("ubuntu")

    def test_alpine(self):
        self.two_workers_in("alpine")

    def test_busybox(self):
        self.two_workers_in("busybox")

    @staticmethod
    def version():
        return run_once(engine.muster(), "version").stdout

    def test_nothing_but_the_binary(self):
        for run in ((), STRICT):
            done = run_once("--network", "none", *run, engine.muster(), "run", "--nproc-per-node", "2", "--no-python",
                            "/muster", "version")
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            self.assertEqual(2, done.stdout.splitlines().count(self.version()), done.stdout)

    def test_three_containers_with_nothing_but_the_binary(self):
        job = self.job(engine.muster(), ["--no-python", "/muster", "version"], options=("run",), run=STRICT)
        job.start_all()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        lines = [line for node in job.all_nodes for line in node.out().splitlines()]
        self.assertEqual(6, lines.count(self.version()), lines)


if __name__ == "__main__":
    unittest.main(verbosity=2)

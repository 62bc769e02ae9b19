"""A machine without descriptors or threads: a start fails with one line; a primary that ran out recovers later."""
import contextlib
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import tempfile
import unittest

import cluster
from cluster import ClusterTest, wait_until

LIMIT = 128        # limit for each of the primary's processes
FEWEST = 8         # fewer than a coordinator holds at its minimum
CONNECTIONS = 200  # more than it can accept


def listens(address):
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


class Descriptors(ClusterTest):
    def test_more_connections_than_descriptors_keep_nobody_out(self):
        job = self.cluster(2, prefix=lambda place: ["prlimit", f"--nofile={LIMIT}:{LIMIT}"] if place == 0 else [])
        job.start(0)
        address = (job.addresses[0], job.ports[0])
        wait_until("the primary listens", lambda: listens(address))
        with contextlib.ExitStack() as strangers:
            for _ in range(CONNECTIONS):
                strangers.enter_context(socket.create_connection(address))
            job.start(1)
            job.wait_for_round(0)  # while they are there
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())

    def test_a_coordinator_without_a_free_descriptor_waits_for_one(self):
        port = cluster.free_port("127.0.0.1")
        same = ["--nnodes", "2", "--rdzv-id", "alone"]
        job = self.cluster(2, options=["--coordinator", f"127.0.0.1:{port}", *same])
        command = [str(cluster.BINARY), "coordinator", *same, *cluster.LEASE, "--listen", f"127.0.0.1:{port}"]
        coordinator = cluster.Node("coordinator", command, job.environment_of(0), job.folder)
        job.all_nodes.append(coordinator)
        for place in range(2):
            job.start(place, options=["--node-rank", str(place)])
        starts = job.wait_for_round(0)
        pid = coordinator.process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (FEWEST, limits[1]))
        cluster.kill(job.nodes[1].agent())
        wait_until("its reason", lambda: coordinator.said("warning: cannot accept a connection: Too many open files"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        wait_until("the new agent is accepted", lambda: job.nodes[1].said("has reconnected to the coordinator"))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0), "the same workers, by pid")
        self.assertEqual(0, coordinator.exit_code())


STANDALONE = ["run", "--standalone"]
MULTI = ["run", "--nnodes", "1:2", "--last-call-timeout", "100ms", "--lease", "1s"]
LOCAL = ["local", "--nodes", "2"]


class Start(unittest.TestCase):
    def start(self, limits, arguments, binary=cluster.BINARY, prefix=()):
        if arguments is MULTI:
            arguments = [*MULTI, "--rdzv-endpoint", f"127.0.0.1:{cluster.free_port('127.0.0.1')}"]
        command = [*prefix, "prlimit", "--core=0", *limits, str(binary), *arguments, "--no-python", "--", "/bin/true"]
        done = subprocess.run(command, env=cluster.plain_environment(), cwd="/", stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=cluster.LIMIT_S, check=False)
        return done.returncode, done.stderr

    def test_too_few_descriptors_exit_70(self):
        for arguments in (STANDALONE, MULTI, LOCAL):
            for limit in (8, 10, 12, 14, 16, 18):
                code, said = self.start([f"--nofile={limit}"], arguments)
                with self.subTest(arguments=arguments, limit=limit, said=said):
                    self.assertEqual(70, code)
                    # If `muster local` has enough itself, each of its nodes reports the lack.
                    self.assertIn(len(said.splitlines()), (1, 2) if arguments is LOCAL else (1,))
                    self.assertRegex(said, r"muster: \d+ more descriptors are needed and only \d+ can be opened \(ulimit -n\)")

    @unittest.skipUnless(os.geteuid() == 0, "the limit of processes binds no root, and of a user all processes count")
    def test_too_few_threads_or_processes_end_it(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        binary = shutil.copy(cluster.BINARY, folder / "muster")
        user = 100_000_000 + os.getpid()  # a user without other processes
        prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        for arguments in (STANDALONE, MULTI, LOCAL):
            codes = []
            # `muster local` would wait for a node that could not start.
            for limit in (1, 200) if arguments is LOCAL else (1, 2, 3, 4, 6, 8, 10, 14, 200):
                code, said = self.start([f"--nproc={limit}"], arguments, binary, prefix)
                codes.append(code)
                with self.subTest(arguments=arguments, limit=limit, said=said):
                    self.assertIn(code, (0, 70))
                    if code != 0:
                        self.assertIn("Resource temporarily unavailable", said)
                    self.assertNotIn("pid 0", said)
                    if "could not be started" in said:
                        self.assertIn("exit code 70 (muster)", said)
                    self.assertNotIn("terminate called", said)
            self.assertEqual((70, 0), (codes[0], codes[-1]))


if __name__ == "__main__":
    unittest.main()

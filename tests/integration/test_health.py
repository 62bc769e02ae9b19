"""`muster health`: what the probes of a container learn of the muster in it."""
import os
import signal
import socket
import subprocess
import sys
import unittest

import cluster
from cluster import BINARY, CONTAINER, ClusterTest, Node, descendants, plain_environment, stop, wait_until
from test_sidecar import Pods


def health(pid, *options):
    """Exit code and line of `muster health`, executed in the namespaces of this process."""
    done = subprocess.run(["nsenter", "-t", str(pid), "-m", "-p", str(BINARY), "health", *options], capture_output=True,
                          text=True, timeout=cluster.LIMIT_S, check=False)
    return done.returncode, (done.stdout or done.stderr).strip()


@unittest.skipUnless(os.geteuid() == 0, "only root makes PID namespaces")
class Health(ClusterTest):
    def test_a_node_is_ready_while_its_workers_run(self):
        job = self.cluster(2, nproc=1, prefix=lambda place: CONTAINER)
        first = job.start(0)
        wait_until("an answer", lambda: health(first.main())[0] == 0)
        self.assertEqual((0, "waiting for a round"), health(first.main()))
        self.assertEqual((1, "waiting for a round"), health(first.main(), "--ready"))
        second = job.start(1)
        job.wait_for_round(0)
        for node in (first, second):
            wait_until("readiness", lambda: health(node.main(), "--ready") == (0, "workers run"))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())

    def test_an_answer_cannot_control_the_terminal(self):
        answer = r"""
import os, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0muster/health/" + os.readlink("/proc/self/ns/mnt"))
listener.listen()
os.write(1, b"listens\n")
listener.accept()[0].sendall(b'{"state": "fine\\u001b[2J", "ready": true}\n')
"""
        with subprocess.Popen(["unshare", "--mount", sys.executable, "-c", answer], stdout=subprocess.PIPE) as impostor:
            try:
                self.assertEqual(b"listens\n", impostor.stdout.readline())
                self.assertEqual((0, r"fine\x1b[2J"), health(impostor.pid))
            finally:
                impostor.kill()

    def test_containers_of_one_network_are_told_apart(self):
        job = self.cluster(2, nproc=1, prefix=lambda place: CONTAINER, options=["--lease", "60s"])
        job.start_all()
        job.wait_for_round(0)
        stop(job.nodes[1].host())
        self.assertEqual(0, health(job.nodes[0].main())[0])
        code, why = health(job.nodes[1].main())
        self.assertEqual((69, True), (code, "does not answer: it is stopped, or hangs" in why))
        os.kill(job.nodes[1].host(), signal.SIGCONT)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())

    def test_host_and_sidecar_answer_from_the_start(self):
        job = self.cluster(1, kind=Pods)
        pod = job.pods[0]
        training = pod.start_training()
        wait_until("the host's answer", lambda: health(training.main()) == (0, "host, waiting for its sidecar"))
        sidecar = pod.start_sidecar()
        job.wait_for_round(0)
        wait_until("readiness", lambda: health(training.main(), "--ready") == (0, "workers run"))
        self.assertEqual((0, "sidecar, connected to its host"), health(sidecar.main(), "--ready"))
        job.open_gate()
        self.assertEqual([0, 0], pod.exit_codes())

    def test_a_sidecar_without_a_host_lives_and_is_not_ready(self):
        pod = self.cluster(1, kind=Pods).pods[0]
        sidecar = pod.start_sidecar()
        wait_until("its answer", lambda: health(sidecar.main()) == (0, "sidecar, waiting for its host"))
        self.assertEqual(1, health(sidecar.main(), "--ready")[0])
        sidecar.signal(signal.SIGTERM)
        self.assertEqual(75, sidecar.exit_code())

    def test_a_separate_coordinator_answers(self):
        job = self.cluster(1)
        port = cluster.free_port("127.0.0.1")
        command = [*CONTAINER, str(BINARY), "coordinator", "--nnodes", "1", "--listen", f"127.0.0.1:{port}"]
        node = Node("coordinator", command, plain_environment(), job.folder)
        job.all_nodes.append(node)
        wait_until("readiness", lambda: health(node.main(), "--ready") == (0, "coordinator, listening"))
        node.signal(signal.SIGTERM)
        node.exit_code()

    def test_a_muster_below_scripts_answers_too(self):
        wrapped = [*CONTAINER, "sh", "-c", 'sh -c \'"$@"; true\' sh "$@"; true', "sh"]
        job = self.cluster(1, nproc=1, prefix=lambda place: wrapped)
        node = job.start(0)
        job.wait_for_round(0)
        inside = job.workers_of(0)[0]
        self.assertEqual((0, "workers run"), health(inside, "--ready"))
        job.open_gate()
        node.exit_code()

    def test_a_visitor_that_says_nothing_delays_no_answer(self):
        job = self.cluster(1, kind=Pods)
        pod = job.pods[0]
        training = pod.start_training()
        wait_until("the host's answer", lambda: health(training.main())[0] == 0)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(pod.socket))
            self.assertEqual((0, "host, waiting for its sidecar"), health(training.main()))

    def test_without_a_muster_there_is_no_answer(self):
        # In a container of its own: a muster of another test is in this one, where this machine is a container itself.
        with subprocess.Popen([*CONTAINER, "sleep", "1000"]) as empty:
            try:
                wait_until("its process 1", lambda: descendants(empty.pid))
                code, why = health(descendants(empty.pid)[0])
            finally:
                empty.kill()
        self.assertEqual(69, code)
        self.assertIn("no muster answers in this container", why)

    def test_root_learns_of_another_users_muster(self):
        container = (*CONTAINER, "setpriv", "--reuid", "4243", "--regid", "4243", "--clear-groups")
        job = self.cluster(1, nproc=1, prefix=lambda place: container, program=["sleep", "1000"])
        node = job.start(0)
        wait_until("its answer", lambda: health(node.main()) == (0, "workers run"))
        node.signal(signal.SIGTERM)
        self.assertEqual({0: 75}, job.exit_codes())

    def test_another_user_learns_nothing(self):
        job = self.cluster(1, nproc=1, prefix=lambda place: CONTAINER)
        node = job.start(0)
        job.wait_for_round(0)
        other_user = ["setpriv", "--reuid", "4243", "--regid", "4243", "--clear-groups"]
        asked = subprocess.run(["nsenter", "-t", str(node.main()), "-m", "-p", *other_user, str(BINARY), "health"],
                               capture_output=True, text=True, timeout=cluster.LIMIT_S, check=False)
        self.assertEqual((69, ""), (asked.returncode, asked.stdout))
        self.assertIn("tells its state only to root and to its own user", asked.stderr)
        job.open_gate()
        self.assertEqual({0: 0}, job.exit_codes())


if __name__ == "__main__":
    cluster.main()

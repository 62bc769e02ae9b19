"""A job from one CLUSTER_SPEC: ranks, the end of each node, and open descriptors and ports."""
import os
import pathlib
import socket
import subprocess
import unittest

import cluster
from cluster import ClusterTest, wait_until


def sockets_of(pid):
    """Inodes of a process's sockets."""
    found = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:["):-1])
    return found


def ports_of(pid, state, side):
    """Ports of a process's TCP sockets in this state; side: 1 for its own ports, 2 for those of the other ends."""
    ours, ports = sockets_of(pid), set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state and fields[9] in ours:
                ports.add(int(fields[side].rsplit(":", 1)[1], 16))
    return ports


def listening(pid):
    """Ports on which a process listens."""
    return ports_of(pid, "0A", 1)


def connected_to(pid):
    """Ports to which a process is connected."""
    return ports_of(pid, "01", 2)


class Start(ClusterTest):
    def check_whole_job(self, job, order):
        job.start_all(order)
        starts = job.wait_for_round(0)
        # The job waits for the nodes that train, and is over within a moment. The other node must find it.
        observer = job.nodes[3].process.pid
        wait_until("the node that does not train to have joined",
                   lambda: any(job.ports[0] in connected_to(pid) for pid in [observer, *cluster.children(observer)]))
        job.open_gate()
        self.assertEqual(dict.fromkeys(job.nodes, 0), job.exit_codes())
        self.assertEqual([0, 0, 1, 1, 2, 2], [starts[rank]["place"] for rank in range(6)])
        self.assertEqual({6}, {record["world"] for record in starts.values()})
        self.assertEqual({job.job_id}, {record["run_id"] for record in starts.values()})
        self.assert_same_master(starts)
        # By the times of their last lines: when this process hears of their ends, depends on the machine's load.
        last_said = {place: job.nodes[place].err().splitlines()[-1][:len("2026-11-26 06:02:10.523")] for place in range(job.size)}
        self.assertEqual(max(last_said, key=last_said.get), 0, f"the primary ends last: {last_said}")
        return starts

    def test_three_trainers_and_an_observer_in_spec_order(self):
        self.check_whole_job(self.cluster(3, reduction_server=True), [0, 1, 2, 3])

    def test_the_order_of_starts_does_not_matter(self):
        for order in ([3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]):
            with self.subTest(order=order):
                self.check_whole_job(self.cluster(3, reduction_server=True), order)

    def test_a_late_node_is_awaited_and_named(self):
        job = self.cluster(3)
        job.start(0)
        job.start(1)
        wait_until("the primary names the absent place", lambda: job.nodes[0].said(r"waiting.*" + job.addresses[2]))
        job.start(2)
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())

    def test_a_job_runs_on_ipv6_loopback_only(self):
        starts = self.check_whole_job(self.cluster(3, reduction_server=True, addresses=["::1"] * 4), [1, 0, 3, 2])
        self.assertEqual("::1", starts[0]["master_addr"])

    def test_a_reduction_server_ends_with_a_job_of_one_trainer(self):
        job = self.cluster(1, reduction_server=True)
        other = job.start(1)
        wait_until("the other waits for the trainer", lambda: other.said(r"waiting"))
        trainer = job.start(0)
        job.wait_for_round(0, workers=2)
        wait_until("the other attends", lambda: other.said("this node does not train"))
        self.assertFalse(other.has_ended())
        job.open_gate()
        self.assertEqual([0, 0], [node.exit_code() for node in (trainer, other)])

    def test_each_pool_trains_when_asked_for(self):
        job = self.cluster(2, reduction_server=True, options=["--pools", "all"])
        job.start_all()
        starts = job.wait_for_round(0, workers=6)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assertEqual([0, 0, 1, 1, 2, 2], [starts[rank]["place"] for rank in range(6)])

    def test_per_node_variables_of_a_platform_are_overwritten(self):
        job = self.cluster(2, environment={"RANK": "7", "WORLD_SIZE": "9", "LOCAL_RANK": "3", "MASTER_ADDR": "nowhere",
                                           "MASTER_PORT": "1", "GROUP_RANK": "5"})
        job.start_all()
        starts = job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual([0, 1, 2, 3], sorted(starts))
        self.assertNotEqual("nowhere", starts[0]["master_addr"])


class Descriptors(ClusterTest):
    def test_a_worker_has_three_descriptors(self):
        job = self.cluster(2, plan=[{"check": "files"}])
        job.start_all()
        starts = job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        for record in starts.values():
            listing = [number for number, what in record["files"].items() if not what.startswith("/proc/")]
            for_stacks = ["1000"] if cluster.PRELOAD else []  # of a forked worker, see docs/hangs.md
            self.assertEqual(sorted(["0", "1", "2", *for_stacks]), sorted(listing), record["files"])

    def test_only_the_primary_listens_and_only_on_its_own_port(self):
        job = self.cluster(3)
        job.start_all()
        job.wait_for_round(0)
        expected = {0: {job.ports[0]}, 1: set(), 2: set()}
        for place, node in job.nodes.items():
            found = listening(node.host()) | listening(node.agent())
            self.assertEqual(expected[place], found, f"place {place}")
        job.open_gate()
        job.exit_codes()

    def test_a_single_node_listens_nowhere(self):
        job = self.cluster(1)
        job.start_all()
        job.wait_for_round(0)
        self.assertEqual(set(), listening(job.nodes[0].host()) | listening(job.nodes[0].agent()))
        job.open_gate()
        self.assertEqual({0: 0}, job.exit_codes())

    def test_a_proxy_in_the_environment_is_ignored(self):
        nowhere = f"http://127.0.0.1:{cluster.free_port('127.0.0.1')}"
        job = self.cluster(2, environment={"http_proxy": nowhere, "https_proxy": nowhere, "grpc_proxy": nowhere,
                                           "HTTP_PROXY": nowhere})
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())

    def test_a_port_in_use_is_a_clear_error(self):
        job = self.cluster(2, options=["--join-timeout", "3s"])
        with socket.socket() as other:
            other.bind((job.addresses[0], job.ports[0]))
            other.listen()
            node = job.start(0)
            wait_until("a line that names the port", lambda: node.said(rf"port {job.ports[0]} is used by"))
            self.assertNotIn(node.exit_code(), (0, -6, -11))

    def test_two_primaries_of_one_port_do_not_both_serve(self):
        job = self.cluster(2, options=["--lease", "1m"])  # the test is not about the first job
        job.start_all()
        job.wait_for_round(0)
        second = self.cluster(2, addresses=job.addresses, ports=job.ports, options=["--join-timeout", "3s"])
        node = second.start(0)
        wait_until("a line that names the port", lambda: node.said(rf"port {job.ports[0]} is used by muster"))
        self.assertNotEqual(0, node.exit_code())
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())


class Commands(ClusterTest):
    def test_the_version_is_printed(self):
        done = subprocess.run([cluster.BINARY, "version"], capture_output=True, text=True, timeout=cluster.LIMIT_S)
        self.assertEqual(0, done.returncode)
        self.assertRegex(done.stdout, r"\d+\.\d+\.\d+")


if __name__ == "__main__":
    cluster.main()

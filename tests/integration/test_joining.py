"""Nodes that come too late, twice, or with a wrong token; and a primary that is not at its given address."""
import json
import os
import socket
import subprocess
import sys
import unittest

import cluster
from cluster import ClusterTest, Node, wait_until
from network import FORWARDER, Network, can_make_namespaces

PORT = 2222


class Late(ClusterTest):
    def test_a_latecomer_hears_a_short_jobs_verdict(self):
        job = self.cluster(3, nproc=1, plan=[{"after": None}], options=["--nnodes", "1:2"])
        job.start(0)
        job.start(1)
        self.assertEqual(0, job.nodes[1].exit_code(), "the round of two nodes is over")
        job.start(2)
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assertTrue(job.nodes[2].said("every worker exited 0"))
        self.assertEqual([], job.records("start", place=2))


class Refused(ClusterTest):
    def test_the_primary_names_refused_nodes(self):
        job = self.cluster(2, options=["--join-timeout", "3s"])
        primary = job.start(0)
        wait_until("the primary listens", lambda: cluster.listens(job.addresses[0], job.ports[0]))
        other_run = job.start(1, options=["--rdzv-id", "another"])
        self.assertEqual(77, other_run.exit_code())
        self.assertEqual(69, primary.exit_code())
        last = primary.err().splitlines()[-1]
        self.assertRegex(last, "exit code 69.*refused: .*run id 'another' differs from this job's")

    def test_the_primary_names_nodes_without_its_token(self):
        job = self.cluster(2, options=["--join-timeout", "3s"], environment={"MUSTER_TOKEN": "secret-of-twenty-two-chars"})
        primary = job.start(0)
        wait_until("the primary listens", lambda: cluster.listens(job.addresses[0], job.ports[0]))
        other_run = job.start(1, options=["--rdzv-id", "another"])
        job.environment = {"MUSTER_TOKEN": "another-of-twenty-two-chars"}
        other_token = job.start(1)
        job.environment = {}
        no_token = job.start(1)
        self.assertEqual([77, 77, 77], [node.exit_code() for node in (other_run, other_token, no_token)])
        self.assertTrue(other_token.said("the token is not this job's.*set the same token"))
        self.assertTrue(no_token.said("this job requires a token and this node sent none: set --token-file or MUSTER_TOKEN"))
        self.assertEqual(69, primary.exit_code())
        for why in ("it has another token, or belongs to another run", "it has no token"):
            self.assertEqual(1, len(primary.said(rf"warning: refused a node at 127\.0\.0\.1: {why}")), why)
            self.assertRegex(primary.err().splitlines()[-1], f"exit code 69.*refused: .*{why}")

    def test_two_nodes_of_one_rank_are_named_by_the_primary(self):
        job = self.cluster(3)
        for place in (0, 1, 1):
            last = job.start(place)
        wait_until("the primary warns", lambda: job.nodes[0].said("warning: two processes on .* both claim node 1"))
        wait_until("its waiting line says so", lambda: job.nodes[0].said("waiting.*both claim.*its own --node-rank"))
        wait_until("the second one hears it", lambda: any(node.said("already joined as node 1 and is running")
                                                          for node in job.all_nodes if node is not job.nodes[0]))
        self.assertFalse(last.has_ended())


class PortInUse(ClusterTest):
    def test_a_foreign_holder_is_named_and_not_awaited(self):
        job = self.cluster(2, options=["--join-timeout", "1h"])
        holder = rf"port {job.ports[0]} is used by .* \(pid {os.getpid()}\); stop it, or pass another "
        with socket.socket() as other:
            other.bind((job.addresses[0], job.ports[0]))
            other.listen()
            node = job.start(0)
            self.assertEqual(69, node.exit_code())
            self.assertRegex(node.err().splitlines()[-1], f"{holder}--master-port on all nodes")
            command = [str(cluster.BINARY), "coordinator", "--nnodes", "2", "--listen",
                       f"{job.addresses[0]}:{job.ports[0]}"]
            coordinator = Node("coordinator", command, job.environment_of(0), job.folder)
            job.all_nodes.append(coordinator)
            wait_until("it says at once what it waits for", lambda: coordinator.said(f"warning.*{holder}port to --listen"))
            self.assertEqual(69, coordinator.exit_code())


@unittest.skipUnless(can_make_namespaces(), "needs root and network namespaces")
class PrimarysAddress(ClusterTest):
    """Node 0 has the address 10.77.0.1, but is given 10.77.0.2 as the primary's."""

    def setUp(self):
        self.network = Network(2)
        self.addCleanup(self.network.close)
        self.job = self.cluster(2, prefix=self.network.prefix)
        self.options = ["--nnodes", "2", "--node-rank", "0", "--master-addr", self.network.address(1),
                        "--master-port", str(PORT)]
        self.environment = {name: value for name, value in self.job.environment_of(0).items() if name != "CLUSTER_SPEC"}

    def check(self):
        command = [*self.network.prefix(0), str(cluster.BINARY), "env", "--check", "--json", *self.options, "train.py"]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=cluster.LIMIT_S,
                              check=False)
        return {finding["name"]: finding for finding in json.loads(done.stdout)["checks"]}["primary's address"]

    def start_node(self):
        command = [*self.network.prefix(0), *cluster.node_command(self.options, ["true"])]
        self.node = Node("node0", command, self.environment, self.job.folder)
        self.job.all_nodes.append(self.node)
        return self.node

    def test_a_foreign_address_is_a_warning(self):
        found = self.check()
        self.assertEqual("wrong", found["kind"])
        self.assertIn("connections to it do not arrive here: cannot connect", found["text"])
        node = self.start_node()
        wait_until("it warns", lambda: node.said(r"warning: --master-addr 10\.77\.0\.2 is not an address of this machine"))
        self.assertTrue(node.said(r"connection refused.*this machine has 10\.77\.0\.1"), node.err())
        self.assertFalse(node.has_ended())

    def test_an_address_from_a_variable_is_checked_too(self):
        self.options = []
        self.environment |= {"MASTER_ADDR": self.network.address(1), "MASTER_PORT": str(PORT), "NODE_RANK": "0", "NNODES": "2"}
        self.assertEqual("wrong", self.check()["kind"])
        self.start_node()
        wait_until("it warns", lambda: self.node.said(r"warning: MASTER_ADDR 10\.77\.0\.2 is not an address of this machine"))

    def test_an_unresolved_name_is_a_warning(self):
        self.options[self.options.index("--master-addr") + 1] = "nobody-knows-me.invalid"
        self.assertEqual("wrong", self.check()["kind"])
        self.start_node()
        wait_until("it warns", lambda: self.node.said(r"warning: --master-addr: .*nobody-knows-me\.invalid.*: the other nodes"))

    def test_a_forwarded_address_is_no_warning(self):
        forwarder = subprocess.Popen([*self.network.prefix(1), sys.executable, "-c", FORWARDER, self.network.address(1),
                                      str(PORT), self.network.address(0)], stdout=subprocess.PIPE, text=True,
                                     env=self.environment)
        self.addCleanup(forwarder.stdout.close)
        self.addCleanup(forwarder.wait)
        self.addCleanup(forwarder.kill)
        self.assertEqual("ready\n", forwarder.stdout.readline())
        found = self.check()
        self.assertEqual("good", found["kind"], found)
        self.assertIn("is not an address of this machine, but connections to it arrive here", found["text"])


class SilentPeers(ClusterTest):
    """The primary of two nodes, the other of which is frozen: the primary cannot know that it is not cut off itself."""

    def test_the_primary_logs_why_its_own_lease_ends(self):
        job = self.cluster(2)
        job.start_all()
        job.wait_for_round(0)
        frozen = [job.nodes[1].host(), job.nodes[1].agent()]
        for pid in frozen:
            cluster.stop(pid)
        primary = job.nodes[0]
        wait_until("its lease ends", lambda: primary.said(
            r"warning: no other node answered for [\d.]+s \(all are stalled, or this node is cut off\); "
            r"stopping workers, which have [\d.]+m?s to exit,"))
        wait_until("so says the coordinator", lambda: primary.said(
            r"stopped its workers on its own: its lease expired because no other node of the round answered"))
        self.assertEqual([], primary.said("the coordinator did not answer"))


if __name__ == "__main__":
    cluster.main()

"""Open MPI's real mpirun, with one daemon on each of three nodes: network namespaces, entered in place of ssh."""
import os
import shutil
import stat
import unittest

import cluster
from cluster import ClusterTest, Node, plain_environment
from network import Network, can_make_namespaces

NODES = 3
# Debian's mpirun looks for a resource manager, refuses root, and binds to cores that a small machine lacks.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "ras", "^slurm",
          "--mca", "plm", "rsh", "--mca", "orte_keep_fqdn_hostnames", "1"]
ENTER = """#!/bin/sh
# Replaces `ssh HOST COMMAND`: enters the node's namespace, with its own host name.
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec nsenter --net=/run/netns/NAMESPACE"${host##*.}" unshare --uts sh -c "hostname $host; $*"
"""


@unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun here (Debian: openmpi-bin)")
@unittest.skipUnless(can_make_namespaces(), "network namespaces need root and iproute2")
class Mpirun(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.network = Network(NODES)
        cls.addClassCleanup(cls.network.close)

    def start(self, job, arguments, options=()):
        agent = job.folder / "enter"
        prefix = self.network.namespace(0)[:-1]
        agent.write_text(ENTER.replace("NAMESPACE\"${host##*.}\"", prefix + "$((${host##*.} - 1))"))
        agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
        hosts = ",".join(f"{self.network.address(place)}:2" for place in range(NODES))
        command = ["nsenter", f"--net=/run/netns/{self.network.namespace(0)}", *MPIRUN,
                   "--mca", "plm_rsh_agent", str(agent), "--host", hosts, *arguments, "-x", cluster.TOKEN,
                   *cluster.node_command([*job.options, *options], job.program)]
        node = Node("mpirun", command, {**plain_environment(), cluster.TOKEN: job.token, "PATH": os.environ["PATH"]},
                    job.folder)
        job.all_nodes.append(node)
        return node

    def test_one_process_on_each_of_three_nodes_is_a_job(self):
        job = self.cluster(NODES)
        node = self.start(job, ["--map-by", "ppr:1:node", "-x", f"MASTER_ADDR={self.network.address(0)}"],
                          ["--nproc-per-node", "2"])
        starts = job.wait_for_round(0)
        job.open_gate()
        self.assertEqual(0, node.exit_code())
        self.assertEqual([0, 0, 1, 1, 2, 2], [starts[rank]["node_rank"] for rank in range(6)])
        self.assertEqual(self.network.address(0), starts[5]["master_addr"])
        self.assertRegex(starts[0]["run_id"], r"^openmpi-\d+$")
        self.assert_same_master(starts)

    def test_the_primary_may_be_named_by_an_option(self):
        job = self.cluster(NODES, nproc=1)
        node = self.start(job, ["--map-by", "ppr:1:node"],
                          ["--nproc-per-node", "1", "--master-addr", self.network.address(0)])
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual(0, node.exit_code())

    def test_a_missing_primary_is_answered_with_the_option(self):
        job = self.cluster(NODES)
        node = self.start(job, ["--map-by", "ppr:1:node"])
        self.assertEqual(65, node.exit_code())
        self.assertTrue(node.said(r"the platform \(openmpi\) gives this node's rank, .*; give --master-addr"), node.err())

    def test_several_processes_get_the_line_to_type(self):
        job = self.cluster(NODES)
        node = self.start(job, ["--map-by", "ppr:2:node", "-x", f"MASTER_ADDR={self.network.address(0)}"])
        self.assertEqual(65, node.exit_code())
        self.assertTrue(node.said(r"write mpirun --map-by ppr:1:node muster run --nproc-per-node 2 SCRIPT"), node.err())
        self.assertEqual([], job.records("start"))

    def test_mpirun_exits_with_the_workers_code(self):
        job = self.cluster(NODES, nproc=1, plan=[{"when": {"rank": 2}, "exit": 9}])
        node = self.start(job, ["--map-by", "ppr:1:node", "-x", f"MASTER_ADDR={self.network.address(0)}"],
                          ["--nproc-per-node", "1", "--max-restarts", "0"])
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual(9, node.exit_code())


if __name__ == "__main__":
    cluster.main()

"""Nodes that get the job's membership from a hostfile and find themselves in it."""
import json
import os
import subprocess
import unittest

import cluster
from cluster import Cluster, ClusterTest, Node, node_command, plain_environment, wait_until
from network import Network, can_make_namespaces

NODES = 3


class HostfileJob(Cluster):
    """The hostfile alone gives the nodes of the job and the number of workers of each."""

    def __init__(self, lines, **kwargs):
        super().__init__(NODES, ports=[0] * NODES, **kwargs)
        self.hostfile = self.folder / "hostfile"
        self.hostfile.write_text("".join(f"{line}\n" for line in lines))

    def environment_of(self, place):
        return {**plain_environment(), cluster.TOKEN: self.token, "TEST_PLACE": str(place)}

    def start(self, place, options=(), **popen):
        said = ["--hostfile", str(self.hostfile), "--rdzv-id", self.job_id, *self.options, *options]
        node = Node(f"place{place}", [*self.prefix(place), *node_command(said, self.program)],
                    self.environment_of(place), self.folder, **popen)
        self.nodes[place] = node
        self.all_nodes.append(node)
        return node


class HostfileTest(ClusterTest):
    def check_whole_job(self, job, places):
        """places: by rank."""
        starts = job.wait_for_round(0, workers=len(places))
        job.open_gate()
        self.assertEqual(dict.fromkeys(job.nodes, 0), job.exit_codes())
        self.assertEqual(places, [starts[rank]["place"] for rank in range(len(places))])
        self.assertEqual({len(places)}, {record["world"] for record in starts.values()})
        self.assert_same_master(starts)
        return starts


class OnLoopback(HostfileTest):
    def test_each_host_runs_as_many_workers_as_slots(self):
        job = self.cluster(kind=HostfileJob, lines=["127.0.0.1 slots=3", "127.0.0.2 slots=1", "127.0.0.3 slots=2"],
                           options=["--master-port", str(cluster.free_port("127.0.0.1"))])
        for place in (2, 0, 1):
            job.start(place, ["--node-rank", str(place)])
        starts = self.check_whole_job(job, [0, 0, 0, 1, 2, 2])
        self.assertEqual([0, 1, 2, 0, 0, 1], [starts[rank]["local_rank"] for rank in range(6)])

    def test_an_ambiguous_node_is_told_to_give_a_rank(self):
        job = self.cluster(kind=HostfileJob, lines=["127.0.0.1 slots=1", "127.0.0.2 slots=1"])
        node = job.start(0)
        self.assertEqual(65, node.exit_code())
        self.assertTrue(node.said(r"this machine is 127\.0\.0\.1, 127\.0\.0\.2: .*give --node-rank"), node.err())

    def test_muster_hostfile_writes_a_sources_hosts(self):
        job = self.cluster(3)
        done = subprocess.run([cluster.BINARY, "hostfile", "--slots", "4"], env=job.environment_of(1), check=False,
                              capture_output=True, text=True, timeout=cluster.LIMIT_S)
        self.assertEqual("".join(f"127.0.0.{n} slots=4\n" for n in (1, 2, 3)), done.stdout, done.stderr)
        written = job.folder / "written"
        written.write_text(done.stdout)
        again = subprocess.run([cluster.BINARY, "hostfile", "--hostfile", written, "--node-rank", "0", "--exclude",
                                "127.0.0.2@127.0.0.3:1"], env=plain_environment(), check=False, capture_output=True,
                               text=True, timeout=cluster.LIMIT_S)
        self.assertEqual("127.0.0.1 slots=4\n127.0.0.3 slots=3\n", again.stdout, again.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root makes namespaces of host names")
    def test_the_deepspeed_line_finds_a_pod_whose_name_is_not_in_dns_yet(self):
        job = self.cluster(1)
        (job.folder / "deepspeed").symlink_to(cluster.BINARY)
        (job.folder / "hosts").write_text("pod-1.trainers slots=1\npod-0.trainers slots=1\n")
        line = ["unshare", "--uts", "sh", "-c", 'hostname pod-0 && exec "$@"', "sh", str(job.folder / "deepspeed"),
                "--hostfile", str(job.folder / "hosts"), "--include", "pod-0.trainers", "--no_python", "true"]
        done = subprocess.run(line, env=plain_environment(), check=False, capture_output=True, text=True,
                              timeout=cluster.LIMIT_S)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_the_deepspeed_line_names_the_hosts_that_are_missing(self):
        job = self.cluster(1)
        (job.folder / "deepspeed").symlink_to(cluster.BINARY)
        (job.folder / "hosts").write_text("localhost slots=1\nworker-1 slots=1\n")
        line = [str(job.folder / "deepspeed"), "--hostfile", str(job.folder / "hosts"), "--no_python", "true"]
        environment = {**plain_environment(), cluster.TOKEN: job.token, "MUSTER_MASTER_PORT": str(job.ports[0])}
        node = job.nodes[0] = cluster.Node("deepspeed", line, environment, job.folder)
        job.all_nodes.append(node)
        wait_until("its line", lambda: node.said(rf"missing: node 1 \(worker-1:{job.ports[0]}\)"))

    def test_the_deepspeed_line_warns_of_a_hostfile_that_is_missing(self):
        line = [str(cluster.BINARY), "run", "deepspeed", "--hostfile", "/nowhere/hosts", "--no_python", "true"]
        done = subprocess.run(line, env={**plain_environment(), "MUSTER_LOG_LEVEL": "warning"}, check=False,
                              capture_output=True, text=True, timeout=cluster.LIMIT_S)
        self.assertIn("--hostfile /nowhere/hosts: there is no such file, so the job is this machine alone", done.stderr)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_muster_hostfile_never_writes_a_host_without_slots(self):
        spec = {"cluster": {"workerpool0": ["a:1"], "workerpool2": ["ps:1"]}, "task": {"type": "workerpool2", "index": 0}}
        of_an_aux = {**plain_environment(), "CLUSTER_SPEC": json.dumps(spec)}

        def written(*words):
            done = subprocess.run([cluster.BINARY, "hostfile", *words], env=of_an_aux, check=False, capture_output=True,
                                  text=True, timeout=cluster.LIMIT_S)
            return done.returncode, done.stdout, done.stderr
        self.assertEqual((0, "a slots=4\n", ""), written("--slots", "4"))
        self.assertEqual((65, ""), written()[:2])
        code, out, err = written("--slots", "0")
        self.assertEqual((64, ""), (code, out))
        self.assertRegex(err, r"^muster: --slots 0: expected [^\n]*\n$")


@unittest.skipUnless(can_make_namespaces(), "needs root and network namespaces")
class OnNodesOfTheirOwn(HostfileTest):
    def setUp(self):
        self.network = Network(NODES)
        self.addCleanup(self.network.close)  # runs after the cluster's clean-up, which is added later

    def job(self, hosts, **kwargs):
        return self.cluster(kind=HostfileJob, lines=[f"{host} slots=1" for host in hosts],
                            prefix=self.network.prefix, **kwargs)

    def test_each_finds_itself_by_its_address(self):
        job = self.job([self.network.address(place) for place in (1, 0, 2)])
        job.start_all([0, 1, 2])
        starts = self.check_whole_job(job, [1, 0, 2])
        self.assertEqual(self.network.address(1), starts[0]["master_addr"])

    def test_each_finds_itself_by_its_resolved_name(self):
        for place in range(NODES):
            self.network.learn(place)
        job = self.job([self.network.name(place) for place in range(NODES)])
        job.start_all([2, 1, 0])
        self.check_whole_job(job, [0, 1, 2])

    def test_an_excluded_host_starts_nothing(self):
        job = self.job([self.network.address(place) for place in range(NODES)],
                       options=["--exclude", self.network.address(0)])
        out = job.start(0)
        self.assertEqual(65, out.exit_code())
        self.assertTrue(out.said(r"--exclude is 10\.77\.0\.1: expected this machine"), out.err())
        del job.nodes[0]
        job.start(1)
        job.start(2)
        self.check_whole_job(job, [1, 2])


if __name__ == "__main__":
    cluster.main()

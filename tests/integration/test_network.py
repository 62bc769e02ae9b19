"""Each node in its own network namespace: late names, and cuts in one direction or both."""
import os
import signal
import subprocess
import sys
import unittest

import cluster
from cluster import ClusterTest, kill, stop, wait_until
from network import FORWARDER, NETNS_FILES, Network, can_make_namespaces

PORT = 2222

# A name server that records its queries and never answers.
SILENT = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, open(sys.argv[1], "wb", 0) as asked:
    server.bind(("127.0.0.1", 53))
    print("ready", flush=True)
    while True:
        asked.write(server.recv(512))
"""


@unittest.skipUnless(can_make_namespaces(), "needs root and network namespaces")
class InNamespaces(ClusterTest):
    def job(self, nodes=3, named=False, reduction_server=False, options=("--nnodes", "2:3"), **kwargs):
        count = nodes + int(reduction_server)
        self.network = Network(count)
        self.addCleanup(self.network.close)  # runs after the cluster's clean-up, which is added later
        address = self.network.name if named else self.network.address
        return self.cluster(nodes, addresses=[address(place) for place in range(count)], ports=[PORT] * count,
                            prefix=self.network.prefix, reduction_server=reduction_server, options=options, **kwargs)


@unittest.skipUnless(can_make_namespaces(), "needs root and network namespaces")
class TheNetworkItself(unittest.TestCase):
    def test_a_failed_network_leaves_nothing_behind(self):
        in_the_way = NETNS_FILES / f"mtest{os.getpid()}n1"
        in_the_way.mkdir(parents=True)
        with self.assertRaises(FileExistsError):
            Network(2)
        Network(2).close()  # its namespaces and folders have the same names
        self.assertFalse(in_the_way.exists())


class LateNames(InNamespaces):
    def test_nodes_wait_for_names_that_resolve_late(self):
        job = self.job(named=True, reduction_server=True, options=())
        job.start_all([2, 0, 3, 1])
        for place in (1, 2):
            wait_until(f"place {place} waits for a name", lambda: job.nodes[place].said(r"waiting.*workerpool0-0.*name"))
        for place in (2, 1, 3, 0):
            self.network.learn(place)
        starts = job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0, 3: 0}, job.exit_codes())
        self.assertEqual([0, 0, 1, 1, 2, 2], [starts[rank]["place"] for rank in range(6)])
        self.assert_same_master(starts)
        self.assertEqual(self.network.address(0), starts[0]["master_addr"], "an address, not a name that may be forwarded")

    def test_the_service_address_replaces_an_unresolved_name(self):
        job = self.job(nodes=2, named=True, options=())
        job.environment["TRAINING_WORKERPOOL0_0_SERVICE_HOST"] = self.network.address(0)
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())

    def test_a_late_name_makes_its_owner_the_primary(self):
        job = self.job(nodes=2, named=True,
                       options=["--nnodes", "2", "--rdzv-endpoint", f"{Network.name(0)}:{PORT}", "--rdzv-id", "late"])
        job.start_all([1, 0])
        for place in (0, 1):
            wait_until(f"place {place} waits for a name", lambda: job.nodes[place].said(r"waiting.*workerpool0-0.*name"))
        for place in (1, 0):
            self.network.learn(place)
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())

    def test_a_name_that_never_resolves_is_69(self):
        job = self.job(named=True, options=["--join-timeout", "4s"])
        node = job.start(1)
        self.assertEqual(69, node.exit_code())
        self.assertRegex(node.err().splitlines()[-1], rf"{self.network.name(0)}:{PORT}.*name")


# A query to a silent name server takes longer than an agent with such a lease may be silent.
SHORT_LEASE = ["--rdzv-endpoint", f"nobody-knows-me:{PORT}", "--nnodes", "2", "--rdzv-id", "names", "--lease", "2s",
               "--join-timeout", "6s"]


# The rest of the command, with more descriptors open than select() can take.
MANY_DESCRIPTORS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
while os.dup(0) < 1100: pass
for number in range(3, 1101): os.set_inheritable(number, True)
os.execv(sys.argv[1], sys.argv[1:])
"""


class NameServers(InNamespaces):
    def start_silent_one(self, job, place):
        """The file with its queries."""
        asked = job.folder / "asked"
        server = subprocess.Popen([*self.network.prefix(place), sys.executable, "-c", SILENT, str(asked)],
                                  stdout=subprocess.PIPE, env={**os.environ, cluster.TOKEN: job.token})
        self.addCleanup(server.stdout.close)
        job.after_end.append(server.wait)
        self.assertEqual(b"ready\n", server.stdout.readline())
        return asked

    def test_they_are_not_asked_for_names_in_the_hosts_file(self):
        job = self.job(nodes=2, named=True, options=())
        for place in (*self.network.places, *self.network.places):  # twice, as by a script that runs again
            self.network.learn(place)
        asked = self.start_silent_one(job, 1)
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(b"", asked.read_bytes())

    def test_a_silent_server_ends_no_agent_with_a_short_lease(self):
        job = self.job(nodes=2)
        self.network.ask_for_long(1)
        self.start_silent_one(job, 1)
        command = [*self.network.prefix(1), *cluster.node_command(SHORT_LEASE, ["true"])]
        environment = {**cluster.plain_environment(), cluster.TOKEN: job.token}
        node = cluster.Node("asks", command, environment, job.folder)
        job.all_nodes.append(node)
        self.assertEqual(69, node.exit_code())
        self.assertFalse(node.said("has been silent"))

    def test_a_silent_server_is_named_with_many_descriptors(self):
        job = self.job(nodes=2, named=True)
        asked = self.start_silent_one(job, 1)
        done = subprocess.run([*self.network.prefix(1), sys.executable, "-c", MANY_DESCRIPTORS, str(cluster.BINARY),
                               "env", "--check"], env=job.environment_of(1), capture_output=True, text=True,
                              timeout=cluster.LIMIT_S, check=False)
        self.assertEqual(69, done.returncode, done.stdout + done.stderr)
        self.assertIn("no name server answers", done.stdout)
        self.assertNotEqual(b"", asked.read_bytes())


class OwnName(InNamespaces):
    def test_a_machine_knows_itself_by_its_name_though_no_name_server_does(self):
        name = "known-to-the-system-alone"
        job = self.job(nodes=2, options=["--nnodes", "2", "--rdzv-endpoint", f"{name}:{PORT}", "--rdzv-id", "own"])
        with open(NETNS_FILES / self.network.namespace(1) / "hosts", "a", encoding="ascii") as hosts:
            hosts.write(f"{Network.address(0)} {name}\n")
        hostnames = [name, "other"]
        job.prefix = lambda place: [*self.network.prefix(place), "unshare", "--uts", "sh", "-c",
                                    f'hostname {hostnames[place]} && exec "$@"', "sh"]
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())


class Endpoint(InNamespaces):
    """The endpoint is not node 0's address."""

    def endpoint(self, place):
        return ["--nnodes", "2", "--rdzv-endpoint", f"{Network.address(place)}:{PORT}", "--rdzv-id", "elsewhere"]

    def check(self, job, node_ranks):
        for place, rank in enumerate(node_ranks):
            job.start(place, options=["--node-rank", str(rank)])
        starts = job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        return [starts[rank]["place"] for rank in range(4)]

    def test_the_owner_of_the_endpoint_serves(self):
        job = self.job(nodes=2, options=self.endpoint(1))
        self.assertEqual([0, 0, 1, 1], self.check(job, (0, 1)))

    def test_node_0_serves_behind_a_load_balancer(self):
        job = self.job(nodes=2, reduction_server=True, options=self.endpoint(2))
        forwarder = subprocess.Popen([*self.network.prefix(2), sys.executable, "-c", FORWARDER, Network.address(2),
                                      str(PORT), Network.address(0)], stdout=subprocess.PIPE,
                                     env={**os.environ, cluster.TOKEN: job.token})
        self.addCleanup(forwarder.stdout.close)
        job.after_end.append(forwarder.wait)
        self.assertEqual(b"ready\n", forwarder.stdout.readline())
        self.assertEqual([0, 0, 1, 1], self.check(job, (0, 1)))
        self.assertTrue(job.nodes[0].said("is no address of this machine"))


class WithoutRanks(InNamespaces):
    """Whoever has the address of --rdzv-endpoint is the primary."""

    def running(self):
        job = self.job(options=["--nnodes", "3", "--rdzv-endpoint", f"{Network.address(0)}:{PORT}", "--rdzv-id", "owner"])
        job.start_all()
        job.wait_for_round(0)
        return job

    def test_a_primary_that_is_back_at_once_serves_again(self):
        job = self.running()
        host, agent = job.nodes[0].host(), job.nodes[0].agent()
        stop(agent)  # it has the port for longer than the new host takes to start
        kill(host)
        job.nodes[0].exit_code()
        job.start(0)
        wait_until("the new node finds the port taken", lambda: job.nodes[0].said("waiting"))
        kill(agent, signal.SIGCONT)
        job.wait_for_round(1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)


class Cuts(InNamespaces):
    def running(self, **kwargs):
        job = self.job(**kwargs)
        job.start_all()
        job.wait_for_round(0)
        return job

    def check_a_cut_of_a_node(self, cut):
        # The others' workers ignore SIGTERM too, but are soon killed: only the lease delays the next round.
        job = self.running(plan=[{"when": {"restart": 0}, "term": "ignore"}],
                           options=("--nnodes", "2:3", "--shutdown-timeout", "1s"))
        cut(1)
        after = job.wait_for_round(1, workers=4)
        self.assertEqual([0, 0, 2, 2], [after[rank]["place"] for rank in range(4)])
        self.assertEqual([], job.workers_of(1))
        self.assert_rounds_do_not_overlap(job)
        self.network.heal()
        again = job.wait_for_round(2)
        self.assertEqual([0, 0, 1, 1, 2, 2], [again[rank]["place"] for rank in range(6)])
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_a_node_cut_off_stops_before_the_next_round(self):
        self.check_a_cut_of_a_node(lambda place: self.network.cut(place))

    def test_an_unheard_node_stops_before_the_next_round(self):
        self.check_a_cut_of_a_node(lambda place: self.network.cut_outgoing(place))

    def test_a_deaf_node_stops_before_the_next_round(self):
        self.check_a_cut_of_a_node(lambda place: self.network.cut_incoming(place))

    def check_a_cut_of_the_primary(self, cut):
        job = self.running(options=())
        cut(0)
        for place in range(3):
            wait_until(f"place {place} has ended its workers", lambda: not job.workers_of(place))
        self.network.heal()
        job.wait_for_round(1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_a_primary_cut_off_stops_by_itself(self):
        self.check_a_cut_of_the_primary(lambda place: self.network.cut(place))

    def test_an_unheard_primary_stops_by_itself(self):
        self.check_a_cut_of_the_primary(lambda place: self.network.cut_outgoing(place))

    def test_a_deaf_primary_stops_by_itself(self):
        self.check_a_cut_of_the_primary(lambda place: self.network.cut_incoming(place))

    def test_a_cut_shorter_than_the_lease_ends_no_worker(self):
        # The commands that cut and heal must not take longer than the lease, even on a busy machine.
        job = self.running(plan=[{"term": "ignore"}], options=("--nnodes", "2:3", "--lease", "1m"))
        starts = job.wait_for_round(0)
        self.network.cut(1)
        cluster.never("a worker is signalled", lambda: job.records("signal"), limit=0.5)
        self.network.heal()
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0))
        self.assertEqual([], job.records("start", restart=1))


if __name__ == "__main__":
    cluster.main()

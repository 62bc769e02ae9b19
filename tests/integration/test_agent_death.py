"""SIGKILL of agent processes, the primary's too: no worker notices."""
import signal
import socket
import subprocess
import unittest

import cluster
from cluster import ClusterTest, is_alive, kill, never, process_state, started_with, stop, wait_until

ATTACHED = r"agent (\d+) has reconnected"
# With a host's marker: its agent finds further orphans of that host in each pass, until the limit of the sweep.
MAKES_ORPHANS = ["sh", "-c", "while :; do (sleep 10 > /dev/null &); echo; sleep 0.01; done"]


def binds(listener, address):
    try:
        listener.bind(address)
    except OSError:
        return False
    return True


class AgentDeath(ClusterTest):
    def kill_agent(self, job, place):
        """Sends SIGKILL and waits until the successor is attached."""
        node = job.nodes[place]
        old = wait_until(f"an agent at place {place}", node.agent)
        seen = len(node.said(ATTACHED))
        kill(old)
        wait_until(f"a new agent of place {place} is attached", lambda: len(node.said(ATTACHED)) > seen)
        self.assertNotEqual(old, node.agent())

    def check_undisturbed(self, job, starts):
        job.open_gate()
        self.assertEqual(dict.fromkeys(job.nodes, 0), job.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0), "the same workers, by pid")
        self.assertEqual({0}, {record["restart"] for record in job.records()})
        self.assertEqual([], job.records("signal"))
        self.assertEqual(len(starts), len(job.records("end")))

    def running(self, **kwargs):
        job = self.cluster(3, plan=[{"term": "ignore"}], **kwargs)
        job.start_all()
        starts = job.wait_for_round(0)
        if kwargs.get("reduction_server"):  # no part of the round, so it may come later
            wait_until("the observer is attached", lambda: job.nodes[3].said("it exits when the job ends"))
        return job, starts

    def test_an_agents_death_disturbs_nobody(self):
        job, starts = self.running()
        self.kill_agent(job, 1)
        self.check_undisturbed(job, starts)

    def test_the_primary_agents_death_disturbs_nobody(self):
        job, starts = self.running(reduction_server=True)
        seen = {place: len(node.said(ATTACHED)) for place, node in job.nodes.items()}
        self.kill_agent(job, 0)
        for place, node in job.nodes.items():
            wait_until(f"place {place} is attached again", lambda: len(node.said(ATTACHED)) > seen[place])
        self.check_undisturbed(job, starts)

    def test_nobody_takes_the_port_between_two_agents(self):
        job, starts = self.running(options=("--lease", "60s"))
        primary = job.nodes[0]
        host, agent = primary.host(), primary.agent()
        stop(host)  # it starts no new agent
        kill(agent)
        wait_until("the agent has ended", lambda: not is_alive(agent))
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.assertFalse(binds(other, (job.addresses[0], job.ports[0])))
        kill(host, signal.SIGCONT)
        self.check_undisturbed(job, starts)

    def test_a_dead_hosts_port_is_free_during_the_sweep(self):
        job, starts = self.running()
        host, agent = job.nodes[0].host(), job.nodes[0].agent()
        maker = subprocess.Popen(MAKES_ORPHANS, env=started_with(starts[0]["pid"]), start_new_session=True,
                                 stdout=subprocess.PIPE)
        for clean in (maker.stdout.close, maker.wait, maker.kill):
            self.addCleanup(clean)
        maker.stdout.readline()  # the first one is there
        kill(host)
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            wait_until("the port is free", lambda: binds(other, (job.addresses[0], job.ports[0])))
        self.assertTrue(is_alive(agent), "the agent still ends the orphans")

    def test_many_agent_deaths_disturb_nobody(self):
        job, starts = self.running()
        for place in (0, 1, 2, 0, 1, 2, 0, 1, 2):
            self.kill_agent(job, place)
        self.check_undisturbed(job, starts)

    def test_the_death_of_all_agents_disturbs_nobody(self):
        job, starts = self.running()
        for _ in range(3):
            seen = {place: len(node.said(ATTACHED)) for place, node in job.nodes.items()}
            for pid in [node.agent() for node in job.nodes.values()]:
                kill(pid)
            for place, node in job.nodes.items():
                wait_until(f"place {place} is attached again", lambda: len(node.said(ATTACHED)) > seen[place])
        self.check_undisturbed(job, starts)

    def test_a_death_before_the_start_only_delays_it(self):
        job = self.cluster(3)
        job.start(1)
        job.start(0)
        for place in (0, 1):
            kill(wait_until("an agent", job.nodes[place].agent))
        job.start(2)
        starts = job.wait_for_round(0)
        self.check_undisturbed(job, starts)

    def test_a_death_at_the_success_loses_no_verdict(self):
        for place in (0, 1):
            with self.subTest(place=place):
                job, starts = self.running()
                agent = job.nodes[place].agent()
                job.open_gate()
                wait_until("the first worker has ended", lambda: job.records("end"))
                kill(agent)
                self.check_undisturbed(job, starts)

    def test_a_failure_without_a_primary_agent_is_not_lost(self):
        job = self.cluster(3, plan=[{"when": {"rank": 3, "restart": 0}, "after": "failure", "exit": 7}])
        job.start_all()
        job.wait_for_round(0)
        agent = job.nodes[0].agent()
        job.open_gate("failure")
        kill(agent)
        after = job.wait_for_round(1)
        self.assertEqual(6, len(after))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assertEqual({0, 1}, {record["restart"] for record in job.records()})
        self.assert_rounds_do_not_overlap(job)

    def test_five_deaths_within_moments_exit_70(self):
        job = self.cluster(1, nproc=1)
        node = job.start(0)
        job.wait_for_round(0)
        killed = set()

        def kill_the_next():
            agent = node.agent()
            if agent and agent not in killed:
                killed.add(agent)
                kill(agent)
            return node.has_ended()
        wait_until("the host gives up", kill_the_next)
        self.assertEqual(70, node.exit_code())
        self.assertEqual([], job.workers_of(0))
        self.assertEqual(5, len(killed))

    def test_a_leaving_nodes_success_is_not_lost(self):
        job = self.cluster(3, nproc=1, options=["--lease", "20s"], plan=[
            {"when": {"rank": 2}, "after": "early"}, {"when": {"rank": 0}, "after": "late"},
            {"when": {"rank": 1}, "after": "late"}])
        job.start_all()
        starts = job.wait_for_round(0)
        agent = job.nodes[0].agent()
        stop(agent)  # the success cannot be reported
        job.open_gate("early")
        wait_until("the end of rank 2, collected by its host", lambda: process_state(starts[2]["pid"]) is None)
        kill(agent)
        job.nodes[2].signal(signal.SIGTERM)
        self.assertEqual(75, job.nodes[2].exit_code())
        job.open_gate("late")
        self.assertEqual({0: 0, 1: 0, 2: 75}, job.exit_codes())
        self.assertEqual(len(starts), len(job.records("end")), "every worker came to its end")


class AgentDeathWhereThePortDecides(ClusterTest):
    """No rank is given and the primary's name is local to both nodes: the first to get the port stays the primary."""

    def test_two_deaths_at_once_do_not_swap_roles(self):
        port = cluster.free_port("127.0.0.1")
        job = self.cluster(2, plan=[{"term": "ignore"}], options=[
            "--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "one-machine"])
        job.start(0)
        wait_until("the first node serves", lambda: cluster.listens("127.0.0.1", port))
        job.start(1)
        starts = job.wait_for_round(0)
        first, second = job.nodes[0], job.nodes[1]
        agents = [first.agent(), second.agent()]
        host = first.host()
        stop(host)  # the other node could take the port now
        for agent in agents:
            kill(agent)
        wait_until("a new agent of the second node", lambda: second.agent() not in (None, agents[1]))
        never("the second node serves", lambda: second.said(ATTACHED))
        kill(host, signal.SIGCONT)
        for node in (first, second):
            wait_until("both are attached again", lambda node=node: node.said(ATTACHED))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0), "the same workers, by pid")


if __name__ == "__main__":
    cluster.main()

"""SIGSTOP of a node's host, its agent, or both: its workers are gone by the end of the lease, and the others go on."""
import signal

import cluster
from cluster import ClusterTest, InAContainer, kill, process_state, stop, wait_until

OTHERS = (0, 2)


class Freeze(ClusterTest):
    options = ("--nnodes", "2:3")

    def running(self, plan=(), **kwargs):
        job = self.cluster(3, options=self.options, plan=plan, **kwargs)
        job.start_all()
        job.wait_for_round(0)
        return job

    def stop(self, *pids):
        for pid in pids:
            self.assertTrue(stop(pid))

    def check_that_the_others_go_on(self, job, places=OTHERS):
        """The next round starts without overlap, and all its nodes end with 0."""
        wait_until("a later round has all its workers", lambda: self.complete_rounds(job))
        self.assert_rounds_do_not_overlap(job)
        job.open_gate()
        self.assertEqual([0] * len(places), [job.nodes[place].exit_code() for place in places])
        self.assert_rounds_do_not_overlap(job)

    @staticmethod
    def complete_rounds(job):
        counts = {record["restart"]: record["world"] for record in job.records("start") if record["restart"] > 0}
        return [count for count, world in counts.items() if len(job.records("start", restart=count)) == world]

    def test_a_frozen_hosts_workers_are_ended(self):
        job = self.running(plan=[{"when": {"restart": 0, "place": 1}, "spawn": ["plain", "setsid", "bash"]}])
        self.stop(job.nodes[1].host())
        wait_until("the node's workers are gone, nothing being continued", lambda: not job.workers_of(1))
        self.check_that_the_others_go_on(job)

    def test_a_frozen_agents_node_joins_the_next_round(self):
        job = self.running()
        agent = job.nodes[1].agent()
        self.stop(agent)
        after = job.wait_for_round(1)
        self.assertEqual([0, 0, 1, 1, 2, 2], [after[rank]["place"] for rank in range(6)])
        self.assertFalse(cluster.is_alive(agent))
        self.check_that_the_others_go_on(job, places=(0, 1, 2))

    def test_freezing_both_ends_the_workers(self):
        job = self.running(plan=[{"when": {"restart": 0, "place": 1}, "spawn": ["plain", "setsid"]}])
        host, agent = job.nodes[1].host(), job.nodes[1].agent()
        workers = [record["pid"] for record in job.records("start", place=1)]
        self.stop(host, agent)
        wait_until("the node's workers are gone, nothing being continued",
                   lambda: not any(map(cluster.is_alive, workers)))
        self.assertFalse(cluster.is_alive(host))  # ended by its kernel timer: only the agent can be continued
        kill(agent, signal.SIGCONT)
        wait_until("all their descendants are gone", lambda: not job.workers_of(1))
        self.check_that_the_others_go_on(job)

    def test_a_short_freeze_disturbs_nobody(self):
        job = self.running()
        starts = job.wait_for_round(0)
        host = job.nodes[1].host()
        self.stop(host)
        kill(host, signal.SIGCONT)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0))
        self.assertEqual([], job.records("start", restart=1))

    def test_a_frozen_primary_agent_costs_one_round_at_most(self):
        job = self.running()
        self.stop(job.nodes[0].agent())
        self.check_that_the_others_go_on(job, places=(0, 1, 2))


class FreezeInANamespace(InAContainer, Freeze):
    """The same with muster as PID 1."""

    def running(self, plan=(), **kwargs):
        self.job = super().running(plan, **kwargs)
        return self.job

    def test_freezing_both_ends_the_workers(self):
        # When the host ends PID 1 ends, and with it the kernel ends the namespace: nothing has to be continued.
        job = self.running(plan=[{"when": {"restart": 0, "place": 1}, "spawn": ["plain", "setsid"]}])
        self.stop(job.nodes[1].host(), job.nodes[1].agent())
        wait_until("everything in the namespace is gone", lambda: not job.workers_of(1))
        self.check_that_the_others_go_on(job)

    def test_no_zombie_is_left(self):
        job = self.running(plan=[{"spawn": ["double_fork", "daemon_in_bash"]},
                                 {"when": {"restart": 0, "rank": 2}, "after": "failure", "exit": 1}])
        wait_until("all descendants", lambda: len(job.descendants_of("double_fork")) == 6)
        job.open_gate("failure")
        job.wait_for_round(1)
        node = job.nodes[1]
        first = cluster.children(node.process.pid)
        self.assertEqual(1, len(first))
        wait_until("no zombie", lambda: not [pid for pid in cluster.descendants(first[0]) if process_state(pid) == "Z"])
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())


if __name__ == "__main__":
    cluster.main()

"""The primary's whole node dies and is restarted: the others wait, and the job continues."""
import unittest

import cluster
from cluster import ClusterTest, kill, wait_until


class PrimaryDeath(ClusterTest):
    def running(self, **kwargs):
        job = self.cluster(3, **kwargs)
        job.start_all()
        job.wait_for_round(0)
        return job

    def kill_node(self, node):
        host, agent = node.host(), node.agent()
        kill(host)
        kill(agent)
        node.exit_code()

    def test_the_others_wait_and_the_counts_continue(self):
        job = self.running(plan=[{"when": {"restart": 0, "rank": 5}, "after": "failure", "exit": 1}])
        job.open_gate("failure")
        job.wait_for_round(1)
        self.kill_node(job.nodes[0])
        for place in (1, 2):
            wait_until(f"place {place} names the primary that it waits for",
                       lambda: job.nodes[place].said(rf"waiting.*{job.addresses[0]}:{job.ports[0]}"))
        job.start(0)
        after = job.wait_for_round(2)
        self.assertEqual([0, 0, 1, 1, 2, 2], [after[rank]["place"] for rank in range(6)])
        self.assert_same_master(after)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)
        rounds = [int(number) for node in job.all_nodes for number in node.said(r"on \d+ nodes?, round (\d+), ")]
        self.assertEqual(len(set(rounds)), len(rounds), "no round's number comes twice")
        self.assertEqual([1, 2, 3], rounds)

    def test_repeated_deaths_are_survived(self):
        job = self.running()
        for restart in (1, 2):
            self.kill_node(job.nodes[0])
            job.start(0)
            job.wait_for_round(restart)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_a_host_death_alone_is_the_same(self):
        job = self.running()
        kill(job.nodes[0].host())
        job.nodes[0].exit_code()
        wait_until("its agent has ended", lambda: not job.workers_of(0))
        job.start(0)
        job.wait_for_round(1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_a_permanent_loss_ends_the_others_with_69(self):
        job = self.running(options=["--coordinator-timeout", "4s"], reduction_server=True)
        self.kill_node(job.nodes[0])
        for place in (1, 2):
            self.assertEqual(69, job.nodes[place].exit_code())
            self.assertRegex(job.nodes[place].err(), rf"exit code 69.*{job.addresses[0]}:{job.ports[0]}")
        self.assertEqual(0, job.nodes[3].exit_code(), "one that does not train has nothing to complain of")
        self.assertEqual([], job.workers_of(1) + job.workers_of(2))


if __name__ == "__main__":
    cluster.main()

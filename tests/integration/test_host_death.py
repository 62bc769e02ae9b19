"""SIGKILL of a node's main process: none of its processes stay, and the others go on."""
import unittest

import cluster
from cluster import ClusterTest, kill, stop, wait_until

KINDS = ["plain", "setsid", "double_fork", "bash", "daemon_in_bash"]


class HostDeath(ClusterTest):
    def running(self, options=("--nnodes", "2:3"), plan=(), **kwargs):
        job = self.cluster(3, options=options, plan=plan, **kwargs)
        job.start_all()
        job.wait_for_round(0)
        return job

    def test_all_its_descendants_are_gone(self):
        job = self.running(plan=[{"when": {"restart": 0}, "spawn": KINDS}])
        for kind in KINDS:
            wait_until(f"descendants of kind {kind}", lambda: len(job.descendants_of(kind)) >= 6)
        kill(job.nodes[1].host())
        wait_until("the node's workers are gone", lambda: not job.workers_of(1))
        for kind in KINDS:
            self.assertEqual(set(), job.descendants_of(kind, place=1), kind)
        after = job.wait_for_round(1, workers=4)
        self.assertEqual({4}, {record["world"] for record in after.values()})
        self.assertEqual([0, 0, 2, 2], [after[rank]["place"] for rank in range(4)])
        job.open_gate()
        self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])
        self.assert_rounds_do_not_overlap(job)

    def test_a_restarted_node_takes_its_old_rank(self):
        job = self.running()
        kill(job.nodes[1].host())
        job.wait_for_round(1, workers=4)
        job.start(1)
        after = job.wait_for_round(2)
        self.assertEqual([0, 0, 1, 1, 2, 2], [after[rank]["place"] for rank in range(6)])
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_without_its_agent_the_others_await_the_lease(self):
        job = self.running(plan=[{"when": {"restart": 0}, "spawn": ["plain", "bash"]}])
        host, agent = job.nodes[1].host(), job.nodes[1].agent()
        kill(host)
        kill(agent)
        after = job.wait_for_round(1, workers=4)
        self.assertEqual({4}, {record["world"] for record in after.values()})
        job.open_gate()
        self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])
        self.assert_rounds_do_not_overlap(job)

    def test_the_next_start_ends_the_leftovers_of_both(self):
        job = self.running(plan=[{"when": {"restart": 0}, "spawn": ["setsid"]}])
        host, agent = job.nodes[1].host(), job.nodes[1].agent()
        kill(host)
        kill(agent)
        job.start(1)
        wait_until("its predecessor's leftovers are gone", lambda: not job.descendants_of("setsid", place=1))
        wait_until("a round of three nodes", lambda: any(r["world"] == 6 and r["restart"] > 0 for r in job.records("start")))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_a_single_nodes_next_start_ends_its_leftovers(self):
        spawn = {"plan": [{"spawn": ["setsid", "daemon_in_bash"]}]}
        job = self.cluster(1, **spawn)
        neighbour = self.cluster(1, environment={"CLOUD_ML_JOB_ID": job.job_id}, **spawn)  # a live node of the same run
        kinds = ("setsid", "daemon_in_bash")
        for each in (job, neighbour):
            each.start_all().wait_for_round(0)
            for kind in kinds:
                wait_until(f"descendants of kind {kind}", lambda: len(each.descendants_of(kind)) >= 2)
        left = {pid for kind in kinds for pid in job.descendants_of(kind)}
        host, agent = job.nodes[0].host(), job.nodes[0].agent()
        stop(agent)  # otherwise it would end them itself
        kill(host)
        kill(agent)
        wait_until("the end of both", lambda: not cluster.is_alive(host) and not cluster.is_alive(agent))
        self.assertTrue(any(cluster.is_alive(pid) for pid in left), "there is nothing to be found")
        spared = {pid for kind in kinds for pid in neighbour.descendants_of(kind)}
        job.open_gate()
        self.assertEqual(0, job.start(0).exit_code())
        self.assertEqual([], [pid for pid in left if cluster.is_alive(pid)])
        self.assertTrue(job.nodes[0].said(r"killed \d+ processes left by a dead muster of this run: pid \d+ \(sleep\)"))
        self.assertEqual([], [pid for pid in spared if not cluster.is_alive(pid)])
        neighbour.open_gate()
        self.assertEqual(0, neighbour.nodes[0].exit_code())

    def test_a_fixed_group_waits_for_the_replacement(self):
        job = self.running(options=())
        kill(job.nodes[2].host())
        wait_until("the primary names the absent place", lambda: job.nodes[0].said(r"waiting.*" + job.addresses[2]))
        self.assertEqual([], job.records("start", restart=1))
        job.start(2)
        after = job.wait_for_round(1)
        self.assertEqual([0, 0, 1, 1, 2, 2], [after[rank]["place"] for rank in range(6)])
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_a_fixed_group_gives_up_and_names_the_place(self):
        job = self.running(options=["--rejoin-timeout", "2s"])
        kill(job.nodes[2].host())
        for place in (0, 1):
            self.assertEqual(69, job.nodes[place].exit_code())
            self.assertRegex(job.nodes[place].err(), rf"exit code 69.*{job.addresses[2]}")
        self.assertEqual([], job.records("start", restart=1))

    def test_losses_have_a_budget_of_their_own(self):
        job = self.running(options=["--nnodes", "1:3", "--max-node-losses", "1", "--max-restarts", "0"])
        kill(job.nodes[1].host())
        job.wait_for_round(1, workers=4)
        kill(job.nodes[2].host())
        self.assertEqual(69, job.nodes[0].exit_code())

    def test_many_deaths_in_a_row_are_survived(self):
        job = self.running()
        for restart, place in ((1, 1), (3, 2), (5, 1)):
            kill(job.nodes[place].host())
            job.wait_for_round(restart, workers=4)
            job.start(place)
            job.wait_for_round(restart + 1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)


if __name__ == "__main__":
    cluster.main()

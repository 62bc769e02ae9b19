"""SIGTERM to one node, twice to one node, and to all nodes."""
import signal
import unittest

import cluster
from cluster import ClusterTest, never, wait_until


class Leave(ClusterTest):
    def running(self, plan=(), options=("--nnodes", "2:3"), **kwargs):
        job = self.cluster(3, plan=plan, options=options, **kwargs)
        job.start_all()
        job.wait_for_round(0)
        return job

    def test_one_leaves_with_75_and_the_others_go_on(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(signal=number.name):
                job = self.running(plan=[{"when": {"restart": 0}, "term": "exit"}])
                job.nodes[1].signal(number)
                self.assertEqual(75, job.nodes[1].exit_code())
                after = job.wait_for_round(1, workers=4)
                self.assertEqual([0, 0, 2, 2], [after[rank]["place"] for rank in range(4)])
                if number == signal.SIGTERM:
                    self.assertEqual(2, len(job.records("signal", place=1)), "its workers were told")
                job.open_gate()
                self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])
                self.assert_rounds_do_not_overlap(job)

    def test_all_workers_are_stopped_during_the_grace(self):
        job = self.running(plan=[{"when": {"restart": 0}, "term": "exit"}, {"when": {"place": 1}, "term": "ignore"}],
                           options=("--nnodes", "2:3", "--termination-grace", "3s"))
        job.nodes[1].signal(signal.SIGTERM)
        self.assertEqual(75, job.nodes[1].exit_code())
        killed = min(time for worker, time in job.last_beats(0).items() if worker.startswith("1-"))
        told = {record["rank"]: record["time"] for record in job.records("signal", restart=0)}
        self.assertEqual(set(range(6)), set(told), "all can save")
        self.assertLess(max(told.values()), killed)
        job.open_gate()
        self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])

    def test_exit_0_after_our_sigterm_is_no_success(self):
        job = self.running(plan=[{"term": "exit"}], options=("--rejoin-timeout", "2s"))
        job.nodes[1].signal(signal.SIGTERM)
        self.assertEqual({0: 69, 1: 75, 2: 69}, job.exit_codes())

    def test_the_workers_have_the_grace_and_no_more(self):
        job = self.running(plan=[{"when": {"place": 1}, "term": "ignore"}],
                           options=("--nnodes", "2:3", "--termination-grace", "1s"))
        job.nodes[1].signal(signal.SIGTERM)
        self.assertEqual(75, job.nodes[1].exit_code())
        told = min(record["time"] for record in job.records("signal", place=1))
        last = max(time for worker, time in job.last_beats(0).items() if worker.startswith("1-"))
        self.assertGreater(last - told, 0.8)
        job.wait_for_round(1, workers=4)
        job.open_gate()
        self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])
        self.assert_rounds_do_not_overlap(job)

    # How long the workers of a node ran after their first signal.
    def time_of(self, job, place):
        told = min(record["time"] for record in job.records("signal", place=place))
        return max(time for worker, time in job.last_beats(0).items() if worker.startswith(f"{place}-")) - told

    # The first node to leave makes the coordinator stop the workers of the others, which are asked a moment later.
    def test_every_node_has_the_time_that_its_log_names(self):
        job = self.running(plan=[{"term": "ignore"}], options=("--termination-grace", "5s", "--shutdown-timeout", "1s"))
        for place in (1, 0, 2):
            job.nodes[place].signal(signal.SIGTERM)
            wait_until("all workers have got a signal", lambda: len(job.records("signal")) == 6)
        self.assertEqual({0: 75, 1: 75, 2: 75}, job.exit_codes())
        for place in range(3):
            self.assertTrue(job.nodes[place].said("leaving the job; the workers have 5s to exit"))
            self.assertGreater(self.time_of(job, place), 4.8)

    # No other node renews its lease then.
    def test_the_last_node_has_its_time_beyond_the_lease(self):
        for slowest in (0, 2):
            with self.subTest(slowest=slowest):
                job = self.running(plan=[{"term": "exit"}, {"when": {"place": slowest}, "term": "ignore"}],
                                   options=("--termination-grace", "6s", "--shutdown-timeout", "1s"))
                for place in (1, 0, 2):
                    job.nodes[place].signal(signal.SIGTERM)
                self.assertEqual({0: 75, 1: 75, 2: 75}, job.exit_codes())
                self.assertGreater(self.time_of(job, slowest), 5.8)

    def test_a_second_signal_ends_it_now(self):
        job = self.running(plan=[{"when": {"place": 1}, "term": "ignore"}],
                           options=("--nnodes", "2:3", "--termination-grace", "5m"))
        job.nodes[1].signal(signal.SIGTERM)
        wait_until("its workers have got the signal", lambda: len(job.records("signal", place=1)) == 2)
        wait_until("its end", lambda: job.nodes[1].has_ended() or not job.nodes[1].signal(signal.SIGTERM))
        self.assertEqual(75, job.nodes[1].exit_code())
        wait_until("its workers are gone", lambda: not job.workers_of(1))
        job.wait_for_round(1, workers=4)
        job.open_gate()
        self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])

    def test_a_repeated_signal_keeps_the_grace(self):
        job = self.cluster(1, nproc=1, plan=[{"term": "ignore"}], options=("--termination-grace", "5m"))
        node = job.start(0)
        job.wait_for_round(0)
        # Like timeout(1), which signals its child and then the group. Two equal signals might be merged into one.
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            node.signal(number)
        wait_until("the worker has got the signal", lambda: job.records("signal"))
        never("the worker is killed", lambda: not job.workers_of(0))
        job.open_gate()
        self.assertEqual(-signal.SIGINT, node.exit_code())

    def test_a_signal_to_all_leaves_the_agents_alive(self):
        job = self.running(plan=[{"term": "exit"}])
        for pid in cluster.bearers(cluster.TOKEN, job.token):  # as scancel, systemd and `kill -- -1` do
            cluster.kill(pid, signal.SIGTERM)
        self.assertEqual({0: 75, 1: 75, 2: 75}, job.exit_codes(limit=20))
        for node in job.nodes.values():
            self.assertEqual([], node.said("agent 1 ended|takes over|recovering"))

    def test_signals_to_all_nodes_end_them_with_75(self):
        job = self.running(plan=[{"term": "ignore"}], reduction_server=True,
                           options=("--termination-grace", "1s", "--shutdown-timeout", "5m"))
        for node in job.nodes.values():
            node.signal(signal.SIGTERM)
        codes = job.exit_codes(limit=20)
        self.assertEqual([75, 75, 75], [codes[place] for place in range(3)])
        self.assertIn(codes[3], (0, 75))
        self.assertEqual([], job.records("start", restart=1))

    def test_the_others_await_a_primary_that_leaves(self):
        job = self.running(options=())
        job.nodes[0].signal(signal.SIGTERM)
        self.assertEqual(75, job.nodes[0].exit_code())
        job.start(0)
        after = job.wait_for_round(1)
        self.assertEqual([0, 0, 1, 1, 2, 2], [after[rank]["place"] for rank in range(6)])
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_before_the_first_round_a_node_just_leaves(self):
        job = self.cluster(3)
        node = job.start(1)
        wait_until("it waits for the primary", lambda: node.said("waiting"))
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())

    def test_sigusr1_and_sigusr2_reach_the_workers(self):
        job = self.cluster(1, nproc=1, program=["sh", "-c", "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; "
                                                            "echo ready; while :; do sleep 0.05; done"])
        node = job.start(0)
        wait_until("the worker", lambda: "ready" in node.out())
        node.signal(signal.SIGUSR1)
        wait_until("the first trap", lambda: "one" in node.out())
        node.signal(signal.SIGUSR2)
        self.assertEqual(0, node.exit_code())
        self.assertEqual("ready\none\ntwo\n", node.out())

    def test_a_handled_signal_reaches_the_workers(self):
        job = self.cluster(1, nproc=1, options=["--signals-to-handle", "SIGTERM,SIGUSR1"], program=[
            "sh", "-c", "trap 'echo one; exit 0' USR1; echo ready; while :; do sleep 0.05; done"])
        node = job.start(0)
        wait_until("the worker", lambda: "ready" in node.out())
        node.signal(signal.SIGUSR1)
        self.assertEqual(75, node.exit_code())
        self.assertEqual("ready\none\n", node.out())

    # torchrun would end by SIGHUP's default action.
    def test_a_usual_signal_means_leave_even_if_unlisted(self):
        job = self.cluster(1, nproc=1, options=["--signals-to-handle", "SIGTERM"], program=[
            "sh", "-c", "trap 'exit 0' HUP; echo ready; while :; do sleep 0.05; done"])
        node = job.start(0)
        wait_until("the worker", lambda: "ready" in node.out())
        node.signal(signal.SIGHUP)
        self.assertEqual(75, node.exit_code())
        self.assertTrue(node.said("SIGHUP: leaving the job"))


class OnVertexAi(ClusterTest):
    def test_only_a_leave_asks_for_another_run(self):
        job = self.cluster(2, environment={"MUSTER_RETRYABLE_EXIT_CODE": ""}, options=["--nnodes", "1:2"])
        job.start_all()
        job.wait_for_round(0)
        job.nodes[1].signal(signal.SIGTERM)
        self.assertEqual(134, job.nodes[1].exit_code())
        self.assertTrue(job.nodes[1].said(r"exit code 134 \(muster\): .*\(75, reported as 134"))
        job.open_gate()
        self.assertEqual(0, job.nodes[0].exit_code())
        failing = self.cluster(1, plan=[{"after": None, "exit": 75}], options=["--max-restarts", "0"],
                               environment={"MUSTER_RETRYABLE_EXIT_CODE": ""})
        self.assertEqual(75, failing.start(0).exit_code())


if __name__ == "__main__":
    cluster.main()

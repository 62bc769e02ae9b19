"""A standalone `muster coordinator`: no worker notices a restart; beyond the lease the group restarts."""
import json
import signal
import subprocess
import unittest

import cluster
from cluster import BINARY, ClusterTest, Node, kill, wait_until


class CoordinatorAlone(ClusterTest):
    def job_of(self, nodes, nnodes=None, lease="3s", **kwargs):
        self.port = cluster.free_port("127.0.0.1")
        self.lease, self.nnodes = lease, nnodes or str(nodes)
        options = ["--coordinator", f"127.0.0.1:{self.port}", "--nnodes", self.nnodes, "--rdzv-id", "alone",
                   *kwargs.pop("options", ())]
        return self.cluster(nodes, options=options, **kwargs)

    def start_coordinator(self, job, *options, run_id="alone", prefix=()):
        environment = {name: value for name, value in job.environment_of(0).items() if name != "TEST_PLACE"}
        command = [*prefix, str(BINARY), "coordinator", "--nnodes", self.nnodes, "--rdzv-id", run_id, "--lease", self.lease,
                   "--listen", f"127.0.0.1:{self.port}", *options]
        node = Node(f"coordinator-{len(job.all_nodes)}", command, environment, job.folder)
        job.all_nodes.append(node)
        return node

    # Nodes without a given rank wait for one lease before the first round.
    def running(self, nodes=2, ranked=True, coordinator=(), **kwargs):
        job = self.job_of(nodes, **kwargs)
        self.coordinator = self.start_coordinator(job, *coordinator)
        for place in range(nodes):
            job.start(place, options=["--node-rank", str(place)] if ranked else [])
        return job, job.wait_for_round(0)

    def test_runs_a_job_and_ends_with_it(self):
        job, starts = self.running()
        self.assertEqual([0, 1, 2, 3], sorted(starts))
        self.assert_same_master(starts)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(0, self.coordinator.exit_code())

    def test_exits_with_the_first_failures_code(self):
        job, _ = self.running(plan=[{"when": {"rank": 2}, "exit": 7}, {"when": {"rank": 0}, "after": "never"}])
        job.open_gate()
        self.assertEqual({0: 7, 1: 7}, job.exit_codes())
        self.assertEqual(7, self.coordinator.exit_code())
        self.assertTrue(self.coordinator.said("exit code 7: rank 2 "))

    def test_prints_the_whole_report_of_a_failed_job(self):
        job, _ = self.running(3, nproc=1, plan=[{"when": {"rank": 2}, "exit": 7},
                                                  *({"when": {"rank": rank}, "after": "never"} for rank in (0, 1))])
        job.open_gate()
        self.assertEqual({0: 7, 1: 7, 2: 7}, job.exit_codes())
        self.assertEqual(7, self.coordinator.exit_code())
        self.assertRegex(self.coordinator.err(), r"Root Cause \(first observed failure\):\n\[0\]:\n(.*\n)*  rank      : 2 ")
        self.assertTrue(job.nodes[1].said(r"\(node 2\) and of the coordinator; --report-on all"))

    def test_a_restart_disturbs_no_worker(self):
        job, starts = self.running()
        for _ in range(3):
            kill(self.coordinator.process.pid)
            self.coordinator.exit_code()
            self.coordinator = self.start_coordinator(job)
            wait_until("the coordinator has taken the round over",
                       lambda: self.coordinator.said("all members of the round are back|round 1"))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0), "the same workers, by pid")
        self.assertEqual([], job.records("start", restart=1))
        self.assertEqual(0, self.coordinator.exit_code())

    def test_the_end_of_its_terminal_ends_it(self):
        job = self.job_of(2)
        for number, name in ((signal.SIGHUP, "SIGHUP"), (signal.SIGQUIT, "SIGQUIT"), (signal.SIGTERM, "SIGTERM")):
            coordinator = self.start_coordinator(job)
            wait_until("it listens", lambda coordinator=coordinator: coordinator.said("listening on"))
            kill(coordinator.process.pid, number)
            self.assertEqual(75, coordinator.exit_code())
            self.assertTrue(coordinator.said(f"exit code 75: {name}: the job continues if"))

    def test_a_signal_that_was_ignored_at_the_start_stays_ignored(self):
        job = self.job_of(2)
        coordinator = self.start_coordinator(job, prefix=("nohup",))
        wait_until("it listens", lambda: coordinator.said("listening on"))
        kill(coordinator.process.pid, signal.SIGHUP)
        kill(coordinator.process.pid, signal.SIGTERM)
        self.assertEqual(75, coordinator.exit_code())
        self.assertTrue(coordinator.said("exit code 75: SIGTERM"))
        self.assertFalse(coordinator.said("SIGHUP"))

    def test_the_check_of_a_node_asks_whether_it_would_be_refused(self):
        job = self.job_of(2)
        coordinator = self.start_coordinator(job)
        wait_until("it listens", lambda: coordinator.said("listening on"))
        for run_id, refused in (("alone", False), ("another", True)):
            command = [str(BINARY), "env", "--check", "--coordinator", f"127.0.0.1:{self.port}", "--nnodes", "2",
                       "--rdzv-id", run_id, "--no-python", "true"]
            done = subprocess.run(command, env=cluster.plain_environment(), capture_output=True, text=True,
                                  timeout=cluster.LIMIT_S, check=False)
            self.assertEqual(refused, done.returncode == 69, done.stdout)
            self.assertEqual(refused, "run id 'another' is not this job's" in done.stdout, done.stdout)
            self.assertIn("clock" if not refused else "admission", done.stdout)
        self.assertFalse(coordinator.said("joined|attached"))

    def test_another_jobs_coordinator_ends_no_node(self):
        job, starts = self.running(lease="30s")
        kill(self.coordinator.process.pid)
        self.coordinator.exit_code()
        stranger = self.start_coordinator(job, run_id="another")
        for place in (0, 1):
            wait_until(f"place {place} says whom it has reached",
                       lambda place=place: job.nodes[place].said("another job's coordinator answers at .*: run id 'alone'"))
        kill(stranger.process.pid)
        stranger.exit_code()
        own = self.start_coordinator(job)
        wait_until("its own coordinator continues", lambda: own.said("all members of the round are back"))
        job.open_gate()
        # It has not seen the round itself, so it weighs the success until the lease of an absent node would have ended.
        self.assertEqual({0: 0, 1: 0}, job.exit_codes(limit=cluster.LIMIT_S + 31.3))
        self.assertEqual(starts, job.wait_for_round(0), "the same workers, by pid")
        self.assertEqual(0, own.exit_code())

    def test_an_absence_beyond_the_lease_restarts_the_group(self):
        job, starts = self.running()
        kill(self.coordinator.process.pid)
        for place in (0, 1):
            wait_until("its workers are gone", lambda place=place: not job.workers_of(place))
        self.start_coordinator(job)
        job.wait_for_round(1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_may_be_started_last(self):
        job = self.job_of(2)
        job.start_all()
        for node in job.nodes.values():
            wait_until("its reason for waiting", lambda node=node: node.said(rf"waiting.*127.0.0.1:{self.port}"))
        self.start_coordinator(job)
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())

    def test_a_node_that_dies_is_replaced_by_a_spare(self):
        job, _ = self.running(nodes=2, ranked=False, lease="6s")
        spare = job.start(2)
        wait_until("the spare knows its place in line", lambda: spare.said("spare 1 in line"))
        host, agent = job.nodes[1].host(), job.nodes[1].agent()
        kill(host)
        kill(agent)
        after = job.wait_for_round(1)
        self.assertEqual({0, 2}, {record["place"] for record in after.values()})
        job.open_gate()
        self.assertEqual(0, job.nodes[0].exit_code())
        self.assertEqual(0, spare.exit_code())
        self.assert_rounds_do_not_overlap(job)

    # SIGTERM to the whole job; the workers save for longer than a lease.
    def test_asked_to_end_it_serves_those_who_leave(self):
        job, _ = self.running(plan=[{"term": "ignore"}], options=("--termination-grace", "8s"), lease="6s")
        self.coordinator.signal(signal.SIGTERM)
        wait_until("it goes on for a moment", lambda: self.coordinator.said("no more rounds begin here"))
        for place in (0, 1):
            job.nodes[place].signal(signal.SIGTERM)
        self.assertEqual({0: 75, 1: 75}, job.exit_codes())
        for place in (0, 1):
            told = min(record["time"] for record in job.records("signal", place=place))
            last = max(time for worker, time in job.last_beats(0).items() if worker.startswith(f"{place}-"))
            self.assertGreater(last - told, 7.8)
        self.assertEqual(75, self.coordinator.exit_code())

    def test_asked_twice_it_ends_at_once(self):
        job, _ = self.running(lease="5m")
        self.coordinator.signal(signal.SIGTERM)
        wait_until("it goes on for a moment", lambda: self.coordinator.said("no more rounds begin here"))
        wait_until("its end", lambda: self.coordinator.has_ended() or not self.coordinator.signal(signal.SIGTERM))
        self.assertEqual(75, self.coordinator.exit_code(limit=5))

    def test_a_stopped_one_says_that_the_job_goes_on(self):
        job, starts = self.running()
        self.coordinator.signal(signal.SIGTERM)
        self.assertEqual(75, self.coordinator.exit_code())
        self.assertTrue(self.coordinator.said("the job continues"))
        self.start_coordinator(job)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0))

    def test_ones_own_ctrl_c_is_no_error(self):
        coordinator = self.start_coordinator(self.job_of(2), "--log-format", "json")
        wait_until("it listens", lambda: coordinator.said("listening on"))
        coordinator.signal(signal.SIGINT)
        wait_until("its end", coordinator.has_ended)
        lines = [json.loads(line) for line in coordinator.err().splitlines() if line.startswith("{")]
        self.assertEqual(["INFO"], [line["severity"] for line in lines if line.get("event") == "job_ended"])
        self.assertEqual([], [line for line in lines if line["severity"] == "ERROR"])

    def test_one_nodes_progress_file_counts_for_the_job(self):
        job = self.job_of(2, nproc=1, plan=[{"when": {"rank": 1}, "exit": 5, "after": None}])
        self.start_coordinator(job, "--max-restarts", "100", "--restart-delay", "0s")
        job.start(0)
        job.start(1, options=["--progress-file", str(job.folder / "progress"), "--max-restarts", "1"])
        self.assertEqual({0: 93, 1: 93}, job.exit_codes())
        self.assertEqual([0, 1, 2, 3], sorted({record["restart"] for record in job.records("start")}))
        self.assertTrue(job.nodes[1].said("--max-restarts: ignored with --coordinator"))

    def test_node_variables_of_the_environment_are_ignored(self):
        job = self.job_of(2)
        job.environment.update(PET_RDZV_ENDPOINT="elsewhere:1", PET_NODE_RANK="5", PET_NPROC_PER_NODE="gpu",
                               MUSTER_STANDALONE="1")
        coordinator = self.start_coordinator(job, "--join-timeout", "500ms")
        self.assertEqual(69, coordinator.exit_code())
        self.assertTrue(coordinator.said("no node joined"))

    def test_ends_when_nobody_comes(self):
        job = self.job_of(2)
        coordinator = self.start_coordinator(job, "--join-timeout", "500ms")
        self.assertEqual(69, coordinator.exit_code())
        self.assertTrue(coordinator.said("no node joined within 3s"))

    def test_a_taken_port_is_69_and_named(self):
        job, _ = self.running()
        second = self.start_coordinator(job)
        self.assertEqual(69, second.exit_code())
        self.assertTrue(second.said(f"port {self.port} is used by muster"))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())


if __name__ == "__main__":
    unittest.main()

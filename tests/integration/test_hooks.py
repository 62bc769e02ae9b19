"""Commands beside the workers: the setup of a node, and the last command of a job; and workers that are done early."""
import signal
import sys
import time
import unittest

import cluster
from cluster import ClusterTest, is_alive, kill, never, wait_until

FAILS = {"exit": 7, "after": None}
SAVES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), print("saved"), sys.exit()))
open(sys.argv[1], "w").close()
time.sleep(1000)
"""
DONE_ONCE = """
if [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]; then [ "$RANK" = 0 ] || exit 6
elif [ "$RANK" = 1 ]; then touch "$MUSTER_DONE_FILE" "$SEEN"
else until test -e "$SEEN"; do sleep 0.01; done; exit 4; fi
"""
ONE_SIGNAL_S = 0.3  # longer than the time within which two signals are one


class Hooks(ClusterTest):
    def job(self, nodes=2, options=(), **kwargs):
        return self.cluster(nodes, nproc=1, options=options, **kwargs)

    def hook(self, job, name, line="true"):
        """The option and a command that notes in a file that it ran, and where."""
        return [f"--{name}", f'echo "$TEST_PLACE $MUSTER_EXIT_CODE" >>"{job.folder}/{name}"; {line}']

    def ran(self, job, name):
        path = job.folder / name
        return sorted(path.read_text().split("\n")[:-1]) if path.exists() else []

    def finish(self, job):
        job.wait_for_round(0)
        job.open_gate()
        return job.exit_codes()

    # The setup of a node.

    def test_the_setup_runs_once_on_each_node_before_its_first_round(self):
        job = self.job(plan=[{"when": {"rank": 1, "restart": 0}, **FAILS}])
        job.options += ["--max-restarts", "1", *self.hook(job, "node-setup", f'test ! -e "{job.folder}/starts"')]
        job.start_all()
        job.wait_for_round(1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(["0 ", "1 "], self.ran(job, "node-setup"))

    def test_a_node_whose_setup_fails_tries_again(self):
        job = self.job()
        fetch = f'test -e "{job.folder}/model" || {{ echo "no model" >&2; exit 3; }}'
        job.options += self.hook(job, "node-setup", fetch)
        job.start_all()
        wait_until("the primary says why", lambda: job.nodes[0].said(
            r"waiting after .*: setup failed on \S+: exit code 3: no model"))
        job.open_gate("model")
        self.assertEqual({0: 0, 1: 0}, self.finish(job))
        self.assertTrue(job.nodes[1].said("(?m)^setup: no model$"))

    def test_a_slow_setup_is_awaited_beyond_the_join_timeout(self):
        job = self.job(options=["--join-timeout", "1s", "--lease", "1s"])
        job.options += self.hook(job, "node-setup", f'until test -e "{job.folder}/model"; do sleep 0.1; done')
        job.start_all()
        never("an end for lack of nodes", lambda: any(node.has_ended() for node in job.nodes.values()), limit=4)
        job.open_gate("model")
        self.assertEqual({0: 0, 1: 0}, self.finish(job))

    # The last command.

    def test_the_last_command_runs_once_after_all_ranks_have_succeeded(self):
        job = self.job()
        job.options += [*self.hook(job, "on-success"), *self.hook(job, "on-failure")]
        job.start_all()
        self.assertEqual({0: 0, 1: 0}, self.finish(job))
        self.assertEqual(["0 0"], self.ran(job, "on-success"), "on the primary, with the exit code")
        self.assertEqual([], self.ran(job, "on-failure"))
        self.assertEqual(2, len(job.records("end")))

    def test_its_failure_is_the_primarys(self):
        job = self.job()
        report = job.folder / "report-${node_rank}.json"
        job.options += ["--report", str(report), *self.hook(job, "on-success", "exit 3")]
        job.start_all()
        self.assertEqual({0: 3, 1: 0}, self.finish(job))
        self.assertIn('"exit_code": 3', (job.folder / "report-0.json").read_text())
        self.assertIn("--on-success failed: exit code 3", (job.folder / "report-0.json").read_text())
        self.assertIn('"exit_code": 0', (job.folder / "report-1.json").read_text())

    def test_after_a_failure_the_other_one_runs_and_changes_no_exit_code(self):
        job = self.job(plan=[{"when": {"rank": 1}, **FAILS}])
        told = job.folder / "told"
        tell = f'test -s "$MUSTER_REPORT" && printf "%s" "$MUSTER_REASON" >"{told}"; exit 9'
        job.options += ["--max-restarts", "0", "--report", str(job.folder / "report.json"),
                        *self.hook(job, "on-success"), *self.hook(job, "on-failure", tell)]
        job.start_all()
        self.assertEqual({0: 7, 1: 7}, job.exit_codes())
        self.assertEqual(["0 7"], self.ran(job, "on-failure"))
        self.assertEqual([], self.ran(job, "on-success"))
        self.assertRegex(told.read_text(), "^rank 1 on .* exited with code 7")

    def test_a_node_that_is_asked_to_leave_runs_neither(self):
        job = self.job(1, plan=[{"term": "exit"}])
        job.options += [*self.hook(job, "on-success"), *self.hook(job, "on-failure")]
        job.start_all()
        job.wait_for_round(0)
        job.nodes[0].signal(signal.SIGTERM)
        self.assertEqual({0: 75}, job.exit_codes())
        self.assertEqual([[], []], [self.ran(job, "on-success"), self.ran(job, "on-failure")])

    def running_last_command(self, line, **kwargs):
        """A job of one node whose last command runs: a shell line that writes NAME into the file `started`."""
        job = self.job(1, **kwargs)
        job.options += ["--on-success", line.replace("STARTED", f'echo $$$$ >"{job.folder}/started"')]
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        started = job.folder / "started"
        wait_until("the command runs", lambda: started.exists() and started.read_text().endswith("\n"))
        return job, int(started.read_text())

    def test_a_request_to_end_reaches_the_last_command(self):
        job, _ = self.running_last_command("trap 'exit 5' TERM; STARTED; while :; do sleep 0.1; done")
        job.nodes[0].signal(signal.SIGTERM)
        self.assertEqual({0: 5}, job.exit_codes())

    def test_ctrl_c_cancels_it(self):
        job, _ = self.running_last_command("STARTED; sleep 1000")
        job.nodes[0].signal(signal.SIGINT)
        self.assertEqual({0: -signal.SIGINT}, job.exit_codes())

    def test_a_second_request_kills_it(self):
        job, _ = self.running_last_command("trap '' TERM; STARTED; while :; do sleep 0.1; done",
                                           options=["--termination-grace", "10m"])
        job.nodes[0].signal(signal.SIGTERM)
        until = time.monotonic() + ONE_SIGNAL_S
        wait_until("a repetition is not the same request any more", lambda: time.monotonic() > until)
        job.nodes[0].signal(signal.SIGTERM)
        self.assertEqual({0: 137}, job.exit_codes())

    def test_a_program_in_the_last_command_has_the_grace_period(self):
        job = self.job(1)
        script = job.folder / "saves.py"
        script.write_text(SAVES)
        job.options += ["--on-success", f'{sys.executable} -S -E {script} {job.folder}/started; true']
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        wait_until("the program runs", (job.folder / "started").exists)
        job.nodes[0].signal(signal.SIGTERM)
        self.assertEqual({0: 143}, job.exit_codes())
        self.assertIn("saved", job.nodes[0].out())

    def test_a_last_command_that_exceeds_its_time_has_failed_whatever_it_says(self):
        job = self.job(1, options=["--hook-timeout", "500ms"])
        job.options += self.hook(job, "on-success", "trap 'exit 0' TERM; while :; do sleep 0.1; done")
        job.start_all()
        self.assertEqual({0: 124}, self.finish(job))
        self.assertTrue(job.nodes[0].said(r"--on-success failed: timed out after 500ms \(--hook-timeout\)"))

    def test_a_last_command_that_hangs_is_killed(self):
        job = self.job(1, options=["--hook-timeout", "300ms", "--termination-grace", "300ms"])
        job.options += self.hook(job, "on-success", "trap '' TERM; while :; do sleep 0.1; done")
        job.start_all()
        self.assertEqual({0: 124}, self.finish(job))

    def test_what_it_leaves_behind_is_ended(self):
        job = self.job(1)
        job.options += ["--on-success", f'setsid sh -c \'echo $$$$ >"{job.folder}/left"; sleep 1000\' & '
                                        f'until test -s "{job.folder}/left"; do sleep 0.01; done']
        job.start_all()
        self.assertEqual({0: 0}, self.finish(job))
        left = int((job.folder / "left").read_text())
        wait_until("its end", lambda: not is_alive(left))

    def test_its_shell_does_not_outlive_muster(self):
        job, pid = self.running_last_command("STARTED; sleep 1000")
        kill(job.nodes[0].main())
        wait_until("its end", lambda: not is_alive(pid))

    def test_it_sees_no_token(self):
        token = "secret-of-twenty-two-chars"
        job = self.job(1, environment={"MUSTER_TOKEN": token})
        job.options += ["--on-success", f'env >"{job.folder}/env"']
        job.start_all()
        self.assertEqual({0: 0}, self.finish(job))
        found = (job.folder / "env").read_text()
        self.assertNotIn(token, found)
        self.assertIn("MUSTER_REASON=every worker exited 0", found)

    # Workers that are done before they end.

    def test_an_error_after_the_done_file_counts_as_success(self):
        done = 'touch "$MUSTER_DONE_FILE"; kill -SEGV $$$$'  # muster makes one $ of two
        job = self.job(program=["sh", "-c", f'if [ "$RANK" = 1 ]; then {done}; fi'])
        job.start_all()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertTrue(job.nodes[1].said(r"worker rank 1 had finished \(it has created MUSTER_DONE_FILE\), and then "
                                          r"was killed \(SIGSEGV\); this counts as success"))

    def test_a_done_file_is_of_one_start_alone(self):
        """Rank 1 is done in the first start, in which rank 0 fails, and not in the second one."""
        for files in ("private", "kept"):
            with self.subTest(files):
                job = self.job(1, options=["--max-restarts", "1"], program=["sh", "-c", DONE_ONCE])
                job.environment["SEEN"] = str(job.folder / "seen")
                job.options += ["--nproc-per-node", "2"]
                if files == "kept":
                    job.options += ["--log-dir", str(job.folder / "logs"), "-r", "3"]
                job.start_all()
                self.assertEqual({0: 6}, job.exit_codes())


if __name__ == "__main__":
    cluster.main()

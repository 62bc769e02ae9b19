"""A failed job's report on the terminal and in files of each node; and the file timer, which ends a stuck worker."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

import cluster
from cluster import ClusterTest

PYTHON = [sys.executable, "-S", "-E", "-u"]


def python(text, *arguments):
    """A worker's command; its code may use `rank`, `restart` and `wait()`, which waits for the next signal."""
    begin = textwrap.dedent("""
        import json, os, signal, sys, time
        rank, restart = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        def wait():
            while True:
                signal.pause()
        def wait_for(path):
            while not os.path.exists(path):
                time.sleep(0.005)
        def error_file(text):
            with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
                file.write(text)
        """)
    return [*PYTHON, "-c", begin + textwrap.dedent(text), *arguments]


class OneNodeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="muster-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_job(self, program, *options, environment=None, prefix=(), merged=False):
        """merged: standard error goes where standard output goes."""
        command = [*prefix, str(cluster.BINARY), "run", "--standalone", *options, "--no-python", "--", *program]
        return subprocess.run(command, env={**cluster.plain_environment(), **(environment or {})},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT if merged else subprocess.PIPE, text=True, errors="replace",
                              timeout=cluster.LIMIT_S)

    def fails(self, text, *options, code=1, environment=None):
        done = self.run_job(python(text), *options, environment=environment)
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stderr

    def assert_row(self, name, pattern, report):
        root = report.split("Root Cause (first observed failure):\n[0]:\n")[1]
        self.assertRegex(root, rf"(?m)^  {name:<10}: {pattern}$", report)


class Report(OneNodeTest):
    def test_an_exit_code_is_reported_in_torchruns_form(self):
        report = self.fails("sys.exit(7)", code=7)
        self.assertRegex(report, r"(?m)^=+\n.* FAILED\n-+\nFailures:\n  <NO_OTHER_FAILURES>\n-+\nRoot Cause")
        self.assert_row("time", r"\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d", report)
        self.assert_row("host", r"\S+ \(node 0\)", report)
        self.assert_row("rank", r"0 \(local_rank: 0\)", report)
        self.assert_row("exitcode", r"7 \(pid: \d+\)", report)
        self.assert_row("error_file", "<N/A>", report)

    def test_a_signal_is_a_negative_code_with_its_name(self):
        report = self.fails("os.kill(os.getpid(), signal.SIGKILL)", code=137)
        self.assert_row("exitcode", r"-9 \(pid: \d+\)  \(SIGKILL\)", report)
        self.assert_row("traceback", r"Signal 9 \(SIGKILL\) received by PID \d+", report)

    def test_the_other_workers_of_the_node_are_counted(self):
        report = self.fails("sys.exit(7) if rank == 1 else wait()", "--nproc-per-node", "3", code=7)
        others = report.split("Failures:\n")[1].split("Root Cause")[0]
        self.assertIn("2 that muster stopped after the first failure", others)

    def test_records_file_is_shown_with_its_callstack(self):
        report = self.fails("""
            error_file(json.dumps({"message": {"message": "ValueError: x", "extraInfo":
                {"py_callstack": "Traceback (most recent call last):\\n  File x\\nValueError: x\\n",
                 "timestamp": str(int(time.time()) - 1000)}}}))
            sys.exit(1)""", "--log-dir", self.folder, environment={"TZ": "UTC0"})
        self.assertIn("  traceback : Traceback (most recent call last):\n    File x\n  ValueError: x\n", report)
        self.assert_row("error_file", re.escape(self.folder) + r"/\S+/attempt_0/0/error.json", report)

    def test_a_plain_error_file_is_shown_with_its_time(self):
        report = self.fails("""error_file('{"message": "plain", "timestamp": 1700000000}'); sys.exit(1)""",
                            environment={"TZ": "UTC0"})
        self.assert_row("time", "2023-11-14_22:13:20", report)
        self.assert_row("traceback", "plain", report)

    def test_a_malformed_error_file_keeps_the_exit_code(self):
        for content in ("", "{broken\nmore", '{"message": 5}', '{"words": 1}', "[" * 100000, "\udcff"):
            with self.subTest(content[:20]):
                report = self.fails(f"""
                    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "wb") as file:
                        file.write({content.encode(errors="surrogateescape")!r})
                    sys.exit(4)""", code=4)
                self.assert_row("traceback", "the error file .*", report)

    def test_the_earliest_error_file_is_the_root_cause(self):
        report = self.fails(f"""
            if rank == 0:
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
                error_file(json.dumps({{"message": "first", "timestamp": int(time.time()) - 30}}))
                open({self.path("ready")!r}, "w")
                wait()
            wait_for({self.path("ready")!r})
            sys.exit(1)""", "--nproc-per-node", "2", code=9)
        self.assert_row("rank", r"0 \(local_rank: 0\)", report)

    def test_a_crash_leaves_a_trace(self):
        """By PYTHONFAULTHANDLER; the report has it if muster handles the output."""
        program = [sys.executable, "-S", "-c", "import os; os.write(2, b'before\\n'); os.kill(os.getpid(), 11)"]
        done = self.run_job(program)
        self.assertEqual(139, done.returncode)
        self.assertIn("Fatal Python error: Segmentation fault", done.stderr)
        report = self.run_job(program, environment={"MUSTER_LINE_PREFIX": "> "}).stderr
        self.assertRegex(report, "(?m)^    before$")
        self.assertRegex(report, "(?m)^    Fatal Python error: Segmentation fault$")

    def test_the_users_own_setting_of_the_fault_handler_stands(self):
        done = self.run_job([sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 11)"],
                            environment={"PYTHONFAULTHANDLER": ""})
        self.assertNotIn("Fatal Python error", done.stderr)

    def test_exit_code_2_at_the_start_gets_a_hint(self):
        report = self.fails("sys.exit(2)", "--nproc-per-node", "2", code=2)
        self.assertIn("--pass-local-rank", report)
        self.assertNotIn("--pass-local-rank", self.fails("sys.exit(3)", code=3))
        self.assertNotIn("hint", self.fails("sys.exit(2)", "--pass-local-rank=local_rank", code=2))

    def test_a_refused_local_rank_gets_a_hint(self):
        report = self.fails("sys.exit(2)", "--pass-local-rank", code=2)
        self.assertIn("--local_rank, with an underscore, use --pass-local-rank=local_rank", report)

    # ---- files ----

    def test_the_report_file_has_the_result(self):
        report = self.path("report.json")
        self.fails("sys.exit(5 if restart else 4)", "--max-restarts", "1", "--report", report, code=5)
        said = json.loads(pathlib.Path(report).read_text())
        self.assertEqual((5, "worker"), (said["exit_code"], said["origin"]))
        self.assertEqual((0, 5), (said["root_cause"]["rank"], said["root_cause"]["exitcode"]))
        self.assertEqual((1, 1), (said["round"]["restart_count"], said["round"]["worker_failures"]))
        self.assertLessEqual(said["started"], said["ended"])
        self.assertEqual(["report.json"], os.listdir(self.folder))

    def test_every_end_has_a_report_file(self):
        report = self.path("report.json")
        self.assertEqual(0, self.run_job(["true"], "--report", report).returncode)
        said = json.loads(pathlib.Path(report).read_text())
        self.assertEqual((0, None), (said["exit_code"], said["root_cause"]))
        self.assertEqual(127, self.run_job(["/nowhere/at/all"], "--report", report).returncode)
        said = json.loads(pathlib.Path(report).read_text())
        self.assertEqual((127, "muster"), (said["exit_code"], said["origin"]))
        self.assertIn("/nowhere/at/all", said["reason"])

    def test_a_folder_that_is_not_there_is_refused_before_the_start(self):
        job = self.run_job(["true"], "--report", self.path("no/where"))
        self.assertEqual(64, job.returncode, job.stderr)
        self.assertIn(f"the folder {self.path('no')}: No such file or directory", job.stderr)

    def test_a_report_that_becomes_unwritable_keeps_the_exit_code(self):
        folder = self.path("folder")
        os.mkdir(folder)
        report = self.fails(f"os.rmdir({folder!r}); sys.exit(5)", "--report", folder + "/report.json", code=5)
        self.assertIn(folder, report)

    def test_the_report_file_has_each_restart(self):
        report = self.path("report.json")
        self.fails("sys.exit(5 if restart == 2 else 4)", "--max-restarts", "2", "--report", report, code=5)
        restarts = json.loads(pathlib.Path(report).read_text())["restarts"]
        self.assertEqual([1, 2], [one["round"] for one in restarts["newest"]])
        self.assertRegex(restarts["newest"][0]["cause"], "rank 0 .* exited with code 4")
        self.assertAlmostEqual(restarts["lost_s"], sum(one["lost_s"] for one in restarts["newest"]), 2)
        self.assertEqual(0, restarts["earlier"])

    def test_the_last_lines_are_in_the_report_without_files(self):
        lines = "for i in range(50): print(i); print('ERROR: no shard', i, file=sys.stderr)\nsys.exit(3)"
        for merged in (False, True):
            job = self.run_job(python(lines), merged=merged)
            text = job.stdout if merged else job.stderr
            report = text[text.index("Root Cause"):]
            self.assertIn("the last lines that it wrote", report)
            self.assertIn("ERROR: no shard 49", report)
        before = text[:text.index("Root Cause")]
        self.assertIn("".join(f"{i}\nERROR: no shard {i}\n" for i in range(50)), before, "the order of all lines")

    def test_the_last_lines_are_in_the_report_where_they_went_to_standard_output(self):
        script = python("os.dup2(1, 2); print('ERROR: no shard', file=sys.stderr); sys.exit(3)")
        for option in ("-t", "-r"):
            job = self.run_job(script, option, "3", "--log-dir", self.path("logs"))
            report = job.stderr[job.stderr.index("Root Cause"):]
            self.assertRegex(report, r"the last lines that it wrote:\n +ERROR: no shard", option)

    def test_the_root_cause_is_written_to_our_own_error_file(self):
        own = self.path("own.json")
        self.fails("""error_file('{"message": {"message": "ValueError: x"}}'); sys.exit(6)""", code=6,
                   environment={"TORCHELASTIC_ERROR_FILE": own})
        said = json.loads(pathlib.Path(own).read_text())["message"]
        self.assertEqual(("ValueError: x", 6), (said["message"], said["errorCode"]))
        self.assertRegex(said["extraInfo"]["timestamp"], r"^\d+$")

    @unittest.skipIf(os.geteuid() != 0, "mount namespaces need root")
    def test_kubernetes_termination_log_is_filled(self):
        """In a private /dev, which has a termination-log."""
        script = textwrap.dedent(f"""
            set -e
            mkdir {self.folder}/dev
            mount -t tmpfs none {self.folder}/dev
            cd {self.folder}/dev
            for name in null zero urandom tty; do touch $name; mount --bind /dev/$name $name; done
            touch termination-log
            mount --rbind {self.folder}/dev /dev
            "$@" || code=$?
            cat /dev/termination-log > {self.path("copy")}
            exit $code""")
        done = self.run_job(python("sys.exit(7)"),
                            prefix=["unshare", "--mount", "--propagation", "private", "bash", "-c", script, "bash"])
        self.assertEqual(7, done.returncode, done.stderr)
        self.assertRegex(pathlib.Path(self.path("copy")).read_text(),
                         r"^exit code 7 \(worker\): .*\nrank 0 \(local_rank: 0\) on \S+ \(node 0\), exitcode 7 ")


class ManyNodes(ClusterTest):
    program = python("""
        if rank == 3:
            for i in range(100):
                print("word", i, file=sys.stderr)
            sys.exit(7)
        wait()""")

    def test_the_primary_and_the_failing_node_have_the_report_and_the_others_say_where_it_is(self):
        job = self.cluster(4, options=["--max-restarts", "0"], program=self.program)
        job.start_all()
        self.assertEqual({7}, set(job.exit_codes().values()))
        concerned = (job.nodes[0].err(), job.nodes[1].err())
        for said in concerned:
            self.assertIn("\nRoot Cause (first observed failure):\n", said)
            self.assertNotIn("the whole report is", said)
        for said in (job.nodes[2].err(), job.nodes[3].err()):
            self.assertNotIn("Root Cause", said)
            self.assertRegex(said, r"(?m)the first failure: rank 3 on \S+ \(node 1\), exitcode 7 \(pid: \d+\): word 99$")
            self.assertRegex(said, r"(?m)the whole report is in the output of \S+ \(node 1\) and of the primary; "
                                   "--report-on all prints it on every node$")

    def test_every_node_has_the_same_report(self):
        job = self.cluster(3, options=["--max-restarts", "0", "--report-on", "all"], program=self.program,
                           environment={"MUSTER_LINE_PREFIX": "[${rank}] "})
        self.assert_all_say_the_same(job)

    def test_a_shared_report_path_has_one_report(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, folder)
        for name, wanted in (("one.json", ["one.json"]), ("r${node_rank}.json", ["one.json", "r0.json", "r1.json", "r2.json"])):
            job = self.cluster(3, options=["--max-restarts", "0", "--report", str(folder / name)], program=self.program)
            job.start_all()
            self.assertEqual({7}, set(job.exit_codes().values()))
            self.assertEqual(wanted, sorted(os.listdir(folder)))
            causes = [json.loads((folder / each).read_text())["root_cause"]["node_rank"] for each in wanted]
            self.assertEqual({1}, set(causes))

    def test_every_node_has_the_same_report_with_files(self):
        folder = tempfile.mkdtemp(prefix="muster-test-")
        self.addCleanup(shutil.rmtree, folder)
        for streams in ("-r", "-t"):
            with self.subTest(streams):
                job = self.cluster(3, options=["--max-restarts", "0", "--report-on", "all", "--log-dir", folder, streams, "2"],
                                   program=self.program)
                self.assert_all_say_the_same(job)

    def assert_all_say_the_same(self, job):
        job.start_all()
        self.assertEqual({7}, set(job.exit_codes().values()))
        said = {re.search(r"(?ms)^=+\n.*^=+\n", node.err()).group() for node in job.nodes.values()}
        self.assertEqual(1, len(said), said)
        report = said.pop()
        self.assertIn("(node 1)", report)
        self.assertIn("    word 99\n", report)
        self.assertIn("    word 80\n", report)
        self.assertNotIn("word 79", report)


class FileTimer(OneNodeTest):
    ON = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}
    SEND = """
        def send(pid, expires, scope="step", signal=9, raw=None):
            pipe = os.open(os.environ["TORCHELASTIC_TIMER_FILE"], os.O_WRONLY | os.O_NONBLOCK)
            os.write(pipe, raw or (json.dumps({"version": 1, "pid": pid, "scope_id": scope,
                                   "expiration_time": expires, "signal": signal}) + "\\n").encode())
            os.close(pipe)
        """

    def timed(self, text, *options, environment=None):
        program = python(textwrap.dedent(self.SEND) + textwrap.dedent(text))
        return self.run_job(program, *options, environment={**self.ON, **(environment or {})})

    def test_an_expired_timer_kills_and_restarts(self):
        done = self.timed("""
            if restart == 0:
                if rank == 1:
                    send(os.getpid(), time.time() + 0.2)
                wait()""", "--nproc-per-node", "2", "--max-restarts", "1")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r'worker with local rank 1: the timer "step" of pid \d+ expired: signal 9')

    def test_the_report_names_the_expired_timer(self):
        done = self.timed("send(os.getpid(), time.time(), signal=15); wait()")
        self.assertEqual(128 + signal.SIGTERM, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r'traceback : the timer "step" of pid \d+ expired: signal 15')

    def test_a_released_timer_ends_nobody(self):
        done = self.timed("""
            send(os.getpid(), time.time() + 3600)
            send(os.getpid(), time.time() + 0.3)
            send(os.getpid(), -1)
            time.sleep(1)""")
        self.assertEqual(0, done.returncode, done.stderr)

    def test_a_foreign_process_is_never_touched(self):
        stranger = subprocess.Popen(["sleep", "3600"])
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        done = self.timed(f"""
            send({stranger.pid}, time.time())
            send(os.getppid(), time.time())
            send(1, time.time())
            time.sleep(0.5)""")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIsNone(stranger.poll())
        self.assertEqual(1, len(re.findall("is not a worker of this node", done.stderr)), done.stderr)

    def test_a_child_of_a_worker_may_set_a_timer(self):
        done = self.timed("""
            child = os.fork()
            if child == 0:
                send(os.getpid(), time.time())
                wait()
            sys.exit(20 + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))""")
        self.assertEqual(11, done.returncode, done.stderr)
        self.assertRegex(done.stderr, r'traceback : the timer "step"')

    def test_a_worker_outliving_its_process_is_killed(self):
        """The timer belongs to an orphan, found by its session; the worker itself is not affected."""
        done = self.timed("""
            if os.fork() == 0:
                if os.fork() == 0:
                    send(os.getpid(), time.time())
                    wait()
                os._exit(0)
            os.wait()
            wait()""")
        self.assertEqual(128 + signal.SIGKILL, done.returncode, done.stderr)
        self.assertRegex(done.stderr, "is still alive 10s after the signal of its expired timer: sending SIGKILL")
        self.assertRegex(done.stderr, r'traceback : the timer "step" of pid \d+ expired: signal 9')

    def test_malformed_messages_are_one_warning(self):
        done = self.timed("""
            for raw in (b"garbage\\n", b"{}\\n", b"x" * 4096, b"x" * 4096 + b"\\n"):
                send(0, 0, raw=raw)
            send(os.getpid(), time.time(), signal=10)
            wait()""")
        self.assertEqual(128 + 10, done.returncode, done.stderr)
        self.assertEqual(1, len(re.findall("is ignored", done.stderr)), done.stderr)

    def test_the_pipe_is_at_the_given_path_and_gone_afterwards(self):
        path = self.path("pipe")
        os.mkfifo(path)  # left by a killed node
        done = self.timed(f"sys.exit(os.environ['TORCHELASTIC_TIMER_FILE'] != {path!r})",
                          environment={"TORCHELASTIC_TIMER_FILE": path})
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertFalse(os.path.exists(path))

    def test_a_regular_file_is_left_alone(self):
        path = self.path("file")
        pathlib.Path(path).write_text("precious")
        done = self.run_job(python("sys.exit('TORCHELASTIC_TIMER_FILE' in os.environ)"),
                            environment={**self.ON, "TORCHELASTIC_TIMER_FILE": path})
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("run without a file timer", done.stderr)
        self.assertEqual("precious", pathlib.Path(path).read_text())

    def test_without_the_switch_there_is_no_timer(self):
        done = self.run_job(python("sys.exit('TORCHELASTIC_TIMER_FILE' in os.environ)"))
        self.assertEqual(0, done.returncode, done.stderr)


if __name__ == "__main__":
    cluster.main()

"""The end of a host: reports on redirected streams, and a console that is slow or not read."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import cluster
from cluster import ClusterTest, InAContainer, wait_until

SAYS = [sys.executable, "-S", "-E", "-c", "import os; os.write(1, b'a line\\n'); os.write(2, b'another\\n')"]
FLOODS = "import os, sys\nfor i in range({lines}): sys.stdout.write('%09d ' % i + 'x' * 90 + '\\n')\nsys.stdout.flush()\n"
# `docker stop` kills after 10 s, and process 1 needs a moment too.
UNREAD_LIMIT_S = 5.0


def python(text):
    return [sys.executable, "-S", "-E", "-c", text]


class JobEndTest(ClusterTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, command, **popen):
        process = subprocess.Popen([*self.container, *command], stdin=subprocess.DEVNULL, env=cluster.plain_environment(), **popen)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


class ReportOnAStream(JobEndTest):
    """Each stream is a file opened by its writer, as by `2> err`: without O_APPEND."""

    def run_with_files(self, command, report):
        paths = [self.folder / "out", self.folder / "err"]
        with open(paths[0], "wb") as out, open(paths[1], "wb") as err:
            process = self.start([*command[:2], "--report", report, *command[2:]], stdout=out, stderr=err)
            self.assertEqual(0, process.wait(cluster.LIMIT_S), paths[1].read_text())
            for path, stream in zip(paths, (out, err)):
                self.assertTrue(os.path.samestat(os.stat(path), os.fstat(stream.fileno())), f"{path} was replaced")
        return [path.read_text() for path in paths]

    def assert_is_log_with_report(self, text, line="another\n"):
        """The output is complete: the worker's line, the report on its own line, then muster's last line."""
        self.assertNotIn("\0", text)
        report = re.search(r'(?m)^(\{"exit_code.*\})$', text)
        self.assertIsNotNone(report, text)
        self.assertEqual(0, json.loads(report[1])["exit_code"])
        self.assertIn(line, text)
        self.assertRegex(text[report.end():], "exit code 0 ")

    def test_is_appended_to_a_redirected_streams_file(self):
        (self.folder / "link").symlink_to("err")
        command = [str(cluster.BINARY), "run", "--standalone", "--no-python", "--", *SAYS]
        for report in ("/dev/stderr", str(self.folder / "err"), str(self.folder / "link")):
            with self.subTest(report):
                self.assert_is_log_with_report(self.run_with_files(command, report)[1])
        out, err = self.run_with_files(command, "/dev/stdout")
        self.assertEqual(("a line", 0), (out.splitlines()[0], json.loads(out.splitlines()[1])["exit_code"]))
        self.assertIn("exit code 0 ", err)
        self.assertEqual({"out", "err", "link"}, {path.name for path in self.folder.iterdir()})

    def test_is_appended_to_the_log_of_muster_local_once(self):
        command = [str(cluster.BINARY), "local", "--nodes", "2", "--no-python", "--", *SAYS]
        for report in ("/dev/stderr", str(self.folder / "err")):
            with self.subTest(report):
                err = self.run_with_files(command, report)[1]
                self.assertEqual(1, err.count('{"exit_code'))
                self.assert_is_log_with_report(err, "[node 0 rank 0] another\n")


class SlowConsole(JobEndTest):
    def pipe(self):
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        return reading, writing

    def read_slowly(self, reading):
        """A slow reader that would need minutes for all of the output."""
        enough = threading.Event()

        def read():
            while not enough.wait(0.05):
                os.read(reading, 1024)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(enough.set)

    def assert_ends_at_a_signal(self, options):
        reading, writing = self.pipe()
        done = self.folder / "done"
        job = self.cluster(1, nproc=1, options=options,
                           program=python(FLOODS.format(lines=30000) + f"open({str(done)!r}, 'w').close()"))
        node = job.start(0, stdout=writing)
        os.close(writing)
        wait_until("the worker's end", done.exists)
        self.read_slowly(reading)
        wait_until("the agent's end, the last thing before the output's", lambda: node.said("exit code") or not node.agent())
        self.assertFalse(node.has_ended(), "the reader should be slower")
        node.signal(signal.SIGTERM)
        self.assertEqual(0, node.exit_code(limit=UNREAD_LIMIT_S), "the job had succeeded")

    def test_a_signal_ends_the_wait_for_a_slow_reader(self):
        self.assert_ends_at_a_signal(["-t", "1", "--log-dir", str(self.folder / "logs")])

    def test_a_leaving_job_ends_in_time_without_a_reader(self):
        for options in ([], ["-t", "3", "--log-dir", str(self.folder / "logs")]):
            with self.subTest(options):
                reading, writing = self.pipe()
                job = self.cluster(1, nproc=1, options=options, environment={"MUSTER_LINE_PREFIX": "> "},
                                   program=python(FLOODS.format(lines=10**9)))
                node = job.start(0, stdout=writing, stderr=writing)
                wait_until("workers that write", lambda: job.workers_of(0))
                wait_until("a full pipe", lambda: cluster.is_full(writing))
                began = time.monotonic()
                node.signal(signal.SIGTERM)
                self.assertEqual(75, node.exit_code())
                self.assertLess(node.ended_at - began, UNREAD_LIMIT_S)
                os.close(writing)

    def test_muster_local_ends_in_time_without_a_reader(self):
        reading, writing = self.pipe()
        token = self.folder / "running"
        process = self.start([str(cluster.BINARY), "local", "--nodes", "2", "--no-python", "--",
                              *python(f"open({str(token)!r}, 'w').close()\n" + FLOODS.format(lines=10**9))],
                             stdout=writing, stderr=subprocess.DEVNULL)
        wait_until("a worker", token.exists)
        wait_until("a full pipe", lambda: cluster.is_full(writing))
        cluster.kill(cluster.children(process.pid)[0] if self.container else process.pid, signal.SIGTERM)
        self.assertEqual(75, process.wait(UNREAD_LIMIT_S + 4))
        os.close(writing)


class ReportOnAStreamOfAContainer(InAContainer, ReportOnAStream):
    pass


class SlowConsoleOfAContainer(InAContainer, SlowConsole):
    pass


if __name__ == "__main__":
    cluster.main()

"""`muster status --watch`, as a terminal shows it: in tmux, whose screens can be read."""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

import cluster
from cluster import ClusterTest, wait_until
from test_status import awaits_the_end

WAITS = ("sh", "-c", "sleep 1000")


class Screen:
    """A terminal of that size in which a shell command runs."""

    def __init__(self, test, command, columns=80, lines=24):
        folder = pathlib.Path(test.enterContext(tempfile.TemporaryDirectory()))
        self.tmux = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]
        test.addCleanup(subprocess.run, [*self.tmux, "kill-server"], capture_output=True)
        self.run("new-session", "-d", "-x", str(columns), "-y", str(lines), f"{command}; echo \"it ended with $?\"; exec cat")

    def run(self, *words):
        return subprocess.run([*self.tmux, *words], check=True, capture_output=True, text=True,
                              env={**cluster.plain_environment(), "LC_ALL": "C.UTF-8"}).stdout

    def seen(self, *options):
        return self.run("capture-pane", "-p", *options)

    def type(self, *keys):
        self.run("send-keys", *keys)

    def watchers(self):
        """Pids of the commands that run in it."""
        panes = self.run("list-panes", "-F", "#{pane_pid}").split()
        return [pid for pid in cluster.descendants(int(panes[0])) if b"--watch" in
                pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]

    def await_text(self, text):
        wait_until(f"{text} on the screen", lambda: text in self.seen())


@unittest.skipUnless(shutil.which("tmux"), "needs tmux")
class Watch(ClusterTest):
    def start(self, program=WAITS, **more):
        self.job = self.cluster(2, program=program, nproc=1, **more)
        self.job.start_all()
        wait_until("a round", lambda: self.job.nodes[0].said("starting 2 workers"))
        return self.job

    def watch(self, *options, **size):
        words = [str(cluster.BINARY), "status", "--watch", "--rdzv-id", self.job.job_id, *options]
        return Screen(self, shlex.join(words), **size)

    def test_the_state_of_the_job_is_drawn_and_redrawn(self):
        job = self.start(options=("--lease", "5m"))
        screen = self.watch()
        screen.await_text(f"well: job {job.job_id} runs: ")
        self.assertRegex(screen.seen(), r"(?m)^r +0 \S+ +rank 0 +running, heard")
        cluster.stop(job.nodes[1].agent())
        screen.await_text("ATTENTION")
        screen.await_text("L late: 1")
        self.assertIn("no status for", screen.seen())
        screen.run("resize-window", "-x", "60", "-y", "12")
        wait_until("the new size", lambda: screen.seen().count("\n") == 12 and "q quit" not in screen.seen() and
                   "arrows choose" in screen.seen())

    def test_keys_choose_and_end(self):
        self.start()
        screen = self.watch()
        screen.await_text("well: job")
        screen.type("Down")
        wait_until("the second node", lambda: screen.seen().splitlines()[22].startswith("   1 "))
        screen.type("l")
        screen.await_text("0 so far; left:")
        screen.type("Escape")
        screen.await_text("r runs: 2")
        screen.type("q")
        screen.await_text("it ended with 0")
        self.assertNotIn("well: job", screen.seen(), "the terminal is as it was before")

    def test_the_stacks_of_the_job_are_one_key_away(self):
        self.start()
        screen = self.watch()
        screen.await_text("well: job")
        screen.type("s")
        screen.await_text("2 ranks (0-1): each waits")

    def test_the_end_of_the_job_is_shown(self):
        job = self.start(options=("--lease", "60s"))  # its end waits for a quarter of it, at most 5 s, for who asks
        screen = self.watch()
        screen.await_text("well: job")
        wait_until("its question for the end", lambda: any(map(awaits_the_end, screen.watchers())))
        job.nodes[0].signal(signal.SIGINT)
        screen.await_text("ATTENTION: the job has ended with exit code 130")
        screen.type("q")
        screen.await_text("it ended with 0")

    def test_a_job_that_is_not_here_cannot_be_told(self):
        self.start()
        screen = Screen(self, shlex.join([str(cluster.BINARY), "status", "--watch", "--rdzv-id", "nobody's"]))
        screen.await_text("it ended with 2")
        self.assertIn("nobody's: no such job is here", screen.seen())

    def test_a_signal_gives_the_terminal_back(self):
        self.start()
        screen = self.watch()
        screen.await_text("well: job")
        for pid in screen.watchers():
            os.kill(pid, signal.SIGTERM)
        screen.await_text(f"it ended with {128 + signal.SIGTERM}")
        screen.type("echoed", "Enter")
        wait_until("echo and line editing", lambda: screen.seen().count("echoed") == 2)

    def test_without_colour_nothing_is_lost(self):
        self.start()
        words = shlex.join([str(cluster.BINARY), "status", "--watch", "--rdzv-id", self.job.job_id])
        for prefix, has_colour in (("", True), ("NO_COLOR=1 ", False)):
            screen = Screen(self, prefix + words)
            screen.await_text("r runs: 2")
            self.assertEqual(has_colour, "\x1b[32m" in screen.seen("-e"), prefix)

    def test_off_a_terminal_it_is_text_until_the_job_ends(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        stop = folder / "stop"
        job = self.start(["sh", "-c", f"until [ -e {stop} ]; do sleep 0.1; done"])
        out = folder / "out"
        with out.open("w") as stream:
            watch = subprocess.Popen([str(cluster.BINARY), "status", "--watch", "--rdzv-id", job.job_id],
                                     stdin=subprocess.DEVNULL, stdout=stream, env=cluster.plain_environment())
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        wait_until("two looks", lambda: out.read_text().count(f"well: job {job.job_id} runs") >= 2)
        stop.touch()
        self.assertEqual(0, watch.wait(cluster.LIMIT_S))
        self.assertRegex(out.read_text(), r"\nwell: the job has ended with exit code 0: every worker exited 0\n$")
        self.assertNotIn("\x1b", out.read_text())


if __name__ == "__main__":
    cluster.main()

"""The promises of a node's host hold for the nodes of `muster local` too."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import unittest

import cluster
import refuse
from cluster import ClusterTest, InAContainer, wait_until
from terminal import Terminal

PYTHON = [sys.executable, "-S", "-E", "-c"]
CTRL_Z = b"\x1a"
# Names files in the folder sys.argv[1] after what it does: "ready RANK RESTART"; "end" and "may save" are the test's.
WORKER = """
import os, pathlib, signal, sys, time
folder, rank = pathlib.Path(sys.argv[1]), os.environ["RANK"] + " " + os.environ["TORCHELASTIC_RESTART_COUNT"]
def save(number, frame):
    (folder / f"saving {rank}").touch()
    while not (folder / "may save").exists(): time.sleep(0.01)
    (folder / f"saved {rank}").touch()
    os._exit(0)
signal.signal(signal.SIGTERM, save)
(folder / f"ready {rank}").write_text(os.environ.get("TORCHELASTIC_TIMER_FILE", ""))
while not (folder / "end").exists(): time.sleep(0.01)
"""
WAITS = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(1000)"


class Local(ClusterTest):
    """Two nodes with one worker each."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, *options, program=None, prefix=(), environment=None, **popen):
        program = program or [*PYTHON, WORKER, str(self.folder)]
        self.job = job = self.cluster(1)  # processes with its token are ended with the test
        inherited = {**cluster.plain_environment(), cluster.TOKEN: job.token, **(environment or {})}
        command = [*self.container, *prefix, str(cluster.BINARY), "local", "--nodes", "2", "--nproc-per-node", "1",
                   "--no-python", *options, "--", *program]
        node = cluster.Node("local", command, inherited, job.folder, **popen)
        job.all_nodes.append(node)
        job.nodes[0] = node
        return node

    def wait_for(self, *names):
        for name in names:
            wait_until(name, (self.folder / name).exists)

    def running(self, *options, **kwargs):
        node = self.start(*options, **kwargs)
        self.wait_for("ready 0 0", "ready 1 0")
        return node

    def hosts(self, node):
        """Pids of the nodes' hosts."""
        return [pid for pid in cluster.descendants(node.process.pid) if cluster.arguments_of(pid)[1:2] == ["local-node"]]

    def workers(self, node):
        return [pid for pid in cluster.descendants(node.process.pid) if cluster.arguments_of(pid)[:5] == [*PYTHON, WORKER]]

    def end(self, node):
        (self.folder / "end").touch()
        self.assertEqual(0, node.exit_code(), node.err())

    def test_the_last_lines_are_shown_though_they_wait_for_other_ranks(self):
        node = self.start("--group-lines", "on", program=["bash", "-c", "echo one of $RANK; echo two"],
                          environment={"MUSTER_LOG_LEVEL": "error"})
        self.assertEqual(0, node.exit_code(), node.err())
        for rank in "01":
            self.assertIn(f"one of {rank}\n", node.out())
        self.assertEqual(2, len(re.findall(r"two", node.out())) + len(re.findall(r"\[0-1\] two", node.out())))

    def test_trainings_behind_a_wrapper_save(self):
        node = self.running(program=["bash", "-c", '"$@"; exit $?', "bash", *PYTHON, WORKER, str(self.folder)])
        node.signal(signal.SIGTERM)
        self.wait_for("saving 0 0", "saving 1 0")
        (self.folder / "may save").touch()
        self.assertEqual(75, node.exit_code())
        self.wait_for("saved 0 0", "saved 1 0")

    def test_a_cancelled_job_ends_by_the_signal(self):
        node = self.running()
        (self.folder / "may save").touch()
        node.signal(signal.SIGINT)
        self.assertEqual(self.cancelled, node.exit_code())

    @unittest.skipUnless(refuse.AVAILABLE, "the numbers of this machine's system calls are not known here")
    def test_pidfds_that_cannot_be_awaited_are_replaced(self):
        node = self.running(prefix=refuse.command("waitid", "EINVAL", refuse.P_PIDFD))
        (self.folder / "may save").touch()
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())

    def test_another_job_with_its_environment_survives(self):
        node = self.running()
        worker = self.workers(node)[0]
        environment = cluster.started_with(worker)
        self.assertIn(b"MUSTER_HOST_ID", environment)
        stranger = subprocess.Popen([*PYTHON, WAITS, str(self.folder / "another")], env=environment, start_new_session=True)
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        self.wait_for("another")
        (self.folder / "may save").touch()
        os.kill(worker, signal.SIGKILL)
        self.wait_for("ready 0 1", "ready 1 1")
        self.assertIsNone(stranger.poll())
        self.end(node)
        self.assertIsNone(stranger.poll())

    def test_a_killed_hosts_agent_cleans_up_and_reports(self):
        # The lease is longer than any wait of this test: only the agent's report ends the other node's wait.
        temporary = self.folder / "temporary"
        temporary.mkdir()
        node = self.running("--nnodes", "1:2", "--lease", "5m", "--no-respawn", environment={"TMPDIR": str(temporary)})
        (self.folder / "may save").touch()
        os.kill(self.hosts(node)[1], signal.SIGKILL)
        self.wait_for("ready 0 1")
        (self.folder / "end").touch()
        self.assertEqual(137, node.exit_code(), "that of the node that was killed")
        self.assertTrue(node.said(r"node 1 was ended by SIGKILL, .*: it stays away \(--no-respawn\)"), node.err())
        self.assertTrue(node.said(r"node 1 \(.*\) was lost: its main process died"), node.err())
        self.assertEqual([], list(temporary.iterdir()))

    def test_a_killed_node_is_started_again(self):
        node = self.running("--lease", "5m")
        (self.folder / "may save").touch()
        os.kill(self.hosts(node)[1], signal.SIGKILL)
        self.wait_for("ready 0 1", "ready 1 1")
        self.assertTrue(node.said("node 1 was ended by SIGKILL, which muster local did not send: starting it again in 2s"))
        self.assertEqual(["0", "1"], sorted(cluster.arguments_of(pid)[2] for pid in self.hosts(node)), "as `ps` shows it")
        self.end(node)

    def test_a_cancelled_job_starts_no_node_again(self):
        node = self.running("--lease", "5m")
        (self.folder / "may save").touch()
        for host in self.hosts(node):
            os.kill(host, signal.SIGKILL)
        wait_until("both are to start again", lambda: len(node.said("starting it again")) == 2)
        node.signal(signal.SIGINT)
        self.assertEqual(self.cancelled, node.exit_code())

    # A laptop that sleeps, or a job that is suspended as a whole: the kernel ends each host at the end of its lease.
    def test_a_suspended_job_goes_on(self):
        node = self.running("--lease", "2s", "--max-restarts", "0")
        first = self.hosts(node)
        everything = [pid for pid in cluster.bearers(cluster.TOKEN, self.job.token)]
        for pid in everything:
            cluster.stop(pid)
        wait_until("the kernel has ended the hosts", lambda: not any(map(cluster.is_alive, first)))
        for pid in everything:
            cluster.kill(pid, signal.SIGCONT)
        wait_until("others run", lambda: len(set(self.hosts(node)) - set(first)) == 2 and len(self.workers(node)) == 2)
        self.assertTrue(node.said("the lease ended while this machine or job was suspended"), node.err())
        self.end(node)

    def test_a_missing_kernel_timer_is_one_line_per_node(self):
        node = self.running("--lease", "2s", prefix=["prlimit", "--sigpending=0:0"])
        wait_until("the warnings", lambda: len(node.said("warning: .*kernel timer")) >= 2)
        cluster.never("more requests", lambda: len(node.said("warning: .*kernel timer")) > 2, limit=3)
        self.end(node)

    def test_terminal_modes_are_restored_after_ctrl_c(self):
        terminal = Terminal()
        path = os.ttyname(terminal.slave)
        node = self.running(terminal=terminal.slave, preexec_fn=terminal.become_controlling)
        self.job.after_end.append(terminal.close)
        (self.folder / "may save").touch()
        subprocess.run(["stty", "-F", path, "-echo"], check=True)  # in its own session, like a worker
        node.signal(signal.SIGINT)
        self.assertEqual(self.cancelled, node.exit_code())
        self.assertTrue(termios.tcgetattr(terminal.slave)[3] & termios.ECHO)

    def test_ctrl_z_without_a_shell_stops_nothing(self):
        terminal = Terminal()
        node = self.running(terminal=terminal.slave, preexec_fn=terminal.become_controlling)
        self.job.after_end.append(terminal.close)
        (self.folder / "may save").touch()
        terminal.type(CTRL_Z)
        wait_until("the key has been read", lambda: "^Z" in terminal.seen())
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())


class LocalInAContainer(InAContainer, Local):
    pass


if __name__ == "__main__":
    cluster.main()

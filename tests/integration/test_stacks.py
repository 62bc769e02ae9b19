"""Where the workers stand: what SIGUSR2 writes into the log of a node whose workers do not handle it, and what
`muster stacks` shows of the whole job."""
import json
import pathlib
import signal
import subprocess
import tempfile
import unittest

import cluster
import stack_tools
from cluster import ClusterTest, children, process_state, wait_until

PYTHON = """
import time
def wait_for_ever():
    while True: time.sleep(60)
print("ready", flush=True)
wait_for_ever()
"""
# Rank 1 starts a process that opens a FIFO between vfork() and exec, and so waits for a writer: until then the kernel
# holds rank 1.
HELD = """
import os, time
print("ready", flush=True)
if os.environ["RANK"] == "1":
    fifo = __file__ + ".fifo"
    os.mkfifo(fifo)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)])
while True: time.sleep(60)
"""
# Threads of C, as libraries have them.
MANY_THREADS = """
import ctypes, time
libc = ctypes.CDLL(None)
attributes, thread = ctypes.create_string_buffer(64), ctypes.c_ulong()
libc.pthread_attr_init(attributes)
libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(64 * 1024))
for _ in range(10_000):
    error = libc.pthread_create(ctypes.byref(thread), attributes, libc.pause, None)
    if error: raise OSError(error, "creating a thread")
print("ready", flush=True)
while True: time.sleep(60)
"""
# One process alone: a copy of it that had not executed its program yet would handle the signal, too.
HANDLES = """
import signal, sys
signal.signal(signal.SIGUSR2, lambda *_: sys.exit())
print("ready", flush=True)
signal.pause()
"""
# The last of four ranks stands elsewhere than the others.
ONE_DIFFERS = """
import os, time
def all_reduce():
    while True: time.sleep(60)
def load():
    while True: time.sleep(60)
print("ready", flush=True)
load() if os.environ["RANK"] == "3" else all_reduce()
"""
NO_RIGHT = "#!/bin/sh\necho Error: Permission denied >&2\nexit 1\n"
DOES_NOT_END = "#!/bin/sh\ntrap '' TERM INT HUP\nwhile :; do sleep 0.1; done\n"


class Snapshot(ClusterTest):
    def start(self, program, nproc=1, tool=None, options=()):
        """Returns a node whose workers are ready. program: as a list, or as the text of a Python script. tool: a script
        in the place of py-spy; None: there is none."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        if isinstance(program, str):
            (folder / "train.py").write_text(program)
            program = [stack_tools.interpreter(folder), str(folder / "train.py")]
        job = self.cluster(1, nproc=nproc, program=program, options=list(options))
        job.environment["PATH"] = stack_tools.path_with(folder, tool)
        node = job.start(0)
        node.job = job
        wait_until("the workers", lambda: node.out().count("ready") == nproc)
        return node

    def ask(self, *args, **kwargs):
        """The same, and asks it for a snapshot."""
        node = self.start(*args, **kwargs)
        node.signal(signal.SIGUSR2)
        return node

    @unittest.skipUnless(stack_tools.py_spy(), "needs py-spy")
    def test_python_stacks_are_shown(self):
        node = self.ask(PYTHON, nproc=3, tool=f"#!/bin/sh\nexec {stack_tools.py_spy()} \"$@\"\n")
        wait_until("the snapshot", lambda: node.said(r"3 ranks \(0-2\): at train.py:4 \(wait_for_ever\)"))
        self.assertTrue(node.said(r"    <module> \(.*train.py:6\)"))

    def test_a_stopped_worker_and_a_missing_tool_are_named(self):
        node = self.ask(["sh", "-c", "echo ready; kill -s STOP $$$$"])  # in arguments $$ is one $, as under torchrun

        def is_seen():
            node.signal(signal.SIGUSR2)  # again: the first snapshot may have come before the stop
            return node.said(r"rank 0: it is stopped.* \(it runs no Python\)")
        wait_until("the snapshot", is_seen)

    def test_a_tool_that_is_not_installed_is_named(self):
        node = self.ask(PYTHON)
        wait_until("the snapshot", lambda: node.said(r"rank 0: it waits.* \(py-spy is not installed\)"))

    def test_a_tool_that_hangs_does_not_hold_the_snapshot_up(self):
        """Four at a time are asked, so two times four seconds are more than there is time for."""
        node = self.ask(PYTHON, nproc=6, tool=DOES_NOT_END)
        wait_until("the snapshot", lambda: node.said(r"stacks of this node's workers"))
        wait_until("its lines", lambda: node.said(
            r"6 ranks \(0-5\): each waits.* \(py-spy (?:did not answer within 4s|has not answered)\)"))
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())
        wait_until("the end of the tools", lambda: not node.job.workers_of(0))

    def test_what_the_tool_complains_of_is_shown(self):
        node = self.ask(PYTHON, tool=NO_RIGHT)
        wait_until("the snapshot", lambda: node.said(r"\(py-spy failed: Error: Permission denied\)"))

    def test_a_worker_in_uninterruptible_sleep_is_the_suspect(self):
        node = self.start(HELD, nproc=3, tool=NO_RIGHT)
        wait_until("a worker that the kernel holds",
                   lambda: [pid for pid in children(node.process.pid) if process_state(pid) == "D"])
        node.signal(signal.SIGUSR2)
        wait_until("the snapshot", lambda: node.said(r"suspect: rank 1: the kernel holds it"))
        self.assertTrue(node.said(r"rank 1: the kernel holds it, and no signal reaches it.* \(py-spy failed: Error"))

    def test_ten_thousand_threads_are_counted(self):
        logs = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        node = self.ask(MANY_THREADS, tool=NO_RIGHT, options=["--log-dir", str(logs)])
        wait_until("the snapshot", lambda: node.said(r"rank 0: it waits.* \(py-spy failed: Error: Permission"))
        wait_until("the whole snapshot",
                   lambda: [path for path in logs.rglob("stacks.txt") if "10001 threads" in path.read_text()])

    def test_a_worker_that_handles_the_signal_gets_it(self):
        node = self.ask(HANDLES)
        self.assertEqual(0, node.exit_code())
        self.assertTrue(node.said("SIGUSR2 was forwarded to 1 worker process that handles it"))
        self.assertFalse(node.said("stacks of this node's workers"))


class WholeJob(ClusterTest):
    def start(self, tool, *options):
        """Two nodes of two workers each, which are ready."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "train.py").write_text(ONE_DIFFERS)
        job = self.job = self.cluster(2, nproc=2, program=[stack_tools.interpreter(folder), str(folder / "train.py")],
                                      options=list(options))
        job.environment["PATH"] = stack_tools.path_with(folder, tool)
        job.start_all()
        for node in job.nodes.values():
            wait_until("the workers", lambda node=node: node.out().count("ready") == 2)
        return job

    def stacks(self, *options):
        return self.muster("stacks", *options)

    def muster(self, command, *options):
        return subprocess.run([str(cluster.BINARY), command, "--rdzv-id", self.job.job_id, *options],
                              capture_output=True, text=True, env=cluster.plain_environment(), timeout=cluster.LIMIT_S)

    @unittest.skipUnless(stack_tools.py_spy(), "needs py-spy")
    def test_the_rank_that_differs_is_found(self):
        job = self.start(f"#!/bin/sh\nexec {stack_tools.py_spy()} \"$@\"\n")
        workers = [sorted(job.workers_of(node)) for node in (0, 1)]
        done = self.stacks()
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^suspect: rank 3: it stands elsewhere than the other 3\n"
                         r"whether the job gets on is not watched \(--hang-timeout\): ask again and compare\n"
                         r"rank 3 \(pid \d+ on node 1 \(\S+\)\): at train.py:6 \(load\)\n    load \(/.*train.py:6\)\n")
        self.assertRegex(done.stdout, r"\n3 ranks \(0-2\): at train.py:4 \(all_reduce\)\n")
        said = json.loads(self.stacks("--json", "--ranks", "1").stdout)
        self.assertEqual([[[0, 2]]], [place["ranks"] for place in said["places"]])
        self.assertEqual((True, []), (said["complete"], said["silent"]))
        self.assertEqual("all_reduce", said["places"][0]["example"]["frames"][0]["function"])
        self.assertEqual(workers, [sorted(job.workers_of(node)) for node in (0, 1)], "no worker was disturbed")
        self.assertFalse([pid for node in workers for pid in node if process_state(pid) == "T"])

    @unittest.skipUnless(stack_tools.py_spy(), "needs py-spy")
    def test_one_rank_is_shown_with_its_last_lines(self):
        job = self.start(f"#!/bin/sh\nexec {stack_tools.py_spy()} \"$@\"\n", "-t", "3")
        workers = [sorted(job.workers_of(node)) for node in (0, 1)]
        done = self.muster("status", "--rank", "3")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^rank 3 on node 1 \(\S+\), pid \d+ \(python\S*\): at train.py:6 \(load\)\n"
                         r"    load \(/.*train.py:6\)\n[^$]*\nits last lines of output:\n    ready\n$")
        said = json.loads(self.muster("status", "--rank", "0", "--json").stdout)
        self.assertEqual(("all_reduce", "ready"), (said["process"]["frames"][0]["function"], said["last_output"]))
        self.assertEqual(workers, [sorted(job.workers_of(node)) for node in (0, 1)], "no worker was disturbed")
        done = self.muster("status", "--rank", "4")
        self.assertEqual((1, "rank 4: round 1 has the ranks 0 to 3\n"), (done.returncode, done.stdout))

    def test_a_rank_whose_node_does_not_answer_is_awaited_for_a_limited_time(self):
        job = self.start(NO_RIGHT, "--lease", "5m")
        host = job.nodes[1].process.pid
        cluster.stop(host)
        done = self.muster("status", "--rank", "2")
        cluster.kill(host, signal.SIGCONT)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stdout, r"^rank 2 on node 1.*: the node has not answered in time\n$")

    def test_a_node_that_does_not_answer_is_named(self):
        job = self.start(NO_RIGHT, "--lease", "5m")
        host = job.nodes[1].process.pid
        cluster.stop(host)
        done = self.stacks()
        cluster.kill(host, signal.SIGCONT)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stdout, r"^no answer: node 1.*\n2 ranks \(0-1\): each waits")

    def test_without_workers_it_is_said(self):
        job = self.job = self.cluster(2, nproc=1, program=["sleep", "60"])
        job.start(0)
        done = wait_until("a door", lambda: (done := self.stacks()).returncode != 2 and done)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertRegex(done.stdout,
                         rf"^job {job.job_id}: (no round runs|a new coordinator finds out what runs: ask again)\n$")

    def test_a_wrong_choice_of_ranks_is_explained(self):
        self.job = self.cluster(1)
        done = self.stacks("--ranks", "3-")
        self.assertEqual((64, "muster: --ranks 3-: expected ranks as in 3 or 0-7,12\n"), (done.returncode, done.stderr))


if __name__ == "__main__":
    unittest.main()

"""Processes and files of which the kernel does not answer.

A process that the kernel holds, with the lock of its address space: reading its environment would block for ever.
"""
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import cluster
import stack_tools
from cluster import ClusterTest, process_state, wait_until
from hanging_files import HOLDER, NAME, PYTHON, SILENT, HangingFiles, is_possible

# py-spy reads this file first.
READS_THE_MAP = "#!/bin/sh\nexec cat /proc/$5/maps\n"
# Shows signs of life, then hangs: the kernel holds rank 1, and the other one waits.
HANGS = f"""
import os, time
for step in range(12):
    print("step", step, flush=True)
    time.sleep(1)
if os.environ["RANK"] == "1":
    exec({HOLDER!r})
while True: time.sleep(60)
"""
WAITS = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(60)"


class WithHangingFiles(ClusterTest):
    def setUp(self):
        try:
            self.files = HangingFiles()
        except OSError as refused:
            self.skipTest(f"no file system can be mounted here: {refused}")
        self.addCleanup(self.files.close)

    def job(self, nodes=1, **kwargs):
        job = self.cluster(nodes, **kwargs)
        self.addCleanup(self.files.release)  # before the cluster's end, which reads environments
        return job


@unittest.skipUnless(is_possible(), "needs root and /dev/fuse")
class HangingProcess(WithHangingFiles):
    def test_a_stranger_does_not_keep_a_named_run_from_starting(self):
        job = self.job()
        holder = self.files.holder()
        self.addCleanup(holder.wait)
        reader = subprocess.Popen(["cat", f"/proc/{holder.pid}/environ"], stdout=subprocess.DEVNULL)
        self.addCleanup(reader.wait)
        self.addCleanup(self.files.release)
        if wait_until("a reader is stuck or not", lambda: (s := process_state(reader.pid)) in ("D", "Z") and s) == "Z":
            self.skipTest("this kernel reads an environment without the lock")
        job.open_gate()
        job.start_all()
        self.assertEqual({0: 0}, job.exit_codes())
        self.assertTrue(job.nodes[0].said(r"state D in \w+\) cannot be read now"))

    def test_a_worker_does_not_keep_its_host_from_hearing_signals(self):
        job = self.job(nproc=1, program=[sys.executable, "-S", "-E", "-c", HOLDER, str(self.files.folder / NAME)])
        node = job.start(0)
        wait_until("the worker hangs", self.files.writes.is_set)
        node.signal(signal.SIGTERM)
        wait_until("the host hears it", lambda: node.said("SIGTERM"))
        wait_until("it names what does not end", lambda: node.said("state D|did not exit|cannot be ended"))
        self.files.release()
        self.assertEqual(75, node.exit_code())


@unittest.skipUnless(is_possible(), "needs root and /dev/fuse")
class SnapshotOfWhatHangs(WithHangingFiles):
    def python_job(self, *arguments, tool=None, python=None, **kwargs):
        """tool: a script in the place of py-spy; None: there is none."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        program = [python or stack_tools.interpreter(folder), "-S", "-E", "-c", *arguments]
        return self.job(program=program, environment={"PATH": stack_tools.path_with(folder, tool)}, **kwargs)

    def leaves(self, node):
        """It handles signals still, whatever hangs."""
        node.signal(signal.SIGTERM)
        wait_until("the host hears it", lambda: node.said("SIGTERM"))
        self.files.release()
        self.assertEqual(75, node.exit_code())

    def test_a_worker_whose_memory_map_cannot_be_read_is_shown_without_stacks(self):
        node = self.python_job(HOLDER, str(self.files.folder / NAME), tool=READS_THE_MAP, nproc=1).start(0)
        wait_until("the worker hangs", self.files.writes.is_set)
        node.signal(signal.SIGUSR2)
        wait_until("the snapshot", lambda: node.said(r"rank 0: the kernel holds it, and no signal reaches it.*"
                                                    r" \(py-spy did not answer within 4s\)"))
        self.leaves(node)

    def test_a_job_that_hangs_by_it_ends_though_no_signal_ends_the_worker(self):
        job = self.python_job(HANGS, str(self.files.folder / NAME), nodes=2, nproc=1,
                              options=["--hang-timeout", "5s", "--on-hang", "stop", "--shutdown-timeout", "2s"]).start_all()
        wait_until("the suspect", lambda: job.nodes[0].said(
            r"\(--hang-timeout\); suspect: rank 1: the kernel holds it, in \w+ of the kernel \(py-spy is not installed\)"))
        self.assertEqual(128 + signal.SIGKILL, job.nodes[0].exit_code())
        self.files.release()
        self.assertEqual(128 + signal.SIGKILL, job.nodes[1].exit_code())

    def test_a_worker_of_which_proc_does_not_answer_is_named_and_the_others_are_shown(self):
        """No kernel of today lets a file of /proc that a snapshot needs block. So one that does is mounted over it."""
        job = self.python_job(WAITS, nproc=2, prefix=lambda place: ["unshare", "--mount"])
        node = job.start(0)
        wait_until("the workers", lambda: node.out().count("ready") == 2)
        silenced = job.workers_of(0)[0]
        subprocess.run(["nsenter", "--mount", "--target", str(node.host()), "mount", "--bind",
                        str(self.files.folder / SILENT), f"/proc/{silenced}/wchan"], check=True)
        node.signal(signal.SIGUSR2)
        wait_until("the other one", lambda: node.said(r"rank [01]: it waits.* \(py-spy is not installed\)"))
        self.assertTrue(node.said(r"rank [01]: its state is not known \(/proc did not say within 2s\)"))
        self.leaves(node)

    def test_an_interpreter_on_a_file_system_that_hangs_does_not_hold_the_host_up(self):
        """py-spy is looked for beside it."""
        node = self.python_job(WAITS, python=str(self.files.folder / PYTHON), nproc=1).start(0)
        wait_until("the worker", lambda: "ready" in node.out())
        node.signal(signal.SIGUSR2)
        wait_until("py-spy is looked for", self.files.asked.is_set)
        wait_until("the snapshot", lambda: node.said(r"rank 0: it waits.* \(py-spy is not on the PATH, and the "
                                                    r"interpreter's file system does not answer\)"))
        self.leaves(node)


if __name__ == "__main__":
    cluster.main()

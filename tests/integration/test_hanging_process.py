"""A process that the kernel holds, with the lock of its address space: reading its environment would block for ever."""
import signal
import subprocess
import sys
import unittest

import cluster
from cluster import ClusterTest, process_state, wait_until
from hanging_files import HOLDER, NAME, HangingFiles, is_possible


@unittest.skipUnless(is_possible(), "needs root and /dev/fuse")
class HangingProcess(ClusterTest):
    def setUp(self):
        try:
            self.files = HangingFiles()
        except OSError as refused:
            self.skipTest(f"no file system can be mounted here: {refused}")
        self.addCleanup(self.files.close)

    def job(self, **kwargs):
        job = self.cluster(1, **kwargs)
        self.addCleanup(self.files.release)  # before the cluster's end, which reads environments
        return job

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


if __name__ == "__main__":
    cluster.main()

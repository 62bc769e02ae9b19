"""Where the workers stand: what SIGUSR2 writes into the log of a node whose workers do not handle it."""
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

from cluster import ClusterTest, wait_until

PYTHON = "import time\ndef wait_for_ever():\n    while True: time.sleep(60)\nprint('ready', flush=True)\nwait_for_ever()\n"


def py_spy():
    """Where deploy/setup.sh --tests puts it, or on the PATH."""
    installed = pathlib.Path(__file__).resolve().parents[2] / ".venv/bin/py-spy"
    return str(installed) if installed.exists() else shutil.which("py-spy")


class Picture(ClusterTest):
    def ask(self, program, nproc=1, tool=None, options=()):
        """Starts a node, asks it for a picture once all workers are ready; returns the node."""
        job = self.cluster(1, nproc=nproc, program=program, options=list(options))
        folder = job.folder / "tools"
        folder.mkdir()
        if tool is not None:
            (folder / "py-spy").write_text(tool)
            (folder / "py-spy").chmod(0o755)
        job.environment["PATH"] = f"{folder}:{os.environ['PATH']}" if tool is not None else os.environ["PATH"]
        node = job.start(0)
        wait_until("the workers", lambda: node.out().count("ready") == nproc)
        node.signal(signal.SIGUSR2)
        return node

    def script(self):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "train.py"
        path.write_text(PYTHON)
        return [sys.executable, str(path)]

    @unittest.skipUnless(py_spy(), "needs py-spy")
    def test_python_stacks_are_shown(self):
        node = self.ask(self.script(), nproc=3, tool=f"#!/bin/sh\nexec {py_spy()} \"$@\"\n")
        wait_until("the picture", lambda: node.said(r"3 ranks \(0-2\): at train.py:3 \(wait_for_ever\)"))
        self.assertTrue(node.said(r"    <module> \(.*train.py:5\)"))

    def test_a_stopped_worker_and_a_missing_tool_are_named(self):
        node = self.ask(["sh", "-c", "echo ready; kill -s STOP $$$$"])  # in arguments $$ is one $, as under torchrun

        def is_seen():
            node.signal(signal.SIGUSR2)  # again: the first picture may have come before the stop
            return node.said(r"rank 0: it is stopped.* \(it runs no Python\)")
        wait_until("the picture", is_seen)

    def test_a_tool_that_hangs_does_not_hold_the_picture_up(self):
        node = self.ask(self.script(), tool="#!/bin/sh\nexec sleep 600\n")
        wait_until("the picture", lambda: node.said(r"rank 0: it waits.* \(py-spy did not answer within 4s\)"))

    def test_what_the_tool_complains_of_is_shown(self):
        node = self.ask(self.script(), tool="#!/bin/sh\necho Error: Permission denied >&2\nexit 1\n")
        wait_until("the picture", lambda: node.said(r"\(py-spy failed: Error: Permission denied\)"))

    def test_a_worker_that_handles_the_signal_gets_it(self):
        node = self.ask(["sh", "-c", "trap 'echo mine; exit 0' USR2; echo ready; while :; do sleep 0.05; done"])
        self.assertEqual(0, node.exit_code())
        self.assertFalse(node.said("picture of"))


if __name__ == "__main__":
    unittest.main()

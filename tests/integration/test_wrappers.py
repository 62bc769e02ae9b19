"""Workers that are a wrapper, such as a shell: SIGTERM ends the wrapper at once, and the training in it saves."""
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import cluster
from cluster import ClusterTest, InAContainer, wait_until

# Names files in the folder sys.argv[1] after what it does; "fail" and "may save" are the test's.
TRAINING = """
import os, pathlib, signal, sys, time
folder, restart = pathlib.Path(sys.argv[1]), os.environ["TORCHELASTIC_RESTART_COUNT"]
def note(what): (folder / f"{what} {os.environ['RANK']} {restart}").touch()
def save(number, frame):
    signal.signal(number, signal.SIG_IGN)  # many handlers do this, so that a second signal does not disturb them
    note("saving")
    while not (folder / "may save").exists(): time.sleep(0.01)
    note("saved")
    os._exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, lambda number, frame: note("usr1"))
note("ready")
while not (folder / "end").exists():
    if os.environ["RANK"] == restart == "0" and (folder / "fail").exists(): os._exit(7)
    time.sleep(0.01)
"""
PYTHON = [sys.executable, "-S", "-E", "-c"]
WRAPPERS = {"bash -c": ["bash", "-c", '"$@"; exit $?', "bash"],
            "sh -c": ["sh", "-c", '"$@"; exit $?', "sh"],
            "two shells": ["bash", "-c", '"$@"; exit $?', "bash", "sh", "-c", '"$@"; exit $?', "sh"],
            # as `conda run` does
            "python": [*PYTHON, "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"]}
# A child of the leader that must not be awaited, whatever the grace.
IGNORES = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({file!r}, 'w').close(); time.sleep(1000)"
LEAVES_A_POOL = """
import os, pathlib, signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
pool = os.fork()
while pool == 0: time.sleep(0.01)  # with its parent's handler, and without orders
(pathlib.Path(sys.argv[1]) / "ready 0 0").touch()
while not told: time.sleep(0.01)
os._exit(0)
"""


class Wrappers(ClusterTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-wrappers-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, wrapper, nproc=1, options=(), program=None):
        for entry in self.folder.iterdir():
            entry.unlink()
        program = program or [*wrapper, *PYTHON, TRAINING, str(self.folder)]
        job = self.cluster(1, nproc=nproc, program=program, options=options)
        node = job.start(0)
        for rank in range(nproc):
            self.wait_for(f"ready {rank} 0")
        return job, node

    def wait_for(self, name):
        wait_until(name, (self.folder / name).exists)

    def test_the_training_saves_before_it_is_ended(self):
        for name, wrapper in WRAPPERS.items():
            with self.subTest(name):
                job, node = self.start(wrapper)
                node.signal(signal.SIGTERM)
                self.wait_for("saving 0 0")
                wait_until("the wrapper is gone", lambda: len(job.workers_of(0)) == 1)
                self.assertFalse(node.has_ended())
                (self.folder / "may save").touch()
                self.assertEqual(75, node.exit_code())
                self.assertTrue((self.folder / "saved 0 0").exists())
                self.assertEqual([], job.workers_of(0))

    def test_the_training_saves_before_a_restart(self):
        job, node = self.start(WRAPPERS["bash -c"], nproc=2)
        (self.folder / "fail").touch()
        self.wait_for("saving 1 0")
        wait_until("the wrapper is gone", lambda: len(job.workers_of(0)) == 1)
        self.assertFalse((self.folder / "ready 1 1").exists())
        (self.folder / "may save").touch()
        self.wait_for("ready 0 1")
        self.wait_for("ready 1 1")
        self.assertTrue((self.folder / "saved 1 0").exists())
        (self.folder / "end").touch()
        self.assertEqual(0, node.exit_code())

    def test_the_training_has_the_grace_and_no_more(self):
        job, node = self.start(WRAPPERS["bash -c"], options=["--termination-grace", "1s"])
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())
        self.assertFalse((self.folder / "saved 0 0").exists())
        self.assertEqual([], job.workers_of(0))

    def test_processes_ignoring_the_signal_are_not_awaited(self):
        ready = str(self.folder / "ready 0 0")
        _, node = self.start([], options=["--termination-grace", "5m"], program=[
            *PYTHON, "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(1000)",
            *PYTHON, IGNORES.format(file=ready)])
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())

    def test_leftovers_of_a_finished_training_are_not_awaited(self):
        for name, wrapper in {"alone": [], "bash -c": WRAPPERS["bash -c"]}.items():
            with self.subTest(name):
                _, node = self.start([], options=["--termination-grace", "5m"],
                                     program=[*wrapper, *PYTHON, LEAVES_A_POOL, str(self.folder)])
                node.signal(signal.SIGTERM)
                self.assertEqual(75, node.exit_code())

    def test_sigusr1_reaches_the_training_and_not_the_wrapper(self):
        _, node = self.start(WRAPPERS["bash -c"])
        node.signal(signal.SIGUSR1)
        self.wait_for("usr1 0 0")
        (self.folder / "end").touch()
        self.assertEqual(0, node.exit_code())

    def test_sigusr1_that_nothing_handles_ends_nothing(self):
        job = self.cluster(1, nproc=1, program=["sh", "-c", "echo ready; sleep 1000"])
        node = job.start(0)
        wait_until("the worker", lambda: "ready" in node.out())
        node.signal(signal.SIGUSR1)
        wait_until("that is said", lambda: node.said("SIGUSR1 was not forwarded"))
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())


class WrappersInAContainer(InAContainer, Wrappers):
    pass


if __name__ == "__main__":
    cluster.main()

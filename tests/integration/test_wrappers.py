"""Workers of several processes: a training that saves at SIGTERM inside a wrapper, and with helpers that it needs."""
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
HALF_S = 5  # of a grace period
CLOCK_TICK_S = 0.02  # the time of a file may be so much older than its change
PYTHON = [sys.executable, "-S", "-E", "-c"]
WRAPPERS = {"bash -c": ["bash", "-c", '"$@"; exit $?', "bash"],
            "sh -c": ["sh", "-c", '"$@"; exit $?', "sh"],
            "bash with an EXIT trap": ["bash", "-c", 'trap : EXIT; "$@"; exit $?', "bash"],
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
ENDS_BEFORE_ITS_SERVER = """
import os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
def stop(number, frame):
    print("saved", file=sys.stderr, flush=True)
    os._exit(143)
signal.signal(signal.SIGTERM, stop)
subprocess.Popen(sys.argv[2:])
while not (folder / "server is ready").exists(): time.sleep(0.01)
(folder / "ready 0 0").touch()
time.sleep(1000)
"""
# Has a DataLoader worker, a log shipper and a data server, and saves only while they live.
HAS_HELPERS = """
import os, pathlib, signal, subprocess, sys, time
folder, me = pathlib.Path(sys.argv[1]), os.environ["RANK"] + " " + os.environ["TORCHELASTIC_RESTART_COUNT"]
def note(what): (folder / f"{what} {me}").touch()
def wait(what):
    while not (folder / what).exists(): time.sleep(0.01)
def save(number, frame):
    note("saving")
    wait("may save")
    print("saving", flush=True)
    if all(os.waitpid(pid, os.WNOHANG) == (0, 0) for pid in helpers): note("saved")
    os._exit(0)
if me != "0 0":
    note("ready")
    if me == "1 0": wait("fail")
    os._exit(7 if me == "1 0" else 0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, lambda number, frame: note("usr1"))
helpers = [subprocess.Popen(command).pid for command in (["sleep", "1000"], sys.argv[2:])]
helpers.append(os.fork())
if not helpers[-1]:
    me = "fork"
    wait("what does not come")
wait("server is ready")
note("ready")
wait("end")
os._exit(0)
"""
SERVER = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def stop(number, frame):
    (folder / "server stops").touch()
    while not (folder / "server may stop").exists(): time.sleep(0.01)
    (folder / "server has stopped").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
(folder / "server is ready").touch()
time.sleep(1000)
"""
# A launcher that handles the signal itself and does not pass it on.
KEEPS_THE_SIGNAL = ("import signal, subprocess, sys; signal.signal(signal.SIGTERM, lambda *_: None); "
                    "sys.exit(subprocess.call(sys.argv[1:]))")


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

    def test_a_shell_with_a_trap_and_its_training_hear_at_once(self):
        _, node = self.start(["bash", "-c", 'trap : TERM; "$@"; exit $?', "bash"], options=["--termination-grace", "5m"])
        node.signal(signal.SIGTERM)
        self.wait_for("saving 0 0")
        (self.folder / "may save").touch()
        self.assertEqual(75, node.exit_code())
        self.assertTrue((self.folder / "saved 0 0").exists())

    def test_a_launcher_that_keeps_the_signal_costs_half(self):
        launcher = [*PYTHON, KEEPS_THE_SIGNAL]
        _, node = self.start(launcher, options=["--termination-grace", f"{2 * HALF_S}s"])
        (self.folder / "signal").touch()
        node.signal(signal.SIGTERM)
        self.wait_for("saving 0 0")
        told, saving = ((self.folder / name).stat().st_mtime for name in ("signal", "saving 0 0"))
        self.assertGreater(saving - told, HALF_S - CLOCK_TICK_S)
        (self.folder / "may save").touch()
        self.assertEqual(75, node.exit_code())
        self.assertTrue((self.folder / "saved 0 0").exists())

    def start_with_helpers(self, wrapper, **kwargs):
        folder = str(self.folder)
        return self.start(wrapper, program=[*wrapper, *PYTHON, HAS_HELPERS, folder, *PYTHON, SERVER, folder], **kwargs)

    def test_helpers_live_until_the_training_has_saved(self):
        wrappers = {"alone": [], "tee": ["bash", "-c", '"$@" | tee "$0"', "/dev/null"]}
        for name, wrapper in {**wrappers, "bash with an EXIT trap": WRAPPERS["bash with an EXIT trap"]}.items():
            with self.subTest(name):
                _, node = self.start_with_helpers(wrapper, options=["--termination-grace", "5m"])
                node.signal(signal.SIGTERM)
                self.wait_for("saving 0 0")
                (self.folder / "may save").touch()
                self.wait_for("server stops")
                self.assertTrue((self.folder / "saved 0 0").exists())
                self.assertFalse((self.folder / "saving fork").exists())
                self.assertFalse(node.has_ended())
                (self.folder / "server may stop").touch()
                self.assertEqual(75, node.exit_code())
                self.assertTrue((self.folder / "server has stopped").exists())

    def test_helpers_live_until_it_has_saved_in_a_restart(self):
        _, node = self.start_with_helpers([], nproc=2)
        (self.folder / "server may stop").touch()
        (self.folder / "fail").touch()
        self.wait_for("saving 0 0")
        (self.folder / "may save").touch()
        self.assertEqual(0, node.exit_code())
        self.assertTrue((self.folder / "saved 0 0").exists())
        self.assertTrue((self.folder / "server has stopped").exists())

    def test_a_server_that_ends_at_once_costs_no_grace(self):
        folder = str(self.folder)
        _, node = self.start([], options=["--termination-grace", "5m"],
                             program=[*PYTHON, ENDS_BEFORE_ITS_SERVER, folder, *PYTHON, SERVER, folder])
        (self.folder / "server may stop").touch()
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())
        self.assertTrue((self.folder / "server has stopped").exists())

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

    def test_sigusr1_does_not_reach_forks_of_the_training(self):
        _, node = self.start_with_helpers([])
        node.signal(signal.SIGUSR1)
        self.wait_for("usr1 0 0")
        wait_until("that is said", lambda: node.said("SIGUSR1 was forwarded to 1 worker process that handles it"))
        (self.folder / "end").touch()
        self.assertEqual(0, node.exit_code())
        self.assertFalse((self.folder / "usr1 fork").exists())

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

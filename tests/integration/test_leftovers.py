"""Temporary folders and pipes: a killed host leaves none, two nodes of a machine share none, and a relative
TMPDIR means the same to workers in another folder."""
import os
import pathlib
import re
import shutil
import signal
import stat
import sys
import tempfile

import cluster
from cluster import ClusterTest, InAContainer, wait_until

FILE_TIMER = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}


class Leftovers(ClusterTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def left(self):
        return sorted(path.name for path in self.folder.iterdir())

    def running(self, **environment):
        job = self.cluster(1, nproc=1, environment={"TMPDIR": str(self.folder), **environment})
        node = job.start(0)
        job.wait_for_round(0)
        return job, node

    def test_a_killed_host_leaves_no_folder_behind(self):
        job, node = self.running(**FILE_TIMER)
        self.assertEqual(2, len(self.left()), "of the error files, and of the timer's pipe")
        cluster.kill(node.host())
        node.exit_code()
        wait_until("an empty folder", lambda: not self.left())

    def test_the_next_host_removes_a_dead_nodes_folder(self):
        job, node = self.running(**FILE_TIMER)
        for pid in (node.host(), node.agent()):
            cluster.stop(pid)  # neither sees the other's end
        for pid in (node.agent(), node.host()):
            cluster.kill(pid)
        node.exit_code()
        left = self.left()
        self.assertEqual(2, len(left))
        mine = self.folder / "muster-backup"
        mine.mkdir()
        other, node = self.running()
        wait_until("the end of the leftovers", lambda: not set(left) & set(self.left()))
        self.assertEqual(2, len(self.left()), "a stranger's, and its own")
        other.open_gate()
        self.assertEqual(0, node.exit_code())
        self.assertEqual([mine.name], self.left())

    def test_nodes_of_one_machine_keep_their_timer_pipes(self):
        path = self.folder / "pipe"
        os.mkfifo(path)  # left by a killed node
        pipe = {**FILE_TIMER, "TORCHELASTIC_TIMER_FILE": str(path)}
        program = [sys.executable, "-S", "-E", "-c",
                   "import os, sys, time\nopen(sys.argv[1] + os.environ['RANK'], 'w').write(os.environ['TORCHELASTIC_TIMER_FILE'])\n"
                   "while not os.path.exists(sys.argv[1] + 'gate'): time.sleep(0.01)", str(self.folder / "at-")]
        job = self.cluster(2, nproc=1, program=program, environment=pipe)
        job.start_all()
        files = [self.folder / f"at-{rank}" for rank in (0, 1)]
        wait_until("both workers", lambda: all(file.exists() and file.read_text() for file in files))
        paths = [file.read_text() for file in files]
        self.assertEqual(2, len(set(paths)), paths)
        self.assertIn(str(path), paths)
        for each in paths:
            self.assertTrue(stat.S_ISFIFO(os.stat(each).st_mode), each)
        (self.folder / "at-gate").touch()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        said = [re.search(r"the file timer's pipe is (\S+): another process", node.err()) for node in job.nodes.values()]
        self.assertEqual([path for path in paths if path != str(self.folder / "pipe")],
                         [match[1] for match in said if match])
        for each in paths:
            self.assertFalse(os.path.exists(each), each)

    def test_what_a_script_that_has_ended_leaves_is_named(self):
        script = "sleep 1000 & echo $!; exit"
        job = self.cluster(1, nproc=1, program=["sh", "-c", script])
        node = job.start(0)
        self.assertEqual(0, node.exit_code())
        (pid,) = node.out().split()
        self.assertEqual([pid], node.said(r"rank 0 \(pid \d+\) exited with code 0 while processes that it had started "
                                          r"still ran; ended with it: \w+ \(pid (\d+)\);"), node.err())

    def test_a_filter_passes_on_what_the_program_wrote_last(self):
        # Without a pause after the end, tee itself would often be quick enough.
        script = ("exec 2> >(touch $0.runs; until read -r s < /proc/$$$$/stat && [[ $s == *') Z '* ]]; do :; done; exec tee $0 >&2);"
                  "echo started >&2; until [ -e $0.runs ]; do sleep 0.01; done; echo Error: the last words >&2; exit 3")
        job = self.cluster(1, nproc=1, program=["bash", "-c", script, str(self.folder / "log")],
                           options=["--max-restarts", "0"])
        node = job.start(0)
        self.assertEqual(3, node.exit_code())
        self.assertEqual("started\nError: the last words\n", (self.folder / "log").read_text())
        self.assertEqual(2, node.err().count("Error: the last words"), "in the output, and in the report: " + node.err())

    def test_what_a_stopped_worker_leaves_is_not_named(self):
        job = self.cluster(1, nproc=1, program=["sh", "-c", "trap 'exit 0' TERM; (trap '' TERM; touch $0; exec sleep 1000) & wait",
                                                str(self.folder / "runs")])
        node = job.start(0)
        wait_until("the worker", (self.folder / "runs").exists)
        node.signal(signal.SIGTERM)
        node.exit_code()
        self.assertNotIn("ended with it", node.err())

    def test_a_relative_tmpdir_works_from_any_folder(self):
        program = [sys.executable, "-S", "-E", "-c", "import os\nos.chdir('/')\n"
                   "open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write('{\"message\": \"found\"}')\nraise SystemExit(3)"]
        (self.folder / "here").mkdir()
        job = self.cluster(1, nproc=1, program=program, environment={"TMPDIR": "here"})
        node = job.start(0, cwd=self.folder)
        self.assertEqual(3, node.exit_code())
        self.assertTrue(node.said("traceback : found"), node.err())


class KernelTimer(ClusterTest):
    def test_a_lease_without_a_timer_is_one_warning(self):
        job = self.cluster(2, nproc=1, options=["--lease", "2s"],
                           prefix=lambda place: ["prlimit", "--sigpending=0:0"] if place == 1 else [])
        job.start_all()
        starts = job.wait_for_round(0)
        began = max(record["time"] for record in starts.values())
        wait_until("more than one lease, extended several times", lambda: len(beats := job.last_beats(0)) == 2 and
                   min(beats.values()) > began + 2.5)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(1, len(job.nodes[1].said("warning: .*kernel timer")), job.nodes[1].err())
        self.assertEqual([], job.nodes[0].said("kernel timer"))


class LeftoversInAContainer(InAContainer, Leftovers):
    pass


class KernelTimerInAContainer(InAContainer, KernelTimer):
    pass


if __name__ == "__main__":
    cluster.main()

"""A job that hangs: what is seen of it, what is done about it, and what is taken for none."""
import pathlib
import re
import signal
import sys
import tempfile
import unittest

from cluster import ClusterTest, never, wait_until

TIMEOUT = ["--hang-timeout", "5s"]
# Shows signs of life, then hangs: rank 1 elsewhere than the others. In the next round all end with 0.
HANGS = """
import os, sys, time
def wait():
    while True: time.sleep(60)
def elsewhere():
    while True: time.sleep(60)
if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0": sys.exit(0)
for step in range(15):
    print("step", step, flush=True)
    time.sleep(1)
elsewhere() if os.environ["RANK"] == "1" else wait()
"""
# Rank 0 prints for all, and ends; rank 1 still has something to do, in silence.
ENDS_LATER = """
import os, sys, time
for step in range(12):
    if os.environ["RANK"] == "0": print("step", step)
    time.sleep(1)
if os.environ["RANK"] == "1": time.sleep(3)
"""
# Rank 0 ends, and rank 1 waits for it for ever.
NEVER_ENDS = """
import os, sys, time
for step in range(12):
    print("step", step)
    time.sleep(1)
while os.environ["RANK"] == "1": time.sleep(60)
"""
# Rank 1 never comes to where rank 0 waits for it. In the next round all end with 0.
NEVER_COMES = """
import os, sys, time
if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0": sys.exit(0)
if os.environ["RANK"] == "0": print("waiting for the others", flush=True)
while True: time.sleep(60)
"""
STEPS = """
import time
for step in range(25):
    print("step", step)
    time.sleep(0.5)
"""
# Rank 1 makes a tenth of the others' steps.
SLOW = """
import os, sys, time
step = 0
while not os.path.exists(sys.argv[1]):
    step += 1
    print("step", step)
    time.sleep(0.5 if os.environ["RANK"] == "1" else 0.05)
"""
# Prints nothing after its first seconds, and touches its heartbeat file.
BEATS = """
import os, time
for step in range(15):
    print("step", step, flush=True)
    time.sleep(1)
for beat in range(10):
    open(os.environ["MUSTER_HEARTBEAT_FILE"], "a").write(".")
    time.sleep(1)
"""


class Hang(ClusterTest):
    def job(self, script, options=(), nodes=2, **more):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "train.py"
        path.write_text(script)
        return self.cluster(nodes, nproc=1, program=[sys.executable, "-S", str(path)],
                            options=[*TIMEOUT, *options], **more)

    def test_the_round_fails_and_starts_again(self):
        job = self.job(HANGS, ["--max-restarts", "1"]).start_all()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertTrue(job.nodes[0].said(r"no worker has shown a sign of life for 5s \(--hang-timeout\)"))

    def test_without_restarts_the_report_says_that_it_hung(self):
        job = self.job(HANGS, ["--max-restarts", "0"]).start_all()
        codes = job.exit_codes()
        self.assertEqual({codes[0]}, set(codes.values()))
        self.assertIn(codes[0], (128 + signal.SIGABRT, 128 + signal.SIGKILL))
        for node in job.nodes.values():
            self.assertTrue(node.said(r"no worker has shown a sign of life for 5s"), node.name)

    def test_it_may_be_reported_only(self):
        job = self.job(HANGS, ["--on-hang", "report"]).start_all()
        wait_until("the report", lambda: job.nodes[0].said(r"; suspect: rank 1|no rank differs|ranks stand at"))
        never("the end of a worker", lambda: [node for node in job.nodes.values() if node.said("worker rank 1|restart")])

    def test_a_hang_at_the_start_is_found_after_a_time_of_its_own(self):
        job = self.job(NEVER_COMES, ["--start-timeout", "6s", "--max-restarts", "1"]).start_all()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertTrue(job.nodes[0].said(r"no worker has shown a sign of life for 6s \(--start-timeout\): asking"))
        self.assertTrue(job.nodes[0].said("rank 1 has shown no sign of life in this round; others have"))

    def test_a_rank_that_ends_later_than_the_one_that_prints_does_not_hang(self):
        job = self.job(ENDS_LATER).start_all()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual([], job.nodes[0].said("sign of life"), "nor is output kept back in a buffer")

    def test_a_rank_that_waits_for_one_that_has_ended_is_ended(self):
        job = self.job(NEVER_ENDS, ["--max-restarts", "0"]).start_all()
        codes = set(job.exit_codes().values())
        self.assertIn(codes.pop(), (128 + signal.SIGABRT, 128 + signal.SIGKILL))
        self.assertEqual(set(), codes)
        self.assertTrue(job.nodes[0].said(r"suspect: rank 0: it has ended"))

    def test_a_job_that_is_suspended_does_not_hang(self):
        job = self.job(STEPS).start_all()
        for node in job.nodes.values():
            wait_until("a step", lambda: re.search("step 20", node.out()))
            node.signal(signal.SIGTSTP)
        never("a hang", lambda: job.nodes[0].said("sign of life"), limit=8)
        for node in job.nodes.values():
            node.signal(signal.SIGCONT)
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual([], job.nodes[0].said("sign of life"))

    def test_a_touch_of_the_heartbeat_file_is_a_sign_of_life(self):
        job = self.job(BEATS, nodes=1)
        node = job.start(0)
        self.assertEqual(0, node.exit_code())
        self.assertEqual([], node.said("sign of life"))

    def test_a_rank_that_makes_fewer_steps_than_the_others_is_named(self):
        job = self.job(SLOW, nodes=3)
        done = job.folder / "done"
        job.program.append(str(done))
        job.start_all()
        wait_until("its name", lambda: job.nodes[0].said(r"slower than the others: rank 1 on node 1 \(\S+\) with \d+ steps a minute; the median"))
        done.touch()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())

    def test_output_passes_unchanged(self):
        job = self.job("import sys; print('one'); print('two', end=''); print('three', file=sys.stderr)", nodes=1)
        node = job.start(0)
        self.assertEqual(0, node.exit_code())
        self.assertEqual(["one", "two"], node.out().split())
        self.assertTrue(re.search(r"^three$", node.err(), re.MULTILINE))


if __name__ == "__main__":
    unittest.main()

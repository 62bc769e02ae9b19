"""deploy/slurm as it is shipped, under a real Slurm: only options of sbatch and variables fit the file to that one."""
import os
import re
import unittest

import emulated
from emulated import BINARY, DEPLOY, GATE, TRAINING, EmulatedTest, cluster, plain_environment, wait_until

import slurm

NODES, USED = 3, 2
FILE = DEPLOY / "slurm" / "train.sbatch"
LIMIT_S = 180.0  # Slurm looks at time limits twice a minute
# The test's nodes have 1 CPU and no GPU.
SIZE = [f"--nodes={USED}", "--cpus-per-task=1", "--gpus-per-node=0"]


def setUpModule():
    reason = slurm.missing()
    if reason:
        raise unittest.SkipTest(reason)
    SlurmTest.slurm = slurm.Slurm(NODES, settings=["JobRequeue=0"])  # jobs are run again only if they ask for it
    unittest.addModuleCleanup(SlurmTest.slurm.close)


class SlurmTest(EmulatedTest):
    slurm = None  # shared by all tests of this file

    def setUp(self):
        super().setUp()
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "muster").symlink_to(BINARY)
        self.environment = {**plain_environment(), **self.slurm.environment(), cluster.TOKEN: self.token,
                            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        self.checkpoint = self.folder / "checkpoint"

    def submit(self, *options, arguments=(), **environment):
        """The job's number. The training stops at its gate."""
        node = cluster.Node("sbatch", [
            *self.slurm.prefix(), "sbatch", "--parsable", *SIZE, *options, str(FILE), str(TRAINING),
            "--checkpoint", str(self.checkpoint), *GATE, "--gate-file", str(self.gate), *arguments],
            {**self.environment, **environment}, self.folder, cwd=self.folder)
        self.assertEqual(0, node.exit_code(), node.err())
        number = node.out().strip()
        self.addCleanup(self.end_job, number)
        return number

    def end_job(self, number):
        self.slurm.run("scancel", number)
        self.wait_for_end(number)
        self.wait_for_idle_nodes()

    def wait_for_end(self, number):
        wait_until(f"the end of job {number}",
                   lambda: self.state(number) not in ("PENDING", "RUNNING", "COMPLETING"), LIMIT_S)

    def shown(self, number):
        return dict(re.findall(r"(\w+)=(\S+)", self.slurm.run("scontrol", "show", "job", number)))

    def state(self, number):
        return self.shown(number).get("JobState")

    def output(self):
        """All runs write to one file, in the folder in which sbatch was called."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("train-*.out")))

    def runs(self):
        return re.findall(r"^starting at step (\d+) ", self.output(), re.MULTILINE)

    def wait_at_gate(self, number):
        wait_until("the training at its gate",
                   lambda: "at the gate" in self.output() or self.state(number) == "FAILED")
        self.assertIn("at the gate", self.output())

    def wait_for_idle_nodes(self):
        wait_until("idle nodes", lambda: self.slurm.run("sinfo", "--noheader", "--Node", "--format=%t").split()
                   == ["idle"] * NODES)

    def let_it_go_on(self, number):
        """The job is in the queue again. Slurm would start it two minutes later."""
        wait_until("the job in the queue again", lambda: self.state(number) == "PENDING", LIMIT_S)
        self.assertEqual("1", self.shown(number)["Restarts"])
        self.gate.touch()

    def start_now(self, number):
        # A node refuses a job within the second in which the run before ended there.
        self.slurm.run("scontrol", "update", f"JobId={number}", "StartTime=now+2")

    def assert_went_on(self, number):
        self.wait_for_end(number)
        self.assertEqual(("COMPLETED", "0:0"), (self.state(number), self.shown(number)["ExitCode"]), self.output())
        self.assertEqual(["0", str(emulated.STEPS_BEFORE_GATE)], self.runs())
        self.assertEqual(emulated.undisturbed_loss(USED), emulated.final_loss(self.output()))
        self.assertIn(f"run id: {number}-requeue-1", self.output())


class GoesOn(SlurmTest):
    def test_after_the_time_limit(self):
        # Slurm counts time limits in minutes. The signal comes half a minute after the start.
        number = self.submit("--time=1", "--signal=TERM@20")
        self.wait_at_gate(number)
        self.let_it_go_on(number)
        self.wait_for_idle_nodes()
        self.start_now(number)
        self.assert_went_on(number)
        self.assert_shown("slurm", self.output())

    def test_after_a_signal_of_the_user(self):
        number = self.submit()
        self.wait_at_gate(number)
        self.slurm.run("scancel", "--signal=TERM", number)
        self.let_it_go_on(number)
        self.wait_for_idle_nodes()
        self.start_now(number)
        self.assert_went_on(number)

    def test_after_the_loss_of_a_node(self):
        number = self.submit()
        self.wait_at_gate(number)
        lost = self.slurm.nodes[1]
        self.addCleanup(self.slurm.run, "scontrol", "update", f"NodeName={lost}", "State=RESUME")
        self.slurm.run("scontrol", "update", f"NodeName={lost}", "State=DOWN", "Reason=test")
        self.let_it_go_on(number)
        self.assertNotIn("goes back to the queue", self.output())  # Slurm did it, by --requeue
        wait_until("the end of the first run", lambda: not self.trainings())
        self.start_now(number)
        self.assert_went_on(number)
        self.assertNotIn(lost, self.shown(number)["NodeList"])

    def trainings(self):
        return [pid for pid in cluster.bearers(cluster.TOKEN, self.token) if str(TRAINING) in cluster.arguments_of(pid)]


class OneLine(SlurmTest):
    def test_the_srun_of_the_readme(self):
        line, = re.findall(r"^srun .*$", (DEPLOY / "slurm" / "README.md").read_text(), re.MULTILINE)
        for option, fitting in (("--nodes=4", f"--nodes={USED}"), ("--gpus-per-node=8", "--gpus-per-node=0"),
                                ("--cpus-per-task=96", "--cpus-per-task=1"),
                                ("train.py", f"{TRAINING} --checkpoint {self.checkpoint}")):
            self.assertIn(option, line)
            line = line.replace(option, fitting)
        node = cluster.Node("srun", [*self.slurm.prefix(), *line.split()], self.environment, self.folder)
        self.nodes.append(node)
        self.assertEqual(0, node.exit_code())
        self.assertEqual(emulated.undisturbed_loss(USED), emulated.final_loss(node.out()))


class StaysEnded(SlurmTest):
    def assert_ended(self, number, state, code):
        self.wait_for_end(number)
        self.wait_for_idle_nodes()
        self.assertEqual((state, code, "0"),
                         (self.state(number), self.shown(number)["ExitCode"], self.shown(number)["Restarts"]))

    def test_a_cancelled_job(self):
        number = self.submit()
        self.wait_at_gate(number)
        self.slurm.run("scancel", number)
        self.assert_ended(number, "CANCELLED", "0:15")

    def test_a_training_that_failed(self):
        number = self.submit(arguments=["--kill-rank", "1", "--kill-step", "7"], MUSTER_MAX_RESTARTS="0")
        self.assert_ended(number, "FAILED", "137:0")

    def test_a_job_that_was_requeued_often_enough(self):
        number = self.submit(MAX_REQUEUES="0")
        self.wait_at_gate(number)
        self.slurm.run("scancel", "--signal=TERM", number)
        self.assert_ended(number, "FAILED", "75:0")
        self.assertIn("MAX_REQUEUES", self.output())


if __name__ == "__main__":
    cluster.main()

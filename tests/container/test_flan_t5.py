"""deploy/examples/flan-t5 in containers: its Dockerfile, then the job of its compose.yaml, which loses a worker and a node.

tests/torch/test_flan_t5.py compares the losses with those of an undisturbed run; here the job runs as its README says.
"""
import collections
import os
import pathlib
import re
import subprocess
import tempfile
import time

import engine
from engine import ROOT, docker
from job import WORKER_LINE, ContainerTest, wait_until
from test_docker_build import compose_command

EXAMPLE = ROOT / "deploy/examples/flan-t5"
STEPS = 160
LIMIT_S = 600.0  # only a hang reaches it
READ_EVERY_S = 0.5  # to read the output costs the training's time
PIP = "FROM {}\nRUN apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-pip >/dev/null\n"


def with_pip(image):
    """The image with pip, which images for training have. Skips the test where packages cannot be had."""
    with tempfile.TemporaryDirectory(prefix="muster-image-") as folder:
        pathlib.Path(folder, "Dockerfile").write_text(PIP.format(image), encoding="utf-8")
        return engine.build(f"{engine.PREFIX}-pip", f"{folder}/Dockerfile", folder)


class FlanT5(ContainerTest):
    def setUp(self):
        self.command = [*compose_command(), "-f", EXAMPLE / "compose.yaml", "-p", f"{engine.PREFIX}-flan"]
        try:
            base = with_pip(engine.training("torch"))
        except AssertionError as error:
            self.skipTest(f"the packages cannot be installed in an image here: {error}")
        image = engine.build(f"{engine.PREFIX}-flan-t5", EXAMPLE / "Dockerfile", ROOT, "--build-arg", f"BASE={base}",
                             limit=LIMIT_S)
        self.environment = {**os.environ, "FLAN_T5_IMAGE": image, "STEPS": str(STEPS)}
        self.log = ""
        self.addCleanup(self.compose, "down", "--volumes")

    def compose(self, *arguments):
        done = subprocess.run([*map(str, self.command), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, env=self.environment, timeout=engine.COMMAND_LIMIT_S, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def read_log(self):
        self.log = "".join(result.stdout + result.stderr for result in
                           (engine.call("logs", container) for container in self.containers))
        self.read_at = time.monotonic()

    def find(self, pattern):
        return re.findall(pattern, self.log)

    def wait_for(self, what, pattern, count=1):
        """The match of that number in the containers' output, in the order in which one container writes them."""
        def found():
            if time.monotonic() < self.read_at + READ_EVERY_S:
                return None
            ends = docker("inspect", "--format", "{{.State.Status}}", *self.containers).split("\n")
            self.read_log()
            matches = self.find(pattern)
            if len(matches) < count and set(ends) == {"exited"}:
                raise AssertionError(f"all containers ended while waiting for {what}\n{self.log}")
            return matches[count - 1] if len(matches) >= count else None
        return wait_until(what, found, LIMIT_S)

    def wait_for_progress(self, rounds):
        """Waits until the newest of so many rounds has begun and written a checkpoint of its own."""
        start = int(self.wait_for(f"start {rounds}", r"starting from step (\d+) of the training", rounds))
        self.wait_for(f"step {start + 30}", rf"step {start + 30} of {STEPS} ")
        return start

    def test_the_job_survives_the_loss_of_a_worker_and_of_a_node(self):
        self.compose("up", "-d")
        self.containers = [self.compose("ps", "-q", service).strip() for service in ("primary", "worker")]
        self.read_log()
        first = self.wait_for_progress(rounds=1)
        [pid] = [m[5] for m in WORKER_LINE.finditer(self.log) if (m[1], m[4]) == ("3", "0")]
        self.compose("exec", "-T", "worker", "sh", "-c", f"kill -9 {pid}")
        second = self.wait_for_progress(rounds=2)
        self.compose("kill", "worker")
        self.compose("start", "worker")
        third = int(self.wait_for("the third round", r"starting from step (\d+) of the training", 3))
        self.assertTrue(first == 0 < second < third, self.log)
        for container in self.containers:
            self.assertEqual("0", docker("wait", container, limit=LIMIT_S), self.log)
        self.read_log()

        self.assertEqual(3, len(self.find("setup passed")), "once for each node, and once for the node that came back")
        self.assertEqual(1, len(self.find("--on-success succeeded")), self.log)
        self.assertEqual(3, len(self.find("starting from step")), self.log)
        losses = collections.defaultdict(set)
        for step, loss in self.find(rf"step (\d+) of {STEPS}  loss ([\d.]+)"):
            losses[int(step)].add(loss)
        self.assertEqual(list(range(10, STEPS + 1, 10)), sorted(losses))
        self.assertEqual({1}, {len(same) for same in losses.values()}, "a repeated step has the same loss")
        with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
            docker("cp", f"{self.containers[0]}:/gcs/bucket/models/flan-t5", folder)
            self.assertIn("model.safetensors", os.listdir(f"{folder}/flan-t5"))

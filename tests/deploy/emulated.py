"""What a cloud's training service does with a job description, on this machine: it starts the image's ENTRYPOINT in
every replica, with the variables and files of the platform, and starts a replica or the whole job again.

The image is that of deploy/docker/training.Dockerfile: ENTRYPOINT ["muster", "run"] and /app/train.py, which is
deploy/examples/train_stdlib.py here. What differs: replicas are processes with addresses of loopback instead of names,
there is no accelerator, and the folder of the bucket is a folder of the test.
"""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "integration"))  # last: files of the same name there are others
import cluster  # noqa: E402
from cluster import BINARY, TOKEN, Node, bearers, kill, plain_environment, wait_until  # noqa: E402

DEPLOY = ROOT / "deploy"
TRAINING = DEPLOY / "examples" / "train_stdlib.py"
FIXTURES = ROOT / "tests" / "fixtures"
ENTRYPOINT = ("run",)  # of the training image, after the name of the binary
STEPS_BEFORE_GATE = 20  # the last checkpoint before GATE
GATE = ["--gate-step", "23"]


def network():
    """The first three numbers of addresses that no other test uses: the port of a platform is the same in every job."""
    return f"127.{random.randint(16, 250)}.{random.randint(1, 250)}"


def plan(arguments, environment):
    """What `muster env` says of a node; AssertionError with its words if it refuses."""
    done = subprocess.run([str(BINARY), "env", "--json", *arguments], env={**plain_environment(), **environment},
                          capture_output=True, text=True, timeout=cluster.LIMIT_S)
    if done.returncode != 0:
        raise AssertionError(f"muster env {arguments}: {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def final_loss(text):
    return re.findall(r"^final loss (\S+)$", text, re.MULTILINE)


def undisturbed_loss(workers):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([str(BINARY), "run", "--standalone", "--nproc-per-node", str(workers), str(TRAINING),
                               "--checkpoint", f"{folder}/checkpoint"],
                              env=plain_environment(), capture_output=True, text=True, timeout=cluster.LIMIT_S)
    return final_loss(done.stdout)


class EmulatedTest(unittest.TestCase):
    """A test whose processes are ended after it, by their token, and whose output is shown if it failed."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-deploy-"))
        self.token = uuid.uuid4().hex
        self.nodes = []  # all that were started
        self.app = self.folder / "app"
        self.app.mkdir()
        shutil.copy(TRAINING, self.app / "train.py")
        self.gate = self.folder / "gate"
        self.addCleanup(self._close)

    def _close(self):
        def all_gone():
            for pid in bearers(TOKEN, self.token):
                kill(pid)
            return not bearers(TOKEN, self.token)
        wait_until("the end of everything that this test started", all_gone)
        result = self._outcome.result
        if any(getattr(case, "test_case", case) is self for case, _ in result.failures + result.errors):
            print(f"\n===== {self.id()}\n{self.output()}", file=sys.stderr, flush=True)
        shutil.rmtree(self.folder)

    def output(self):
        return "\n".join(f"----- {node.name}: {node.process.returncode if node.has_ended() else 'still running'}\n"
                         f"{node.out()}{node.err()}" for node in self.nodes)

    def start(self, name, arguments, environment):
        """A replica: the image's ENTRYPOINT with these arguments."""
        node = Node(f"{name}-{len(self.nodes)}", [str(BINARY), *ENTRYPOINT, *arguments],
                    {**plain_environment(), TOKEN: self.token, **environment}, self.folder, cwd=self.app)
        self.nodes.append(node)
        return node

    def wait_at_gate(self, nodes):
        wait_until("the training at its gate", lambda: any("at the gate" in node.out() for node in nodes)
                   or all(node.has_ended() for node in nodes))
        self.assertFalse(all(node.has_ended() for node in nodes), "the job ended before the training was at its gate")

    def exit_codes(self, nodes):
        return [node.exit_code() for node in nodes]

    def assert_shown(self, folder, output):
        """Every line that the README of deploy/FOLDER says one sees is in this output."""
        text = (DEPLOY / folder / "README.md").read_text()
        block = re.search(r"## What one sees\n.*?```\n(.*?)```", text, re.DOTALL)[1]
        lines = [line for line in block.splitlines() if line.strip()]
        self.assertGreater(len(lines), 4)
        for line in lines:
            self.assertRegex(output, f"(?m){pattern_of(line)}")

    def said(self, nodes, pattern):
        """What matches among all lines of these nodes, on both streams."""
        return [found for node in nodes for found in re.findall(pattern, node.out() + node.err(), re.MULTILINE)]


def pattern_of(line):
    """A line of a README as a pattern: without the time, and with any address, number of the job, and interpreter."""
    line = re.sub(r"^\d{4}-\d\d-\d\d \S+ ", "", line)
    parts = re.split(r"(\b[\w.-]+:\d{4,5}\b|(?<=run id: )\S+|(?<=pid=)\d+|(?<=: job )\d+|(?<=python is ).*)", line)
    return "".join(r".+" if index % 2 else re.escape(part) for index, part in enumerate(parts)) + "$"

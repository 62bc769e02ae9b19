"""The replicas of a Vertex AI custom job as containers on a network of their own, and what they print."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import uuid

import engine
from engine import ROOT, docker

sys.path.insert(0, str(ROOT / "tests/integration"))
from cluster import (LIMIT_S, Node, arguments_of, descendants, is_alive, kill, never,  # noqa: E402, F401
                     plain_environment, process_state, wait_until)

EXAMPLES = ROOT / "deploy/examples"
WORKERS = pathlib.Path(__file__).resolve().parent / "workers"
BUCKET = "/gcs/bucket"  # where the job's folder is in every container
STEPS, GATE_STEP, CHECKPOINT_EVERY = 30, 17, 5  # the gate is between two checkpoints
TRAINING = ("--steps", STEPS, "--checkpoint", f"{BUCKET}/checkpoint")
GATE = ("--gate-step", GATE_STEP, "--gate-file", f"{BUCKET}/gate")
WORKER_LINE = re.compile(r"worker rank=(\d+) world=(\d+) node=(\d+) restart=(\d+) pid=(\d+)")
LOSS = r"final loss ([\d.]+)"


class Container(Node):
    """A container in the foreground: its streams are in files, and its exit code is that of `docker run`."""

    def __init__(self, name, arguments, folder):
        self.container = f"{engine.PREFIX}-{name}"
        super().__init__(name, ["docker", "run", "--name", self.container, "--label", engine.LABEL, "--sig-proxy=false",
                                *map(str, arguments)], plain_environment(), folder)

    def inspect(self, template):
        result = engine.call("inspect", "--format", template, self.container, check=False)
        return result.stdout if result.returncode == 0 else None

    def main(self):
        """The pid, in the machine's namespace, of the container's process 1; None while it does not run."""
        return int(self.inspect("{{.State.Pid}}") or "0") or None

    def address(self):
        return self.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")

    def host(self):
        """The process below our process 1 that starts the workers."""
        main = self.main()
        runs = [pid for pid in descendants(main) if arguments_of(pid)[1:2] == ["run"]] if main else []
        return runs[0] if runs else None

    def workers(self):
        """Pids of the living processes of the training, in the machine's namespace."""
        main = self.main()
        return [pid for pid in descendants(main) if is_alive(pid) and arguments_of(pid)[1:2] not in (["run"], ["agent"])
                ] if main else []

    def text(self):
        return self.out() + self.err()

    def find(self, pattern):
        return list(re.compile(pattern, re.MULTILINE).finditer(self.text()))

    def starts(self, restart):
        """The ranks that this container started in a round, and the world size they saw."""
        return {int(m[1]): int(m[2]) for m in WORKER_LINE.finditer(self.text()) if int(m[4]) == restart}

    def do(self, *command):
        """`docker COMMAND... CONTAINER`."""
        return docker(*command, self.container)


class Job:
    """`nodes` containers of one image: the primary is place 0, the workers are places 1, 2, ...

    program: the arguments of the image after muster's options. run: further options of `docker run`. network: instead
    of one of its own. limit: seconds that only a hang reaches.
    """

    def __init__(self, image, program, nodes=3, nproc=2, options=(), run=(), network=None, limit=LIMIT_S):
        self.image, self.program, self.size, self.nproc, self.limit = image, program, nodes, nproc, limit
        self.options, self.run = options, run
        self.token = uuid.uuid4().hex[:8]
        self.network, self.own_network = network or f"{engine.PREFIX}-{self.token}", network is None
        if self.own_network:
            docker("network", "create", "--label", engine.LABEL, self.network)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.bucket = self.folder / "bucket"
        self.bucket.mkdir()
        self.bucket.chmod(0o777)  # for containers of any user
        self.nodes, self.all_nodes = {}, []

    @staticmethod
    def name_of(place):
        pool, index = (0, 0) if place == 0 else (1, place - 1)
        return f"cmle-training-workerpool{pool}-ab-{index}"

    def spec(self, place):
        pools = {"workerpool0": [f"{self.name_of(0)}:2222"]}
        if self.size > 1:
            pools["workerpool1"] = [f"{self.name_of(worker)}:2222" for worker in range(1, self.size)]
        return json.dumps({"cluster": pools, "environment": "cloud", "task": {
            "type": "workerpool1" if place else "workerpool0", "index": max(0, place - 1), "trial": ""}})

    def start(self, place, *run):
        """A new container at this place, under the place's name."""
        node = Container(f"{self.token}-{place}-{len(self.all_nodes)}", [
            "--network", self.network, *(["--network-alias", self.name_of(place)] if self.own_network else []),
            "-e", f"CLUSTER_SPEC={self.spec(place)}", "-e", f"CLOUD_ML_JOB_ID={self.token}",
            "-e", f"MUSTER_NPROC_PER_NODE={self.nproc}", "-e", "OMP_NUM_THREADS=1", *mounts(self.bucket), *self.run,
            *run, self.image, *self.options, *self.program], self.folder)
        self.nodes[place] = node
        self.all_nodes.append(node)
        return node

    def start_all(self):
        for place in range(self.size):
            self.start(place)
        return self

    def wait_for(self, what, condition):
        """The condition's first true value; fails at once when a container has ended that the test did not end."""
        def value_or_end():
            value = condition()
            if not value and all(node.has_ended() for node in self.nodes.values()):
                value = condition()
                if not value:
                    raise AssertionError(f"all containers ended while waiting for {what}")
            return value
        return wait_until(what, value_or_end, self.limit)

    def starts(self, restart):
        return {rank: world for node in self.all_nodes for rank, world in node.starts(restart).items()}

    def wait_for_round(self, restart):
        self.wait_for(f"all workers with restart count {restart}",
                      lambda: len(self.starts(restart)) == self.size * self.nproc)

    def wait_for_gate(self):
        """All workers of the first round run, and stand at their gate."""
        self.wait_for("the gate", lambda: self.find("at the gate"))
        self.wait_for_round(0)

    def open_gate(self):
        (self.bucket / "gate").touch()

    def find(self, pattern):
        return [match for node in self.all_nodes for match in node.find(pattern)]

    def exit_codes(self):
        return {place: node.exit_code(self.limit) for place, node in sorted(self.nodes.items())}

    def output(self):
        parts = []
        for node in self.all_nodes:
            code = node.process.returncode if node.has_ended() else "still running"
            parts.append(f"----- {node.name} {node.address()}: {code}\n{node.err()}{node.out()}")
        return "\n".join(parts)

    def close(self):
        engine.call("unpause", *[node.container for node in self.all_nodes], check=False)
        engine.call("rm", "-f", "-v", *[node.container for node in self.all_nodes], check=False)
        for node in self.all_nodes:
            node.exit_code()
        if self.own_network:
            docker("network", "rm", self.network)
        shutil.rmtree(self.folder)


def mounts(bucket):
    return ("-v", f"{bucket}:{BUCKET}", "-v", f"{EXAMPLES}:/examples:ro", "-v", f"{WORKERS}:/workers:ro")


def run_once(*arguments, limit=LIMIT_S):
    """`docker run` to its end: exit code, both streams."""
    name = f"{engine.PREFIX}-{uuid.uuid4().hex[:8]}"
    try:
        return engine.call("run", "--rm", "--name", name, "--label", engine.LABEL, *arguments, check=False, limit=limit)
    except subprocess.TimeoutExpired:
        engine.call("rm", "-f", name, check=False)
        raise


class ContainerTest(unittest.TestCase):
    """A test case whose jobs are removed after each test; their output is shown when it failed."""
    losses = {}  # of undisturbed runs, by image and script

    @classmethod
    def setUpClass(cls):
        engine.require()

    def job(self, *args, **kwargs):
        job = Job(*args, **kwargs)
        self.addCleanup(self._end, job)
        return job

    def _end(self, job):
        result = self._outcome.result
        failed = any(getattr(case, "test_case", case) is self for case, _ in result.failures + result.errors)
        text = job.output() if failed else ""
        job.close()
        if failed:
            print(f"\n===== {self.id()}\n{text}", file=sys.stderr, flush=True)

    def undisturbed_loss(self, image, script, workers, limit=LIMIT_S):
        """The last loss of the same training on one node without a network. The number of workers decides it, for they
        add up their gradients in the order of ranks."""
        key = (image, script, workers)
        if key not in self.losses:
            with tempfile.TemporaryDirectory(prefix="muster-test-") as bucket:
                done = run_once("--network", "none", *mounts(bucket), image, "--nproc-per-node", workers,
                                f"/examples/{script}", *TRAINING, limit=limit)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            self.losses[key] = re.search(LOSS, done.stdout)[1]
        return self.losses[key]

    def assert_same_loss(self, job, script):
        """The job has ended with 0 on every node and with the loss of an undisturbed run."""
        self.assertEqual({place: 0 for place in job.nodes}, job.exit_codes())
        self.assertEqual([self.undisturbed_loss(job.image, script, job.size * job.nproc, job.limit)],
                         [match[1] for match in job.find(LOSS)])

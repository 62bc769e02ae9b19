"""Pods of the manifests in deploy/kubernetes, run by podman: trainings on 2 nodes that lose containers and pods.

What the pods are made of, and what differs from a cluster, is in manifests.py. No kubelet and no controllers run here:
restarts of containers and replacements of pods are made by the tests.
"""
import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import images  # noqa: E402
import manifests  # noqa: E402
import podman as engine  # noqa: E402
from podman import BINARY, wait_until  # noqa: E402

NODES, STEPS, GATE_STEP = 2, 12, 6
JOB_LIMIT_S = 120.0  # for each wait; only a hang reaches it
TRAINING_OPTIONS = ("--steps", STEPS, "--checkpoint-every", 2)
ALONE = "RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500"
MEMORY = "256Mi"
NOT_READY = 1
REPORTS_S = 5  # the host reports its memory every second
# Takes this share of the container's memory, keeps it for several reports, says so, and goes on.
TAKE_MEMORY = f"""\
import sys, time
taken = bytearray(int(float(sys.argv[1]) * 256 * 2**20))
for page in range(0, len(taken), 4096): taken[page] = 1
time.sleep({REPORTS_S})
print("taken", flush=True)
time.sleep(1000)
"""


def setUpModule():
    try:
        manifests.use_packages()
        engine.podman()
        engine.whole_stage_lock()
        if not BINARY.exists():
            raise images.Unavailable(f"no binary: build it, or set MUSTER_BINARY ({BINARY})")
        Job.pod_images()
    except images.Unavailable as error:
        raise unittest.SkipTest(str(error)) from error


class Container:
    """One container of a pod, also after podman has started it again."""

    def __init__(self, pod, name):
        self.name = f"{pod}-{name}"
        self.podman = engine.podman()
        self.log_path = pathlib.Path(self.inspect("{{.HostConfig.LogConfig.Path}}"))

    def inspect(self, form):
        return self.podman("container", "inspect", "--format", form, self.name)

    def log(self):
        """Its output so far, without podman's prefix of each line."""
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(line.split(" ", 3)[3] for line in lines if line.count(" ") >= 3)

    def said(self, pattern):
        return re.findall(pattern, self.log())

    def wait_for(self, pattern, times=1):
        return wait_until(f"{pattern!r} in the output of {self.name}, {times} times", lambda: (
            found := self.said(pattern)) and len(found) >= times and found, JOB_LIMIT_S)

    def exit_code(self):
        try:
            return int(self.podman("wait", self.name, limit=JOB_LIMIT_S))
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{self.name} does not end:\n{self.log()}") from error

    def runs(self):
        return self.inspect("{{.State.Running}}") == "true"

    def kill(self):
        """SIGKILL to its process 1; the kernel then ends all of its processes."""
        self.podman("kill", "--signal", "KILL", self.name)
        self.podman("wait", self.name)

    def start(self):
        """As a kubelet restarts a container: the same volumes, a new root."""
        self.podman("start", self.name)

    def execute(self, *command):
        return self.podman.run("exec", self.name, *command)


class Pod:
    def __init__(self, name, document):
        self.name = name
        self.containers = {entry["name"]: Container(name, entry["name"]) for entry in document["spec"]["containers"]}
        self.training = list(self.containers.values())[-1]
        self.agent = list(self.containers.values())[0]  # the same in the entrypoint form

    def exit_codes(self):
        return [container.exit_code() for container in self.containers.values()]


class Job:
    """A manifest's pods on a network of their own."""

    def __init__(self, file, nodes=NODES, workers=1, options=None, arguments=None, **changes):
        self.podman = engine.podman()
        self.template = manifests.template_of(file)
        self.nodes, self.size = nodes, nodes * workers
        self.changes = {"workers": workers, "variables": options, **changes}
        self.network, self.volumes, self.pods = "muster-test", [], {}
        self.arguments = [*TRAINING_OPTIONS, "--gate-step", GATE_STEP, "--gate-file", "/checkpoints/gate"] \
            if arguments is None else arguments
        self.podman("network", "create", self.network)
        [claim] = [v["persistentVolumeClaim"]["claimName"] for v in self.template.spec["volumes"]
                   if "persistentVolumeClaim" in v]
        self.shared = self.volume(claim)

    @staticmethod
    def pod_images():
        """The images' names in the manifests -> those here. The sidecar's is nothing but busybox and muster; the training
        image that goes with it has no muster."""
        podman = engine.podman()
        copy, binary = "COPY muster /usr/local/bin/muster", {"muster": BINARY}
        # A first training leaves compiled modules behind: later their folder is read-only.
        training = podman.built("training", (f"FROM {podman.imported('torch')}", "WORKDIR /workspace", "COPY train.py .",
                                             f"RUN {ALONE} python3 train.py --steps 2 --checkpoint /tmp/checkpoint.pt"),
                                {"train.py": engine.TRAINING})
        return {
            "training": training,
            "entrypoint": podman.built("entrypoint", (f"FROM {training}", copy, 'ENTRYPOINT ["muster", "run"]'), binary),
            "muster": podman.built("muster", (f"FROM {podman.imported('busybox')}", copy), binary),
        }

    def volume(self, name, in_memory=False):
        """A new volume that every user may write to."""
        options = ("--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", "o=mode=1777") if in_memory else ()
        self.podman("volume", "create", *options, name)
        self.volumes.append(name)
        folder = pathlib.Path(self.podman("volume", "inspect", "--format", "{{.Mountpoint}}", name))
        folder.chmod(0o1777)
        return folder

    def start(self, index, **changes):
        made = self.pod_images()
        names = {"registry.example/llm:1": made["training" if self.template.is_split() else "entrypoint"],
                 "registry.example/muster:1": made["muster"]}
        document, volumes = manifests.pod(self.template, index, nodes=self.nodes, pod_images=names,
                                          arguments=[str(argument) for argument in self.arguments],
                                          **{**self.changes, **changes})
        for name, in_memory in volumes.items():
            if name not in self.volumes:
                self.volume(name, in_memory)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=self.podman.folder) as file:
            json.dump(document, file)  # which is YAML, too
            file.flush()
            self.podman("kube", "play", "--network", self.network, file.name)
        name = document["metadata"]["name"]
        self.pods[index] = Pod(name, document)
        return self.pods[index]

    def start_all(self):
        for index in range(self.nodes):
            self.start(index)
        return self

    def remove(self, index):
        """At once, as when its machine is lost; its volumes are gone, too."""
        pod = self.pods.pop(index)
        self.podman("pod", "rm", "--force", "--time", 0, pod.name)
        for name in [name for name in self.volumes if name.startswith(f"{pod.name}-")]:
            self.podman("volume", "rm", "--force", name)
            self.volumes.remove(name)

    def probe(self, pod, name):
        """Exit codes of this probe, of each container that has it."""
        return [pod.containers[container["name"]].execute(*container[name]["exec"]["command"]).returncode
                for container in self.template.runs_muster() if name in container]

    def open_gate(self):
        (self.shared / "gate").touch()

    def starts(self):
        """(rank, restart count) of each worker that has ever started in the pods that are there."""
        found = [pair for pod in self.pods.values()
                 for pair in pod.training.said(r"worker rank=(\d+) world=\d+ node=\d+ restart=(\d+)")]
        return sorted((int(restart), int(rank)) for rank, restart in found)

    def wait_for_gate(self, restart=0):
        """All workers of this round run, and rank 0 waits in the middle of the training."""
        self.pods[0].training.wait_for(rf"starting at step \d+ of {STEPS} with {self.size} workers, restart {restart}\n"
                                       rf"[^$]*at the gate, step {GATE_STEP}")

    def loss(self):
        return self.pods[0].training.wait_for(r"final loss (\S+)")[-1]

    def dump(self):
        for pod in self.pods.values():
            for container in pod.containers.values():
                print(f"--- {container.name}\n{container.log()}", file=sys.stderr)

    def clear(self):
        for index in list(self.pods):
            self.remove(index)
        for name in self.volumes:
            self.podman("volume", "rm", "--force", name)
        self.podman("network", "rm", "--force", self.network)


class PodTest(unittest.TestCase):
    FILE = None

    def job(self, file=None, **changes):
        job = Job(file or self.FILE, **changes)
        self.addCleanup(job.clear)
        self.addCleanup(lambda: self._outcome_failed() and job.dump())
        return job

    def _outcome_failed(self):
        result = self._outcome.result
        return any(test is self for test, _ in [*result.failures, *result.errors])

    def at_the_gate(self, **changes):
        job = self.job(**changes).start_all()
        job.wait_for_gate()
        return job

    def check_end(self, job):
        """Every container of every pod ends with 0, and the training computed what it computes undisturbed."""
        job.open_gate()
        for pod in job.pods.values():
            self.assertEqual([0] * len(pod.containers), pod.exit_codes(), pod.name)
        self.assertEqual(self.undisturbed_loss(job.size), job.loss())

    @staticmethod
    @functools.cache
    def undisturbed_loss(size):
        """Of the same training without muster, undisturbed."""
        script = "for rank in $(seq 0 $((WORLD_SIZE - 1))); do RANK=$rank python3 train.py \"$@\" & done; wait"
        environment = [f"--env={entry}" for entry in (f"WORLD_SIZE={size}", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500")]
        output = engine.podman()("run", "--rm", "--network", "none", *environment, Job.pod_images()["training"], "sh", "-c",
                                 script, "sh", *TRAINING_OPTIONS, "--checkpoint", "/tmp/checkpoint.pt")
        return re.search(r"final loss (\S+)", output)[1]


class Manifests(PodTest):
    """The pods of each manifest train. Their probes, run by hand, tell how far they are."""

    def check(self, file):
        job = self.probed_at_the_gate(file)
        self.check_end(job)
        self.assertEqual([(0, rank) for rank in range(job.size)], job.starts())

    def probed_at_the_gate(self, file):
        job = self.job(file)
        first = job.start(0)
        wait_until("the first pod answers", lambda: {*job.probe(first, "startupProbe")} == {0}, JOB_LIMIT_S)
        self.assertEqual({0}, {*job.probe(first, "livenessProbe")})
        self.assertEqual([NOT_READY], job.probe(first, "readinessProbe"))
        job.start(1)
        job.wait_for_gate()
        for pod in job.pods.values():
            self.assertEqual({0}, {*job.probe(pod, "startupProbe"), *job.probe(pod, "livenessProbe")})
            self.assertEqual([0], job.probe(pod, "readinessProbe"))
        return job

    def test_an_indexed_job(self):
        self.check("indexed-job.yaml")

    def test_an_indexed_job_with_a_sidecar(self):
        self.check("indexed-job-sidecar.yaml")

    def test_a_jobset(self):
        self.check("jobset.yaml")

    def test_a_trainjob(self):
        self.check("trainer.yaml")

    def test_a_statefulset_keeps_its_containers_after_a_success(self):
        """Or they would be started again, and train again. At SIGTERM they end, before and after the success."""
        job = self.probed_at_the_gate("statefulset.yaml")
        stopped = job.pods[1].training
        engine.podman()("kill", "--signal", "TERM", stopped.name)
        stopped.wait_for(r"exit code 75")
        job.wait_for_gate(restart=1)  # podman starts the container again, as a kubelet does
        job.open_gate()
        for pod in job.pods.values():
            pod.training.wait_for("the job has succeeded")
        self.assertEqual(self.undisturbed_loss(job.size), job.loss())
        starts = job.starts()
        for pod in job.pods.values():
            engine.podman()("stop", "--time", int(JOB_LIMIT_S), pod.training.name)
            self.assertEqual(0, pod.training.exit_code())
        self.assertEqual(starts, job.starts())


class Surroundings(PodTest):
    FILE = "indexed-job-sidecar.yaml"

    def test_the_containers_are_as_restricted_as_the_manifest_says(self):
        job = self.at_the_gate()
        for container in (job.pods[0].training, job.pods[0].agent):
            status = container.execute("cat", "/proc/1/status").stdout
            self.assertRegex(status, r"Uid:\s+64250\s")
            self.assertRegex(status, r"CapEff:\s+0+\n")
            self.assertRegex(status, r"CapBnd:\s+0+\n")
            self.assertRegex(status, r"NoNewPrivs:\s+1\n")
            self.assertRegex(status, r"Seccomp:\s+2\n")
            self.assertIn("Read-only file system", container.execute("touch", "/file").stderr)
        mounts = job.pods[0].training.execute("cat", "/proc/mounts").stdout
        self.assertRegex(mounts, r"(?m)^\S+ /dev/shm tmpfs ")
        self.assertNotIn("muster", job.pods[0].training.execute("sh", "-c", "ls /usr/local/bin").stdout)
        self.check_end(job)


class Sidecar(PodTest):
    """Two containers a pod: the host with the workers, and the agent."""

    FILE = "indexed-job-sidecar.yaml"

    def check_undisturbed(self, job, before):
        self.check_end(job)
        self.assertEqual(before, job.starts(), "no worker was started again")

    def test_a_killed_agent_disturbs_no_worker(self):
        job = self.at_the_gate(workers=2)
        before = job.starts()
        for pod in (job.pods[1], job.pods[0]):
            pod.agent.kill()
            pod.agent.start()
            pod.training.wait_for("takes over")
        self.check_undisturbed(job, before)

    def test_a_killed_training_container_is_a_lost_node(self):
        job = self.at_the_gate()
        pod = job.pods[1]
        pod.training.kill()
        pod.agent.wait_for("every process of the training container has ended")
        self.assertEqual([], pod.agent.said("of memory"))
        pod.training.start()
        job.wait_for_gate(restart=1)
        self.check_end(job)

    def test_a_stopped_pod_leaves_in_order(self):
        """The training container hears SIGTERM first, as a kubelet does it where the agent is a native sidecar."""
        job = self.at_the_gate()
        pod = job.pods[1]
        engine.podman()("stop", "--time", int(JOB_LIMIT_S), pod.training.name)
        self.assertEqual([75, 75], pod.exit_codes())
        job.remove(1)
        job.start(1)
        job.wait_for_gate(restart=1)
        self.check_end(job)

    def test_a_stopped_pod_whose_containers_hear_it_together(self):
        """Where the agent is an ordinary container."""
        job = self.at_the_gate()
        pod = job.pods[1]
        for container in pod.containers.values():
            engine.podman()("kill", "--signal", "TERM", container.name)
        self.assertEqual([75, 75], pod.exit_codes())
        job.remove(1)
        job.start(1)
        job.wait_for_gate(restart=1)
        self.check_end(job)

    def test_a_replaced_pod_joins_again(self):
        job = self.at_the_gate(options={"MUSTER_LEASE": "6s", "MUSTER_RECONNECT_GRACE": "1s"})
        job.remove(1)
        job.start(1)
        job.wait_for_gate(restart=1)
        self.check_end(job)

    def test_the_primarys_pod_may_be_replaced_under_another_address(self):
        job = self.at_the_gate(options={"MUSTER_LEASE": "6s", "MUSTER_RECONNECT_GRACE": "1s"})
        address = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        infra = engine.podman()("pod", "inspect", "--format", "{{.InfraContainerID}}", job.pods[0].name)
        before = engine.podman()("container", "inspect", "--format", address, infra)
        job.remove(0)
        job.start(0)
        infra = engine.podman()("pod", "inspect", "--format", "{{.InfraContainerID}}", job.pods[0].name)
        self.assertNotEqual(before, engine.podman()("container", "inspect", "--format", address, infra))
        job.wait_for_gate(restart=1)
        self.check_end(job)


class Memory(PodTest):
    """A container with a limit that is killed: by a kernel with memory.oom.group, here by us."""

    FILE = "indexed-job-sidecar.yaml"

    def run_with(self, share):
        job = self.job(nodes=1, memory=MEMORY, arguments=[])
        job.template.training()["args"] = ["python3", "-c", TAKE_MEMORY, str(share)]
        return job.start(0)

    def test_the_sidecar_names_memory_if_the_container_is_killed_at_its_limit(self):
        pod = self.run_with(0.94)
        pod.training.wait_for("taken")
        pod.training.kill()
        pod.agent.wait_for(r"ended when it used 0\.2\d of 0\.25 GiB of memory")

    def test_a_kill_at_low_use_is_not_said_to_be_memory(self):
        pod = self.run_with(0.5)
        pod.training.wait_for("taken")
        pod.training.kill()
        pod.agent.wait_for("every process of the training container has ended")
        self.assertEqual([], pod.agent.said("of memory"))

    def test_a_worker_beyond_the_limit_is_reported_as_out_of_memory(self):
        pod = self.run_with(1.5)
        pod.agent.wait_for("memory ran out|out of memory")


class Entrypoint(PodTest):
    """One container a pod, whose ENTRYPOINT is `muster run`."""

    FILE = "indexed-job.yaml"
    LEASE = {"MUSTER_LEASE": "6s"}

    def test_a_stopped_pod_leaves_in_order(self):
        job = self.at_the_gate()
        engine.podman()("stop", "--time", int(JOB_LIMIT_S), job.pods[1].training.name)
        self.assertEqual([75], job.pods[1].exit_codes())
        job.remove(1)
        job.start(1)
        job.wait_for_gate(restart=1)
        self.check_end(job)

    def test_a_killed_container_is_replaced(self):
        job = self.at_the_gate(options=self.LEASE)
        job.pods[1].training.kill()
        job.remove(1)
        job.start(1)
        job.wait_for_gate(restart=1)
        self.check_end(job)

    def test_the_primarys_pod_may_be_replaced(self):
        job = self.at_the_gate(options=self.LEASE)
        job.remove(0)
        job.start(0)
        job.wait_for_gate(restart=1)
        self.check_end(job)


if __name__ == "__main__":
    unittest.main()

"""Jobs of the manifests in deploy/kubernetes, as pods under podman.

A pod is made of the pod template that is shipped. Changed is only what podman 4.3 cannot do, and what a test machine is
too small for:

- Controllers: the Job's (names, JOB_COMPLETION_INDEX), Trainer's (PET_ variables, the TrainJob's settings). Restarts of
  containers and replacements of pods are made by the tests.
- Names: podman's DNS resolves NAME.dns.podman and knows no subdomain. MUSTER_SUBDOMAIN (in a TrainJob PET_MASTER_ADDR)
  says so, where a kubelet writes NAME.SUBDOMAIN into /etc/hosts.
- The native sidecar becomes an ordinary container: podman does not know restartPolicy of an init container.
- Probes: there is no kubelet that runs them. The tests run their commands.
- Volumes: podman's emptyDir is one volume for all pods, on a disk. Here each pod has its own, in memory where the
  manifest says so, and writable for the pod's user (there is no fsGroup).
- The images' names, the number of nodes and of workers, resources. The tests add arguments to those of the training.
"""
import copy
import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import manifests
import podman
from podman import BINARY, wait_until

NODES, STEPS, GATE_STEP = 2, 12, 6  # the gate is a file: the training waits for it before this step
TRAINING_OPTIONS = ("--steps", STEPS, "--checkpoint-every", 2)
GATE = ("--gate-step", GATE_STEP, "--gate-file", "/checkpoints/gate")
ALONE = "RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500"
DOMAIN = "dns.podman"
NETWORK = "muster-test"
TRAINING_IMAGE, MUSTER_IMAGE = "registry.example/llm:1", "registry.example/muster:1"  # in the manifests
LIMIT_S = 180.0  # for each wait; only a hang reaches it


# ---- images ---------------------------------------------------------------------------------------------------------

@functools.cache
def training_image():
    """Python, torch and train.py, without muster."""
    # A first training leaves compiled modules behind, which later ones cannot: their root is read-only.
    return podman.storage().built(
        "training", (f"FROM {podman.storage().imported('torch')}", "WORKDIR /workspace", "COPY train.py .",
                     f"RUN {ALONE} python3 train.py --steps 2 --checkpoint /tmp/checkpoint.pt"),
        {"train.py": podman.TRAINING})


@functools.cache
def image_names(split):
    """Names in the manifests -> images here. The sidecar's is that of deploy/docker: nothing but muster."""
    files = {"muster": BINARY}
    if split:
        return {TRAINING_IMAGE: training_image(),
                MUSTER_IMAGE: podman.storage().built("muster", ("FROM scratch", "COPY muster /muster"), files)}
    copied = (f"FROM {training_image()}", "COPY muster /usr/local/bin/muster", 'ENTRYPOINT ["muster", "run"]')
    return {TRAINING_IMAGE: podman.storage().built("entrypoint", copied, files)}


@functools.cache
def undisturbed_loss(size):
    """The last loss of the same training by this many processes, without muster."""
    script = "for rank in $(seq 0 $((WORLD_SIZE - 1))); do RANK=$rank python3 train.py \"$@\" & done; wait"
    environment = [f"--env={entry}" for entry in (f"WORLD_SIZE={size}", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500")]
    output = podman.storage()("run", "--rm", "--network", "none", *environment, training_image(), "sh", "-c", script,
                              "sh", *TRAINING_OPTIONS, "--checkpoint", "/tmp/checkpoint.pt")
    return re.search(r"final loss (\S+)", output)[1]


# ---- from a manifest's template to a pod for podman -----------------------------------------------------------------

def set_variables(container, values):
    kept = [entry for entry in container.get("env", []) if entry["name"] not in values]
    container["env"] = kept + [{"name": name, "value": str(value)} for name, value in values.items()]


def membership(template, index, nodes):
    """What a pod learns from its controller, and from the manifest by the number of nodes."""
    if template.kind == "TrainJob":
        return {"PET_NNODES": nodes, "PET_NODE_RANK": index, "PET_NPROC_PER_NODE": template.trainer["numProcPerNode"],
                "PET_MASTER_ADDR": f"{template.base}-0.{DOMAIN}", "PET_MASTER_PORT": 29500,
                "JOB_COMPLETION_INDEX": index}
    number = {} if template.kind == "StatefulSet" else {"JOB_COMPLETION_INDEX": index}
    return {"MUSTER_NNODES": nodes, "MUSTER_SUBDOMAIN": DOMAIN, **number}


def own_volumes(spec, pod):
    """Gives the pod's emptyDir volumes names of their own. The names, each with whether it is in memory."""
    names, in_memory = {}, {}
    for volume in spec["volumes"]:
        if "emptyDir" in volume:
            names[volume["name"]] = f"{pod}-{volume['name']}"
            in_memory[names[volume["name"]]] = volume["emptyDir"].get("medium") == "Memory"
            volume["name"], volume["emptyDir"] = names[volume["name"]], {}
    for container in (*spec["initContainers"], *spec["containers"]):
        for mount in container["volumeMounts"]:
            mount["name"] = names.get(mount["name"], mount["name"])
    return in_memory


def for_podman(shipped, index, nodes, workers, arguments, memory, variables):
    """The pod with this number, and its volumes: name -> whether it is in memory."""
    template = copy.deepcopy(shipped)
    spec, training, running = template.spec, template.training(), template.runs_muster()
    agent, names = running[0], image_names(template.is_split())
    name = f"{template.base}-{index}"
    spec["initContainers"] = [c for c in spec.get("initContainers", []) if c not in running]
    spec["containers"] = running
    for container in (*spec["initContainers"], *running):
        container["image"] = names[container["image"]]
        for field in ("restartPolicy", "resources", *manifests.PROBES):
            container.pop(field, None)
    if memory:
        training["resources"] = {"limits": {"memory": memory}}
    training["args"] = [*(template.trainer or training)["args"], *map(str, arguments)]
    set_variables(agent, {**membership(template, index, nodes), "MUSTER_NPROC_PER_NODE": workers, **variables})
    volumes = own_volumes(spec, name)
    metadata = {**template.template["metadata"], "name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, volumes


# ---- what runs ------------------------------------------------------------------------------------------------------

class Container:
    """One container of a pod, also after it was started again."""

    def __init__(self, pod, name):
        self.name = f"{pod}-{name}"
        self.log_path = pathlib.Path(self.inspect("{{.HostConfig.LogConfig.Path}}"))

    def inspect(self, form):
        return podman.storage()("container", "inspect", "--format", form, self.name)

    def log(self):
        """Its output so far, without podman's prefix of each line."""
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(line.split(" ", 3)[3] for line in lines if line.count(" ") >= 3)

    def said(self, pattern):
        return re.findall(pattern, self.log())

    def wait_for(self, pattern):
        return wait_until(f"{pattern!r} in the output of {self.name}", lambda: self.said(pattern), LIMIT_S)

    def exit_code(self):
        try:
            return int(podman.storage()("wait", self.name, limit=LIMIT_S))
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{self.name} has not ended after {LIMIT_S:g} s") from error

    def kill(self):
        """SIGKILL to its process 1; the kernel then ends all of its processes."""
        podman.storage()("kill", "--signal", "KILL", self.name)
        podman.storage()("wait", self.name)

    def terminate(self):
        """SIGTERM, without waiting."""
        podman.storage()("kill", "--signal", "TERM", self.name)

    def start(self):
        """As a kubelet restarts a container: the same volumes."""
        podman.storage()("start", self.name)

    def status(self):
        """What the kernel says of its process 1. Read outside: an image may hold nothing but muster."""
        pid = int(podman.storage()("inspect", "--format", "{{.State.Pid}}", self.name))
        return pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")

    def execute(self, *command):
        return podman.storage().run("exec", self.name, *command)


class Pod:
    def __init__(self, document):
        self.name = document["metadata"]["name"]
        names = [container["name"] for container in document["spec"]["containers"]]
        self.containers = {name: Container(self.name, name) for name in names}
        self.agent, self.training = self.containers[names[0]], self.containers[names[-1]]  # may be the same

    def exit_codes(self):
        return [container.exit_code() for container in self.containers.values()]

    def address(self):
        infra = podman.storage()("pod", "inspect", "--format", "{{.InfraContainerID}}", self.name)
        return podman.storage()("container", "inspect", "--format",
                                "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", infra)


class Job:
    """The pods of a manifest, on a network of their own.

    options: variables of the container that has muster's options. arguments: added to those of the training.
    memory: limit of the training container.
    """

    def __init__(self, file, nodes=NODES, workers=1, options=None, arguments=(*TRAINING_OPTIONS, *GATE), memory=None):
        self.template = manifests.template_of(file)
        self.size, self.nodes, self.workers = nodes * workers, nodes, workers
        self.options, self.arguments, self.memory = options or {}, arguments, memory
        self.volumes, self.pods = [], {}
        podman.storage()("network", "create", NETWORK)
        [claim] = [volume["persistentVolumeClaim"]["claimName"] for volume in self.template.spec["volumes"]
                   if "persistentVolumeClaim" in volume]
        self.shared = self.volume(claim)

    def volume(self, name, in_memory=False):
        """A new volume that every user may write to."""
        options = ("--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", "o=mode=1777") if in_memory else ()
        podman.storage()("volume", "create", *options, name)
        self.volumes.append(name)
        folder = pathlib.Path(podman.storage()("volume", "inspect", "--format", "{{.Mountpoint}}", name))
        folder.chmod(0o1777)
        return folder

    def start(self, index):
        document, volumes = for_podman(self.template, index, self.nodes, self.workers, self.arguments, self.memory,
                                       self.options)
        for name, in_memory in volumes.items():
            self.volume(name, in_memory)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=podman.FOLDER) as file:
            json.dump(document, file)  # which is YAML, too
            file.flush()
            podman.storage()("kube", "play", "--network", NETWORK, file.name)
        self.pods[index] = Pod(document)
        return self.pods[index]

    def start_all(self):
        for index in range(self.nodes):
            self.start(index)
        return self

    def remove(self, index):
        """The pod ends at once, as when its machine is lost; its volumes go with it."""
        pod = self.pods.pop(index)
        podman.storage()("pod", "rm", "--force", "--time", 0, pod.name)
        for name in [name for name in self.volumes if name.startswith(f"{pod.name}-")]:
            podman.storage()("volume", "rm", "--force", name)
            self.volumes.remove(name)

    def replace(self, index):
        self.remove(index)
        return self.start(index)

    def probe(self, pod, name):
        """Exit codes of this probe's command, in each container that has the probe."""
        return [pod.containers[container["name"]].execute(*container[name]["exec"]["command"]).returncode
                for container in self.template.runs_muster() if name in container]

    def open_gate(self):
        (self.shared / "gate").touch()

    def starts(self):
        """(restart count, rank) of each worker that was ever started in the pods that are there."""
        found = [pair for pod in self.pods.values()
                 for pair in pod.training.said(r"worker rank=(\d+) world=\d+ node=\d+ restart=(\d+)")]
        return sorted((int(restart), int(rank)) for rank, restart in found)

    def wait_for_gate(self, restart=0):
        """All workers of this round run, and rank 0 waits in the middle of the training."""
        self.pods[0].training.wait_for(rf"starting at step \d+ of {STEPS} with {self.size} workers, restart {restart}\n"
                                       rf"(?:step .*\n)*at the gate, step {GATE_STEP}")

    def loss(self):
        return self.pods[0].training.wait_for(r"final loss (\S+)")[-1]

    def show(self):
        for pod in self.pods.values():
            for container in pod.containers.values():
                print(f"\n----- {container.name}\n{container.log()}", file=sys.stderr, flush=True)

    def clear(self):
        for index in list(self.pods):
            self.remove(index)
        for name in self.volumes:
            podman.storage()("volume", "rm", "--force", name)
        podman.storage()("network", "rm", "--force", NETWORK)

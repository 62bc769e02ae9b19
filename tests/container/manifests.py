"""The manifests in deploy/kubernetes: their documents, their pod templates, and what they become under podman."""
import copy
import dataclasses
import fcntl
import pathlib
import subprocess
import sys

import images

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/kubernetes"
VENV = images.FOLDER / "schemas"
# The schemas of Kubernetes' releases; the OpenAPI models of JobSet and of Kubeflow Trainer; both bring what they need.
PACKAGES = ("kubernetes-validate==1.37.0", "kubeflow-trainer-api==2.3.0")
PIP_LIMIT_S = 300


def use_packages():
    """Makes the packages importable. They are in a venv of their own, which is kept. Unavailable: they cannot be had."""
    images.FOLDER.mkdir(parents=True, exist_ok=True)
    with open(VENV.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = VENV / "done"
        if not done.exists() or done.read_text() != " ".join((sys.version, *PACKAGES)):
            for command in ((sys.executable, "-m", "venv", "--clear", VENV),
                            (VENV / "bin/python", "-m", "pip", "install", "--quiet", *PACKAGES)):
                result = subprocess.run(command, capture_output=True, text=True, timeout=PIP_LIMIT_S, check=False)
                if result.returncode != 0:
                    last = " | ".join((result.stdout + result.stderr).strip().splitlines()[-3:])
                    raise images.Unavailable(f"{' '.join(PACKAGES)} cannot be installed ({last}); with a package index "
                                             "and the module venv (python3-venv) they are")
            done.write_text(" ".join((sys.version, *PACKAGES)))
    packages = next(VENV.glob("lib/python*/site-packages"))
    if str(packages) not in sys.path:
        sys.path.append(str(packages))


@dataclasses.dataclass
class Template:
    """A pod template, with what its controller knows."""
    file: str
    kind: str             # of the document that holds it
    job: dict             # the spec of the Job or StatefulSet
    template: dict        # metadata and spec of the pods
    base: str             # "NAME" of the pods' host names, NAME-0, NAME-1 and so on
    nodes: int
    trainer: dict = None  # of a TrainJob: what replaces the runtime's settings

    @property
    def spec(self):
        return self.template["spec"]

    def containers(self):
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    def training(self):
        return self.spec["containers"][0]

    def is_split(self):
        """Whether muster has a container of its own."""
        return any(is_sidecar(container) for container in self.containers())

    def runs_muster(self):
        """Containers that go on until the job is over."""
        return [container for container in self.containers()
                if container in self.spec["containers"] or is_sidecar(container)]


def is_sidecar(container):
    return container.get("restartPolicy") == "Always"


def files():
    return sorted(FOLDER.glob("*.yaml"))


def documents(file):
    import yaml  # pylint: disable=import-outside-toplevel
    return [document for document in yaml.safe_load_all((FOLDER / file).read_text()) if document]


def template_of(file):
    """The file's one pod template; None for a file without pods."""
    trainer = next((d["spec"] for d in documents(file) if d["kind"] == "TrainJob"), {}).get("trainer")
    for document in documents(file):
        name, spec = document["metadata"]["name"], document["spec"]
        if document["kind"] == "Job":
            return Template(file, "Job", spec, spec["template"], name, spec["completions"])
        if document["kind"] == "StatefulSet":
            return Template(file, "StatefulSet", spec, spec["template"], name, spec["replicas"])
        if document["kind"] == "JobSet":
            [replicated] = spec["replicatedJobs"]
            job = replicated["template"]["spec"]
            return Template(file, "JobSet", job, job["template"], f"{name}-{replicated['name']}-0", job["completions"])
        if document["kind"] == "ClusterTrainingRuntime":
            [replicated] = spec["template"]["spec"]["replicatedJobs"]
            job = replicated["template"]["spec"]
            return Template(file, "TrainJob", job, job["template"], f"llm-{replicated['name']}-0", trainer["numNodes"],
                            trainer)
    return None


def templates():
    return [template for template in (template_of(file.name) for file in files()) if template]


# ---- under podman ---------------------------------------------------------------------------------------------------

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
DOMAIN = "dns.podman"  # podman's networks resolve a pod's name below it


def set_variables(container, **values):
    kept = [entry for entry in container.get("env", []) if entry["name"] not in values]
    container["env"] = kept + [{"name": name, "value": str(value)} for name, value in values.items()]


def pod(template, index, *, nodes, pod_images, workers, arguments=(), memory=None, variables=None):
    """The pod with this number, for `podman kube play`, and its volumes that must be there: name -> bytes of memory.

    Changed is only what podman 4.3 cannot do, and what this machine is too small for:
    - Controllers: the Job's (name, JOB_COMPLETION_INDEX), Trainer's (PET_ variables, the TrainJob's settings).
    - Names: podman's DNS resolves NAME.dns.podman and knows no subdomain. MUSTER_SUBDOMAIN (in a TrainJob
      PET_MASTER_ADDR) says so, where the kubelet writes NAME.SUBDOMAIN into /etc/hosts.
    - The native sidecar becomes an ordinary container: podman does not know restartPolicy of an init container.
    - Probes: there is no kubelet that would run them.
    - Volumes: podman's emptyDir is one volume for all pods; here each pod has its own, in memory where the manifest says
      so, writable for the pod's user (there is no fsGroup).
    - The images' names, the number of nodes and of workers, resources; arguments are added to those of the training.
    """
    made = copy.deepcopy(template)
    spec, training = made.spec, made.training()
    name = f"{made.base}-{index}"
    spec["containers"] = [c for c in made.containers() if is_sidecar(c)] + spec["containers"]
    spec["initContainers"] = [c for c in spec.get("initContainers", []) if not is_sidecar(c)]
    agent = spec["containers"][0]  # or the training container itself
    for container in (*spec["initContainers"], *spec["containers"]):
        container["image"] = pod_images[container["image"]]
        container.pop("restartPolicy", None)
        container.pop("resources", None)
        for probe in PROBES:
            container.pop(probe, None)
    if memory:
        training["resources"] = {"limits": {"memory": memory}}
    training["args"] = [*training["args"], *arguments]
    set_variables(agent, MUSTER_NPROC_PER_NODE=workers)
    if made.kind == "TrainJob":
        training["args"] = [*made.trainer["args"], *arguments]
        set_variables(agent, PET_NNODES=nodes, PET_NODE_RANK=index, PET_NPROC_PER_NODE=made.trainer["numProcPerNode"],
                      PET_MASTER_ADDR=f"{made.base}-0.{DOMAIN}", PET_MASTER_PORT=29500)
    else:
        set_variables(agent, MUSTER_NNODES=nodes, MUSTER_SUBDOMAIN=DOMAIN)
    if made.kind != "StatefulSet":
        for container in spec["containers"]:
            set_variables(container, JOB_COMPLETION_INDEX=index)
    set_variables(agent, **(variables or {}))
    in_memory = {}
    names = {}
    for volume in spec["volumes"]:
        if "emptyDir" in volume:
            names[volume["name"]] = f"{name}-{volume['name']}"
            in_memory[names[volume["name"]]] = volume["emptyDir"].get("medium") == "Memory"
            volume["name"] = names[volume["name"]]
            volume["emptyDir"] = {}
    for container in (*spec["initContainers"], *spec["containers"]):
        for mount in container.get("volumeMounts", []):
            mount["name"] = names.get(mount["name"], mount["name"])
    metadata = {**made.template.get("metadata", {}), "name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, in_memory

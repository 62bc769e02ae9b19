"""The manifests in deploy/kubernetes: their documents and pod templates; the packages that check them."""
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
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def use_packages():
    """Makes the packages importable, from a venv that is made once. Unavailable: they cannot be had."""
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
    trainjob = next((d for d in documents(file) if d["kind"] == "TrainJob"), None)
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
            trainer = trainjob["spec"]["trainer"]
            return Template(file, "TrainJob", job, job["template"],
                            f"{trainjob['metadata']['name']}-{replicated['name']}-0", trainer["numNodes"], trainer)
    return None


def templates():
    return [template for template in (template_of(file.name) for file in files()) if template]

"""Podman with settings, storage and networks of its own, in build/containers/podman. The machine's are not touched.

As root. Missing packages are installed; if something is missing after all, every test that needs podman is skipped with
the reason.
"""
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import images

sys.path.insert(0, str(images.ROOT / "tests/integration"))
from cluster import BINARY, wait_until  # noqa: E402, F401

FOLDER = images.FOLDER / "podman"
PROGRAMS = {"podman": "podman", "runc": "runc", "conmon": "conmon", "iptables": "iptables", "catatonit": "catatonit",
            "/usr/lib/podman/netavark": "netavark", "/usr/lib/podman/aardvark-dns": "aardvark-dns"}
# runc, as crun refuses the hybrid cgroups of some machines; limits low enough for a container that may not raise them;
# locks in files, as those in shared memory belong to all of the machine's podmans.
CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
[network]
network_backend = "netavark"
"""
CALL_LIMIT_S = 120.0  # for one call of podman; only a hang reaches it
PREFIX = "localhost/muster-test"
TRAINING = images.ROOT / "deploy/examples/train_ddp.py"


class Podman:
    """A storage for one run of the tests at a time: pods have the same names in every run. Calls fail loudly."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = open(folder.with_suffix(".lock"), "w", encoding="utf-8")  # pylint: disable=consider-using-with
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        (folder / "containers.conf").write_text(CONFIGURATION)
        self.command = ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run"), "--tmpdir",
                        str(folder / "tmp"), "--network-config-dir", str(folder / "networks")]
        self.environment = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}

    def run(self, *arguments, limit=CALL_LIMIT_S, **options):
        return subprocess.run([*self.command, *map(str, arguments)], env=self.environment, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=limit, check=False, **options)

    def __call__(self, *arguments, **options):
        result = self.run(*arguments, **options)
        if result.returncode != 0:
            raise AssertionError(f"podman {' '.join(map(str, arguments))}: {result.returncode}: "
                                 f"{result.stderr.strip()}")
        return result.stdout.strip()

    def empty(self):
        """Removes what a run that was killed has left. The images stay, for the next run."""
        self("pod", "rm", "--all", "--force", "--time", 0)
        self("rm", "--all", "--force", "--time", 0)
        self("volume", "rm", "--all", "--force")
        self("network", "prune", "--force")

    def has_image(self, name):
        return self.run("image", "exists", name).returncode == 0

    def imported(self, root):
        """The image of a root file system of images.py."""
        tar = images.path(root)
        name = f"{PREFIX}/{root}:{int(tar.stat().st_mtime)}"
        if not self.has_image(name):
            self("import", "--quiet", "--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin", tar, name, limit=600.0)
        return name

    def built(self, name, lines, files):
        """The image that these lines of a Dockerfile make from these files: name in the image's folder -> path."""
        text = "\n".join(lines) + "\n"
        content = hashlib.sha256(text.encode())
        for target, source in sorted(files.items()):
            content.update(target.encode() + pathlib.Path(source).read_bytes())
        name = f"{PREFIX}/{name}:{content.hexdigest()[:12]}"
        if not self.has_image(name):
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                for target, source in files.items():
                    shutil.copy(source, pathlib.Path(folder) / target)
                (pathlib.Path(folder) / "Dockerfile").write_text(text)
                self("build", "--quiet", "--tag", name, folder, limit=600.0)
            self.forget_others(name)
        return name

    def forget_others(self, name):
        """Removes earlier builds of the same image, but none on which another image was built."""
        for other in self("images", "--format", "{{.Repository}}:{{.Tag}}", name.split(":")[0]).split():
            if other != name:
                self.run("rmi", other)


@functools.cache
def storage():
    """Unavailable: podman cannot be used here."""
    if os.geteuid() != 0:
        raise images.Unavailable("only root runs these pods: run tests/run.sh container as root")
    for program, package in PROGRAMS.items():
        if not os.path.exists(program):
            images.install(program, package)
    made = Podman(FOLDER)
    result = made.run("info")
    if "database configuration mismatch" in result.stderr:  # the storage knows its path, and the tree has moved
        made.lock.close()
        shutil.rmtree(FOLDER)
        made = Podman(FOLDER)
        result = made.run("info")
    if result.returncode != 0:
        raise images.Unavailable(f"podman does not work here: {result.stderr.strip()}")
    made.empty()
    return made

"""Docker for the tests: a daemon that answers, or one that is installed and started here; images; cleaning up.

Everything made here has the label of this run and is removed when the tests end: containers, networks, volumes, images.
A daemon that was started here is ended, too; one that was there stays as it was.
"""
import atexit
import functools
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import uuid

import images

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from cluster import BINARY, ROOT, wait_until  # noqa: E402

RUN = uuid.uuid4().hex[:12]
LABEL = f"muster.test={RUN}"
PREFIX = f"muster-test-{RUN}"
COMMAND_LIMIT_S = 300.0  # for one call of docker; only a hang reaches it
DATA = images.FOLDER / "docker"  # of a daemon started here
HOW = "install Docker (Debian, Ubuntu: apt-get install docker.io) and start dockerd"
DOCKERFILES = ROOT / "deploy/docker"


def call(*arguments, check=True, limit=COMMAND_LIMIT_S, **options):
    """Runs docker; the result, whose `stdout` is its output without the last line end."""
    result = subprocess.run(["docker", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=limit, check=False, **options)
    if check and result.returncode != 0:
        raise AssertionError(f"docker {' '.join(map(str, arguments))}: {result.returncode}\n"
                             f"{result.stdout}{result.stderr}")
    result.stdout = result.stdout.rstrip("\n")
    return result


def docker(*arguments, **options):
    return call(*arguments, **options).stdout


def answers():
    try:
        return call("version", check=False, limit=20.0).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


# ---- the daemon -----------------------------------------------------------------------------------------------------

@functools.cache
def reason_against():
    """None once Docker can be used, and everything of this run will be removed at the end; else why it cannot."""
    if os.geteuid() != 0:
        return "needs root: `sudo bash tests/run.sh container`, which also installs Docker where it is missing"
    if not answers():
        try:
            images.install("docker", "docker.io")
            images.install("dockerd", "docker.io")
            start_daemon()
        except (images.Unavailable, AssertionError) as error:
            return f"no Docker here, and none can be started ({error}): {HOW}"
    atexit.register(remove_all)
    try:
        try_it()
    except (images.Unavailable, AssertionError, subprocess.TimeoutExpired) as error:
        return f"Docker answers, but runs no container here: {error}"
    return None


def try_it():
    """One container on a network of its own: sandboxes may have a daemon that cannot start any."""
    network = f"{PREFIX}-try"
    docker("network", "create", "--label", LABEL, network)
    docker("run", "--rm", "--network", network, "--label", LABEL, base("python"), "true")
    docker("network", "rm", network)


def start_daemon():
    """A daemon with a socket, a data folder and a pid file of its own, ended at the end of this process."""
    DATA.mkdir(parents=True, exist_ok=True)
    state = tempfile.TemporaryDirectory(prefix="muster-docker-")  # short, for the paths of sockets
    folder = pathlib.Path(state.name)
    address = f"unix://{folder}/docker.sock"
    with open(images.FOLDER / "dockerd.log", "wb") as log:
        daemon = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "dockerd", "--host", address, "--data-root", DATA, "--exec-root",
             folder / "exec", "--pidfile", folder / "docker.pid"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True)

    def end():
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(COMMAND_LIMIT_S)
        state.cleanup()

    atexit.register(end)  # before remove_all is registered, so after it is called
    os.environ["DOCKER_HOST"] = address
    wait_until(f"an answer of dockerd ({images.FOLDER}/dockerd.log)", lambda: daemon.poll() is not None or answers())
    if daemon.poll() is not None:
        last = " | ".join((images.FOLDER / "dockerd.log").read_text(errors="replace").splitlines()[-3:])
        raise AssertionError(f"dockerd ended with {daemon.returncode}: {last}")


def require():
    """Skips the test, visibly, where there is no Docker."""
    reason = reason_against()
    if reason:
        raise unittest.SkipTest(reason)
    if not BINARY.exists():
        raise AssertionError(f"{BINARY} is not there: build it, or set MUSTER_BINARY")


def ours(kind):
    listing = {"container": ("ps", "-aq"), "network": ("network", "ls", "-q"), "volume": ("volume", "ls", "-q"),
               "image": ("images", "-q")}[kind]
    return sorted(set(docker(*listing, "--filter", f"label={LABEL}").split()))


def remove_all():
    for kind, remove in (("container", ("rm", "-f", "-v")), ("network", ("network", "rm")),
                         ("volume", ("volume", "rm")), ("image", ("rmi", "-f"))):
        left = None
        while (names := ours(kind)) and names != left:  # an image stays while another one is built on it
            left = names
            call(*remove, *names, check=False)


# ---- images ---------------------------------------------------------------------------------------------------------

@functools.cache
def base(name):
    """An image of one of the root file systems of images.py. Skips the test where that cannot be had."""
    try:
        tar = images.path(name)
    except images.Unavailable as error:
        raise unittest.SkipTest(str(error)) from error
    tag = f"{PREFIX}-base-{name}"
    docker("import", "--change", f"LABEL {LABEL}", "--change", f"ENV PATH={images.PATH}", tar, tag)
    return tag


def build(tag, dockerfile, context, *options, limit=COMMAND_LIMIT_S):
    """`docker build`. Host network: the package sources may be reachable from there alone."""
    docker("build", "--network", "host", "--label", LABEL, "-t", tag, "-f", dockerfile, *options, context, limit=limit)
    return tag


@functools.cache
def muster():
    """The last stage of deploy/docker/Dockerfile, with the binary under test."""
    with tempfile.TemporaryDirectory(prefix="muster-image-") as folder:
        context = pathlib.Path(folder)
        shutil.copy(BINARY, context / "muster")
        last_stage = 'FROM scratch\nCOPY muster /muster\nENTRYPOINT ["/muster"]\n'
        (context / "Dockerfile").write_text(last_stage, encoding="utf-8")
        return build(f"{PREFIX}-muster", context / "Dockerfile", context)


@functools.cache
def training(name="python"):
    """deploy/docker/training.Dockerfile over one of the root file systems."""
    return build(f"{PREFIX}-{name}", DOCKERFILES / "training.Dockerfile", ROOT, "--build-arg", f"BASE={base(name)}",
                 "--build-arg", f"MUSTER={muster()}")

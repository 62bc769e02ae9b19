"""The order of a preloading Python's life, and removal of what muster did to start it."""

import gc
import os
import sys
import time

from .control import Host, describe, environment_of, read_list
from .fork import serve
from .imports import Preloading, Unsafe
from .worker import become_worker, rehearse, set_name

ARCHIVE = "/proc/self/fd/4"  # in front of PYTHONPATH
ARCHIVE_FD = 4
NAME = b"muster-preload"  # for `ps` and `top`, in place of "python"


def run():
    """Returns in a worker only. Any other process ends here, or by an exception."""
    host = Host()
    try:
        answer_probe(host)
        live(host)
    except BaseException as error:
        host.tell("failed", describe(error))
        os._exit(70)
    host.close()


def answer_probe(host):
    """Ends this process if it is the host's probe, or a Python that cannot be used."""
    if sys.implementation.name != "cpython" or sys.version_info < (3, 9):
        host.tell("unsupported", "%s %s" % (sys.implementation.name, sys.version.split()[0]))
        os._exit(0)
    if sys.argv[:1] == ["-c"] and len(sys.argv) > 1 and sys.argv[1] == "muster-probe":
        host.tell("probe", pid_namespace())
        os._exit(0)


def live(host):
    """Imports the modules and forks workers. Returns in each of these."""
    with open("/proc/self/comm", "rb") as file:
        name = file.read().rstrip(b"\n")
    set_name(NAME)
    fields, received = host.receive()
    modules, volatile, given = (read_list(file) for file in received)
    given = environment_of(given)
    leave_no_trace(given)
    began = time.monotonic()
    try:
        preloaded = Preloading(set(volatile), fields[1] == "learned").run(modules, given)
    except Unsafe as unsafe:
        host.tell("unsafe", unsafe.module, unsafe.why)
        os._exit(0)
    gc.collect()
    gc.freeze()
    rehearse(preloaded.changes)
    host.tell("ready", "%.3f" % (time.monotonic() - began))
    spec, middle = serve(host, preloaded)
    become_worker(spec, middle, preloaded, name)


def leave_no_trace(given):
    """Undoes what muster did to start this process: a fresh worker has none of it. given: its whole environment."""
    if ARCHIVE in sys.path:
        sys.path.remove(ARCHIVE)
    for entry in [entry for entry in sys.path_importer_cache if entry.startswith(ARCHIVE)]:
        del sys.path_importer_cache[entry]
    rest = [entry for entry in os.environ.get("PYTHONPATH", "").split(":") if entry != ARCHIVE]
    if rest:
        os.environ["PYTHONPATH"] = ":".join(rest)
    elif "PYTHONPATH" in given:
        os.environ["PYTHONPATH"] = given["PYTHONPATH"]
    else:
        os.environ.pop("PYTHONPATH", None)
    os.close(ARCHIVE_FD)
    for name in [name for name in sys.modules if name.partition(".")[0] == __package__]:
        del sys.modules[name]
    sys.modules.pop("sitecustomize", None)


def pid_namespace():
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""

"""Turns a fork of the preloading Python into what a fresh worker would be."""

import _ctypes
import _signal
import _thread
import atexit
import errno
import gc
import os
import sys
import time

from .control import describe
from .fork import fork, reap
from .variables import set_environment, watch_changes

REPARENT_LIMIT_S = 10.0  # from the middle's permission to exit to its exit
REPARENT_POLL_S = 0.0002
MAX_LEARNED = 10_000  # modules
MAX_ERROR = 4096  # bytes of one
# As in watch/stack_dump: with this signal faulthandler writes the stack of the main thread into a file of the host's.
STACKS_SIGNAL = _signal.SIGRTMAX - 2
STACKS_FD = 1000
PR_SET_PDEATHSIG = 1

# The steps of a worker's start that can fail, as in ExecStageError.
STEP_PARENT_DEATH, STEP_CPUS, STEP_PRELOAD = 2, 5, 6


def become_worker(spec, middle, preloaded, name):
    """Ends this process if it cannot become what a fresh worker would be."""
    step = STEP_PRELOAD
    try:
        set_name(name)
        set_arguments(spec.arguments)
        renew(spec.environment, preloaded.changes, (spec.stdin, spec.stdout, spec.stderr))
        register_stack_dump(spec.stacks)
        watch_changes(preloaded)
        if spec.learn:
            sys.meta_path.insert(0, Learner(spec.learn))
        step = STEP_CPUS
        if spec.cpus:
            os.sched_setaffinity(0, spec.cpus)
        step = STEP_PARENT_DEATH
        await_permission(spec.line)
        end_with_host(spec.host_pid, middle)
        if preloaded.at_interrupt is not None:
            _signal.signal(_signal.SIGINT, preloaded.at_interrupt)
        os.close(spec.line)  # the host now knows that the script is about to run
    except BaseException as error:
        give_up(spec, step, error)


def renew(environment, changes, standard):
    """Renews the parts of the interpreter that differ between workers. standard: what become descriptors 0 to 2."""
    set_environment(environment, changes)
    for target, source in enumerate(standard):
        os.dup2(source, target)
        os.close(source)
    renew_streams()
    renew_identity()


def rehearse(changes):
    """Raises RuntimeError if a fork cannot become a worker, because of what the modules have replaced."""
    ours, theirs = os.pipe()
    child = fork()
    if child == 0:
        try:
            renew(dict(os.environ), changes, [os.open("/dev/null", os.O_RDWR) for _ in range(3)])
            os.write(theirs, b"done")
        except BaseException as error:
            os.write(theirs, describe(error).encode(errors="backslashreplace")[:MAX_ERROR])
        finally:
            os._exit(0)
    os.close(theirs)
    why = os.read(ours, MAX_ERROR)
    os.close(ours)
    reap(child)
    if why != b"done":
        raise RuntimeError("no worker can be made of it: " + (why.decode(errors="replace") or "its fork has ended"))


def give_up(spec, step, error):
    """Reports the failure as the exec stage of a worker does."""
    try:
        number = getattr(error, "errno", None) or errno.EINVAL
        os.write(spec.line, b"".join(part.to_bytes(4, sys.byteorder) for part in (step, number)))
        if step == STEP_PRELOAD:
            os.write(2, ("muster: --preload: %s\n" % describe(error)).encode(errors="backslashreplace"))
    finally:
        os._exit(126)


def await_permission(line):
    """Waits until the host watches this process. To be its child is no sign of that: the host adopts every orphan."""
    if os.read(line, 1) != b"g":
        os._exit(126)


def becomes_child_of(host_pid, middle):
    deadline = time.monotonic() + REPARENT_LIMIT_S
    while time.monotonic() < deadline:
        parent = os.getppid()  # once: it may change between two looks
        if parent != middle:
            return parent == host_pid
        time.sleep(REPARENT_POLL_S)
    return False


def end_with_host(host_pid, middle):
    """Waits until the host is the parent; from then on the kernel ends this process with it."""
    if not becomes_child_of(host_pid, middle):
        os._exit(126)  # the host has ended, or has given this worker up
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")
    if _ctypes.call_cdeclfunction(prctl, (PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)) != 0:
        raise OSError(errno.EPERM, "prctl")
    if os.getppid() != host_pid:
        os._exit(126)


def set_arguments(arguments):
    """arguments: the whole command line, of which the script's differ between workers of `--pass-local-rank`."""
    mine = arguments[len(arguments) - len(sys.argv) + 1 :]  # as many as this process has
    if sys.argv[1:] == mine:
        return
    sys.argv[1:] = mine
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = arguments


def set_name(name):
    with open("/proc/self/comm", "wb", 0) as file:
        file.write(name)


def renew_streams():
    """Makes sys.stdin and its like what the interpreter makes of descriptors 0 to 2. The objects stay the same."""
    for fd, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            continue
        writes = fd != 0
        unbuffered = writes and stream.write_through  # -u
        raw = open(fd, "wb" if writes else "rb", 0 if unbuffered else -1, closefd=False)
        getattr(raw, "raw", raw).name = "<%s>" % name
        line_buffering = not unbuffered and (fd == 2 or os.isatty(fd))
        stream.__init__(raw, stream.encoding, stream.errors, "\n", line_buffering, stream.write_through)
        stream.mode = "w" if writes else "r"


def renew_identity():
    """Renews what modules have drawn from the kernel at their import. Python's own generators do so at each fork."""
    # What was loaded before the fork is left alone by the collector, so that its memory stays shared; at the very
    # end it takes part again, or objects of the script would not be finalized.
    atexit.register(gc.unfreeze)
    threading = sys.modules.get("threading")
    if threading is not None:
        threading.main_thread()._native_id = _thread.get_native_id()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        torch.default_generator.seed()
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None:
        processes.current_process().authkey = os.urandom(32)
    logs = sys.modules.get("logging")
    if logs is not None:
        logs._startTime = time.time_ns() if isinstance(logs._startTime, int) else time.time()


def register_stack_dump(file):
    import faulthandler

    try:
        os.dup2(file, STACKS_FD, inheritable=False)
    except OSError:
        pass  # so few descriptors are allowed; the host sees it
    else:
        # At its end faulthandler restores what was there before: by default the signal would end this process.
        _signal.signal(STACKS_SIGNAL, _signal.SIG_IGN)
        # Not of other threads: see watch/stack_dump.
        faulthandler.register(STACKS_SIGNAL, file=STACKS_FD, all_threads=False)
    os.close(file)


class Learner:
    """Writes down which modules the script imports, for `--preload auto`. It finds none itself."""

    def __init__(self, path):
        self._path = path
        self._pid = os.getpid()
        self._seen = set()

    def find_spec(self, name, path=None, target=None):
        if os.getpid() != self._pid or len(self._seen) >= MAX_LEARNED:
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            return None
        if name in self._seen:
            return None
        self._seen.add(name)
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(file, os.fsencode(name) + b"\n")
            os.close(file)
        except OSError:
            pass  # the list is shorter then
        return None

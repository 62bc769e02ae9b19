"""The preloading Python of `muster run --preload`: imports modules once, then forks the workers of each round.

muster starts it exactly as it starts a worker, `python -u train.py ...`, with an archive in front of PYTHONPATH in
which this file is `sitecustomize`. So it runs after the interpreter is complete and before the script. Here it
imports the modules and waits for the host. A fork leaves this file by returning: the interpreter then goes on to
run the script as in any other process, so that `__main__`, sys.path, tracebacks and exit codes are the
interpreter's own work, and no frame of muster is on the stack.

    host                     preloader                 middle                worker
    "modules"  ------------> imports, looks for what
               <------------ "ready" or "unsafe"
    "fork N", N specs -----> forks the middle -------> forks N workers ----> start of a session, environment
               <----------------------------------- "forked" with the pids
    a word to each ------------------------------------------------------> waits for it
    a byte through the gate ------------------------>  exits --------------> is now a child of the host: asks to
                                                                             end with it, and goes on

The host knows each pid before it becomes the worker's parent, so no exit code can be lost. Without the host's word a
worker ends: the host becomes the parent of any orphan, also of one that it has given up.

Few modules are imported here, of the interpreter's own in C: what is loaded here is loaded in every worker. CPython
3.9 or later; older ones are told apart by the host's probe.
"""

import os

# Whatever goes wrong in this file ends the process: after an exception the interpreter would go on to the script.
try:
    import _ctypes
    import _signal
    import _socket
    import _thread
    import atexit
    import builtins
    import errno
    import gc
    import sys
    import time
except BaseException as error:
    os.write(5, b"failed\0" + str(error).encode(errors="replace"))
    os._exit(70)

ARCHIVE = "/proc/self/fd/4"  # in front of PYTHONPATH
ARCHIVE_FD = 4
CONTROL_FD = 5  # a socket of whole messages to the host
MAX_MESSAGE = 64 * 1024  # bytes; longer texts come in a file of their own
MAX_DESCRIPTORS = 8  # in one message
REPARENT_LIMIT_S = 10.0  # from the middle's permission to exit to its exit
REPARENT_POLL_S = 0.0002
MAX_LEARNED = 10_000  # modules
NAME = "muster-preload"  # for `ps` and `top`, in place of "python"
# As in watch/stack_dump: with this signal faulthandler writes the stack of the main thread into a file of the host's.
STACKS_SIGNAL = _signal.SIGRTMAX - 2
STACKS_FD = 1000
PR_SET_PDEATHSIG = 1

# The steps of a worker's start that can fail, as in ExecStageError.
STEP_PARENT_DEATH, STEP_CPUS, STEP_PRELOAD = 2, 5, 6

# Variables that native libraries read when they are loaded, by the beginning of their names.
READ_BY_LIBRARIES = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "LD_", "MALLOC_", "GLIBC_")

# As they are before a module may have replaced them.
fork, waitpid = os.fork, os.waitpid

# The second is its name until something imports importlib.
IMPORT_SYSTEM = ("importlib._bootstrap", "_frozen_importlib")

# Modules that look through all variables for some of their own, none of which is of a worker.
LOOK_FOR_THEIR_OWN = ("tqdm.utils",)

# ---- the host ------------------------------------------------------------------------------------------------


class Host:
    """The socket to the host. A message is a kind and fields, and may bring descriptors."""

    def __init__(self):
        self._socket = _socket.socket(fileno=CONTROL_FD)
        self._socket.setblocking(True)

    def tell(self, *fields):
        self._socket.send(b"\0".join(os.fsencode(field) for field in fields)[:MAX_MESSAGE])

    def receive(self):
        """The fields and the descriptors of the next message. Ends this process if the host has ended."""
        space = _socket.CMSG_SPACE(4 * MAX_DESCRIPTORS)
        data, ancillary, _, _ = self._socket.recvmsg(MAX_MESSAGE, space, _socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        descriptors = []
        for level, kind, content in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                view = memoryview(content)
                descriptors += view[: len(view) // 4 * 4].cast("i").tolist()
        return [os.fsdecode(field) for field in data.split(b"\0")], descriptors

    def close(self):
        self._socket.close()


def read_list(descriptor):
    """The texts, each ended by a zero byte, in a file of the host."""
    content = b""
    while True:
        part = os.pread(descriptor, 1 << 20, len(content))
        if not part:
            break
        content += part
    os.close(descriptor)
    return [os.fsdecode(text) for text in content.split(b"\0")[:-1]]


# ---- what modules do while they are imported -----------------------------------------------------------------


class EnvironmentWatch:
    """Records which variables modules read and change while they are imported.

    os.environ stays the same object, because modules keep it: only its class changes for the while.
    """

    def __init__(self):
        self.reads = {}  # name: (value, module that read it first)
        self.all_read = set()  # modules that read all variables
        self.before = {}

    def begin(self, given):
        """given: the environment with which the host started this process."""
        self.before = given
        self._class = type(os.environ)
        watch = self

        class Watched(self._class):
            def __getitem__(self, key):
                watch._note(key)
                return super().__getitem__(key)

            def __contains__(self, key):
                watch._note(key)
                return super().__contains__(key)

            def __iter__(self):
                watch.all_read.add(reader())
                return super().__iter__()

        os.environ.__class__ = os.environb.__class__ = Watched

    def end(self):
        os.environ.__class__ = os.environb.__class__ = self._class

    def _note(self, key):
        name = os.fsdecode(key) if isinstance(key, (str, bytes)) else repr(key)
        if name not in self.reads:
            self.reads[name] = (self.before.get(name), reader())

    def why_unsafe(self, name, volatile):
        for variable, (_, module) in self.reads.items():
            if variable in volatile:
                return "reads %s%s" % (variable, "" if module == name else " (in %s)" % module)
        for module in sorted(self.all_read.difference(LOOK_FOR_THEIR_OWN)):
            return "reads all variables%s" % ("" if module == name else " (in %s)" % module)
        return ""

    def changes(self):
        """Variables that modules have set (a text) or removed (None)."""
        now = dict(os.environ)
        changed = {name: value for name, value in now.items() if self.before.get(name) != value}
        changed.update((name, None) for name in self.before if name not in now)
        return changed


PASSED_OVER = ("os", "collections.abc", "posixpath")


def reader():
    """The name of the module whose code runs: of the nearest frame that is none of these, or of this file."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") not in PASSED_OVER and frame.f_globals is not globals():
            return frame.f_globals.get("__name__", "?")
        frame = frame.f_back
    return "?"


class ProcessState:
    """What a module must leave as it found it, since a fork copies it, shares it, or loses it."""

    def __init__(self):
        self.descriptors = ("0", "1", "2", str(CONTROL_FD))
        self.shared_memory = shared_memory()

    def why_unsafe(self):
        """What is not as it must be, as the end of a sentence; empty: nothing."""
        for descriptor, leads_to in descriptors().items():
            if descriptor not in self.descriptors:
                return "keeps a descriptor open (%s)" % leads_to
        if shared_memory() != self.shared_memory:
            return "shares memory with its forks (a lock for processes, say)"
        if threads() > 1 and threads_survive_a_fork():
            return "starts a thread"
        cuda = sys.modules.get("torch.cuda")
        if cuda is not None and cuda.is_initialized():
            return "initializes a GPU"
        return ""


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def descriptors():
    """What the open descriptors lead to, without that of the listing itself."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass
    return found


def shared_memory():
    """Mappings that a fork would write to together with this process."""
    return {line for line in mappings() if line.partition(" ")[2][:4] in ("rw-s", "-w-s")}


def mappings():
    return os.fsdecode(read_file("/proc/self/maps")).splitlines()


def threads():
    return len(os.listdir("/proc/self/task"))


def told_by_fork(work):
    """The text that work() returns in a fork of this process; None: that process has not come so far."""
    ours, theirs = os.pipe()
    child = fork()
    if child == 0:
        try:
            # A first byte tells an empty text from none.
            os.write(theirs, b"=" + work().encode(errors="backslashreplace")[: MAX_MESSAGE - 1])
        finally:
            os._exit(0)
    os.close(theirs)
    text = os.read(ours, MAX_MESSAGE)
    os.close(ours)
    reap(child)
    return text[1:].decode(errors="replace") if text else None


def threads_survive_a_fork():
    """Some libraries (OpenBLAS) end their threads at a fork and start them again when they need them."""
    child = fork()
    if child == 0:
        os._exit(0)
    reap(child)
    return threads() > 1


# ---- files ---------------------------------------------------------------------------------------------------


def origin_of(module):
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    return origin if getattr(spec, "has_location", False) and isinstance(origin, str) else None


def mark_of(path):
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class LoadedFiles:
    """The files of the modules that were imported here."""

    def __init__(self, loaded_before):
        self._marks = {}
        self._packages = {}  # first part of a module's name: its file
        for name, module in list(sys.modules.items()):
            if name in loaded_before:
                continue
            origin = origin_of(module)
            if origin is not None:
                mark = mark_of(origin)
                if mark is not None:  # else it is part of an archive, or was made for this import only
                    self._marks[origin] = mark
                if "." not in name:
                    self._packages[name] = origin

    def changed(self):
        """A file that is not as it was when it was imported."""
        for path, mark in self._marks.items():
            if mark_of(path) != mark:
                return path
        return None

    def shadowed_in(self, folder):
        """A module of which the script's folder has one of the same name: the script would import its own."""
        try:
            names = os.listdir(folder)
        except OSError:
            return None
        for name in names:
            module = name.partition(".")[0]
            known = self._packages.get(module)
            if known is None:
                continue
            path = os.path.join(folder, name)
            if os.path.isdir(path):
                path = os.path.join(path, "__init__.py")
            elif not name.endswith((".py", ".pyc", ".so")):
                continue
            if os.path.exists(path) and not os.path.samefile(path, known):
                return module
        return None


def natives():
    """The libraries that are mapped, without the interpreter's own modules."""
    files = {line.partition("/")[2] for line in mappings()}
    return {file for file in files if ".so" in file and "/lib-dynload/" not in file}


# ---- the script ----------------------------------------------------------------------------------------------


class Script:
    """The script that the workers will run, by this process's own command line."""

    def __init__(self):
        self.path = None
        self.folder = os.getcwd()  # the first of sys.path, for -m and -c
        if sys.argv[0] not in ("-m", "-c"):
            self.path = os.path.abspath(sys.argv[0])
            self.folder = os.path.dirname(os.path.realpath(self.path))
            if os.path.isdir(self.path):
                self.folder, self.path = self.path, os.path.join(self.path, "__main__.py")
        if getattr(sys.flags, "safe_path", False):
            self.folder = None

    def sets(self, names):
        """A variable among these that the script sets itself: then modules must be imported after that."""
        try:
            text = os.fsdecode(read_file(self.path)) if self.path and os.path.isfile(self.path) else ""
        except OSError:
            return None
        for name in names:
            if name in text and writes_variable(text, name):
                return name
        return None


def writes_variable(text, name):
    for quote in "\"'":
        quoted = quote + name + quote
        at = text.find(quoted)
        while at >= 0:
            after = text[at + len(quoted) :].lstrip()
            if after.startswith("]"):
                after = after[1:].lstrip()
                if after.startswith("=") and not after.startswith("=="):
                    return True
            before = text[:at].rstrip()
            if before.endswith(("setdefault(", "putenv(", "unsetenv(", ".pop(")):
                return True
            if before.endswith("environ[") and before[: -len("environ[")].rstrip(" os.").endswith("del"):
                return True
            at = text.find(quoted, at + 1)
    return False


# ---- preloading ----------------------------------------------------------------------------------------------


class Unsafe(Exception):
    """A module that cannot be preloaded, and why."""

    def __init__(self, module, why):
        super().__init__(module, why)
        self.module = module
        self.why = why


class Preloaded:
    """The modules that were imported here, and what must hold so that a worker may be forked from them."""

    def __init__(self, count, watch, files, script, natives):
        self.count = count
        self.at_interrupt = _signal.getsignal(_signal.SIGINT)  # None: not Python's
        self.natives = natives
        self.changes = watch.changes()
        self.before = watch.before
        self.reads = watch.reads
        self.files = files
        self.script = script

    def why_not(self, specs):
        """Why these workers cannot be forked: ("stale" or "refused", reason). None: they can."""
        changed = self.files.changed()
        if changed is not None:
            return "stale", "%s has changed since it was imported" % changed
        shadowed = self.script.folder and self.files.shadowed_in(self.script.folder)
        if shadowed:
            return "refused", "the script's folder has a module %s of its own" % shadowed
        own = self.script.sets(self.reads)
        if own:
            return "refused", "the script sets %s, which %s read when it was imported" % (own, self.reads[own][1])
        for spec in specs:
            if spec.cpus and "OMP_NUM_THREADS" not in spec.environment:
                return "refused", "libraries count the CPUs at their import, and --numa-binding chooses them later"
            why = self._why_not(spec)
            if why:
                return "refused", why
        return None

    def _why_not(self, spec):
        for name, (value, module) in self.reads.items():
            if spec.environment.get(name) != value:
                return "%s read %s when it was imported, and it differs in the workers" % (module, name)
        for name in self.changes:
            if spec.environment.get(name) != self.before.get(name):
                return "a module set %s when it was imported, and it differs in the workers" % name
        return ""


def preload(modules, volatile, learned, given, watch):
    """Imports the modules in order. Raises Unsafe for the first that must not be."""
    loaded_before = set(sys.modules)
    natives_before = natives()
    state = ProcessState()
    why = state.why_unsafe()
    if why:
        raise Unsafe("the start of this Python (a file .pth, say)", why)
    imports = ImportWatch()
    # As it will be when the script runs: some modules ask whether there is a script.
    main = sys.modules["__main__"]
    script = Script()
    if script.path:
        main.__file__ = script.path
    imported = 0
    watch.begin(given)
    own_sitecustomize()
    why = watch.why_unsafe("", volatile) or state.why_unsafe() or imports.why_unsafe()
    if why:
        raise Unsafe("the start of this Python (sitecustomize)", why)
    for name in modules:
        if learned and not is_installed(name):
            continue
        before = len(sys.modules)
        try:
            builtins.__import__(name)
        except BaseException as error:
            if not learned or not isinstance(error, Exception):
                raise Unsafe(name, "cannot be imported: %s: %s" % (type(error).__name__, error)) from None
            before = None  # the script could do without it, too; but something of it may have been imported
        else:
            imported += 1
        if len(sys.modules) == before and imported > 1:
            continue  # an earlier one has imported it
        why = watch.why_unsafe(name, volatile) or state.why_unsafe() or imports.why_unsafe()
        if why:
            raise Unsafe(name, why)
    watch.end()
    imports.end()
    if script.path:
        del main.__file__
    files = LoadedFiles(loaded_before)
    return Preloaded(imported, watch, files, script, natives() - natives_before)


def is_installed(name):
    """Whether a learned name is a module of this Python's own folders, not of the script or under development."""
    if name in sys.modules:
        return True
    parent = name.rpartition(".")[0]
    path = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    if parent and path is None:
        return False
    for finder in sys.meta_path:
        spec = None if isinstance(finder, ImportWatch) else finder.find_spec(name, path)
        if spec is None:
            continue
        if spec.origin in ("built-in", "frozen"):
            return True
        return isinstance(spec.origin, str) and spec.origin.startswith(installed_folders())
    return False


def installed_folders():
    folders = [os.path.dirname(os.__file__)]
    folders += [entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")]
    return tuple(os.path.join(folder, "") for folder in folders)


class ImportWatch:
    """A finder that finds nothing itself, but looks at the generators of random, numpy and torch after their loading.

    Each worker gets new ones, so nothing may be drawn from them or seeded here.
    """

    def __init__(self):
        self._readers = {"random": self._random, "numpy.random": self._numpy, "torch": self._torch}
        self._states = {name: read(sys.modules[name]) for name, read in self._readers.items() if name in sys.modules}
        sys.meta_path.insert(0, self)

    def end(self):
        sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        if name not in self._readers or name in self._states:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                self._look_after_loading(spec.loader, self._readers[name], name)
                return spec
        return None

    def _look_after_loading(self, loader, read, name):
        load = loader.exec_module

        def exec_module(module):
            del loader.exec_module  # shown no more: the class has it
            load(module)
            self._states[name] = read(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # not a loader of files

    def why_unsafe(self):
        for name, state in self._states.items():
            if state != self._readers[name](sys.modules[name]):
                return "seeds the generator of %s, or draws from it" % name
        return ""

    @staticmethod
    def _random(module):
        return module.getstate()

    @staticmethod
    def _numpy(module):
        state = module.get_state()
        return state[0], state[1].tobytes(), state[2:]

    @staticmethod
    def _torch(module):
        return bytes(module.default_generator.get_state().tolist())


def environment_of(entries):
    return dict(entry.partition("=")[::2] for entry in entries)


# ---- forking -------------------------------------------------------------------------------------------------


class Spec:
    """What one worker gets from the host."""

    def __init__(self, host):
        fields, received = host.receive()
        content, self.stdin, self.stdout, self.stderr, self.line, self.stacks = received
        texts = read_list(content)
        self.host_pid = int(texts[0])
        self.cpus = {int(cpu) for cpu in texts[1].split(",") if cpu}
        self.learn = texts[2]  # the file that gets the names of the modules that it imports; empty: none
        count = int(texts[3])
        self.arguments = texts[4 : 4 + count]
        self.environment = environment_of(texts[4 + count :])

    def close(self):
        for descriptor in (self.stdin, self.stdout, self.stderr, self.line, self.stacks):
            os.close(descriptor)


def serve(host, preloaded):
    """Answers the host until this process is a worker: returns its spec, and the pid of its first parent."""
    while True:
        fields, received = host.receive()
        if fields[0] != "fork":
            raise ValueError("unknown request %r" % fields[0])
        (gate,) = received
        specs = [Spec(host) for _ in range(int(fields[1]))]
        refused = preloaded.why_not(specs)
        if refused:
            host.tell(*refused)
        else:
            worker = fork_workers(host, specs, gate)
            if worker is not None:
                return worker
        os.close(gate)
        for spec in specs:
            spec.close()


def fork_workers(host, specs, gate):
    """In a worker: its spec, and the pid of its first parent. In the preloader: None."""
    try:
        middle = fork()
    except OSError as error:
        host.tell("failed", "no process can be made: %s" % os.strerror(error.errno))
        return None
    if middle != 0:
        reap(middle)
        return None
    middle = os.getpid()
    mine = None
    pids = []
    # Until the script runs Ctrl-C ends a worker, instead of this file.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    try:
        there, leads = os.pipe()
        for spec in specs:
            pid = fork()
            if pid == 0:
                mine = spec
                break
            pids.append(pid)
        if mine is None:
            os.close(leads)
            let_go(host, gate, pids, there)
        else:
            # Before the host knows it, because a signal goes to the group that it leads.
            os.setsid()
            os.write(leads, b"s")
            for fd in (gate, there, leads):
                os.close(fd)
            for spec in specs:
                if spec is not mine:
                    spec.close()
    except OSError as error:
        if mine is None:
            end_all(pids)
            host.tell("failed", "no worker can be made: %s" % (error.strerror or error))
        os._exit(126)
    if mine is None:
        os._exit(0)
    return mine, middle


def let_go(host, gate, pids, there):
    """Tells the host about the workers once each leads its session, and waits until it knows them."""
    for _ in pids:
        if not os.read(there, 1):
            raise OSError("one has ended at once")
    host.tell("forked", *[str(pid) for pid in pids])
    if not os.read(gate, 1):
        end_all(pids)


def reap(child):
    try:
        waitpid(child, 0)
    except ChildProcessError:
        pass  # a module has SIGCHLD ignored


def end_all(pids):
    for pid in pids:
        os.kill(pid, _signal.SIGKILL)


# ---- becoming a worker ---------------------------------------------------------------------------------------


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
    """Of the interpreter, what differs between workers. standard: what become its descriptors 0 to 2."""
    set_environment(environment, changes)
    for target, source in enumerate(standard):
        os.dup2(source, target)
        os.close(source)
    renew_streams()
    renew_identity()


def rehearse(changes):
    """Raises RuntimeError if a fork cannot become a worker, because of what the modules have replaced."""

    def attempt():
        try:
            renew(dict(os.environ), changes, [os.open("/dev/null", os.O_RDWR) for _ in range(3)])
        except BaseException as error:
            return describe(error)
        return ""

    why = told_by_fork(attempt)
    if why != "":
        raise RuntimeError("no worker can be made of it: " + (why or "its fork has ended"))


def give_up(spec, step, error):
    """Reports the failure as the exec stage of a worker does."""
    try:
        number = getattr(error, "errno", None) or errno.EINVAL
        os.write(spec.line, b"".join(part.to_bytes(4, sys.byteorder) for part in (step, number)))
        if step == STEP_PRELOAD:
            os.write(2, ("muster: --preload: %s\n" % describe(error)).encode(errors="backslashreplace"))
    finally:
        os._exit(126)


def describe(error):
    """The error, and the line of this file where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = " (line %d of muster's bootstrap)" % trace.tb_lineno if trace is not None else ""
    return "%s: %s%s" % (type(error).__name__, error, where)


def await_permission(line):
    """The host has made this process its own. To have become its child is no sign of that: it adopts every orphan."""
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


def set_environment(environment, changes):
    """In the order of the host, so that child processes see what those of a fresh worker see."""
    os.environ.clear()
    for name, value in environment.items():
        os.environ[name] = value
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def set_arguments(arguments):
    """They differ between workers of `--pass-local-rank`."""
    if sys.argv[1:] == script_arguments(arguments):
        return
    sys.argv[1:] = script_arguments(arguments)
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = arguments


def script_arguments(arguments):
    """The end of a whole command line. It has as many arguments as that of this process."""
    return arguments[len(arguments) - len(sys.argv) + 1 :]


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
    """What modules have drawn from the kernel at their import. Python's own generators draw anew at each fork."""
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


def watch_changes(preloaded):
    """Says it when the script sets a variable too late: a module has read it here, before the script began.

    What an installed module sets while it is imported is not meant: a fresh worker sets it at the same time.
    """
    if preloaded.count == 0:
        return
    installed = installed_folders()
    told = set()
    putenv, unsetenv = os.putenv, os.unsetenv

    def checked_putenv(name, value, /):
        putenv(name, value)
        check(os.fsdecode(name), os.fsdecode(value))

    def checked_unsetenv(name, /):
        unsetenv(name)
        check(os.fsdecode(name), None)

    def check(text, new):
        read = preloaded.reads.get(text)
        if text in told or (read is None and not (preloaded.natives and text.startswith(READ_BY_LIBRARIES))):
            return
        if new == (read[0] if read else preloaded.before.get(text)) or is_import_of(installed):
            return
        told.add(text)
        who = read[1] if read else "a library"
        message = (
            "muster: the script changes %s, but %s read it earlier, when --preload imported it: set the variable "
            "outside, or start without --preload\n"
        )
        os.write(2, (message % (text, who)).encode(errors="backslashreplace"))

    os.putenv, os.unsetenv = checked_putenv, checked_unsetenv


def is_import_of(installed):
    """Whether the code that runs is the import of a module in these folders, whoever imports it."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals
        if module.get("__name__") in IMPORT_SYSTEM:
            return True
        is_own = module is globals() or module.get("__name__") in PASSED_OVER
        if not is_own and not str(module.get("__file__", "")).startswith(installed):
            return False
        frame = frame.f_back
    return False


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


# ---- start ---------------------------------------------------------------------------------------------------


def leave_no_trace(given):
    """Undoes what muster did to start this file: a fresh worker has none of it."""
    if ARCHIVE in sys.path:
        sys.path.remove(ARCHIVE)
    sys.path_importer_cache.pop(ARCHIVE, None)
    rest = [entry for entry in os.environ.get("PYTHONPATH", "").split(":") if entry != ARCHIVE]
    if rest:
        os.environ["PYTHONPATH"] = ":".join(rest)
    elif "PYTHONPATH" in given:
        os.environ["PYTHONPATH"] = given["PYTHONPATH"]
    else:
        os.environ.pop("PYTHONPATH", None)
    os.close(ARCHIVE_FD)
    sys.modules.pop("sitecustomize", None)


def set_name(name):
    with open("/proc/self/comm", "wb", 0) as file:
        file.write(name)


def pid_namespace():
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def own_sitecustomize():
    """Runs the sitecustomize that this Python has, if any, as the interpreter would have."""
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise


def main(host):
    if sys.implementation.name != "cpython" or sys.version_info < (3, 9):
        host.tell("unsupported", "%s %s" % (sys.implementation.name, sys.version.split()[0]))
        os._exit(0)
    if sys.argv[:1] == ["-c"] and len(sys.argv) > 1 and sys.argv[1] == "muster-probe":
        host.tell("probe", pid_namespace())
        os._exit(0)
    name = read_file("/proc/self/comm").rstrip(b"\n")
    set_name(NAME.encode())
    fields, received = host.receive()
    modules, volatile, given = (read_list(file) for file in received)
    given = environment_of(given)
    leave_no_trace(given)
    began = time.monotonic()
    try:
        preloaded = preload(modules, set(volatile), fields[1] == "learned", given, EnvironmentWatch())
    except Unsafe as unsafe:
        host.tell("unsafe", unsafe.module, unsafe.why)
        os._exit(0)
    gc.collect()
    gc.freeze()
    rehearse(preloaded.changes)
    host.tell("ready", "%.3f" % (time.monotonic() - began))
    spec, middle = serve(host, preloaded)
    become_worker(spec, middle, preloaded, name)
    host.close()


def run():
    returns = False
    try:
        host = Host()
        try:
            main(host)
            returns = True
        except BaseException as error:
            host.tell("failed", describe(error))
    finally:
        if not returns:
            os._exit(70)


OURS = sys.modules[__name__]
run()
if "sitecustomize" not in sys.modules:
    # site passes over this error, and the import machinery forgets this module.
    sys.modules["sitecustomize"] = OURS
    raise ImportError("there is no sitecustomize", name="sitecustomize")

"""What a fork would get wrong of a module: descriptors, shared memory, threads, a GPU, seeded random generators, folders."""

import os
import sys

from .control import CONTROL_FD
from .fork import fork, reap
from .variables import reader


class ProcessState:
    """What a module must leave as it found it, since a fork copies it, shares it, or loses it."""

    def __init__(self):
        self.descriptors = ("0", "1", "2", str(CONTROL_FD))
        self.shared_memory = shared_memory()

    def why_unsafe(self):
        """What the module has done, as the end of a sentence; empty: nothing that matters."""
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


def descriptors():
    """What the open descriptors lead to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass  # that of the listing itself
    return found


def shared_memory():
    """Mappings that a fork would write to together with this process."""
    return {line for line in mappings() if line.partition(" ")[2][:4] in ("rw-s", "-w-s")}


def mappings():
    with open("/proc/self/maps", "rb") as file:
        return os.fsdecode(file.read()).splitlines()


def natives():
    """The libraries that are mapped, without the interpreter's own modules."""
    files = {line.partition("/")[2] for line in mappings()}
    return {file for file in files if ".so" in file and "/lib-dynload/" not in file}


def threads():
    return len(os.listdir("/proc/self/task"))


def threads_survive_a_fork():
    """Some libraries (OpenBLAS) end their threads at a fork and start them again when they need them."""
    child = fork()
    if child == 0:
        os._exit(0)
    reap(child)
    return threads() > 1


# How to read the state of each random generator. Each worker gets a new one, so nothing may be drawn or seeded here.
GENERATORS = {
    "random": lambda module: module.getstate(),
    "numpy.random": lambda module: (module.get_state()[1].tobytes(), module.get_state()[2:]),
    "torch": lambda module: module.default_generator.get_state().tolist(),
}


class ImportWatch:
    """A finder that finds nothing itself, but looks at some modules right after they were loaded: at the states of
    generators, and at tempfile, since the first worker that ends would remove a temporary folder of all."""

    def __init__(self):
        self._states = {name: read(sys.modules[name]) for name, read in GENERATORS.items() if name in sys.modules}
        self._mkdtemp = None  # tempfile's own
        self._folder_made_by = ""

    def begin(self):
        if "tempfile" in sys.modules:
            self._watch_folders(sys.modules["tempfile"])
        sys.meta_path.insert(0, self)

    def end(self):
        sys.meta_path.remove(self)
        if self._mkdtemp is not None:
            sys.modules["tempfile"].mkdtemp = self._mkdtemp

    def _watch_folders(self, tempfile):
        self._mkdtemp = tempfile.mkdtemp

        def mkdtemp(*args, **options):
            self._folder_made_by = reader()
            return self._mkdtemp(*args, **options)

        tempfile.mkdtemp = mkdtemp

    def find_spec(self, name, path=None, target=None):
        is_watched = name in GENERATORS and name not in self._states or name == "tempfile" and self._mkdtemp is None
        if not is_watched:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                self._note_after_loading(spec.loader, name)
                return spec
        return None

    def _note_after_loading(self, loader, name):
        load = loader.exec_module

        def exec_module(module):
            del loader.exec_module  # shown no more: the class has it
            load(module)
            if name == "tempfile":
                self._watch_folders(module)
            else:
                self._states[name] = GENERATORS[name](module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # not a loader of files

    def why_unsafe(self):
        if self._folder_made_by:
            return "makes a temporary folder (in %s)" % self._folder_made_by
        for name, state in self._states.items():
            if state != GENERATORS[name](sys.modules[name]):
                return "seeds the generator of %s, or draws from it" % name
        return ""

"""Imports the modules, and decides whether workers may be forked from them."""

import _signal
import builtins
import os
import sys

from .files import LoadedFiles, installed_folders
from .safety import ImportWatch, ProcessState, natives
from .script import Script
from .variables import EnvironmentWatch


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
            why = self._why_not(spec)
            if why:
                return "refused", why
        return None

    def _why_not(self, spec):
        if spec.cpus and "OMP_NUM_THREADS" not in spec.environment:
            return "libraries count the CPUs at their import, and --numa-binding chooses them later"
        for name, (value, module) in self.reads.items():
            if spec.environment.get(name) != value:
                return "%s read %s when it was imported, and it differs in the workers" % (module, name)
        for name in self.changes:
            if spec.environment.get(name) != self.before.get(name):
                return "a module set %s when it was imported, and it differs in the workers" % name
        return ""


class Preloading:
    """The import of all modules. What was loaded before belongs to Python's own start."""

    def __init__(self, volatile, learned):
        """volatile: variables that differ between workers. learned: nobody has asked for these modules by name."""
        self._volatile = volatile
        self._learned = learned
        self._loaded_before = set(sys.modules)
        self._natives_before = natives()
        self._state = ProcessState()
        self._import_watch = ImportWatch()
        self._variables = EnvironmentWatch()
        self._count = 0

    def run(self, modules, given):
        """given: the environment with which the host started this process."""
        why = self._state.why_unsafe()
        if why:
            raise Unsafe("the start of this Python (a file .pth, say)", why)
        script = Script()
        # As it will be when the script runs: some modules ask whether there is a script.
        main = sys.modules["__main__"]
        if script.path:
            main.__file__ = script.path
        self._import_watch.begin()
        self._variables.begin(given)
        own_sitecustomize()
        self._check("the start of this Python (sitecustomize)", "")
        for name in modules:
            if not self._learned or is_installed(name):
                self._import(name)
        self._variables.end()
        self._import_watch.end()
        if script.path:
            del main.__file__
        files = LoadedFiles(self._loaded_before)
        return Preloaded(self._count, self._variables, files, script, natives() - self._natives_before)

    def _import(self, name):
        before = len(sys.modules)
        try:
            builtins.__import__(name)
        except BaseException as error:
            if not self._learned or not isinstance(error, Exception):
                raise Unsafe(name, "cannot be imported: %s: %s" % (type(error).__name__, error)) from None
            before = None  # the script could do without it, too; but something of it may have been imported
        else:
            self._count += 1
        if len(sys.modules) == before and self._count > 1:
            return  # an earlier one has imported it
        self._check(name, name)

    def _check(self, blamed, name):
        why = self._variables.why_unsafe(name, self._volatile)
        why = why or self._state.why_unsafe() or self._import_watch.why_unsafe()
        if why:
            raise Unsafe(blamed, why)


def is_installed(name):
    """Whether a learned name is a module of this Python's own folders."""
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


def own_sitecustomize():
    """Runs the sitecustomize that this Python has, if any, as the interpreter would have."""
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise

"""Environment variables: which of them modules read and change at their import, and changes that come too late."""

import os
import sys

from .files import installed_folders

# Variables that native libraries read when they are loaded, by the beginning of their names.
READ_BY_LIBRARIES = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "LD_", "MALLOC_", "GLIBC_")

# Modules that look through all variables for some of their own, none of which is of a worker.
LOOK_FOR_THEIR_OWN = ("tqdm.utils",)

# Modules by way of which others read variables or make folders.
PASSED_OVER = ("os", "collections.abc", "posixpath", "tempfile")

# The second is its name until something imports importlib.
IMPORT_SYSTEM = ("importlib._bootstrap", "_frozen_importlib")


class EnvironmentWatch:
    """Records which variables modules read and change while they are imported.

    os.environ stays the same object, because modules keep it: only its class changes meanwhile.
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
        """name: the module that was imported. volatile: variables that differ between workers."""
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


def is_passed_over(names):
    """Whether a frame with these global names is one of os, or one of this package."""
    return names.get("__name__") in PASSED_OVER or names.get("__package__") == __package__


def reader():
    """The name of the module whose code reads a variable."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_passed_over(frame.f_globals):
            return frame.f_globals.get("__name__", "?")
        frame = frame.f_back
    return "?"


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


def watch_changes(preloaded):
    """Warns when the script sets a variable too late: a module has read it here, before the script began.

    Not what an installed module sets while it is imported: a fresh worker sets that at the same time.
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
        names = frame.f_globals
        if names.get("__name__") in IMPORT_SYSTEM:
            return True
        if not is_passed_over(names) and not str(names.get("__file__", "")).startswith(installed):
            return False
        frame = frame.f_back
    return False

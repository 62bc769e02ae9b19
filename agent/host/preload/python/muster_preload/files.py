"""The files of the modules that were imported: whether they have changed, or the script's folder hides them."""

import os
import sys


def installed_folders():
    """This Python's own folders: what lies there is neither of the script nor under development."""
    folders = [os.path.dirname(os.__file__)]
    folders += [entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")]
    return tuple(os.path.join(folder, "") for folder in folders)


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
    def __init__(self, loaded_before):
        """loaded_before: names of modules that are left out."""
        self._marks = {}
        self._packages = {}  # first part of a module's name: its file
        for name, module in list(sys.modules.items()):
            origin = None if name in loaded_before else origin_of(module)
            if origin is None:
                continue
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
            if mark_of(path) not in (None, self._marks.get(known)):
                return module
        return None

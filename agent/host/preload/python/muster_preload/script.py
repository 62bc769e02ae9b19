"""The script that the workers will run: where it is, and which variables it sets."""

import os
import sys


class Script:
    """By this process's own command line."""

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
        if not self.path or not os.path.isfile(self.path):
            return None
        try:
            with open(self.path, "rb") as file:
                text = os.fsdecode(file.read())
        except OSError:
            return None
        for name in names:
            if name in text and writes_variable(text, name):
                return name
        return None


def writes_variable(text, name):
    for quote in "\"'":
        parts = text.split(quote + name + quote)
        for before, after in zip(parts, parts[1:]):
            before, after = before.rstrip(), after.lstrip()
            assigned = after[1:].lstrip() if after.startswith("]") else ""
            if assigned.startswith("=") and not assigned.startswith("=="):
                return True
            if before.endswith(("setdefault(", "putenv(", "unsetenv(", ".pop(")):
                return True
            if before.endswith("environ[") and before[: -len("environ[")].rstrip(" os.").endswith("del"):
                return True
    return False

"""Which Python the workers get: environments that are active, left over, or those from which muster is called."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import cluster

PLAIN_PATH = "/usr/bin:/bin"  # of the programs that a shell script needs


class WhichPython(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "train.py").touch()

    def environment_of(self, name, mark=None, muster=None):
        """A folder with bin/python, the mark of a kind of environments, and muster as a copy or as a link to it."""
        root = self.folder / name
        (root / "bin").mkdir(parents=True)
        python = root / "bin" / "python"
        python.write_text(f"#!/bin/sh\necho this is {name}\n")
        python.chmod(0o755)
        if mark == "pyvenv.cfg":
            (root / mark).write_text("home = /usr/bin\n")
        elif mark == "conda-meta":
            (root / mark).mkdir()
        if muster == "copy":
            shutil.copy(cluster.BINARY, root / "bin" / "muster")
        elif muster is not None:
            os.symlink(muster, root / "bin" / "muster")
        return root

    def told(self, muster, path, **variables):
        """What the worker prints, and muster's line on its Python."""
        path = ":".join([*(f"{folder}/bin" for folder in path), PLAIN_PATH])
        environment = cluster.plain_environment() | {"PATH": path} | {k: str(v) for k, v in variables.items()}
        for name in {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHON_EXEC"} - variables.keys():
            environment.pop(name, None)
        done = subprocess.run([muster, "run", "--standalone", "train.py"], env=environment, cwd=self.folder,
                              executable=shutil.which(str(muster), path=path), capture_output=True, text=True,
                              timeout=cluster.LIMIT_S)
        self.assertEqual(0, done.returncode, done.stderr)
        reason = [line for line in done.stderr.splitlines() if "python is " in line]
        self.assertEqual(1, len(reason), done.stderr)
        return done.stdout.strip(), reason[0].split(": ")[-1]

    def test_a_full_path_takes_the_shells_environment(self):
        beside = self.environment_of("beside", muster="copy")
        venv = self.environment_of("venv", mark="pyvenv.cfg")
        for muster in ("muster", beside / "bin" / "muster"):  # the second is what srun, systemd and a pod do
            self.assertEqual(("this is venv", "$VIRTUAL_ENV is active"),
                             self.told(muster, [venv, beside], VIRTUAL_ENV=venv))

    def test_an_environment_left_over_does_not_count(self):
        module = self.environment_of("module", muster="copy")
        conda = self.environment_of("conda", mark="conda-meta")
        for variable in ("CONDA_PREFIX", "VIRTUAL_ENV"):
            self.assertEqual(("this is module", "it is the first on PATH"),
                             self.told("muster", [module, conda], **{variable: conda}))

    def test_muster_in_an_environment_takes_its_python(self):
        system = self.environment_of("system")
        for mark in ("pyvenv.cfg", "conda-meta"):
            own = self.environment_of(mark + "-own", mark=mark, muster=cluster.BINARY)
            for muster, path in ((own / "bin" / "muster", [system]), ("muster", [system, own])):
                self.assertEqual((f"this is {own.name}", f"muster was called from its environment, {own}"),
                                 self.told(muster, path))

    def test_a_link_belongs_to_where_it_lies(self):
        # As pipx and uv install a program: in an environment of its own, with a link in a folder on PATH.
        own = self.environment_of("pipx", mark="pyvenv.cfg", muster="copy")
        local = self.environment_of("local", muster=own / "bin" / "muster")
        (local / "bin" / "python").unlink()
        system = self.environment_of("system")
        for muster in ("muster", local / "bin" / "muster"):
            self.assertEqual(("this is system", "it is the first on PATH"), self.told(muster, [local, system]))

    def test_the_python_beside_muster_comes_last(self):
        beside = self.environment_of("beside", muster=cluster.BINARY)
        empty = self.folder / "empty"
        environment = cluster.plain_environment() | {"PATH": str(empty)}
        done = subprocess.run([beside / "bin" / "muster", "run", "--standalone", "train.py"], env=environment,
                              cwd=self.folder, capture_output=True, text=True, timeout=cluster.LIMIT_S)
        self.assertEqual((0, "this is beside\n"), (done.returncode, done.stdout), done.stderr)
        self.assertIn("it is in the same folder as muster", done.stderr)


if __name__ == "__main__":
    cluster.main()

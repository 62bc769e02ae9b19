"""A worker that was forked from a preloaded Python sees what one that was started afresh sees."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import cluster
import preload_scripts

# Modules of the standard library that touch all that a fork must set right.
MODULES = ("logging,random,multiprocessing,threading,subprocess,asyncio,concurrent.futures,tempfile,warnings,"
           "ctypes,importlib.resources,inspect,argparse")
OLDEST = (3, 9)
LIMIT_S = 120
AT_ONCE = 2


def pythons():
    """This one, and with MUSTER_ALL_PYTHONS every one that is installed beside it."""
    found = {sys.version_info[:2]: sys.executable}
    if os.environ.get("MUSTER_ALL_PYTHONS"):
        for path in sorted(pathlib.Path(os.path.expanduser("~/.pyenv/versions")).glob("3.*/bin/python")):
            version = tuple(int(part) for part in path.parent.parent.name.split(".")[:2])
            if version >= OLDEST:
                found.setdefault(version, str(path))
    return found


class Scripts(unittest.TestCase):
    maxDiff = None

    def run_script(self, python, script, folder, preload):
        for name, text in {"script.py": script.text, **script.files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(text, tuple):
                path.symlink_to(text[0])
            else:
                path.write_text(text)
        environment = {**cluster.plain_environment(), "PYTHONDONTWRITEBYTECODE": "1", **script.environment}
        environment.pop("PYTHONPATH", None)
        environment.update({k: v for k, v in script.environment.items() if k == "PYTHONPATH"})
        program = [part.format(folder=folder) for part in script.program]
        command = [cluster.BINARY, "run", "--nproc-per-node", "1", "--python", python, "--worker-port", "20000:30000",
                   "-r", "3", "--log-dir", folder / "logs", *script.options]
        command += ["--preload", MODULES] if preload else []
        done = subprocess.run([*command, *program, *script.arguments], cwd=folder, env=environment,
                              capture_output=True, text=True, errors="replace", timeout=LIMIT_S, input="some input\n")
        said = {}
        for stream in ("stdout", "stderr"):
            (file,) = (folder / "logs").glob(f"*/attempt_0/0/{stream}.log")
            said[stream] = file.read_text(errors="replace")
        shutil.rmtree(folder / "logs")
        return {"exit code": done.returncode, **said}, done.stderr

    def compare(self, python, version, name, script):
        # The same folder for both, since scripts show their paths.
        folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-preload-"))
        try:
            fresh, err = self.run_script(python, script, folder, preload=False)
            for entry in folder.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            forked, preload_err = self.run_script(python, script, folder, preload=True)
        finally:
            shutil.rmtree(folder)
        return name, script, fresh, err, forked, preload_err

    def check(self, python, version):
        wanted = {n: s for n, s in preload_scripts.SCRIPTS.items() if version >= s.oldest}
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as executor:
            tasks = [executor.submit(self.compare, python, version, *item) for item in wanted.items()]
            for task in concurrent.futures.as_completed(tasks):
                name, script, fresh, err, forked, preload_err = task.result()
                with self.subTest(python=version, script=name):
                    self.assertEqual(script.ends, fresh["exit code"], err)
                    self.assertIn("--preload: imported", preload_err)
                    self.assertNotIn("start normally", preload_err)
                    for what, said in fresh.items():
                        self.assertEqual(neutral(said), neutral(forked[what]), preload_err)


def neutral(said):
    """Without what differs between any two runs: addresses in memory, and pids in messages."""
    return re.sub(r"0x[0-9a-f]{6,}", "0x", said) if isinstance(said, str) else said


def add_tests():
    for version, python in pythons().items():
        def test(self, python=python, version=version):
            self.check(python, version)
        name = "test_scripts_see_the_same_in_python_%d_%d" % version
        setattr(Scripts, name, test)


add_tests()

if __name__ == "__main__":
    cluster.main()

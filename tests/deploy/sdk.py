"""The clouds' own SDKs, at the versions that deploy/*/requirements.txt name, each in a venv of its own below
build/deploy, and what they send: see wire.py."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

from emulated import DEPLOY, ROOT

INSTALL_LIMIT_S = 900
SEND_LIMIT_S = 300  # importing an SDK takes seconds
WIRE = pathlib.Path(__file__).resolve().parent / "wire.py"


_failed = {}  # why an SDK could not be installed: that takes as long as an installation, and is not tried twice


def python_with(name):
    """The interpreter that has the SDK of deploy/NAME; it is installed on the first call. SkipTest if that fails."""
    if name not in _failed:
        try:
            return _install(name)
        except unittest.SkipTest as skip:
            _failed[name] = str(skip)
    raise unittest.SkipTest(_failed[name])


def _install(name):
    wanted = (DEPLOY / name / "requirements.txt").read_text()
    venv = ROOT / "build" / "deploy" / name
    interpreter, mark = venv / "bin" / "python", venv / "installed.txt"
    if mark.exists() and mark.read_text() == wanted:
        return interpreter
    print(f"installing {wanted.strip()} in {venv.relative_to(ROOT)} (takes a minute or more)", file=sys.stderr)
    for command in ([sys.executable, "-m", "venv", "--clear", str(venv)],
                    [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                     "-r", str(DEPLOY / name / "requirements.txt")]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise unittest.SkipTest(f"{' '.join(command)}: not done after {INSTALL_LIMIT_S} s") from None
        if done.returncode != 0:
            last = (done.stderr + done.stdout).strip().splitlines()[-1:]
            raise unittest.SkipTest(f"the SDK cannot be installed: {' '.join(command)}: {' '.join(last)}")
    mark.write_text(wanted)
    return interpreter


def alone():
    """Command prefix: a network namespace whose only interface is loopback, so that an SDK reaches nothing outside."""
    prefix = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*prefix, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode != 0:
        raise unittest.SkipTest("a network namespace needs root, or user namespaces, and iproute2")
    return prefix


def sent(name, program, *arguments):
    """Runs a program with the SDK of deploy/NAME, against a server on loopback. Returns the requests that reached the
    server, and the program's output; AssertionError if it failed. program: a path, or "-" and the program's text."""
    done = subprocess.run([*alone(), str(python_with(name)), str(WIRE), name, str(program), *arguments],
                          capture_output=True, text=True, timeout=SEND_LIMIT_S)
    if done.returncode != 0:
        raise AssertionError(f"{program} {arguments}: {done.returncode}\n{done.stderr}\n{done.stdout}")
    result = json.loads(done.stdout)
    if result["code"] != 0:
        raise AssertionError(f"{program} {arguments}: {result['code']}\n{result['output']}\n{result['requests']}")
    return result["requests"], result["output"]

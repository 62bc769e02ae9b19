#!/usr/bin/env python3
"""Whether this tree costs no more than ceilings.toml allows.

    python3 tests/ceilings/check.py [MUSTER]      measures it; nothing depends on how fast or how busy the machine is
    python3 tests/ceilings/check.py NAME FIGURE   compares a figure that was measured elsewhere

Prints each figure beside its ceiling.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from processes import children  # noqa: E402

SOURCES = (".cc", ".h", ".py", ".proto")
TESTS = (".cc", ".h", ".py", ".toml", ".sh", ".tsv")
LIMIT_S = 60
NOTE = re.compile(rb"I\s+refs:\s+([\d,]+)")


def tracked():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode().splitlines() if (ROOT / name).is_file()]


def lines(files):
    return sum(path.read_bytes().count(b"\n") for path in files)


def source_lines(_):
    return lines(path for path in tracked() if path.suffix in SOURCES and "tests" not in path.relative_to(ROOT).parts[:1])


def test_lines(_):
    return lines(path for path in tracked() if path.suffix in TESTS and path.relative_to(ROOT).parts[0] == "tests")


def binary_bytes(muster):
    return os.path.getsize(muster)


def environment():
    """Without the variables of a platform, or of a launcher around this test."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}


def wait_for(what, condition):
    end = time.monotonic() + LIMIT_S
    while not (found := condition()):
        if time.monotonic() > end:
            sys.exit(f"ceilings: waited {LIMIT_S} s in vain for {what}")
        time.sleep(0.01)
    return found


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class Job:
    """A job of sleeping workers, ended with the block."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        stdin=subprocess.DEVNULL)

    def __enter__(self):
        return self.process.pid

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(LIMIT_S)


def agent_of(host):
    agents = [pid for pid in children(host) if command_of(pid)[1:2] == [b"agent"]]
    return agents[0] if agents else None


def has_worker(host):
    return any(command_of(pid)[:1] == [b"sleep"] for pid in children(host))


def memory_kib(muster):
    def pss(pid):
        return int(re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])

    # A file of its own, so that no other job's processes share its pages.
    with tempfile.TemporaryDirectory() as folder:
        own = shutil.copy(muster, folder)
        with Job([own, "run", "--no-python", "sleep", "1000"]) as host:
            wait_for("the worker", lambda: has_worker(host))
            return pss(host) + pss(wait_for("the agent", lambda: agent_of(host)))


def agent_descriptors(muster):
    """Those that the coordinator, in the primary's agent, has for each other node."""
    def at_primary(nodes):
        with Job([muster, "local", "--nodes", str(nodes), "--no-python", "sleep", "1000"]) as local:
            def started():
                hosts = [child for child in children(local) if has_worker(child)]
                return hosts if len(hosts) == nodes else None
            agents = [agent_of(host) for host in wait_for(f"{nodes} nodes", started)]
            return max(len(os.listdir(f"/proc/{agent}/fd")) for agent in agents)
    return (at_primary(4) - at_primary(2)) // 2


def plan_instructions(muster):
    """valgrind knows no pidfd_open, so no job runs under it; `muster env` starts and plans as `muster run` does."""
    if shutil.which("valgrind") is None:
        sys.exit("ceilings: valgrind is missing; deploy/setup.sh --tests installs it")
    run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", muster, "env", "--json",
                          "--no-python", "true"], env=environment(), capture_output=True, timeout=LIMIT_S)
    if run.returncode or not (counts := NOTE.findall(run.stderr)):
        sys.exit(f"ceilings: under valgrind muster env ended with {run.returncode}: {run.stderr.decode()}")
    return sum(int(count.replace(b",", b"")) for count in counts)


def is_too_much(name, figure):
    most = tomllib.loads((pathlib.Path(__file__).parent / "ceilings.toml").read_text())[name]
    print(f"{name:22} {figure:12,} of {most:12,}{'  TOO MUCH' if figure > most else ''}", flush=True)
    return figure > most


def main():
    if len(sys.argv) == 3:
        sys.exit(is_too_much(sys.argv[1], int(sys.argv[2])))
    muster = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/bin/muster").resolve())
    measures = (source_lines, test_lines, binary_bytes, memory_kib, agent_descriptors, plan_instructions)
    sys.exit(any([is_too_much(measure.__name__, measure(muster)) for measure in measures]))


if __name__ == "__main__":
    main()

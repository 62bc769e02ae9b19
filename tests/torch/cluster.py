"""Nodes of a job on loopback addresses, each a `muster run` with its own CLUSTER_SPEC, and their output."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import processes  # noqa: E402

BINARY = pathlib.Path(os.environ.get("MUSTER_BINARY", ROOT / "build/release/bin/muster")).resolve()
WAIT_TIMEOUT_S = 240.0  # only a hang reaches it
POLL_S = 0.02
# What is said of a hang. That a round which is not warm yet is silent is said, too, and accuses nobody.
ACCUSED = r"sign of life for \S+ \(--hang-timeout\)(?!, but this round is not warm yet)"
WORKER_LINE = re.compile(r"worker rank=(\d+) world=(\d+) node=(\d+) restart=(\d+) pid=(\d+)")


def free_port(address):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def process_state(pid):
    """The state letter of /proc, or None when the process is gone; a zombie counts as gone."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state = stat.rsplit(")", 1)[1].split()[0]
    return None if state in "ZX" else state


def children(pid):
    """Living children of all threads of a process."""
    return [child for child in processes.children(pid) if process_state(child)]


class Node:
    """One `muster run`. A thread reads its output as it comes."""

    def __init__(self, name, arguments, environment):
        self.name, self.lines = name, []
        self._changed = threading.Condition()
        self.process = subprocess.Popen([str(BINARY), "run", *arguments], env=environment, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        errors="replace")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()

    def output(self):
        with self._changed:
            return "\n".join(f"{self.name}| {line}" for line in self.lines)

    def find(self, pattern):
        with self._changed:
            return [match for line in self.lines if (match := re.search(pattern, line))]

    def agents(self):
        """Pids of this host's agent processes: its children whose first argument is "agent"."""
        def is_agent(pid):
            try:
                return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:2] == [b"agent"]
            except (FileNotFoundError, ProcessLookupError):
                return False
        return [pid for pid in children(self.process.pid) if is_agent(pid)]

    def workers(self, restart):
        """Pids by rank, as printed by the workers of one restart."""
        return {int(m[1]): int(m[5]) for m in self.find(WORKER_LINE) if int(m[4]) == restart}

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_TIMEOUT_S)

    def end(self):
        """After a test: SIGKILL to the host also ends agent and workers; waits, so that nothing outlives the test."""
        if self.process.poll() is None:
            self.kill()
        self._reader.join(WAIT_TIMEOUT_S)
        self.process.stdout.close()


class Cluster:
    """Trainers at 127.0.0.1, .2, ... from one CLUSTER_SPEC; optionally one reduction server, which never trains."""

    def __init__(self, nodes, script, script_arguments=(), options=(), reduction_server=False):
        self.folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.path = pathlib.Path(self.folder.name)
        self.arguments = ["--nproc-per-node", "2", "--python", sys.executable, *options, str(script),
                           *script_arguments]
        pools = {"workerpool0": [self._address(0)]}
        if nodes > 1:
            pools["workerpool1"] = [self._address(place) for place in range(1, nodes)]
        if reduction_server:
            pools["workerpool2"] = [self._address(nodes)]
        self._pools = pools
        self.nodes = {}   # by place
        self._ended = []  # killed hosts, for the output after a failure
        self.count = nodes

    @staticmethod
    def _address(place):
        address = f"127.0.0.{place + 1}"
        return f"{address}:{free_port(address)}"

    def start(self, place, pool=None):
        index = place if place == 0 or pool else place - 1
        pool = pool or ("workerpool0" if place == 0 else "workerpool1")
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("MUSTER_", "PET_", "TORCHELASTIC_"))}
        environment["CLUSTER_SPEC"] = json.dumps({
            "cluster": self._pools, "environment": "cloud",
            "task": {"type": pool, "index": 0 if pool == "workerpool2" else index, "trial": ""},
            "job": "{\"python_module\":\"\",\"package_uris\":[],\"job_args\":[]}"})
        environment["CLOUD_ML_JOB_ID"] = "end-to-end"
        # muster's own defaults instead of those for Vertex AI.
        environment.update({"MUSTER_RETRYABLE_EXIT_CODE": "0", "MUSTER_LOG_STREAMS": "stderr"})
        environment["OMP_NUM_THREADS"] = "1"
        if place in self.nodes:
            self._ended.append(self.nodes[place])
        self.nodes[place] = Node(f"place {place}", self.arguments, environment)
        return self.nodes[place]

    def start_all(self):
        for place in range(self.count):
            self.start(place)

    def wait_until(self, what, condition):
        """The condition's first true value. Fails, with all output, on a time-out or when a node has ended."""
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {WAIT_TIMEOUT_S:.0f} s in vain for {what}\n{self.output()}")
            if all(node.process.poll() is not None for node in self.nodes.values()):
                value = condition()
                if value:
                    return value
                raise AssertionError(f"all nodes ended while waiting for {what}\n{self.output()}")
            time.sleep(POLL_S)

    def exit_codes(self):
        """Exit codes of all nodes by place, once all have ended."""
        for place, node in self.nodes.items():
            try:
                node.process.wait(WAIT_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                raise AssertionError(f"place {place} did not end\n{self.output()}") from error
            node._reader.join(WAIT_TIMEOUT_S)
        return {place: node.process.returncode for place, node in self.nodes.items()}

    def find(self, pattern):
        return [match for node in [*self._ended, *self.nodes.values()] for match in node.find(pattern)]

    def workers(self, restart):
        return {rank: pid for node in [*self._ended, *self.nodes.values()]
                for rank, pid in node.workers(restart).items()}

    def output(self):
        return "\n".join(node.output() for node in [*self._ended, *self.nodes.values()])

    def close(self):
        for node in [*self._ended, *self.nodes.values()]:
            node.end()
        self.folder.cleanup()

"""A whole job of `muster run` processes on one machine, each with its own CLUSTER_SPEC, with their output and records.

Every process that a test starts has a token in its environment. After the test all processes with it are ended, by pid.
"""
import itertools
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from processes import GONE, children  # noqa: E402

BINARY = pathlib.Path(os.environ.get("MUSTER_BINARY", ROOT / "build/release/bin/muster")).resolve()
WORKER = pathlib.Path(__file__).resolve().parent / "worker.py"
LIMIT_S = 60.0  # only a hang reaches it
POLL_S = 0.01
TOKEN = "TEST_JOB_TOKEN"
LEASE = ("--lease", "3s")
CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")  # needs root
QUIET_S = 1.0  # how long to watch for an event that must not happen


# Under nohup, or as a shell's background job, some signals are ignored, and children would inherit that.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


def wait_until(what, condition, limit=LIMIT_S):
    """The condition's first true value; after `limit` seconds an AssertionError that names the awaited event."""
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit:g} s in vain for {what}")
        time.sleep(POLL_S)


def never(what, condition, limit=QUIET_S):
    """AssertionError if the condition becomes true within `limit` seconds."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        value = condition()
        if value:
            raise AssertionError(f"this must not happen: {what}: {value}")
        time.sleep(POLL_S)


def free_port(address, family=None):
    with socket.socket(family or (socket.AF_INET6 if ":" in address else socket.AF_INET)) as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def listens(address, port):
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def is_full(descriptor):
    """Whether a pipe is full; possibly only for a moment if its writers write small pieces."""
    return not select.select([], [descriptor], [], 0)[1]


# ---- processes, by pid ----------------------------------------------------------------------------------------------

def process_state(pid):
    """The state letter of /proc; None when the process is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except GONE:
        return None


def is_alive(pid):
    return process_state(pid) not in (None, "Z", "X")


def arguments_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except GONE:
        return []


def is_preloader(pid):
    """Whether it is the Python of --preload, of which no worker has been made."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text() == "muster-preload\n"
    except GONE:
        return False


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def bearers(variable, value):
    """Pids of all living processes whose environment has variable=value, whatever their parent."""
    wanted = f"{variable}={value}".encode()
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0") and is_alive(int(folder.name)):
                found.append(int(folder.name))
        except (*GONE, PermissionError):
            continue
    return found


def started_with(pid):
    """The environment that a process was started with."""
    block = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in block if b"=" in entry)


def kill(pid, number=signal.SIGKILL):
    """Whether there was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def threads_stand(pid):
    try:
        threads = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        return all((thread / "stat").read_text().rsplit(")", 1)[1].split()[0] in "tTZX" for thread in threads)
    except GONE:
        return not is_alive(pid)


def stop(pid):
    """Stops a process until SIGCONT. Until one of its threads has taken the signal, the others run on."""
    if not kill(pid, signal.SIGSTOP):
        return False
    wait_until(f"process {pid} stands still", lambda: threads_stand(pid))
    return True


# ---- one node -------------------------------------------------------------------------------------------------------

FRESH = [sys.executable, "-S", "-E"]  # an interpreter that starts in milliseconds
# The same tests with workers that are forked from a preloaded Python.
PRELOAD = os.environ.get("MUSTER_TEST_PRELOAD", "")


def node_command(options, program):
    program = list(program)
    if PRELOAD and program[:len(FRESH)] == FRESH and not program[len(FRESH)].startswith("-"):
        return [str(BINARY), "run", *options, "--python", sys.executable, "--preload", PRELOAD, "--",
                *program[len(FRESH):]]
    return [str(BINARY), "run", *options, "--no-python", "--", *program]


class Node:
    """One `muster run`. Its output goes to files; a thread records when it ended."""

    def __init__(self, name, command, environment, folder, terminal=None, **popen):
        self.name, self.command = name, command
        self.out_path, self.err_path = folder / f"{name}.out", folder / f"{name}.err"
        self.ended_at = None
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            files = dict(stdin=subprocess.DEVNULL, stdout=out, stderr=err) if terminal is None else dict(
                stdin=terminal, stdout=terminal, stderr=terminal)
            self.process = subprocess.Popen(command, env=environment, start_new_session=True, **{**files, **popen})
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    def _wait(self):
        self.process.wait()
        self.ended_at = time.monotonic()

    def exit_code(self, limit=LIMIT_S):
        wait_until(f"the end of {self.name}", lambda: self.ended_at, limit)
        return self.process.returncode

    def has_ended(self):
        return self.ended_at is not None

    def out(self):
        return self.out_path.read_text(errors="replace")

    def err(self):
        return self.err_path.read_text(errors="replace")

    def host(self):
        """The host's pid: the innermost `muster run`, below `unshare` and our PID 1 if there are any."""
        runs = [pid for pid in [self.process.pid, *descendants(self.process.pid)]
                if arguments_of(pid)[1:2] == ["run"] and is_alive(pid)]
        return runs[-1] if runs else None

    def agent(self):
        host = self.host()
        found = [pid for pid in children(host) if arguments_of(pid)[1:2] == ["agent"] and is_alive(pid)] if host else []
        return found[0] if found else None

    def said(self, pattern):
        return re.findall(pattern, self.err())

    def main(self):
        """The pid of the started process, in a container of its process 1; None once it has ended."""
        if self.command[:len(CONTAINER)] != [*CONTAINER]:
            return self.process.pid
        return next(iter(children(self.process.pid)), None)

    def signal(self, number):
        main = self.main()
        return main is not None and kill(main, number)


# ---- the job --------------------------------------------------------------------------------------------------------

class Cluster:
    """`nodes` trainers at places 0, 1, ... of one CLUSTER_SPEC and, if asked for, a pool of one reduction server.

    plan: rules for worker.py. addresses: the nodes' own, default 127.0.0.1, .2, ... prefix: command before `muster`
    for a place (`ip netns exec`, `unshare`).
    """

    def __init__(self, nodes=3, plan=(), options=(), nproc=2, reduction_server=False, addresses=None, ports=None,
                 program=None, prefix=None, environment=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        (self.folder / "beats").mkdir()
        self.token = uuid.uuid4().hex
        self.job_id = f"integration-{self.token}"  # no run mistakes another test's processes for its own
        count = nodes + int(reduction_server)
        self.addresses = addresses or [f"127.0.0.{place + 1}" for place in range(count)]
        self.ports = ports or [free_port(address) for address in self.addresses]
        self.size, self.nproc, self.options = nodes, nproc, [*LEASE, *options]
        self.program = program or [*FRESH, str(WORKER), str(self.folder), json.dumps(list(plan))]
        self.prefix = prefix or (lambda place: [])
        self.environment = environment or {}
        self.nodes = {}     # by place: the newest
        self.all_nodes = []
        self.after_end = []  # functions to call once all processes have ended
        self._names = itertools.count()

    # Starting.

    def endpoint(self, place):
        address = self.addresses[place]
        return f"[{address}]:{self.ports[place]}" if ":" in address else f"{address}:{self.ports[place]}"

    def spec(self, place):
        pools = {"workerpool0": [self.endpoint(0)]}
        if self.size > 1:
            pools["workerpool1"] = [self.endpoint(trainer) for trainer in range(1, self.size)]
        if len(self.addresses) > self.size:
            pools["workerpool2"] = [self.endpoint(aux) for aux in range(self.size, len(self.addresses))]
        pool, index = ("workerpool0", 0) if place == 0 else (
            ("workerpool1", place - 1) if place < self.size else ("workerpool2", place - self.size))
        return json.dumps({"cluster": pools, "environment": "cloud", "task": {"type": pool, "index": index, "trial": ""},
                           "job": "{\"python_module\":\"\",\"package_uris\":[],\"job_args\":[]}"})

    def environment_of(self, place):
        environment = plain_environment()
        environment.update({"CLUSTER_SPEC": self.spec(place), "CLOUD_ML_JOB_ID": self.job_id, TOKEN: self.token,
                            # muster's own defaults instead of those for Vertex AI.
                            "MUSTER_RETRYABLE_EXIT_CODE": "0", "MUSTER_LOG_STREAMS": "stderr",
                            "TEST_PLACE": str(place), **self.environment})
        return environment

    def start(self, place, options=(), **popen):
        command = [*self.prefix(place), *node_command(["--nproc-per-node", str(self.nproc), *self.options, *options],
                                                      self.program)]
        node = Node(f"place{place}-{next(self._names)}", command, self.environment_of(place), self.folder, **popen)
        self.nodes[place] = node
        self.all_nodes.append(node)
        return node

    def start_all(self, order=None):
        for place in order or range(len(self.addresses)):
            self.start(place)
        return self

    # The workers' records.

    def records(self, event=None, **wanted):
        try:
            lines = (self.folder / "records").read_text().splitlines()
        except FileNotFoundError:
            return []
        # A line without its end is still being written, or its writer was killed.
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return [r for r in found if event in (None, r["event"]) and all(r[key] == value for key, value in wanted.items())]

    def wait_for_round(self, restart, workers=None, limit=LIMIT_S):
        """The start records of a round, by rank, once all its workers have started."""
        workers = self.size * self.nproc if workers is None else workers
        starts = wait_until(f"{workers} workers with restart count {restart}",
                            lambda: (found := self.records("start", restart=restart)) and len(found) >= workers and found,
                            limit)
        return {record["rank"]: record for record in starts}

    def open_gate(self, name="gate"):
        (self.folder / name).touch()

    def last_beats(self, restart):
        """For each worker of a restart count, "place-rank-pid-port", the last time at which it was seen to run."""
        found = {}
        for path in (self.folder / "beats").glob(f"{restart}-*"):
            text = path.read_text()
            if text:
                found[path.name.split("-", 1)[1]] = float(text)
        return found

    def workers_of(self, place):
        """Pids, in the machine's namespace, of a node's living workers and all of their leftovers."""
        ours = set(bearers(TOKEN, self.token)) & set(bearers("TEST_PLACE", str(place)))
        return [pid for pid in ours if arguments_of(pid)[:1] and not self._is_muster(pid)]

    def descendants_of(self, kind, place=None):
        found = set(bearers(TOKEN, self.token)) & set(bearers("TEST_KIND", kind))
        return found if place is None else found & set(bearers("TEST_PLACE", str(place)))

    @staticmethod
    def _is_muster(pid):
        arguments = arguments_of(pid)
        if is_preloader(pid):
            return True
        return arguments[1:2] in (["run"], ["agent"]) or arguments[:1] in (["unshare"], ["ip"])

    # The end.

    def exit_codes(self, limit=LIMIT_S):
        """Exit code of the newest node of every place, once all have ended."""
        return {place: node.exit_code(limit) for place, node in sorted(self.nodes.items())}

    def output(self):
        parts = []
        for node in self.all_nodes:
            code = node.process.returncode if node.has_ended() else "still running"
            parts.append(f"----- {node.name}: {code}\n{node.err()}{node.out()}")
        parts += ["----- records", *(f"{r['event']} rank {r['rank']}/{r['world']} restart {r['restart']} "
                                     f"place {r['place']} {r['time']:.3f}" for r in self.records())]
        return "\n".join(parts)

    def close(self):
        def all_gone():
            for pid in bearers(TOKEN, self.token):
                kill(pid)
            return not bearers(TOKEN, self.token)
        wait_until("the end of everything that this test started", all_gone)
        for node in self.all_nodes:
            node.exit_code()
        for call in self.after_end:
            call()
        shutil.rmtree(self.folder)


def plain_environment():
    """The test's own environment, without the variables that muster reads."""
    strange = ("MUSTER_", "PET_", "TORCHELASTIC_", "CLUSTER_SPEC", "CLOUD_ML_")
    return {name: value for name, value in os.environ.items() if not name.startswith(strange)}


class ClusterTest(unittest.TestCase):
    """A test case whose clusters are ended after each test; their output is shown when it failed.

    container: command that makes each node process 1 of a PID namespace, set by a subclass. Pids that workers record
    then belong to that namespace, so such tests look pids up from outside.
    """
    container = ()

    @property
    def cancelled(self):
        """The return code of a node cancelled by Ctrl-C: no signal ends process 1."""
        return 130 if self.container else -signal.SIGINT

    def cluster(self, *args, kind=Cluster, prefix=None, **kwargs):
        cluster = kind(*args, prefix=lambda place: [*self.container, *(prefix(place) if prefix else [])], **kwargs)
        self.addCleanup(self._end, cluster)
        return cluster

    def _end(self, cluster):
        result = self._outcome.result
        failed = any(getattr(case, "test_case", case) is self for case, _ in result.failures + result.errors)
        text = cluster.output() if failed else ""
        cluster.close()
        if failed:
            print(f"\n===== {self.id()}\n{text}", file=sys.stderr, flush=True)

    def assert_rounds_do_not_overlap(self, cluster):
        """No worker of a round runs when a later round's first worker starts, by the workers' own clocks."""
        rounds = {}  # by restart count and master: a count repeats if all nodes that knew the first round died
        for record in cluster.records("start"):
            rounds.setdefault((record["restart"], record["master_addr"], record["master_port"]), []).append(record)
        rounds = sorted(rounds.values(), key=lambda records: min(record["time"] for record in records))
        for earlier, later in zip(rounds, rounds[1:]):
            first = min(record["time"] for record in later)
            beats = cluster.last_beats(earlier[0]["restart"])
            for record in earlier:
                worker = f"{record['place']}-{record['rank']}-{record['pid']}-{record['master_port']}"
                last = max(record["time"], beats.get(worker, 0.0))
                self.assertLess(last, first, f"worker {worker} of restart {record['restart']} ran when restart "
                                             f"{later[0]['restart']} began")

    def assert_same_master(self, starts):
        self.assertEqual(1, len({(record["master_addr"], record["master_port"]) for record in starts.values()}))


@unittest.skipUnless(os.geteuid() == 0, "only root makes PID namespaces")
class InAContainer:
    """Mixin before a test case: the same tests with each node as process 1 of a PID namespace."""
    container = CONTAINER


class AllBut(unittest.TestLoader):
    """Loads all test cases except the named ones, which ctest runs separately from their file."""

    def __init__(self, left_out):
        super().__init__()
        self.left_out = left_out

    def loadTestsFromTestCase(self, testCaseClass):
        left_out = testCaseClass.__name__ in self.left_out
        return self.suiteClass() if left_out else super().loadTestsFromTestCase(testCaseClass)


def main():
    """Runs the tests of the main program: those named by its arguments, or all `--without CLASS,CLASS`."""
    if not BINARY.exists():
        sys.exit(f"{BINARY} is not there: build it, or set MUSTER_BINARY")
    left_out, arguments = (), sys.argv
    if arguments[1:2] == ["--without"]:
        left_out, arguments = arguments[2].split(","), [arguments[0], *arguments[3:]]
        unknown = [name for name in left_out if not hasattr(sys.modules["__main__"], name)]
        if unknown:
            sys.exit(f"no such class: {', '.join(unknown)}")
    unittest.main(argv=arguments, verbosity=2, testLoader=AllBut(left_out))

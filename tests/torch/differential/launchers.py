"""Runs a case's command lines with torchrun and with muster in separate folders, and waits for their end."""
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import pathlib
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

# Both launchers start as from a terminal, however these tests were started: under nohup, or in the background of a
# script, muster leaves these signals ignored for its workers, and torchrun does not.
for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("MUSTER_BINARY", ROOT / "build/release/bin/muster")).resolve()
HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 120.0  # only a hang reaches it
POLL_S = 0.02
PYTHON = os.path.normpath(sys.executable)
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TZ")


@dataclasses.dataclass
class Node:
    """One launcher process and the files of its output."""
    out: pathlib.Path
    err: pathlib.Path
    process: object = None
    status: int = None


# How muster is called: by the name torchrun; by `muster run python -m torch.distributed.run`; or by a launcher that
# calls torch's main, as Accelerate does, in which muster takes torchrun's place.
CALLED = os.environ.get("MUSTER_CALLED", "name")
LAUNCHER = """#!%s
# It has a name by which muster knows accelerate.commands.accelerate_cli.
import importlib, os, sys
sys.argv[:2] = ["torchrun"]
importlib.import_module(os.environ.pop("LAUNCHER_MODULE")).main()
"""


class MusterProcess:
    """The built binary in the place of torchrun, or of torch.distributed.launch."""

    def __init__(self, arguments, environment, cwd, out, err, launch):
        module = "torch.distributed.launch" if launch else "torch.distributed.run"
        if CALLED == "launcher":
            launcher = pathlib.Path(out).with_name("accelerate")
            launcher.write_text(LAUNCHER % PYTHON)
            launcher.chmod(0o755)
            environment = environment | {"LAUNCHER_MODULE": module}
            line = ["muster", "run", str(launcher), "launch", *arguments]
        elif CALLED == "module":
            line = ["muster", "run", PYTHON, "-m", module, *arguments]
        else:
            line = ["torchrun", *(["--pass-local-rank"] if launch else []), *arguments]
        with open(out, "wb") as out_file, open(err, "wb") as err_file:
            self._process = subprocess.Popen(line, executable=BINARY, env=environment, cwd=cwd,
                                             stdin=subprocess.DEVNULL, stdout=out_file, stderr=err_file,
                                             start_new_session=True)
        self.pid = self._process.pid

    def has_ended(self):
        return self._process.poll() is not None

    def wait(self, limit):
        code = self._process.wait(limit)
        return code if code >= 0 else 128 - code  # as a shell shows a signal


class TorchrunServer:
    """Starts torchrun through a process that has imported torch once (torchrun_server.py)."""

    def __init__(self):
        environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        self._process = subprocess.Popen([PYTHON, str(HERE / "torchrun_server.py")], env=environment,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._answers, self._changed, self._count = {}, threading.Condition(), 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            with self._changed:
                answer = json.loads(line)
                self._answers.setdefault(answer.pop("id"), {}).update(answer)
                self._changed.notify_all()

    def __call__(self, arguments, environment, cwd, out, err, launch):
        with self._changed:
            self._count += 1
            run = TorchrunProcess(self, self._count)
            request = {"id": run.number, "arguments": arguments, "environment": environment, "cwd": str(cwd),
                       "out": str(out), "err": str(err), "launch": launch}
            self._process.stdin.write(json.dumps(request) + "\n")
        run.pid = self.answer(run.number, "pid", LIMIT_S)
        return run

    def answer(self, number, name, limit):
        with self._changed:
            if not self._changed.wait_for(lambda: name in self._answers.get(number, {}), limit):
                raise AssertionError(f"torchrun's {name} did not come within {limit:.0f} s")
            return self._answers[number][name]

    def has_answer(self, number, name):
        with self._changed:
            return name in self._answers.get(number, {})

    def close(self):
        self._process.stdin.close()
        self._process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        self._process.stdout.close()


class TorchrunProcess:
    def __init__(self, server, number):
        self._server, self.number, self.pid = server, number, None

    def has_ended(self):
        return self._server.has_answer(self.number, "status")

    def wait(self, limit):
        return self._server.answer(self.number, "status", limit)


class Run:
    """One case under one launcher, from the creation of its folder to the end of all its nodes."""

    def __init__(self, case, start):
        self.case, self._start = case, start
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-diff-"))
        for name in ("records", "cwd", "tmp"):
            (self.folder / name).mkdir()
        shutil.copy(HERE / "probe.py", self.folder / "cwd" / "probe.py")
        for name, content in case.files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.chmod(0o755 if content.startswith("#!") else 0o644)
        self.nodes = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = str(probe.getsockname()[1])
        self.base = self._environment()

    def _fill(self, text):
        for name, value in (("{folder}", self.folder), ("{cwd}", self.folder / "cwd"), ("{port}", self._port),
                            ("{probe}", self.folder / "cwd" / "probe.py"), ("{python}", PYTHON)):
            text = text.replace(name, str(value))
        return text

    def _environment(self):
        environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        environment["PATH"] = f"{pathlib.Path(PYTHON).parent}:{environment.get('PATH', os.defpath)}"
        environment |= {"TMPDIR": str(self.folder / "tmp"), "PROBE_FOLDER": str(self.folder / "records"),
                        "PROBE_WORKERS": str(self.case.workers), "PROBE_PLAN": json.dumps(self.case.plan)}
        if any("{port}" in option for options in (self.case.options, *self.case.nodes, self.case.environment.values())
               for option in options):
            environment["PROBE_PORT"] = self._port
        return environment | {name: self._fill(value) for name, value in self.case.environment.items()}

    def go(self):
        for number, options in enumerate(self.case.nodes or ((),)):
            node = Node(self.folder / f"node{number}.out", self.folder / f"node{number}.err")
            arguments = [self._fill(text) for text in (*self.case.options, *options, *self.case.program)]
            node.process = self._start(arguments, self.base, self.folder / "cwd", node.out, node.err,
                                       self.case.launch)
            self.nodes.append(node)
        if self.case.signal:
            self._wait_for_workers()
            os.kill(self.nodes[0].process.pid, getattr(signal, self.case.signal))
        deadline = time.monotonic() + LIMIT_S
        for node in self.nodes:
            try:
                node.status = node.process.wait(max(1.0, deadline - time.monotonic()))
            except (subprocess.TimeoutExpired, AssertionError) as error:
                raise AssertionError(f"no end within {LIMIT_S:.0f} s\n{self.output()}") from error

    def _wait_for_workers(self):
        deadline = time.monotonic() + LIMIT_S
        while len([r for r in self.records() if r["attempt"] == str(self.case.attempts - 1)]) < self.case.workers:
            if time.monotonic() > deadline or self.nodes[0].process.has_ended():
                raise AssertionError(f"waited in vain for {self.case.workers} workers\n{self.output()}")
            time.sleep(POLL_S)

    def records(self):
        found = [json.loads(path.read_text()) for path in sorted((self.folder / "records").glob("*.json"))]
        return sorted(found, key=lambda record: (record["attempt"], record["rank"], record["pid"]))

    def output(self):
        return "\n".join(f"----- node {number}: {node.status}\n{node.err.read_text(errors='replace')}"
                         f"{node.out.read_text(errors='replace')}" for number, node in enumerate(self.nodes))

    def close(self):
        """Ends processes that a failed case may have left, by pid, then removes the folder."""
        for node in self.nodes:
            if node.status is None:
                for number in (signal.SIGTERM, signal.SIGKILL):
                    try:
                        os.kill(node.process.pid, number)
                        node.status = node.process.wait(5.0)
                        break
                    except (ProcessLookupError, subprocess.TimeoutExpired, AssertionError):
                        continue
        for record in self.records():
            try:
                if f"PROBE_FOLDER={self.folder}".encode() in pathlib.Path(
                        f"/proc/{record['pid']}/environ").read_bytes():
                    os.kill(record["pid"], signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                continue
        shutil.rmtree(self.folder, ignore_errors=True)


def run_case(case, start, look):
    """The result of `look` for the case's run under one launcher, and all output."""
    run = Run(case, start)
    try:
        run.go()
        return look(run, case, run.base), run.output()
    finally:
        run.close()


class TorchrunCache:
    """Cache of torchrun's results for unchanged cases, for work on muster. Off unless its folder is given.

    A result's key is torch's version, the case, and every file of this folder that influences it.
    """

    def __init__(self, folder):
        self._folder = pathlib.Path(folder) if folder else None
        sources = ("probe.py", "observe.py", "launchers.py", "torchrun_server.py", "case.py")
        self._version = importlib.metadata.version("torch").encode() + b"".join(
            (HERE / name).read_bytes() for name in sources)

    def _path(self, case):
        return self._folder / hashlib.sha256(self._version + repr(case).encode()).hexdigest()

    def get(self, case):
        if self._folder is None or not self._path(case).exists():
            return None
        return pickle.loads(self._path(case).read_bytes())

    def put(self, case, result):
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._path(case).write_bytes(pickle.dumps(result))

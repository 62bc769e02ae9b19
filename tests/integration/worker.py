"""A tiny worker: records its start, beats while it lives, and ends according to its plan. Starts in milliseconds.

    python -S -E worker.py FOLDER PLAN

PLAN is a JSON list of rules. A rule without `when` applies to all; else every key of `when` (rank, restart, place,
local_rank) must be equal. All rules that apply are merged, the later ones win. Keys of a rule:

    after: NAME      goes on only when the file FOLDER/NAME exists (default "gate"; null: at once)
    exit: CODE       ends with this code (default 0)
    signal: NUMBER   ends itself by this signal
    hang: true       never goes on
    term: "ignore"   SIGTERM and SIGINT are recorded and ignored; "exit": recorded, then exit 0
    spawn: [KIND]    leaves descendants: plain, setsid, double_fork, bash, daemon_in_bash, unmarked
    check: "files"   records what its file descriptors are
    listen: true     listens on MASTER_PORT before it ends; exits with 1 if it cannot
    flood: LINES     writes this many numbered lines to standard output, and as many to standard error, with each beat

witness.py describes its records.
"""
import json
import os
import signal
import sys
import time

from witness import Witness

BEAT_S = 0.005

folder = sys.argv[1]
witness = Witness(folder)
facts, record = witness.facts, witness.record


def open_files():
    """Descriptors and their targets, without the one that lists the folder itself."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
    return found


def descend(kind):
    """Starts a `sleep` as a descendant of this kind, marked by TEST_KIND in its environment."""
    environment = {**os.environ, "TEST_KIND": kind}
    sleep = ["sleep", "3600"]
    if kind == "plain":
        os.posix_spawnp("sleep", sleep, environment)
    elif kind == "setsid":
        os.posix_spawnp("setsid", ["setsid", *sleep], environment)
    elif kind == "bash":
        os.posix_spawnp("bash", ["bash", "-c", "sleep 3600; true"], environment)
    elif kind == "daemon_in_bash":
        bash = os.posix_spawnp("bash", ["bash", "-c", "setsid sleep 3600 & disown; exit 0"], environment)
        os.waitpid(bash, 0)  # a zombie of ours would not be muster's fault
    elif kind == "double_fork":
        child = os.fork()
        if child == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvpe("sleep", sleep, environment)
            os._exit(0)
        os.waitpid(child, 0)
    elif kind == "unmarked":  # in our session, but without the host's marker
        del environment["MUSTER_HOST_ID"]
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            if os.fork() == 0:
                os.execvpe("sleep", sleep, environment)
            os._exit(0)
        os.waitpid(child, 0)
    else:
        raise ValueError(kind)


class Flood:
    """Writes numbered lines to each stream, far more than a pipe holds."""

    def __init__(self, lines):
        self.lines, self.written = lines, 0

    def pour(self):
        numbers = range(self.written, self.written + self.lines)
        for descriptor, name in ((1, "out"), (2, "err")):
            text = "".join(f"{name} {facts['rank']} {facts['restart']} {n} {'x' * 80}\n" for n in numbers).encode()
            while text:
                text = text[os.write(descriptor, text):]
        self.written += self.lines


def main():
    plan = {"after": "gate"}
    for rule in json.loads(sys.argv[2]):
        if all(facts[key] == value for key, value in rule.get("when", {}).items()):
            plan.update(rule)

    def on_signal(number, _frame):
        record("signal", number=number)
        if plan["term"] == "exit":
            os._exit(0)

    if "term" in plan:
        signal.signal(signal.SIGTERM, on_signal)
        signal.signal(signal.SIGINT, on_signal)
    record("start", **({"files": open_files()} if plan.get("check") == "files" else {}))
    for kind in plan.get("spawn", []):
        descend(kind)
    gate = plan["after"] and os.path.join(folder, plan["after"])
    flood = Flood(plan.get("flood", 0))
    while plan.get("hang") or (gate and not os.path.exists(gate)):
        witness.beat()
        flood.pour()
        time.sleep(BEAT_S)
    if plan.get("listen"):
        import socket
        socket.create_server(("", int(facts["master_port"])))
    record("end")
    if "signal" in plan:
        signal.signal(plan["signal"], signal.SIG_DFL) if plan["signal"] not in (signal.SIGKILL, signal.SIGSTOP) else 0
        os.kill(os.getpid(), plan["signal"])
        time.sleep(60)
    os._exit(plan.get("exit", 0))


main()

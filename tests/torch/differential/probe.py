"""A worker that records how it was started, then follows PROBE_PLAN. Imports no torch, so it starts in 30 ms.

PROBE_FOLDER   where its record goes, one JSON file for each worker and attempt
PROBE_WORKERS  how many workers "together" waits for
PROBE_PLAN     JSON: steps by "RANK@ATTEMPT", "*@ATTEMPT", "RANK" or "*", the first match
"""
import json
import os
import pathlib
import signal
import sys
import time

FOLDER = pathlib.Path(os.environ["PROBE_FOLDER"])
RANK, ATTEMPT = os.environ.get("RANK", "none"), os.environ.get("TORCHELASTIC_RESTART_COUNT", "none")
RECORD = FOLDER / f"{ATTEMPT}-{RANK}-{os.getpid()}.json"
LIMIT_S = 60  # only a hang reaches it
POLL_S = 0.01
received = []


def signal_sets():
    """The blocked and ignored signals from /proc; SIGPIPE and SIGXFSZ are Python's own."""
    status = pathlib.Path("/proc/self/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    python_ignores = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    return {"blocked": int(fields["SigBlk"], 16), "ignored": int(fields["SigIgn"], 16) & ~python_ignores}


def write_record():
    """Writes atomically: readers of the folder never see a partial file."""
    record = {
        "rank": RANK, "attempt": ATTEMPT, "pid": os.getpid(), "argv": sys.argv, "command": sys.orig_argv,
        "cwd": os.getcwd(), "name": __name__, "environment": dict(os.environ), "signals": received,
        "own session": os.getsid(0) == os.getpid(), "stdin": os.readlink("/proc/self/fd/0"), **signal_sets(),
    }
    draft = RECORD.with_suffix(".draft")
    draft.write_text(json.dumps(record))
    draft.rename(RECORD)


def wait_for(what, condition):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"the probe waited in vain for {what}")
        time.sleep(POLL_S)


def together():
    """Waits until all workers of this attempt have written their record."""
    wanted = int(os.environ["PROBE_WORKERS"])
    wait_for("the others", lambda: len(list(FOLDER.glob(f"{ATTEMPT}-*.json"))) >= wanted)


def say(stream, text):
    stream.write(f"probe {text}\n")
    stream.flush()


def write_error(text):
    target = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    if target:
        pathlib.Path(target).write_text(text)


def record_error(message):
    """Writes what torch's @record writes for an uncaught exception."""
    write_error(json.dumps({"message": {"message": f"RuntimeError: {message}", "extraInfo": {
        "py_callstack": f"Traceback: {message}", "timestamp": str(int(time.time()))}}}))


def note_signals(steps):
    """Called before this worker is visible, so that no signal that a step waits for is missed."""
    for step in steps:
        name, _, signals = step.partition(" ")
        for awaited in signals.split() if name == "wait" else ():
            signal.signal(getattr(signal, awaited), lambda number, _: received.append(signal.Signals(number).name))


def wait_for_a_signal(_):
    """Records the signal, then ends by it, like a worker without a handler."""
    wait_for("a signal", lambda: received)
    write_record()
    number = getattr(signal, received[0])
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


STEPS = {
    "together": lambda _: together(),
    "out": lambda text: say(sys.stdout, text),
    "err": lambda text: say(sys.stderr, text),
    "exit": lambda code: sys.exit(int(code)),
    "signal": lambda name: os.kill(os.getpid(), getattr(signal, name)),
    "record": record_error,
    "error-file": write_error,
    "wait": wait_for_a_signal,
}


def main():
    plan = json.loads(os.environ.get("PROBE_PLAN", "{}"))
    keys = (f"{RANK}@{ATTEMPT}", f"*@{ATTEMPT}", RANK, "*")
    steps = next((plan[key] for key in keys if key in plan), [])
    note_signals(steps)
    write_record()
    for step in steps:
        name, _, argument = step.partition(" ")
        STEPS[name](argument)


if __name__ == "__main__":
    main()

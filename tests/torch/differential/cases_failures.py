"""Failures of a job and their reports (facts 4.2, 4.3, 5.6)."""
from differential.case import Case, worker_failed

TWO = ("--nproc-per-node=2",)
LOGS = ("--log-dir={folder}/logs",)
NO_REPORT = "it ends in a traceback of its own and says nothing of the failure"
OTHER_WAITS = {"*": ["together", "wait SIGTERM"]}


def fails(name, *steps, code, options=(), **more):
    """Rank 1 of two fails when both are there; the other waits for the signal that follows."""
    return Case(name, (*TWO, *LOGS, *options), workers=2, ends=worker_failed(code),
                plan={"1": ["together", *steps], **OTHER_WAITS}, **more)


CASES = (
    *(fails(f"exit code {code}", f"exit {code}", code=code) for code in (1, 2, 3, 85, 255)),
    *(fails(f"a worker ended by {name}", f"signal {name}", code=128 + number)
      for name, number in (("SIGKILL", 9), ("SIGSEGV", 11), ("SIGABRT", 6), ("SIGTERM", 15))),
    fails("an exception that was recorded", "record it broke", "exit 1", code=1),
    fails("an error file of plain form", 'error-file {"message": "plain words", "timestamp": 1700000000}', "exit 4",
          code=4),
    fails("an error file whose message is no text", 'error-file {"message": 5}', "exit 4", code=4,
          torchrun_cannot=NO_REPORT),
    fails("an error file that is no JSON", "error-file {broken", "exit 4", code=4, torchrun_cannot=NO_REPORT),
    fails("an error file that is empty", "error-file ", "exit 4", code=4, torchrun_cannot=NO_REPORT),
    fails("an error file of an unknown form", 'error-file {"words": "x"}', "exit 4", code=4,
          torchrun_cannot=NO_REPORT),
    fails("an exception that was recorded and a signal after it", "record it broke", "signal SIGKILL", code=137),
    Case("a recorded exception of a worker that exits 0 is no failure", LOGS,
         plan={"*": ["record it broke", "exit 0"]}),
    Case("a worker that ends early with 0 disturbs no other", (*TWO, *LOGS), workers=2,
         plan={"0": ["exit 0"], "1": ["together", "out late"]}),
    Case("one worker alone fails", LOGS, ends=worker_failed(7), plan={"*": ["exit 7"]}),
    Case("all restarts are spent", (*LOGS, "--max-restarts=2"), attempts=3, ends=worker_failed(5),
         plan={"*@0": ["exit 3"], "*@1": ["exit 4"], "*@2": ["exit 5"]}),
    Case("a failure is written to the launcher's own error file", LOGS, ends=worker_failed(1),
         environment={"TORCHELASTIC_ERROR_FILE": "{folder}/logs/error.json"}, plan={"*": ["record it broke", "exit 1"]}),
    Case("an error file of an earlier run is overwritten by the launcher's", LOGS, ends=worker_failed(1),
         environment={"TORCHELASTIC_ERROR_FILE": "{folder}/logs/error.json"}, files={"logs/error.json": "old"},
         plan={"*": ["record it broke", "exit 1"]}),
    Case("a failure without a log folder", TWO, workers=2, ends=worker_failed(3),
         plan={"1": ["together", "exit 3"], **OTHER_WAITS}),
    Case("a recorded exception with /dev/null as log folder", ("--log-dir=/dev/null",), ends=worker_failed(1),
         plan={"*": ["record it broke", "exit 1"]}),
    Case("a module that fails is named in the report", (*LOGS, "-m"), ("probe", "a"), ends=worker_failed(9),
         plan={"*": ["exit 9"]}),
    Case("a program that fails is named in the report", (*LOGS, "--no-python"), ("sh", "-c", "exit 11"), workers=0,
         ends=worker_failed(11)),
    Case("a worker of a role fails", (*LOGS, "--role=trainer"), ends=worker_failed(3), plan={"*": ["exit 3"]}),
)

"""Deliberate differences of muster, and cases that it does not match yet. The comparison itself reads both.

A difference that is in neither list fails the test. So does a case of NOT_YET that agrees by now, and an entry of
DIFFERENCES that no case shows any more: both lists must stay true.
"""
import dataclasses
import re

ABSENT = "<absent>"


@dataclasses.dataclass(frozen=True)
class Difference:
    """Patterns that match the whole field name, both values, and the case's name."""
    field: str
    torchrun: str
    muster: str
    reason: str
    case: str = ".*"

    def explains(self, case, field, torchrun, muster):
        pairs = ((self.case, case), (self.field, field), (self.torchrun, torchrun), (self.muster, muster))
        return all(re.fullmatch(pattern, str(value), re.DOTALL) for pattern, value in pairs)


ANY = ".*"
RUN_PATH = ".*RUN_PATH.*|run-path.*"  # cases
WORKER = r"worker \d+(?: attempt \d+)?: "
NODE = r"(?:node \d+: )?"

DIFFERENCES = (
    Difference(WORKER + "env TORCHELASTIC_USE_AGENT_STORE", "True", "False",
               "the launcher has no torch store: rank 0 opens it, which torchrun's own False means"),
    Difference(WORKER + "env TORCHELASTIC_RUN_ID", "<uuid>|none", "[0-9a-f]{16}",
               "a run without a name gets a name of its own; two runs called none would be one job"),
    Difference(WORKER + "env TORCHELASTIC_RUN_ID", "<uuid>", "mine",
               "a given name is kept, also with --standalone"),
    Difference(WORKER + "env MASTER_PORT", "<the given port>|0", "<port>",
               "the given port is the launcher's own; the workers get a free port that is kept for each round "
               "(--worker-port)"),
    Difference(WORKER + "env TORCHELASTIC_ERROR_FILE", "<temporary>/<run>/attempt_.*/error.json",
               "<temporary>/.*json",
               "without a log folder the file is muster's own, and is removed after the run"),
    Difference(WORKER + "env PET_.*", ABSENT, "<vanished>",
               "a launcher that a worker starts must not use the membership of the outer launcher"),
    Difference(WORKER + "env TORCHINDUCTOR_CACHE_DIR", ANY, ABSENT,
               "torch sets it in a launcher that imported torch; a worker that imports torch gets the same folder"),
    Difference(WORKER + "env (CROSS_RANK|CROSS_SIZE|LOCAL_SIZE|NODE_RANK|JAX_.*)", ABSENT, r"(.*:)?\d+",
               "the names under which other launchers pass the same numbers"),
    Difference(WORKER + "env MUSTER_.*", ABSENT, ANY,
               "the marker by which muster finds and ends a worker's remaining processes"),
    Difference(WORKER + "env PYTHONFAULTHANDLER", ABSENT, "1",
               "a worker that crashes prints where, without @record"),
    Difference(WORKER + "env TORCHELASTIC_TIMER_FILE", "{folder}/tmp/watchdog_timer_<uuid>", "{folder}/tmp/[^/]+/pipe",
               "the pipe is in a folder of muster's own: no other program can replace it"),
    Difference(NODE + "(stdout|stderr)", ANY, r".*\[default0\]:probe zero.*",
               "a prefix needs no files: --tee also shows it without files",
               case="tee with /dev/null as log folder shows all with a prefix"),
    Difference(NODE + "report traceback", "To enable traceback see: .*", ANY,
               "no link to a page about torchrun: the worker's last lines, if muster holds them, are more useful"),
    Difference(WORKER + "command", ".*spawn_main.*", ".*'-u', .*{folder}/cwd/probe.py'.*",
               "run-path starts an interpreter for each worker: a script sees no other difference", case=RUN_PATH),
    Difference(WORKER + "own session", "False", "True",
               "run-path's workers are ended with all that they started, like other workers", case=RUN_PATH),
    Difference("report.*", ANY, f"<none>|{ABSENT}",
               "a missing script is reported in one line before anything is started",
               case="a script that is not there fails"),
    Difference(NODE + "report host", "<this machine>", r".* \(node \d+\)",
               "the report shows the root cause of the whole group, so it names the node"),
)

# Cases, by name, in which muster should match torchrun and does not yet.
NOT_YET = frozenset(())

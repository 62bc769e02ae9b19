"""Where muster does otherwise on purpose, and what it does not do yet. The comparison itself reads both.

A difference that is in neither list fails the test. So does a case of NOT_YET that has come to agree, and an entry of
DIFFERENCES that no case shows any more: both lists only ever say what is so.
"""
import dataclasses
import re

ABSENT = "<absent>"


@dataclasses.dataclass(frozen=True)
class Difference:
    """Patterns for the whole of the field's name, of both values, and of the case's name."""
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
               "the launcher holds no torch store: rank 0 opens it, as torchrun's own False means"),
    Difference(WORKER + "env TORCHELASTIC_RUN_ID", "<uuid>|none", "[0-9a-f]{16}",
               "a run that was given no name gets one of its own; two that are called none would be one job"),
    Difference(WORKER + "env TORCHELASTIC_RUN_ID", "<uuid>", "mine",
               "a name that was given is kept, in standalone too"),
    Difference(WORKER + "env MASTER_PORT", "<the given port>", "<port>",
               "the given port is the launcher's own; the workers' is one kept free for each round (--worker-port)"),
    Difference(WORKER + "env TORCHELASTIC_ERROR_FILE", "<temporary>/<run>/attempt_.*/error.json",
               "<temporary>/.*json",
               "where no log folder was named the file is ours alone, and gone after the run"),
    Difference(WORKER + "env PET_.*", ABSENT, "<vanished>",
               "a launcher that a worker starts shall not take for itself what was said to the outer one"),
    Difference(WORKER + "env TORCHINDUCTOR_CACHE_DIR", ANY, ABSENT,
               "torch sets it in the launcher that imported it; a worker that imports torch comes to the same folder"),
    Difference(WORKER + "env (CROSS_RANK|CROSS_SIZE|LOCAL_SIZE|NODE_RANK)", ABSENT, r"\d+",
               "the names under which other launchers hand on the same numbers"),
    Difference(WORKER + "env MUSTER_.*", ABSENT, ANY,
               "the mark by which what a worker left behind is found and ended"),
    Difference(WORKER + "env PYTHONFAULTHANDLER", ABSENT, "1",
               "a worker that crashes says where, without @record"),
    Difference(WORKER + "env TORCHELASTIC_TIMER_FILE", "{folder}/tmp/watchdog_timer_<uuid>", "{folder}/tmp/[^/]+/pipe",
               "the pipe is in a folder that is ours alone: nobody else can put another in its place"),
    Difference(NODE + "(stdout|stderr)", ANY, r".*\[default0\]:probe zero.*",
               "a prefix needs no files: --tee shows it where there are none, too",
               case="tee with /dev/null as log folder shows all with a prefix"),
    Difference(NODE + "report traceback", "To enable traceback see: .*", ANY,
               "no link to a page about torchrun: the worker's last lines, where we hold them, say more"),
    Difference(WORKER + "(argv|command)", r".*probe\.py', '--learning-rate.*",
               r".*probe\.py', '--', '--learning-rate.*",
               "what follows the script is the script's, whole; Python 3.11's argparse takes the first -- away",
               case="two dashes after the script go to the script"),
    Difference(WORKER + "command", ".*spawn_main.*", ".*'-u', .*{folder}/cwd/probe.py'.*",
               "run-path starts an interpreter for each worker: a script sees no other difference", case=RUN_PATH),
    Difference(WORKER + "own session", "False", "True",
               "run-path's workers are ended with all that they started, as others", case=RUN_PATH),
    Difference("report.*", ANY, f"<none>|{ABSENT}",
               "a script that is not there is said in one line, before anything is started",
               case="a script that is not there fails"),
    Difference(NODE + "report host", "<this machine>", r".* \(node \d+\)",
               "the root cause is the whole group's: the report says on which node it was"),
)

# Cases, by name, in which muster is to do as torchrun and does not yet.
NOT_YET = frozenset(())

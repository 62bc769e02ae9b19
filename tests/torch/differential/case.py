"""What one differential case is: a command line, its surroundings, and how it must end. Cases are data."""
import dataclasses

PROBE = "{probe}"  # the worker script, in the same place for both launchers


@dataclasses.dataclass(frozen=True)
class Exit:
    """How both end, and why muster's code is another one where it is."""
    torchrun: int
    muster: int


SUCCESS = Exit(0, 0)
WRONG_USAGE = Exit(2, 64)  # argparse's own
WRONG_VALUE = Exit(1, 64)  # found later by torchrun, in a traceback


def worker_failed(code):
    """The worker's own code, or 128 + its signal, where torchrun always says 1."""
    return Exit(1, code)


@dataclasses.dataclass(frozen=True)
class Case:
    """In all texts {folder} is the run's own empty folder, {cwd} the one it is started in, {probe} the worker script,
    {python} the interpreter, {port} a free port."""
    name: str                       # a sentence
    options: tuple = ()             # before the script
    program: tuple = (PROBE,)       # the script and what follows it
    environment: dict = dataclasses.field(default_factory=dict)
    nodes: tuple = ()               # more options for each of several nodes; () is one node
    workers: int = 1                # of all nodes; 0 where nothing may be started
    attempts: int = 1
    plan: dict = dataclasses.field(default_factory=dict)  # for the probe, see there
    ends: Exit = SUCCESS
    signal: str = ""                # sent to node 0's launcher when all its workers are there
    files: dict = dataclasses.field(default_factory=dict)  # to lay in {folder} before, by relative path
    log_folder: str = "logs"        # below {folder}: what is compared file by file
    launch: bool = False            # python -m torch.distributed.launch; muster run --pass-local-rank
    torchrun_cannot: str = ""       # why torchrun refuses this; muster alone is looked at: its exit code and workers

"""What one differential case is: a command line, its surroundings, and how it must end. Cases are data."""
import dataclasses

PROBE = "{probe}"  # the worker script, in the same place for both launchers


@dataclasses.dataclass(frozen=True)
class Exit:
    """Exit codes of both launchers, and the reason if muster's differs."""
    torchrun: int
    muster: int


SUCCESS = Exit(0, 0)
WRONG_USAGE = Exit(2, 64)  # argparse's own code
WRONG_VALUE = Exit(1, 64)  # torchrun fails later, with a traceback


def worker_failed(code):
    """The worker's own code, or 128 + its signal; torchrun always exits with 1."""
    return Exit(1, code)


@dataclasses.dataclass(frozen=True)
class Case:
    """In all texts {folder} is the run's own empty folder, {cwd} the one it is started in, {probe} the worker script,
    {python} the interpreter, {port} a free port."""
    name: str                       # a sentence
    options: tuple = ()             # options before the script
    program: tuple = (PROBE,)       # the script and its arguments
    environment: dict = dataclasses.field(default_factory=dict)
    nodes: tuple = ()               # more options for each of several nodes; () is one node
    workers: int = 1                # of all nodes; 0 if none may be started
    attempts: int = 1
    plan: dict = dataclasses.field(default_factory=dict)  # for the probe, see there
    ends: Exit = SUCCESS
    signal: str = ""                # sent to node 0's launcher when all its workers are there
    files: dict = dataclasses.field(default_factory=dict)  # to create in {folder} before the run, by relative path
    log_folder: str = "logs"        # below {folder}; compared file by file
    launch: bool = False            # python -m torch.distributed.launch; muster run --pass-local-rank
    torchrun_cannot: str = ""       # why torchrun refuses this; then only muster's exit code and workers count

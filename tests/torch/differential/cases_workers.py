"""What a worker is given (facts 3, 5.5): program, interpreter, environment, devices, signals, descriptors."""
from differential.case import PROBE, WRONG_VALUE, Case, Exit, worker_failed

TWO = ("--nproc-per-node=2",)

CASES = (
    # Programs.
    Case("a module is run by python -m", (*TWO, "-m"), ("probe", "a", "-m"), workers=2),
    Case("module in full", ("--module",), ("probe", "a")),
    Case("a program that is not Python", (*TWO, "--no-python"), ("{python}", PROBE, "${local_rank}"), workers=2),
    Case("a program that is not Python is found on PATH", ("--no-python",), ("python3", PROBE)),
    Case("a shell script starts the worker", ("--no-python",), ("sh", "-c", "exec {python} {probe} \"$0\"", "a b")),
    Case("no-python and module together are refused", ("--no-python", "-m"), ("probe",), workers=0, ends=WRONG_VALUE),
    Case("a script by its relative path", program=("probe.py",)),
    Case("run-path runs the script by its absolute path", ("--run-path",), (PROBE, "a", "b")),
    Case("run-path comes before no-python", ("--run-path", "--no-python"), (PROBE, "a")),
    Case("PYTHON_EXEC is the interpreter", environment={"PYTHON_EXEC": "{folder}/python-of-mine"}, files={
        "python-of-mine": "#!/bin/sh\nPROBE_INTERPRETER=mine exec python3 \"$@\"\n"}, workers=1),
    Case("a start method is taken", ("--start-method=forkserver",)),
    Case("an event log handler null is taken", ("--event-log-handler=null",)),
    Case("a script that is not there fails", program=("{cwd}/missing.py",), workers=0, ends=worker_failed(127)),
    Case("a program that is not there fails", ("--no-python",), ("{cwd}/missing",), workers=0, ends=worker_failed(127)),
    Case("a program that may not be executed fails", ("--no-python",), ("{cwd}/data",), files={"cwd/data": "x"},
         workers=0, ends=worker_failed(126)),
    # Environment.
    Case("OMP_NUM_THREADS is 1 for more than one worker", TWO, workers=2),
    Case("OMP_NUM_THREADS is left alone for one worker"),
    Case("OMP_NUM_THREADS of the user stays", TWO, environment={"OMP_NUM_THREADS": "3"}, workers=2),
    Case("an empty OMP_NUM_THREADS of the user stays", TWO, environment={"OMP_NUM_THREADS": ""}, workers=2),
    Case("TORCH_NCCL_ASYNC_ERROR_HANDLING of the user stays", environment={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}),
    Case("what a launcher around us had set is replaced", environment={
        "RANK": "7", "WORLD_SIZE": "9", "LOCAL_RANK": "7", "LOCAL_WORLD_SIZE": "8", "GROUP_RANK": "5",
        "ROLE_RANK": "4", "ROLE_NAME": "outer", "TORCHELASTIC_RESTART_COUNT": "3", "TORCHELASTIC_RUN_ID": "outer"}),
    Case("variables of the user reach the worker", environment={"MY_VARIABLE": "a b=c", "EMPTY": "", "ROLE": "x"}),
    Case("a role names the workers", (*TWO, "--role=trainer"), workers=2),
    Case("CUDA_VISIBLE_DEVICES is inherited", TWO, environment={"CUDA_VISIBLE_DEVICES": "3,5"}, workers=2),
    Case("a virtual local rank is 0 and its device the worker's own", (*TWO, "--virtual-local-rank"), workers=2,
         environment={"CUDA_VISIBLE_DEVICES": "3,5"}),
    Case("a virtual local rank without visible devices takes the local rank", (*TWO, "--virtual-local-rank"),
         workers=2),
    Case("a virtual local rank and devices named by UUID", (*TWO, "--virtual-local-rank"), workers=2,
         environment={"CUDA_VISIBLE_DEVICES": "GPU-aa, GPU-bb"}),
    Case("a virtual local rank beyond the visible devices is refused", (*TWO, "--virtual-local-rank"), workers=0,
         environment={"CUDA_VISIBLE_DEVICES": "3"}, ends=WRONG_VALUE),
    Case("a virtual local rank is put into the arguments as the local one", (*TWO, "--virtual-local-rank"),
         (PROBE, "${local_rank}"), workers=2),
    Case("the file timer tells the workers its pipe", environment={
        "TORCHELASTIC_ENABLE_FILE_TIMER": "1", "TORCHELASTIC_TIMER_FILE": "{folder}/timer"}),
    Case("the file timer takes a pipe of its own", environment={"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}),
    Case("a health check port is taken", environment={"TORCHELASTIC_HEALTH_CHECK_PORT": "0"}),
    Case("numa binding without a GPU is refused", ("--numa-binding=node",), workers=0, ends=WRONG_VALUE),
    Case("a numa binding that does not exist is refused", ("--numa-binding=moon",), workers=0, ends=Exit(2, 64)),
    Case("logs specs that do not exist are refused", ("--logs-specs=mine",), workers=0, ends=WRONG_VALUE),
    Case("a start method that does not exist is refused", ("--start-method=teleport",), workers=0, ends=Exit(2, 64)),
    # Signals to the launcher.
    Case("SIGTERM to the launcher is passed on", TWO, workers=2, signal="SIGTERM", ends=Exit(1, 75),
         plan={"*": ["wait SIGTERM SIGINT SIGHUP SIGQUIT SIGUSR1"]}),
    Case("SIGINT to the launcher is passed on", TWO, workers=2, signal="SIGINT", ends=Exit(1, 130),
         plan={"*": ["wait SIGTERM SIGINT SIGHUP SIGQUIT SIGUSR1"]}),
    Case("SIGHUP to the launcher is passed on", TWO, workers=2, signal="SIGHUP", ends=Exit(1, 75),
         plan={"*": ["wait SIGTERM SIGINT SIGHUP SIGQUIT SIGUSR1"]}),
    Case("SIGQUIT to the launcher is passed on", TWO, workers=2, signal="SIGQUIT", ends=Exit(1, 75),
         plan={"*": ["wait SIGTERM SIGINT SIGHUP SIGQUIT SIGUSR1"]}),
    Case("a signal that is listed is passed on and ends the job", (*TWO, "--signals-to-handle=SIGUSR1,SIGTERM"),
         workers=2, signal="SIGUSR1", ends=Exit(1, 75), plan={"*": ["wait SIGTERM SIGUSR1"]}),
    Case("a signal of an unknown name is warned of", ("--signals-to-handle=SIGTERM,SIGWHAT",)),
    Case("a shutdown timeout is taken", ("--shutdown-timeout=5",)),
    Case("a negative shutdown timeout is refused", ("--shutdown-timeout=-5",), workers=0, ends=WRONG_VALUE),
)

"""A training that hangs in its first round, in the given way, and goes on from its checkpoint in the next one.

hanging.py WAY FOLDER [gloo|nccl]: FOLDER gets the checkpoint, and the moment at which the hang began. The last line is
the result. With nccl the ranks share the GPUs that there are.
"""
import os
import pathlib
import queue
import signal
import sys
import time

import torch
import torch.distributed as dist

STEPS, HANG_STEP, STEP_S = 66, 60, 0.25
way, folder = sys.argv[1], pathlib.Path(sys.argv[2])
backend = sys.argv[3] if len(sys.argv) > 3 else "gloo"
device = "cpu"
checkpoint = folder / "checkpoint.pt"


def load_batch():
    return queue.Queue().get()  # nobody puts anything into it


def wait_on_pipe():
    return os.read(os.pipe()[0], 1)


def spin():
    while True:
        pass


def sleep():
    while True:
        time.sleep(1000)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def receive_from(other):
    dist.recv(torch.zeros(1, device=device), src=other)
    wait_for_device()


def wait_for_device():
    if device != "cpu":
        torch.cuda.synchronize()


def hang(rank):
    """Returns on the ranks that hang only because of the others."""
    if way == "loader":
        load_batch()
    if way == "deadlock" and rank in (2, 3):
        receive_from(5 - rank)
    if rank != min(5, dist.get_world_size() - 1):
        return
    if way == "exit":
        os._exit(0)
    {"sleep": sleep, "spin": spin, "stop": stop, "pipe": wait_on_pipe}.get(way, lambda: None)()


def take_a_device():
    """NCCL refuses two ranks of one host on one GPU, so each rank is a host of its own for it."""
    os.environ["NCCL_HOSTID"] = os.environ["RANK"]
    number = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
    torch.cuda.set_device(number)
    return f"cuda:{number}"


if backend == "nccl":
    device = take_a_device()
dist.init_process_group(backend)
rank = dist.get_rank()
state = torch.load(checkpoint) if checkpoint.exists() else {"step": 0, "loss": torch.tensor([1.0])}
for step in range(state["step"], STEPS):
    time.sleep(STEP_S)
    if step == HANG_STEP and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and way != "none":
        (folder / f"hung-{rank}").write_text(str(time.time()))
        hang(rank)
    total = torch.tensor([rank + 1.0], device=device)
    dist.all_reduce(total)
    state = {"step": step + 1, "loss": state["loss"] * 0.9 + total.cpu() / 100}
    os.write(1, f"rank {rank} step {step}\n".encode())
    if rank == 0:
        torch.save(state, folder / "next.pt")
        os.replace(folder / "next.pt", checkpoint)
if rank == 0:
    os.write(1, f"final loss {state['loss'].item():.6f}\n".encode())
dist.barrier()
dist.destroy_process_group()

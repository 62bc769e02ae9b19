"""A training that is silent for long, and does not hang.

unhurried.py WAY FOLDER TIMEOUT_S: the way to be silent, a folder for checkpoints, and what --hang-timeout says.

    import      nobody shows a sign of life for three times TIMEOUT_S before the first line
    checkpoint  rank 0 writes a checkpoint for three times TIMEOUT_S while the others wait for it
    evaluation  rank 0 computes in silence for half of TIMEOUT_S while the others wait for it
    steps       only steps, for three times TIMEOUT_S

All but the first begin with so many steps that silence counts: then rank 0 says "warm".
"""
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist

STEP_S = 0.1
WARM_UP, LONG, EVALUATION = 2.5, 3, 0.5  # times TIMEOUT_S
CHUNK_BYTES, CHUNK_S = 1 << 20, 0.25     # the disk is busy
way, folder, timeout_s = sys.argv[1], pathlib.Path(sys.argv[2]), float(sys.argv[3])


def say(text):
    os.write(1, f"{text}\n".encode())


def train(seconds):
    """Steps of all ranks together, each of which rank 0 prints."""
    for step in range(round(seconds / STEP_S)):
        time.sleep(STEP_S)
        total = torch.ones(1)
        dist.all_reduce(total)
        if rank == 0:
            say(f"step {step}")


class SlowFile:
    """A file on a busy disk."""

    def __init__(self, file):
        self.file = file

    def write(self, data):
        time.sleep(CHUNK_S * len(data) / CHUNK_BYTES)
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


def write_checkpoint():
    layers = round(LONG * timeout_s / CHUNK_S)
    with open(folder / "checkpoint.pt", "wb") as file:
        torch.save([torch.zeros(CHUNK_BYTES // 4) for _ in range(layers)], SlowFile(file))


def evaluate():
    """Computes, and prints nothing."""
    matrix, end = torch.rand(64, 64), time.monotonic() + EVALUATION * timeout_s
    while time.monotonic() < end:
        torch.linalg.qr(matrix)


if way == "import":
    time.sleep(LONG * timeout_s)
dist.init_process_group("gloo")
rank = dist.get_rank()
if way != "import":
    train(WARM_UP * timeout_s)
    if rank == 0:
        say("warm")
if rank == 0:
    {"checkpoint": write_checkpoint, "evaluation": evaluate}.get(way, lambda: None)()
train(LONG * timeout_s if way == "steps" else STEP_S)
dist.barrier()
if rank == 0:
    say("trained")
dist.destroy_process_group()

"""A worker of which one rank ends in the middle of a training with gloo: "value", "exit", "record", "abort" or "zero".
Its peers are in an all-reduce, and fail because of it."""
import atexit
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

KIND, BAD, STEP = os.environ["FAULT"], int(os.environ["BAD_RANK"]), 5


def train():
    if os.environ.get("SLOW_EXIT"):
        atexit.register(time.sleep, float(os.environ["SLOW_EXIT"]))
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    try:
        for step in range(10**9):
            if (rank, step) == (BAD, STEP):
                end()
            dist.all_reduce(torch.ones(1000))
    finally:  # closes the sockets before the exception is shown
        if os.environ.get("DESTROYS"):
            dist.destroy_process_group()


def end():
    if KIND in ("value", "record"):
        raise ValueError("bad data")
    if KIND == "abort":
        os.abort()
    sys.exit({"exit": 2, "zero": 0}[KIND])


(record(train) if KIND == "record" else train)()

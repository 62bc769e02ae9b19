"""A worker of preload.py: imports torch, says when its first all_reduce is done, and goes on until it is told to end."""
import os
import sys
import time

import torch
import torch.distributed as dist

log, gate = sys.argv[1:3]
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
rank, restart = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
with open(log, "a", encoding="ascii") as file:
    file.write(f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)} {rank} {restart} {os.getpid()}\n")
while not os.path.exists(gate):
    time.sleep(0.02)

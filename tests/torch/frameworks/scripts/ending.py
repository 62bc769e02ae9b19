"""How the scripts with a DistributedDataParallel inside end.

torch 2.13 aborts now and then (6 of 42 runs under torchrun, 5 of 42 under muster) when one of gloo's threads releases
a tensor while the interpreter ends. The model keeps the group and its threads alive, even after its destruction.
"""
import os
import sys

import torch.distributed


def leave():
    """Exits with 0 once every rank has arrived, without the interpreter's finalization."""
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)

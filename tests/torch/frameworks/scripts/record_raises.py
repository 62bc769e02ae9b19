"""@record and an exception on rank 1, once the other rank has joined the group."""
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    dist.init_process_group("gloo")
    dist.barrier()
    if dist.get_rank() == 1:
        raise RuntimeError("the loss is not a number")
    dist.barrier()


main()

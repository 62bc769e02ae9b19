"""gloo with the script's own TCPStore, on a port chosen by its user."""
import datetime
import os
import sys

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(sys.argv[1]), world, rank == 0,
                      timeout=datetime.timedelta(seconds=60))
dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
print(f"result rank={rank} world={world} value={total.item():.0f}", flush=True)
dist.barrier()
dist.destroy_process_group()

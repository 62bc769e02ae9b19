"""gloo initialized from the environment, as in most scripts."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method="env://")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(f"result rank={dist.get_rank()} world={dist.get_world_size()} value={total.item():.0f}", flush=True)
dist.destroy_process_group()

"""What of torch a fork could get wrong: threads, generators, a data loader's processes, autograd, exit."""
import os

import ending
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
seeds = [torch.zeros(1, dtype=torch.int64) for _ in range(world)]
dist.all_gather(seeds, torch.tensor([torch.initial_seed() % 2**60]))
draws = [torch.zeros(1) for _ in range(world)]
dist.all_gather(draws, torch.rand(1))

# In a fresh process both are drawn from the kernel.
distinct = len({int(seed) for seed in seeds}) == world and len({float(draw) for draw in draws}) == world

torch.manual_seed(3)
layer = torch.nn.Linear(64, 64)
data = torch.utils.data.DataLoader(torch.randn(64, 64), batch_size=8, num_workers=2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for batch in data:
    optimizer.zero_grad()
    layer(batch).pow(2).mean().backward()
    optimizer.step()
# Larger than what torch computes on one thread.
product = torch.randn(300, 300, generator=torch.Generator().manual_seed(1)).matmul(torch.ones(300, 300)).sum()
value = layer.weight.sum().item() + product.item() + 1000 * distinct + torch.get_num_threads()
value = abs(value) + 10 * len(os.sched_getaffinity(0))
print(f"result rank={rank} world={world} value={value:.5f}", flush=True)
ending.leave()

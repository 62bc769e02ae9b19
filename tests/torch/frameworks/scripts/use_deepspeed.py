"""DeepSpeed's engine on CPU. Its launcher passes --local_rank; under another launcher LOCAL_RANK must suffice."""
import argparse

import deepspeed
import ending
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
local_rank = parser.parse_args().local_rank
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # otherwise it is compiled now, for a minute
deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
engine, *_ = deepspeed.initialize(
    model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    config={"train_micro_batch_size_per_gpu": 4, "train_batch_size": 8, "steps_per_print": 1000})
data = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(dist.get_rank()))
for batch in data:
    loss = engine(batch).pow(2).mean()
    engine.backward(loss)
    engine.step()
mean = loss.detach().clone()
dist.all_reduce(mean)
print(f"result rank={dist.get_rank()} world={dist.get_world_size()} value={mean:.5f} passed={local_rank >= 0}", flush=True)
ending.leave()

"""Hugging Face Accelerate: three steps of a linear model."""
import ending
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

set_seed(1)
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.randn(24, 4, generator=torch.Generator().manual_seed(1)), batch_size=4)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for batch in data:
    loss = model(batch).pow(2).mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
mean = accelerator.reduce(loss.detach(), "mean")
print(f"result rank={accelerator.process_index} world={accelerator.num_processes} value={mean:.5f}", flush=True)
ending.leave()

"""A worker of frameworks.py: trains a tiny model with one framework until it is told to end.

framework_worker.py WAY LOG GATE: the framework, the file that gets a line after the first step of each round, and the
file whose existence ends the training.
"""
import os
import sys
import time

WIDTH = 8


def first_step_is_done(log):
    rank, restart = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
    with open(log, "a", encoding="ascii") as file:
        file.write(f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)} {rank} {restart} {os.getpid()}\n")


def is_over(step, log, gate):
    """After each step: whether all ranks end now, which they decide together."""
    import torch
    import torch.distributed as dist
    told = torch.tensor(float(os.path.exists(gate)))
    dist.all_reduce(told)
    if step == 0:
        first_step_is_done(log)
    return bool(told > 0)


def samples():
    import torch
    return torch.utils.data.TensorDataset(torch.randn(4096, WIDTH), torch.randn(4096, 1))


def bare(wrap, data_workers, log, gate):
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    model = wrap(torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    while True:
        for inputs, targets in torch.utils.data.DataLoader(samples(), batch_size=16, num_workers=data_workers):
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
            if is_over(step, log, gate):
                return dist.destroy_process_group()
            step += 1


def ddp(log, gate):
    import torch
    bare(torch.nn.parallel.DistributedDataParallel, 2, log, gate)


def fsdp2(log, gate):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    bare(lambda model: fully_shard(model, mesh=init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))), 0, log, gate)


def lightning(log, gate):
    import lightning
    import torch

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(WIDTH, 1)

        def training_step(self, batch, _):
            return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

        def on_train_batch_end(self, *_):
            self.trainer.should_stop = is_over(self.trainer.global_step - 1, log, gate)

    trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", logger=False,
                                num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), enable_checkpointing=False, max_epochs=-1,
                                enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Model(), torch.utils.data.DataLoader(samples(), batch_size=16))


def trainer(log, gate):
    import torch
    import transformers

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, _, state, control, **__):
            control.should_training_stop = is_over(state.global_step - 1, log, gate)

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return 4096

        def __getitem__(self, index):
            return {"input_ids": torch.arange(WIDTH), "labels": torch.arange(WIDTH)}

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=64, n_positions=WIDTH, n_embd=16, n_layer=1, n_head=2))
    settings = transformers.TrainingArguments(output_dir=os.path.dirname(log), max_steps=10**9, use_cpu=True, ddp_backend="gloo",
                                              report_to="none", save_strategy="no", disable_tqdm=True, logging_strategy="no")
    transformers.Trainer(model, settings, train_dataset=Tokens(), callbacks=[Watch()]).train()


WAYS = {"ddp": ddp, "fsdp2": fsdp2, "lightning": lightning, "trainer": trainer}

if __name__ == "__main__":
    WAYS[sys.argv[1]](*sys.argv[2:4])

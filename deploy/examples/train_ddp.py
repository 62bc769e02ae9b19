"""A small DistributedDataParallel training that survives the death of any worker, agent or node.

Runs on the CPU with gloo, and computes the same whatever happens to it: the samples of a step depend on the step
alone and are divided among the ranks, the model starts from one seed, and after a restart the group goes on from
the newest checkpoint. So the last loss of a disturbed run equals that of an undisturbed one.

  muster run deploy/examples/train_ddp.py --checkpoint /shared/checkpoint.pt
"""
import argparse
import datetime
import os
import pathlib
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SAMPLES_PER_STEP = 24  # divisible by any world of 1, 2, 3, 4, 6 or 8 ranks
FEATURES = 8
GATE_POLL_S = 0.02
COLLECTIVE_TIMEOUT = datetime.timedelta(minutes=5)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help="a file that all nodes see")
    parser.add_argument("--checkpoint-every", type=int, default=5, metavar="STEPS")
    parser.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="a step takes at least this")
    parser.add_argument("--kill-rank", type=int, default=-1, help="this rank kills itself, once")
    parser.add_argument("--kill-step", type=int, default=-1, help="at the start of this step")
    parser.add_argument("--gate-step", type=int, default=-1, help="stop at the start of this step ...")
    parser.add_argument("--gate-file", type=pathlib.Path, help="... until this file exists")
    return parser.parse_args()


def say(text):
    """One write for one line, so that lines of several workers never mix."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def samples(step, rank, world_size):
    """This rank's share of the samples of a step, and what the model should say to them."""
    generator = torch.Generator().manual_seed(1000 + step)
    inputs = torch.randn(SAMPLES_PER_STEP, FEATURES, generator=generator, dtype=torch.float64)
    targets = torch.sin(inputs.sum(dim=1, keepdim=True))
    return inputs[rank::world_size], targets[rank::world_size]


def save(path, state):
    """Whole or not at all: a worker may be killed in the middle."""
    path.parent.mkdir(parents=True, exist_ok=True)  # a new job's folder in a bucket is not there yet
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load_everywhere(path, rank):
    """Rank 0's newest checkpoint, on every rank, or None: no rank can go on from another step than the others."""
    state = [torch.load(path, weights_only=True) if rank == 0 and path.exists() else None]
    dist.broadcast_object_list(state, src=0)
    return state[0]


def misfortune(arguments, step, rank, restarts):
    if step == arguments.kill_step and rank == arguments.kill_rank and restarts == 0:
        say(f"rank {rank}: killing myself at step {step}")
        os.kill(os.getpid(), signal.SIGKILL)
    if step == arguments.gate_step and not arguments.gate_file.exists():
        if rank == 0:
            say(f"at the gate, step {step}")
        while not arguments.gate_file.exists():
            time.sleep(GATE_POLL_S)


def train(arguments, rank, world_size, restarts):
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    state = load_everywhere(arguments.checkpoint, rank)
    first_step = 0
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first_step = state["step"]
    if rank == 0:
        say(f"starting at step {first_step} of {arguments.steps} with {world_size} workers, restart {restarts}")

    parallel = DistributedDataParallel(model)
    # Of the last step, if no step is left.
    loss = torch.tensor(state["loss"] if state else 0.0, dtype=torch.float64)
    for step in range(first_step, arguments.steps):
        began = time.monotonic()
        misfortune(arguments, step, rank, restarts)
        inputs, targets = samples(step, rank, world_size)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(inputs), targets)
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        dist.all_reduce(loss)
        loss /= world_size
        done = step + 1
        if rank == 0 and done % arguments.checkpoint_every == 0:
            save(arguments.checkpoint, {"step": done, "loss": loss.item(), "model": model.state_dict(),
                                        "optimizer": optimizer.state_dict()})
            say(f"step {done:4d}  loss {loss.item():.12f}  (checkpoint)")
        time.sleep(max(0.0, began + arguments.step_time - time.monotonic()))
    return loss.item()


def main():
    arguments = parse_arguments()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if SAMPLES_PER_STEP % world_size != 0:
        sys.exit(f"{SAMPLES_PER_STEP} samples cannot be divided among {world_size} workers")
    say(f"worker rank={rank} world={world_size} node={os.environ.get('GROUP_RANK', '0')} "
        f"restart={restarts} pid={os.getpid()}")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=COLLECTIVE_TIMEOUT)
    loss = train(arguments, rank, world_size, restarts)
    dist.barrier()
    if rank == 0:
        say(f"final loss {loss:.12f}")
    dist.destroy_process_group()
    # DistributedDataParallel keeps threads of gloo alive even now, and once in some hundred runs one of them aborts the
    # interpreter's own end (torch 2.13). All is written, so the process ends without it.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

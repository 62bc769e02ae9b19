"""A small real training on the CPU (torch, gloo) that continues from checkpoints: its result is the same to the
last bit under any faults, as long as the world size does not change.

    python worker.py FOLDER

All random numbers derive from step and rank. One all-reduce per step carries gradients, loss and rank 0's end flag; it
adds in an order that depends on the world size alone. FOLDER/steps gets a line for each step: restart count, step,
time, loss in hexadecimal, and a dot. The training ends with the step at which rank 0 sees FOLDER/finish, or with the
one that the file names. A thread of every worker beats from its first instruction on, also during imports and waits.
"""
import datetime
import gc
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from witness import Witness, now  # noqa: E402

BEAT_S = 0.02
CHECKPOINT_STEPS = 5
FEATURES, HIDDEN, SAMPLES = 8, 16, 4  # samples per rank and step
STEP_S = float(os.environ.get("CHAOS_STEP_S", "0"))  # minimum duration of a step
# Longer than every cut and stop: the training must wait for nodes that muster takes for alive.
COLLECTIVE_TIMEOUT = datetime.timedelta(minutes=2)

folder = pathlib.Path(sys.argv[1])
witness = Witness(folder)


def beat_for_ever():
    while True:
        witness.beat()
        time.sleep(BEAT_S)


witness.record("start")
witness.beat()
threading.Thread(target=beat_for_ever, daemon=True).start()

gc.disable()  # saves a fifth of the import's processor time
import torch  # noqa: E402  a second of it all the same: what comes before is seen meanwhile
import torch.distributed as dist  # noqa: E402

CHECKPOINT = folder / "checkpoint"


def make_model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1)).double()


def loss_of(model, step, rank):
    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator, dtype=torch.float64)
    return torch.nn.functional.mse_loss(model(inputs), torch.sin(inputs.sum(dim=1, keepdim=True)))


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def unflatten(vector, like):
    return [part.view_as(tensor) for part, tensor in zip(vector.split([t.numel() for t in like]), like)]


def save(state):
    """Writes atomically: a worker may be killed at any time."""
    temporary = CHECKPOINT.with_name(f"checkpoint.{witness.facts['restart']}.tmp")
    with open(temporary, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, CHECKPOINT)


def load_everywhere(state, rank):
    """Rank 0's newest checkpoint on every rank: all ranks must continue from the same step."""
    if rank == 0 and CHECKPOINT.exists():
        state.copy_(torch.load(CHECKPOINT, weights_only=True))
    dist.broadcast(state, src=0)


def is_over(step):
    """Rank 0's alone to say."""
    try:
        text = (folder / "finish").read_text()
    except FileNotFoundError:
        return False
    return not text or step >= int(text)


def train(rank, world):
    model = make_model()
    parameters = list(model.parameters())
    size = sum(parameter.numel() for parameter in parameters)
    state = torch.cat([torch.zeros(1, dtype=torch.float64), flat(parameters).detach(),
                       torch.zeros(size, dtype=torch.float64)])  # steps done, parameters, momentum
    load_everywhere(state, rank)
    step, weights, momentum = int(state[0].item()), state[1:1 + size], state[1 + size:]
    while True:
        began = time.monotonic()
        with torch.no_grad():
            for parameter, values in zip(parameters, unflatten(weights, parameters)):
                parameter.copy_(values)
        loss = loss_of(model, step, rank)
        gradients = torch.autograd.grad(loss, parameters)
        sums = torch.cat([flat(gradients), loss.detach().reshape(1),
                          torch.tensor([float(rank == 0 and is_over(step + 1))], dtype=torch.float64)])
        dist.all_reduce(sums)
        momentum.mul_(0.9).add_(sums[:size] / world)
        weights.sub_(0.05 * momentum)
        step += 1
        state[0] = step
        if rank == 0:
            witness.append("steps", f"{witness.facts['restart']} {step} {now():.6f} {(sums[size] / world).item().hex()} .")
            if step % CHECKPOINT_STEPS == 0:
                save(state)
        if sums[size + 1] > 0:
            return
        time.sleep(max(0.0, began + STEP_S - time.monotonic()))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=COLLECTIVE_TIMEOUT)
    train(witness.facts["rank"], witness.facts["world"])
    dist.barrier()
    dist.destroy_process_group()
    witness.record("end")


main()

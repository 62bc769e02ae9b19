"""The training of train_ddp.py with Python's standard library alone, for machines where torch cannot be had.

A linear model by gradient descent; the gradients are summed at rank 0 over sockets at MASTER_ADDR:MASTER_PORT. The
same arguments, the same lines, the same recovery from the newest checkpoint, and the same last loss whatever
happened on the way.

  muster run deploy/examples/train_stdlib.py --checkpoint /shared/checkpoint.json
"""
import argparse
import json
import math
import os
import pathlib
import random
import signal
import socket
import struct
import sys
import time

SAMPLES_PER_STEP = 24  # divisible by any world of 1, 2, 3, 4, 6 or 8 ranks
FEATURES = 8
LEARNING_RATE = 0.05
GATE_POLL_S = 0.02
CONNECT_TIMEOUT_S = 60.0
COLLECTIVE_TIMEOUT_S = 300.0
MAX_MESSAGE_BYTES = 1 << 20


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


class Group:
    """Sums and broadcasts through rank 0. Sums in the order of ranks, so that they are the same every time."""

    def __init__(self, rank, world_size, address, port):
        self.rank, self.world_size = rank, world_size
        if rank == 0:
            self._peers = self._accept(port)
        else:
            self._peers = {0: self._connect(address, port)}
            self._send(self._peers[0], rank)

    def _accept(self, port):
        """All addresses, both families, SO_REUSEADDR: as torch's store does, beside muster's hold on the port."""
        dual_stack = socket.has_dualstack_ipv6()
        with socket.create_server(("", port), family=socket.AF_INET6 if dual_stack else socket.AF_INET,
                                  backlog=self.world_size, dualstack_ipv6=dual_stack) as server:
            server.settimeout(CONNECT_TIMEOUT_S)
            peers = {}
            while len(peers) < self.world_size - 1:
                connection, _ = server.accept()
                connection.settimeout(COLLECTIVE_TIMEOUT_S)
                peers[self._receive(connection)] = connection
        return peers

    @staticmethod
    def _connect(address, port):
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while True:
            try:
                connection = socket.create_connection((address, port), timeout=COLLECTIVE_TIMEOUT_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
            except OSError as error:
                if time.monotonic() > deadline:
                    sys.exit(f"rank 0 cannot be reached at {address} port {port}: {error}")
                time.sleep(GATE_POLL_S)

    @staticmethod
    def _send(connection, value):
        text = json.dumps(value).encode()
        connection.sendall(struct.pack("!I", len(text)) + text)

    @staticmethod
    def _receive(connection):
        def exactly(size):
            data = b""
            while len(data) < size:
                part = connection.recv(size - len(data))
                if not part:
                    raise ConnectionError("a worker of the group is gone")
                data += part
            return data

        size, = struct.unpack("!I", exactly(4))
        if size > MAX_MESSAGE_BYTES:
            raise ConnectionError(f"a message of {size} bytes")
        return json.loads(exactly(size))

    def broadcast(self, value):
        """Rank 0's value on every rank."""
        if self.rank != 0:
            return self._receive(self._peers[0])
        for peer in range(1, self.world_size):
            self._send(self._peers[peer], value)
        return value

    def sum(self, numbers):
        """The sums, element by element, over all ranks, on every rank."""
        if self.rank != 0:
            self._send(self._peers[0], numbers)
            return self.broadcast(None)
        total = list(numbers)
        for peer in range(1, self.world_size):
            total = [a + b for a, b in zip(total, self._receive(self._peers[peer]))]
        return self.broadcast(total)


def samples(step, rank, world_size):
    """This rank's share of the samples of a step, and what the model should say to them."""
    source = random.Random(1000 + step)
    inputs = [[source.gauss(0.0, 1.0) for _ in range(FEATURES)] for _ in range(SAMPLES_PER_STEP)]
    return [(row, math.sin(sum(row))) for row in inputs[rank::world_size]]


def save(path, state):
    """Whole or not at all: a worker may be killed in the middle."""
    path.parent.mkdir(parents=True, exist_ok=True)  # a new job's folder in a bucket is not there yet
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def misfortune(arguments, step, rank, restarts):
    if step == arguments.kill_step and rank == arguments.kill_rank and restarts == 0:
        say(f"rank {rank}: killing myself at step {step}")
        os.kill(os.getpid(), signal.SIGKILL)
    if step == arguments.gate_step and not arguments.gate_file.exists():
        if rank == 0:
            say(f"at the gate, step {step}")
        while not arguments.gate_file.exists():
            time.sleep(GATE_POLL_S)


def loss_and_gradient(weights, batch):
    """Sums over this rank's samples: the squared error, then its gradient."""
    sums = [0.0] * (FEATURES + 1)
    for row, target in batch:
        error = sum(w * x for w, x in zip(weights, row)) - target
        sums[0] += error * error
        for feature, x in enumerate(row):
            sums[feature + 1] += 2.0 * error * x
    return sums


def train(arguments, group, restarts):
    state = None
    if group.rank == 0 and arguments.checkpoint.exists():
        state = json.loads(arguments.checkpoint.read_text(encoding="utf-8"))
    state = group.broadcast(state) or {"step": 0, "weights": [0.0] * FEATURES}
    weights = state["weights"]
    if group.rank == 0:
        say(f"starting at step {state['step']} of {arguments.steps} with {group.world_size} workers, "
            f"restart {restarts}")

    loss = state.get("loss", 0.0)  # of the last step, if no step is left
    for step in range(state["step"], arguments.steps):
        began = time.monotonic()
        misfortune(arguments, step, group.rank, restarts)
        sums = group.sum(loss_and_gradient(weights, samples(step, group.rank, group.world_size)))
        loss = sums[0] / SAMPLES_PER_STEP
        weights = [w - LEARNING_RATE * g / SAMPLES_PER_STEP for w, g in zip(weights, sums[1:])]
        done = step + 1
        if group.rank == 0 and done % arguments.checkpoint_every == 0:
            save(arguments.checkpoint, {"step": done, "weights": weights, "loss": loss})
            say(f"step {done:4d}  loss {loss:.12f}  (checkpoint)")
        time.sleep(max(0.0, began + arguments.step_time - time.monotonic()))
    return loss


def main():
    arguments = parse_arguments()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    if SAMPLES_PER_STEP % world_size != 0:
        sys.exit(f"{SAMPLES_PER_STEP} samples cannot be divided among {world_size} workers")
    say(f"worker rank={rank} world={world_size} node={os.environ.get('GROUP_RANK', '0')} "
        f"restart={restarts} pid={os.getpid()}")
    group = Group(rank, world_size, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    loss = train(arguments, group, restarts)
    group.sum([0.0])  # nobody leaves before all are done
    if rank == 0:
        say(f"final loss {loss:.12f}")


if __name__ == "__main__":
    main()

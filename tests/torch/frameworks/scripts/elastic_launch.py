"""Starts its own worker through torch's library, whose defaults are not torchrun's."""
import os

from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def work():
    assert os.environ["ROLE_NAME"] == "default_role"
    return os.environ["WORLD_SIZE"], os.environ["TORCHELASTIC_MAX_RESTARTS"]


if __name__ == "__main__":
    rank = os.environ["RANK"]
    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=1, run_id=f"inner{rank}", rdzv_backend="c10d",
                          rdzv_endpoint="localhost:0")
    world, restarts = elastic_launch(config, work)()[0]
    print(f"result rank={rank} world={world} value={restarts}", flush=True)

"""The replicas of a custom job of Vertex AI, from its description: the variables of each, as in the fixtures."""
import json

from emulated import DEPLOY, FIXTURES

IMAGE, BUCKET = "us-central1-docker.pkg.dev/my-project/training/llm:1", "my-bucket"
NAMES = ("custom-job.yaml", "custom-job-reduction-server.yaml")
PORT = 2222
JOB = "ab"  # the part of the replicas' names that differs from job to job


def shipped(name):
    """The job description after the sed of deploy/vertex/README.md. Needs PyYAML."""
    import yaml
    text = (DEPLOY / "vertex" / name).read_text()
    return yaml.safe_load(text.replace("IMAGE", IMAGE).replace("BUCKET", BUCKET))


def sample():
    """The variables of a real replica's shape."""
    lines = (FIXTURES / "vertex_2nodes_worker.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("CMLE_"))


class Replica:
    def __init__(self, pool, index, arguments, environment):
        self.pool, self.index, self.arguments, self.environment = pool, index, arguments, environment
        self.name = f"workerpool{pool}-{index}"


def replicas(spec, job_id, host=None):
    """All replicas that run our image. host: the address of (pool, index) instead of its name."""
    host = host or (lambda pool, index: f"cmle-training-workerpool{pool}-{JOB}-{index}")
    pools = spec["workerPoolSpecs"]
    members = {f"workerpool{pool}": [f"{host(pool, index)}:{PORT}" for index in range(int(item["replicaCount"]))]
               for pool, item in enumerate(pools)}
    base = spec["baseOutputDirectory"]["outputUriPrefix"]
    found, world = [], sum(map(len, members.values()))
    for pool, item in enumerate(pools):
        container = item["containerSpec"]
        if container["imageUri"] != IMAGE:
            continue
        assert "command" not in container, "the image's ENTRYPOINT would be replaced"
        for index in range(int(item["replicaCount"])):
            found.append(Replica(pool, index, container["args"], {
                **sample(), "CLOUD_ML_JOB_ID": job_id,
                "CLUSTER_SPEC": json.dumps({
                    "cluster": members, "environment": "cloud", "open_ports": [3333],
                    "task": {"type": f"workerpool{pool}", "index": index, "trial": ""},
                    "job": "{\"python_module\":\"\",\"package_uris\":[],\"job_args\":[]}"}),
                "AIP_MODEL_DIR": f"{base}/model/", "AIP_CHECKPOINT_DIR": f"{base}/checkpoints/",
                "AIP_TENSORBOARD_LOG_DIR": f"{base}/logs/",
                "RANK": str(len(found)), "WORLD_SIZE": str(world), "MASTER_ADDR": host(0, 0), "MASTER_PORT": "3333"}))
    return found

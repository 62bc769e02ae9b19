"""The hosts of a SageMaker training job, from the request that the SDK sends: each host's variables and files."""
import json

from emulated import FIXTURES

ROLE = "arn:aws:iam::123456789012:role/training"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/llm:1"
ARGUMENTS = ("--image", IMAGE, "--bucket", "my-bucket", "--role", ROLE)
PORT = 29400  # muster's: SageMaker names none


class Host:
    def __init__(self, name, arguments, environment, failure):
        self.name, self.arguments, self.environment, self.failure = name, arguments, environment, failure


def sample():
    """A resourceconfig.json of the documentation."""
    return json.loads((FIXTURES / "sagemaker_resourceconfig_doc3.json").read_text())


def hosts(request, folder, name=lambda index: f"algo-{index + 1}", replace=()):
    """The hosts of a job. folder: for their files of /opt/ml. name: of a host, in place of its own. replace: pairs of a
    path in the container and the one here."""
    def here(text):
        for path, ours in replace:
            text = text.replace(path, ours)
        return text

    algorithm = request["AlgorithmSpecification"]
    assert "ContainerEntrypoint" not in algorithm, "the image's ENTRYPOINT would be replaced"
    names = sorted(name(index) for index in range(request["ResourceConfig"]["InstanceCount"]))
    found = []
    for host in names:
        ours = folder / host
        ours.mkdir(parents=True)
        (ours / "resourceconfig.json").write_text(json.dumps(
            {**sample(), "current_host": host, "hosts": names, "network_interface_name": "lo"}))
        (ours / "hyperparameters.json").write_text(
            json.dumps({key: here(value) for key, value in request.get("HyperParameters", {}).items()}))
        environment = {key: here(value) for key, value in request.get("Environment", {}).items()}
        # Here several hosts are on one machine, so the files are not at their places.
        environment.update({"TRAINING_JOB_NAME": request["TrainingJobName"],
                            "MUSTER_SAGEMAKER_CONFIG": str(ours / "resourceconfig.json"),
                            "MUSTER_SAGEMAKER_FAILURE": str(ours / "failure")})
        found.append(Host(host, algorithm.get("ContainerArguments", ["train"]), environment, ours / "failure"))
    return found

"""deploy/sagemaker: the request that the real SDK sends, and the job on emulated hosts.

Nothing here has run on SageMaker.
"""
import signal
import unittest
import uuid

import emulated
import sagemaker_hosts
import sdk
from emulated import DEPLOY, EmulatedTest, cluster, plan
from sagemaker_hosts import ARGUMENTS, IMAGE, PORT, ROLE

INSTANCES = 2
CHECKPOINT = "/opt/ml/checkpoints/checkpoint.pt"


class SageMakerTest(EmulatedTest):
    @classmethod
    def setUpClass(cls):
        cls.request = cls.submitted()

    @classmethod
    def submitted(cls, *arguments):
        requests, output = sdk.sent("sagemaker", DEPLOY / "sagemaker" / "submit.py", *ARGUMENTS, *arguments)
        created = [r["body"] for r in requests if r["target"] == "SageMaker.CreateTrainingJob"]
        assert len(created) == 1, requests
        assert f"submitted: {created[0]['TrainingJobName']}" in output, output
        return created[0]


class RealSdkTest(SageMakerTest):
    """botocore has checked the request against SageMaker's own service description, or would have refused it."""

    def test_submit_py_asks_for_the_job_of_the_readme(self):
        request = dict(self.request)
        self.assertRegex(request.pop("TrainingJobName"), r"^llm-\d+$")
        self.assertEqual({
            "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
            "RoleArn": ROLE,
            "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": INSTANCES, "VolumeSizeInGB": 200},
            "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
            "CheckpointConfig": {"S3Uri": "s3://my-bucket/llm/checkpoints", "LocalPath": "/opt/ml/checkpoints"},
            "OutputDataConfig": {"S3OutputPath": "s3://my-bucket/llm/output"},
            "EnableManagedSpotTraining": False,
            "Environment": {"SAGEMAKER_PROGRAM": "/app/train.py", "MUSTER_HYPERPARAMETERS_AS_ARGS": "1"},
            "HyperParameters": {"checkpoint": CHECKPOINT}}, request)

    def test_spot_waits_for_machines(self):
        request = self.submitted("--spot")
        self.assertTrue(request["EnableManagedSpotTraining"])
        self.assertEqual({"MaxRuntimeInSeconds": 86400, "MaxWaitTimeInSeconds": 172800}, request["StoppingCondition"])

    def test_every_host_finds_its_place(self):
        for rank, host in enumerate(sagemaker_hosts.hosts(self.request, self.folder)):
            read = plan(host.arguments, host.environment)
            self.assertEqual(("SageMaker", "trainer", rank, INSTANCES, self.request["TrainingJobName"]),
                             tuple(read[key] for key in ("platform", "role", "node_rank", "nnodes", "run_id")))
            self.assertEqual({"host": "algo-1", "port": PORT}, read["primary"])
            self.assertEqual("1m50s", read["settings"]["termination-grace"]["value"])


class EmulatedHostsTest(SageMakerTest):
    """The request's variables and hyperparameters on two hosts, each a process with an address of its own."""

    def setUp(self):
        super().setUp()
        self.network = emulated.network()
        self.checkpoints = self.folder / "checkpoints"  # of the bucket, which every job begins with

    def start_job(self):
        request = {**self.request, "TrainingJobName": f"llm-{uuid.uuid4().hex}",
                   "HyperParameters": {**self.request["HyperParameters"], **gate_of(self.gate)}}
        hosts = sagemaker_hosts.hosts(
            request, self.folder / request["TrainingJobName"], name=lambda index: f"{self.network}.{index + 1}",
            replace=[("/opt/ml/checkpoints", str(self.checkpoints)), ("/app", str(self.app))])
        return hosts, [self.start(host.name, host.arguments, host.environment) for host in hosts]

    def test_the_job_ends_with_0_and_shows_the_lines_of_the_readme(self):
        hosts, nodes = self.start_job()
        self.wait_at_gate(nodes)
        self.gate.touch()
        self.assertEqual([0] * INSTANCES, self.exit_codes(nodes))
        self.assertEqual(emulated.undisturbed_loss(INSTANCES), self.said(nodes, r"^final loss (\S+)$"))
        self.assertTrue((self.checkpoints / "checkpoint.pt").exists())
        self.assertFalse(any(host.failure.exists() for host in hosts))
        self.assert_shown("sagemaker", nodes[0].out() + nodes[0].err())

    def test_a_stopped_job_continues_in_the_next_one(self):
        hosts, nodes = self.start_job()
        self.wait_at_gate(nodes)
        for node in nodes:
            node.signal(signal.SIGTERM)  # StopTrainingJob, the time limit, or the end of spot machines
        self.assertEqual([75] * INSTANCES, self.exit_codes(nodes))
        self.gate.touch()
        _, nodes = self.start_job()
        self.assertEqual([0] * INSTANCES, self.exit_codes(nodes))
        self.assertTrue(self.said(nodes, rf"^starting at step {emulated.STEPS_BEFORE_GATE} "))
        self.assertEqual(emulated.undisturbed_loss(INSTANCES), self.said(nodes, r"^final loss (\S+)$"))

    def test_a_failed_training_gives_the_reason_to_every_host(self):
        # The script's own arguments, as hyperparameters: rank 1 kills itself, and no restart is left.
        request = {**self.request, "HyperParameters": {**self.request["HyperParameters"], "kill-rank": "1",
                                                       "kill-step": "7"}}
        request["Environment"] = {**request["Environment"], "MUSTER_MAX_RESTARTS": "0"}
        self.request, whole = request, self.request
        self.addCleanup(setattr, self, "request", whole)
        hosts, nodes = self.start_job()
        self.assertEqual([137] * INSTANCES, self.exit_codes(nodes))
        for host in hosts:
            self.assertRegex(host.failure.read_text(), r"rank 1 .*SIGKILL")


def gate_of(path):
    step, number = emulated.GATE
    return {step.strip("-"): number, "gate-file": str(path)}


if __name__ == "__main__":
    cluster.main()

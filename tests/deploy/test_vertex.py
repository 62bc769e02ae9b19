"""deploy/vertex: what the job descriptions say, what the real SDK makes of them, and the job on emulated replicas.

Nothing here has run on Vertex AI.
"""
import copy
import importlib.util
import json
import signal
import unittest
import uuid

import emulated
import sdk
import vertex_replicas
from emulated import DEPLOY, GATE, EmulatedTest, cluster, plan
from vertex_replicas import BUCKET, IMAGE, NAMES, PORT

TRAINERS = 4
needs_yaml = unittest.skipUnless(importlib.util.find_spec("yaml"), "PyYAML is missing (pip install pyyaml)")


@needs_yaml
class ShippedFilesTest(unittest.TestCase):
    """Needs no SDK and starts no job."""

    def test_every_replica_finds_its_place_on_vertex(self):
        for name in NAMES:
            replicas = vertex_replicas.replicas(vertex_replicas.shipped(name), "123")
            self.assertEqual(TRAINERS, len(replicas), name)
            for rank, replica in enumerate(replicas):
                with self.subTest(f"{name} {replica.name}"):
                    read = plan(replica.arguments, replica.environment)
                    self.assertEqual(("Vertex AI", "CLUSTER_SPEC", "trainer", rank, TRAINERS, "123"),
                                     tuple(read[key] for key in ("platform", "evidence", "role", "node_rank", "nnodes",
                                                                 "run_id")))
                    self.assertEqual({"host": "cmle-training-workerpool0-ab-0", "port": PORT}, read["primary"])
                    values = {key: setting["value"] for key, setting in read["settings"].items()}
                    self.assertEqual(("134", "8s", "3", "split"),
                                     tuple(values[key] for key in ("retryable-exit-code", "termination-grace",
                                                                   "max-restarts", "log-streams")))

    def test_the_replicas_of_our_image_differ_only_in_their_number(self):
        for name in NAMES:
            pools = copy.deepcopy(vertex_replicas.shipped(name)["workerPoolSpecs"])
            for pool in pools:
                del pool["replicaCount"]
            self.assertEqual(pools[0], pools[1], name)

    def test_the_reduction_server_is_the_only_difference_of_its_file(self):
        plain, reducing = map(vertex_replicas.shipped, NAMES)
        pool = reducing["workerPoolSpecs"].pop(2)
        self.assertEqual(plain, reducing)
        self.assertIn("/reductionserver:", pool["containerSpec"]["imageUri"])

    def test_the_checkpoint_is_in_the_jobs_checkpoint_folder(self):
        for name in NAMES:
            spec = vertex_replicas.shipped(name)
            folder = spec["baseOutputDirectory"]["outputUriPrefix"].replace("gs://", "/gcs/") + "/checkpoints/"
            for pool in spec["workerPoolSpecs"][:2]:
                self.assertTrue(pool["containerSpec"]["args"][-1].startswith(folder), pool)


# Reads job descriptions with the SDK's own message type, which refuses unknown fields and values, and submits each as a
# CustomJob, whose request is the message again.
CUSTOM_JOB = """
import json, sys
from google.cloud import aiplatform
from google.cloud.aiplatform_v1.types import CustomJobSpec
from google.protobuf import json_format

aiplatform.init(project="my-project", location="us-central1")
for text in sys.argv[1:]:
    spec = json_format.ParseDict(json.loads(text), CustomJobSpec.pb(CustomJobSpec()))
    pools = [json_format.MessageToDict(pool, preserving_proto_field_name=True) for pool in spec.worker_pool_specs]
    job = aiplatform.CustomJob("llm", pools, base_output_dir=spec.base_output_directory.output_uri_prefix,
                               staging_bucket="gs://my-bucket")
    job.submit(timeout=spec.scheduling.timeout.seconds, disable_retries=spec.scheduling.disable_retries,
               restart_job_on_worker_restart=spec.scheduling.restart_job_on_worker_restart)
"""

# Descriptions of jobs, as they are shipped or sent: prints each as the SDK's own message.
COMPARE = """
import json, sys
from google.cloud.aiplatform_v1.types import CustomJobSpec
from google.protobuf import json_format
for text in sys.argv[1:]:
    spec = json_format.ParseDict(json.loads(text), CustomJobSpec.pb(CustomJobSpec()))
    print(json.dumps(json_format.MessageToDict(spec), sort_keys=True))
"""


@needs_yaml
class RealSdkTest(unittest.TestCase):
    """The SDK's classes build the requests and send them to a server on loopback."""

    @classmethod
    def setUpClass(cls):
        sdk.python_with("vertex")

    def created(self, requests, resource):
        found = [r for r in requests if r["method"] == "POST"]
        self.assertEqual({f"/v1/projects/my-project/locations/us-central1/{resource}"}, {r["path"] for r in found})
        return [r["body"] for r in found]

    def assert_same_jobs(self, shipped, sent):
        _, output = sdk.sent("vertex", "-", COMPARE, *map(json.dumps, [*shipped, *sent]))
        jobs = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        self.assertEqual(2 * len(NAMES), len(jobs), output)
        self.assertEqual(jobs[:len(NAMES)], jobs[len(NAMES):])

    def test_the_descriptions_are_custom_jobs(self):
        shipped = [vertex_replicas.shipped(name) for name in NAMES]
        requests, _ = sdk.sent("vertex", "-", CUSTOM_JOB, *map(json.dumps, shipped))
        self.assert_same_jobs(shipped, [body["jobSpec"] for body in self.created(requests, "customJobs")])

    def test_an_unknown_field_would_be_refused(self):
        shipped = vertex_replicas.shipped(NAMES[0])
        shipped["workerPoolSpecs"][0]["replicas"] = 1
        with self.assertRaisesRegex(AssertionError, "no field named \"replicas\""):
            sdk.sent("vertex", "-", CUSTOM_JOB, json.dumps(shipped))

    def submitted(self, *arguments):
        requests, output = sdk.sent("vertex", DEPLOY / "vertex" / "submit.py", "--project", "my-project",
                                    "--bucket", BUCKET, "--image", IMAGE, *arguments)
        self.assertRegex(output, r"(?m)^submitted: projects/.*/trainingPipelines/\d+$")
        body, = self.created(requests, "trainingPipelines")
        return body["trainingTaskInputs"]

    def test_submit_py_starts_the_jobs_of_the_descriptions(self):
        self.assert_same_jobs([vertex_replicas.shipped(name) for name in NAMES],
                              [self.submitted(), self.submitted("--reduction-servers", "4")])


@needs_yaml
class EmulatedReplicasTest(EmulatedTest):
    """The shipped arguments in four replicas, each a process with an address of its own, port 2222."""

    def setUp(self):
        super().setUp()
        network = emulated.network()
        self.bucket = self.folder / "gcs" / BUCKET
        self.bucket.mkdir(parents=True)
        # No lost replica comes back before its lease has ended unless its end is proved: keep that short.
        settings = {"MUSTER_LEASE": "3s"}
        self.replicas = vertex_replicas.replicas(vertex_replicas.shipped(NAMES[1]), f"deploy-{uuid.uuid4().hex}",
                                        host=lambda pool, index: f"{network}.{10 * pool + index + 1}")
        for replica in self.replicas:
            replica.environment.update(settings)

    def start_replica(self, replica):
        arguments = [word.replace("/gcs/", f"{self.folder}/gcs/") for word in replica.arguments]
        return self.start(replica.name, [*arguments, *GATE, "--gate-file", str(self.gate)], replica.environment)

    def start_job(self):
        return [self.start_replica(replica) for replica in self.replicas]

    def assert_undisturbed_loss(self, nodes):
        self.assertEqual(emulated.undisturbed_loss(TRAINERS), self.said(nodes, r"^final loss (\S+)$"))

    def test_the_job_ends_with_0_and_shows_the_lines_of_the_readme(self):
        nodes = self.start_job()
        self.wait_at_gate(nodes)
        self.gate.touch()
        self.assertEqual([0] * TRAINERS, self.exit_codes(nodes))
        self.assert_undisturbed_loss(nodes)
        self.assertTrue((self.bucket / "llm" / "checkpoints" / "checkpoint.pt").exists())
        self.assert_shown("vertex", nodes[0].out())
        # Standard error is an error to Vertex AI.
        self.assertEqual("", nodes[0].err())

    def test_a_replica_that_vertex_restarts_is_taken_back(self):
        nodes = self.start_job()
        self.wait_at_gate(nodes)
        nodes[2].signal(signal.SIGKILL)
        nodes[2].exit_code()
        nodes[2] = self.start_replica(self.replicas[2])
        self.gate.touch()
        self.assertEqual([0] * TRAINERS, self.exit_codes(nodes))
        self.assertTrue(self.said(nodes, rf"^starting at step {emulated.STEPS_BEFORE_GATE} "))
        self.assert_undisturbed_loss(nodes)

    def test_a_job_asked_to_leave_ends_with_134_and_continues_when_it_is_run_again(self):
        nodes = self.start_job()
        self.wait_at_gate(nodes)
        for node in nodes:
            node.signal(signal.SIGTERM)
        self.assertEqual([134] * TRAINERS, self.exit_codes(nodes))
        self.gate.touch()
        nodes = self.start_job()
        self.assertEqual([0] * TRAINERS, self.exit_codes(nodes))
        self.assertTrue(self.said(nodes, rf"^starting at step {emulated.STEPS_BEFORE_GATE} "))
        self.assert_undisturbed_loss(nodes)


if __name__ == "__main__":
    cluster.main()

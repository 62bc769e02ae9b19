"""SageMaker's interface: resourceconfig.json of each host, the argument `train`, SM_* for scripts, the failure file."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import cluster
from cluster import Cluster, ClusterTest

# Records what a script of the training toolkit would read.
SCRIPT = """
import json, os, sys
seen = {name: value for name, value in os.environ.items() if name.startswith(("SM_", "NCCL_"))}
with open(os.path.join(sys.argv[1], "seen-" + os.environ["RANK"]), "w") as file:
    json.dump({"variables": seen, "arguments": sys.argv[2:]}, file)
"""


class Job(Cluster):
    """Like SageMaker: each host has its own /opt/ml. Place 0 is not the first in the file's list."""

    def __init__(self, hyperparameters=None, word=True, **kwargs):
        net = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}"  # the port is the same in every job
        super().__init__(addresses=[f"{net}.{place + 1}" for place in range(3)], ports=[29400] * 3, **kwargs)
        self.program = [*self.program, *(["train"] if word else [])]
        for place, address in enumerate(self.addresses):
            self.write(place, "resourceconfig.json", {
                "current_host": address, "hosts": list(reversed(self.addresses)), "network_interface_name": "lo",
                "current_group_name": "g", "instance_groups": [
                    {"instance_group_name": "g", "instance_type": "ml.p4d.24xlarge", "hosts": self.addresses}]})
            self.write(place, "hyperparameters.json", hyperparameters or {})
            self.write(place, "inputdataconfig.json", {"train": {"TrainingInputMode": "File"}, "val": {}})

    def write(self, place, name, content):
        (self.folder / f"host{place}").mkdir(exist_ok=True)
        (self.folder / f"host{place}" / name).write_text(json.dumps(content))

    def failure_file(self, place):
        return self.folder / f"host{place}" / "failure"

    def environment_of(self, place):
        environment = super().environment_of(place)
        del environment["CLUSTER_SPEC"], environment["CLOUD_ML_JOB_ID"]
        return {**environment, "TRAINING_JOB_NAME": self.job_id,
                "MUSTER_SAGEMAKER_CONFIG": str(self.folder / f"host{place}" / "resourceconfig.json"),
                "MUSTER_SAGEMAKER_FAILURE": str(self.failure_file(place))}


class SageMakerTest(ClusterTest):
    def job(self, **kwargs):
        job = Job(**kwargs)
        self.addCleanup(self._end, job)
        return job

    def test_three_hosts_are_one_job_ranked_by_name(self):
        job = self.job().start_all(order=[2, 0, 1])
        starts = job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assertEqual([0, 0, 1, 1, 2, 2], [starts[rank]["node_rank"] for rank in range(6)])
        self.assertEqual(["0", "0", "1", "1", "2", "2"], [str(starts[rank]["place"]) for rank in range(6)])
        self.assertEqual({job.job_id}, {record["run_id"] for record in starts.values()})
        self.assert_same_master(starts)
        node = job.nodes[1]
        self.assertTrue(node.said(rf"node 1 of 3 \(sagemaker\), primary {job.addresses[0]}:29400"), node.err())
        self.assertTrue(node.said("the argument train, which SageMaker adds, is not passed to the script"), node.err())
        self.assertEqual([], [place for place in job.nodes if job.failure_file(place).exists()])

    def test_every_hosts_failure_file_has_the_root_cause(self):
        plan = [{"hang": True}, {"when": {"rank": 3}, "hang": False, "exit": 7}]
        job = self.job(plan=plan, options=["--max-restarts", "0"])
        job.start_all().wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 7, 1: 7, 2: 7}, job.exit_codes())
        for place in job.nodes:
            text = job.failure_file(place).read_text()
            self.assertRegex(text, r"rank 3 \(local_rank: 1\) on \S+ \(node 1\), exitcode 7")
            self.assertLessEqual(len(text.encode()), 1024)

    def test_the_scripts_own_failure_file_is_kept(self):
        job = self.job(plan=[{"exit": 7}], options=["--max-restarts", "0"])
        job.failure_file(1).write_text("the script's own words")
        job.start_all().wait_for_round(0)
        job.open_gate()
        job.exit_codes()
        self.assertEqual("the script's own words", job.failure_file(1).read_text())
        self.assertIn("exitcode 7", job.failure_file(0).read_text())

    def test_a_restart_that_helps_leaves_no_failure_file(self):
        job = self.job(plan=[{}, {"when": {"rank": 1, "restart": 0}, "after": None, "exit": 7}])
        job.start_all().wait_for_round(1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assertEqual([], [place for place in job.nodes if job.failure_file(place).exists()])

    def seen_with(self, hyperparameters, *options, environment=None):
        job = self.job(hyperparameters=hyperparameters, nproc=1, options=options, environment=environment)
        job.program = [sys.executable, "-S", "-E", "-c", SCRIPT, str(job.folder), "own", "train"]
        job.start_all()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        return job, [json.loads((job.folder / f"seen-{rank}").read_text()) for rank in range(3)]

    def test_scripts_of_the_toolkit_find_their_variables(self):
        job, seen = self.seen_with({"epochs": "10", "batch-size": "\"64\"", "lr": "1e-5", "fp16": "true", "opt": "adam",
                                    "sagemaker_program": "\"train.py\"", "layers": "[1,2]"})
        variables = seen[2]["variables"]
        wanted = {"SM_HP_EPOCHS": "10", "SM_HP_BATCH-SIZE": "64", "SM_HP_LR": "1e-5", "SM_HP_FP16": "true",
                  "SM_HP_OPT": "adam", "SM_HP_LAYERS": "[1,2]", "SM_MODEL_DIR": "/opt/ml/model",
                  "SM_OUTPUT_DATA_DIR": "/opt/ml/output/data", "SM_CHANNELS": '["train","val"]',
                  "SM_CHANNEL_TRAIN": "/opt/ml/input/data/train", "SM_CHANNEL_VAL": "/opt/ml/input/data/val",
                  "SM_CURRENT_HOST": job.addresses[2], "SM_MASTER_ADDR": job.addresses[0],
                  "SM_HOSTS": json.dumps(job.addresses, separators=(",", ":")),
                  "SM_NETWORK_INTERFACE_NAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
        self.assertEqual(wanted, {name: variables.get(name) for name in wanted})
        self.assertRegex(variables["SM_NUM_GPUS"], r"^\d+$")
        self.assertEqual({"epochs": 10, "batch-size": "64", "lr": 1e-5, "fp16": True, "opt": "adam", "layers": [1, 2]},
                         json.loads(variables["SM_HPS"]))
        self.assertNotIn("SM_HP_SAGEMAKER_PROGRAM", variables)
        self.assertEqual(["own"], seen[2]["arguments"])

    def test_hyperparameters_become_arguments_on_request(self):
        _, seen = self.seen_with({"epochs": "10", "fp16": "true", "name": "a $local_rank b", "x": ""},
                                 "--hyperparameters-as-args")
        self.assertEqual(["own", "--epochs", "10", "--fp16", "True", "--name", "a $local_rank b", "-x", ""],
                         seen[1]["arguments"])

    def test_user_settings_are_kept(self):
        _, seen = self.seen_with({}, environment={"NCCL_SOCKET_IFNAME": "eth9", "SM_MODEL_DIR": "", "SM_NUM_GPUS": "3"})
        self.assertEqual(("eth9", "", "3"), tuple(seen[0]["variables"][name] for name in
                                                  ("NCCL_SOCKET_IFNAME", "SM_MODEL_DIR", "SM_NUM_GPUS")))

    def test_train_alone_runs_the_images_program(self):
        job = self.job(nproc=1)
        script = job.folder / "program.py"
        script.write_text("import sys; print('ran with', sys.argv[1:])")
        job.write(0, "resourceconfig.json", {"current_host": "algo-1", "hosts": ["algo-1"]})
        environment = {**job.environment_of(0), "SAGEMAKER_PROGRAM": str(script)}
        done = subprocess.run([str(cluster.BINARY), "train"], env=environment, capture_output=True, text=True,
                              timeout=cluster.LIMIT_S)
        self.assertEqual((0, "ran with []\n"), (done.returncode, done.stdout), done.stderr)
        del environment["SAGEMAKER_PROGRAM"]
        done = subprocess.run([str(cluster.BINARY), "train"], env=environment, capture_output=True, text=True,
                              timeout=cluster.LIMIT_S)
        self.assertEqual(64, done.returncode)
        self.assertIn("no script was given", done.stderr)
        self.assertIn("no script was given", job.failure_file(0).read_text())

    @unittest.skipIf(pathlib.Path("/opt/ml/output").exists(), "SageMaker's folder is here")
    def test_a_copied_file_is_refused_in_one_line(self):
        with tempfile.NamedTemporaryFile("w") as config:
            config.write('{"current_host": "algo-1", "hosts": []}')
            config.flush()
            done = subprocess.run([str(cluster.BINARY), "run", "--no-python", "true"], capture_output=True, text=True,
                                  env={**cluster.plain_environment(), "MUSTER_SAGEMAKER_CONFIG": config.name},
                                  timeout=cluster.LIMIT_S)
        self.assertEqual(65, done.returncode)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)

    def test_a_file_that_stays_empty_ends_with_65(self):
        job = self.job(nproc=1)
        os.truncate(job.folder / "host0" / "resourceconfig.json", 0)
        node = job.start(0)
        self.assertEqual(65, node.exit_code())
        self.assertIn("resourceconfig.json is empty: expected one JSON object", node.err())
        self.assertIn("is empty", job.failure_file(0).read_text())


if __name__ == "__main__":
    cluster.main()

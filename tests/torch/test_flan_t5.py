"""deploy/examples/flan-t5: a fine-tuning with Transformers and DeepSpeed ZeRO on 2 nodes of 2 workers loses workers.

On CPU, with a tiny T5 and generated text: nothing is downloaded. The script that runs is the shipped one.
"""
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import cluster

EXAMPLE = cluster.ROOT / "deploy/examples/flan-t5"
FAULTS = pathlib.Path(__file__).with_name("flan_t5_faults.py")
STEPS, SAVE_EVERY = 30, 10
LIMIT_S = 300.0  # only a hang reaches it
MISSING = [name for name in ("torch", "transformers", "deepspeed", "accelerate") if not importlib.util.find_spec(name)]


class Job:
    """One `muster local` of 2 nodes with 2 workers each, run to its end."""

    def __init__(self, folder, model, faults=(), steps=STEPS):
        self.folder = folder
        self.output = folder / "output"
        (folder / "ended").mkdir(parents=True)
        setup = (f'echo x >>"{folder}/setups"; '
                 f'test -e "{model}" || "{sys.executable}" "{EXAMPLE}/make_tiny.py" "{model}"')
        upload = f'ls "{folder}/ended" | wc -l >>"{folder}/uploads"; cp -r "{self.output}/final" "{folder}/uploaded"'
        command = [cluster.BINARY, "local", "--nodes", "2", "--nproc-per-node", "2", "--python", sys.executable,
                   "--node-setup", setup, "--on-success", upload, "--report", folder / "report.json",
                   FAULTS, EXAMPLE / "train.py", "--model", model / "model", "--data", model / "data/train.csv",
                   "--output", self.output, "--steps", str(steps), "--save-every", str(SAVE_EVERY), "--log-every", "1",
                   "--batch-size", "4", "--learning-rate", "1e-3"]
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("MUSTER_", "PET_", "TORCHELASTIC_"))}
        environment |= {"FLAN_FAULTS": json.dumps(faults), "FLAN_ENDED": str(folder / "ended"), "TMPDIR": str(folder),
                        "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        process = subprocess.Popen([str(word) for word in command], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        try:
            self.text = process.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # muster local stops all of its nodes
            raise AssertionError(f"not over after {LIMIT_S:g} s\n{process.communicate()[0]}") from None
        self.code = process.returncode

    def losses(self):
        """The loss of each step, as the last worker that made the step printed it."""
        return dict(re.findall(rf"step (\d+) of {STEPS}  loss ([\d.]+)", self.text))

    def starts(self):
        """The steps from which the rounds started, in order."""
        return [int(step) for step in re.findall(r"starting from step (\d+) of the training", self.text)]

    def lines_of(self, name):
        return (self.folder / name).read_text().split()


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)} (deploy/setup.sh --tests)")
class FlanT5Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.undisturbed = cls.run_job("undisturbed")

    @classmethod
    def run_job(cls, name, *faults, **settings):
        return Job(cls.folder / name, cls.folder / "tiny", faults, **settings)

    def assert_succeeded(self, job):
        self.assertEqual(0, job.code, job.text)
        self.assertEqual(["x", "x"], job.lines_of("setups"), "once for each node, not for each worker or round")
        self.assertEqual(["4"], job.lines_of("uploads"), "once, when all four workers have ended")
        self.assertTrue((job.folder / "uploaded/model.safetensors").exists())

    def test_an_undisturbed_job_learns_and_uploads_once(self):
        job = self.undisturbed
        self.assert_succeeded(job)
        self.assertEqual([0], job.starts())
        losses = job.losses()
        self.assertEqual([str(step + 1) for step in range(STEPS)], list(losses), job.text)
        self.assertLess(float(losses[str(STEPS)]), float(losses["1"]) / 2, "it learns")

    def test_killed_workers_cost_no_progress_beyond_the_checkpoint(self):
        job = self.run_job("disturbed", {"restart": 0, "rank": 3, "at": "step", "step": 13},
                           {"restart": 1, "rank": 2, "at": "save", "step": 20})
        self.assert_succeeded(job)
        self.assertEqual([0, 10, 10], job.starts(), job.text)
        self.assertIn("checkpoint-20 is not complete: removing it", job.text)
        # Equal to the last digit: the checkpoint has the optimizer's and every rank's random state, the order of the
        # data follows from the seed, and gloo adds the ranks' values in the same order each time.
        self.assertEqual(self.undisturbed.losses(), job.losses())
        models = [(run.folder / "uploaded/model.safetensors").read_bytes() for run in (self.undisturbed, job)]
        self.assertTrue(models[0] == models[1], "the trained weights are the same")

    def test_a_crash_after_success_is_a_warning(self):
        # In the first round a worker is lost after the last step: the second one has nothing left to train.
        job = self.run_job("crash", {"restart": 0, "rank": 2, "at": "end"},
                           {"restart": 1, "rank": 1, "at": "exit"}, steps=2)
        self.assert_succeeded(job)
        self.assertEqual([0, 2], job.starts(), "the crash starts nothing again")
        self.assertEqual(["1", "2"], re.findall(r"step (\d+) of 2  loss", job.text), "no step more, no step twice")
        self.assertRegex(job.text, r"warning: .*rank 1\b.*SIGABRT")


if __name__ == "__main__":
    unittest.main()

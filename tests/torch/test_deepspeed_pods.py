"""deploy/examples/mistral-deepspeed: the JobSet's command, with its `deepspeed` line, trains on two stand-ins for pods.

A pod here is a network namespace with the host name, the variables and the line in /etc/hosts that a pod of the JobSet
has. The command and the variables are those of jobset.yaml, except that each pod has one worker instead of eight, and
finetune.py is a small DeepSpeed training whose second worker is killed in the first round.
"""
import importlib.util
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

import cluster

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import network  # noqa: E402  (a folder without a package)

MANIFEST = cluster.ROOT / "deploy/examples/mistral-deepspeed/jobset.yaml"
TRAINING = pathlib.Path(__file__).resolve().parent / "frameworks/scripts"
LIMIT_S = 240.0  # only a hang reaches it
MISSING = [name for name in ("torch", "deepspeed", "yaml") if not importlib.util.find_spec(name)]
SCRIPT = f"""
import os, runpy, signal, sys
print("arguments", *sys.argv[1:], flush=True)
if (os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]) == ("1", "0"):
    os.kill(os.getpid(), signal.SIGKILL)
sys.path.insert(0, "{TRAINING}")
sys.argv[1:] = [word for word in sys.argv[1:] if word.startswith("--local_rank")]
runpy.run_path("{TRAINING}/use_deepspeed.py", run_name="__main__")
"""


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)} (deploy/setup.sh --tests)")
@unittest.skipUnless(network.can_make_namespaces(), "network namespaces need root and iproute2")
class DeepspeedPodsTest(unittest.TestCase):
    def setUp(self):
        import yaml
        jobset = yaml.safe_load(MANIFEST.read_text())
        [self.group] = jobset["spec"]["replicatedJobs"]
        self.name = jobset["metadata"]["name"]
        [self.container] = self.group["template"]["spec"]["template"]["spec"]["containers"]
        folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("muster", "deepspeed"):
            (self.folder / name).symlink_to(cluster.BINARY)
        (self.folder / "finetune.py").write_text(SCRIPT)
        self.net = network.Network(self.group["template"]["spec"]["completions"])
        self.addCleanup(self.net.close)

    def hostname(self, place):
        return f"{self.name}-{self.group['name']}-0-{place}"

    def start(self, place):
        """One pod. As from a kubelet, its own line in /etc/hosts has the full name and the short one."""
        names = {other: f"{self.hostname(other)}.{self.name}.default.svc.cluster.local" for other in self.net.places}
        names[place] += f" {self.hostname(place)}"
        (network.NETNS_FILES / self.net.namespace(place) / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{self.net.address(other)} {names[other]}\n" for other in names))
        [shell, option, line] = self.container["command"]
        volume = self.folder / f"pod-{place}"
        volume.mkdir()
        for old, new in (("--slots 8", "--slots 1"), ("--num_gpus 8", "--num_gpus 1"), ("/job/", f"{volume}/")):
            self.assertIn(old, line)
            line = line.replace(old, new)
        environment = {
            "PATH": f"{self.folder}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder), "TMPDIR": str(volume), "HOSTNAME": self.hostname(place),
            "KUBERNETES_SERVICE_HOST": "10.96.0.1", "JOB_COMPLETION_INDEX": str(place),
            **{entry["name"]: entry["value"] for entry in self.container["env"]},
            "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
        pod = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
               f"hostname {self.hostname(place)} && exec {shell} {option} {shlex.quote(line)}"]
        process = subprocess.Popen([*self.net.prefix(place), *pod], env=environment, cwd=self.folder, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)  # ends the whole pod: --kill-child
        return process

    def test_the_deepspeed_line_trains_and_restarts(self):
        pods = [self.start(place) for place in self.net.places]
        outputs = [pod.communicate(timeout=LIMIT_S)[0] for pod in pods]
        told = "\n".join(outputs)
        self.assertEqual([0, 0], [pod.returncode for pod in pods], told)
        for place, output in enumerate(outputs):
            self.assertIn(f"node {place} of 2 (from the command line), primary {self.hostname(0)}.{self.name}.", output)
            # --local_rank first, as DeepSpeed's own launcher passes it; then what follows finetune.py.
            # Rank 0 may be ended for rank 1's failure before it has said so the first time.
            self.assertIn(output.count("arguments --local_rank=0 --model mistralai/Mistral-7B-v0.1 "), (1, 2), told)
            self.assertRegex(output, rf"result rank={place} world=2 ")
        self.assertIn("rank 1 on", told)
        self.assertIn("restart 1 of 3", told)


if __name__ == "__main__":
    unittest.main()

"""The manifests of deploy/kubernetes as pods: real trainings on 2 nodes that lose containers and pods.

No kubelet and no controllers run here. pods.py says what differs from a cluster.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import images  # noqa: E402
import manifests  # noqa: E402
import podman  # noqa: E402
from pods import LIMIT_S, TRAINING_OPTIONS, Job, undisturbed_loss  # noqa: E402
from podman import BINARY, wait_until  # noqa: E402

NOT_READY = 1  # `muster health --ready`, while no workers run
MEMORY = "256Mi"
REPORTS_S = 5  # the host reports its use of memory every second
# Takes this share of the container's memory, keeps it for several reports, says so, and goes on.
TAKE_MEMORY = f"""\
import sys, time
taken = bytearray(int(float(sys.argv[1]) * 256 * 2**20))
for page in range(0, len(taken), 4096): taken[page] = 1
time.sleep({REPORTS_S})
print("taken", flush=True)
time.sleep(1000)
"""


def setUpModule():
    try:
        podman.storage()
        manifests.use_packages()
        images.path("torch")
    except images.Unavailable as error:
        raise unittest.SkipTest(str(error)) from error
    if not BINARY.exists():
        raise AssertionError(f"{BINARY} is not there: build it, or set MUSTER_BINARY")


class PodTest(unittest.TestCase):
    FILE = None

    def job(self, file=None, **settings):
        job = Job(file or self.FILE, **settings)
        self.addCleanup(self._end, job)
        return job

    def _end(self, job):
        result = self._outcome.result
        if any(getattr(case, "test_case", case) is self for case, _ in result.failures + result.errors):
            job.show()
        job.clear()

    def at_the_gate(self, **settings):
        job = self.job(**settings).start_all()
        job.wait_for_gate()
        return job

    def check_end(self, job):
        """Every container of every pod ends with 0, and the training has computed what it computes undisturbed."""
        job.open_gate()
        for pod in job.pods.values():
            self.assertEqual([0] * len(pod.containers), pod.exit_codes(), pod.name)
        self.assertEqual(undisturbed_loss(job.size), job.loss())

    def check_restarted(self, job):
        job.wait_for_gate(restart=1)
        self.check_end(job)

    def check_primary_moves(self, job):
        before = job.pods[0].address()
        self.assertNotEqual(before, job.replace(0).address())
        self.check_restarted(job)


class Manifests(PodTest):
    """The pods of each manifest train. The commands of their probes tell how far they are."""

    def probed_at_the_gate(self, file):
        job = self.job(file)
        first = job.start(0)
        wait_until("an answer to the startup probe", lambda: {*job.probe(first, "startupProbe")} == {0}, LIMIT_S)
        self.assertEqual({0}, {*job.probe(first, "livenessProbe")})
        self.assertEqual([NOT_READY], job.probe(first, "readinessProbe"))
        job.start(1)
        job.wait_for_gate()
        for pod in job.pods.values():
            self.assertEqual({0}, {*job.probe(pod, "startupProbe"), *job.probe(pod, "livenessProbe")})
            self.assertEqual([0], job.probe(pod, "readinessProbe"))
        return job

    def check(self, file):
        job = self.probed_at_the_gate(file)
        self.check_end(job)
        self.assertEqual([(0, rank) for rank in range(job.size)], job.starts())

    def test_an_indexed_job(self):
        self.check("indexed-job.yaml")

    def test_an_indexed_job_with_a_sidecar(self):
        self.check("indexed-job-sidecar.yaml")

    def test_a_jobset(self):
        self.check("jobset.yaml")

    def test_a_trainjob(self):
        self.check("trainer.yaml")

    def test_a_statefulset_keeps_its_containers_after_a_success(self):
        """Or they would start and train again. SIGTERM reaches muster before that, and ends them after it."""
        job = self.probed_at_the_gate("statefulset.yaml")
        job.pods[1].training.terminate()
        job.pods[1].training.wait_for("exit code 75")
        job.wait_for_gate(restart=1)  # podman has started the container again, as a kubelet does
        job.open_gate()
        for pod in job.pods.values():
            pod.training.wait_for("the job has succeeded")
            wait_until("its liveness probe", lambda: job.probe(pod, "livenessProbe") == [0], LIMIT_S)
        self.assertEqual(undisturbed_loss(job.size), job.loss())
        starts = job.starts()
        for pod in job.pods.values():
            podman.storage()("stop", "--time", int(LIMIT_S), pod.training.name)
            self.assertEqual(0, pod.training.exit_code())
        self.assertEqual(starts, job.starts())


class Sidecar(PodTest):
    """Two containers a pod: the host with the workers, and the agent."""

    FILE = "indexed-job-sidecar.yaml"
    SHORT_LEASE = {"MUSTER_LEASE": "6s", "MUSTER_RECONNECT_GRACE": "1s"}  # instead of 60 s and 40 s

    def test_the_containers_are_as_confined_as_the_manifest_says(self):
        job = self.at_the_gate()
        pod = job.pods[0]
        for container, muster in ((pod.training, "/run/muster/muster"), (pod.agent, "/muster")):
            status = container.status()
            for line in (r"Uid:\s+64250\s", r"CapEff:\s+0+\n", r"CapBnd:\s+0+\n", r"NoNewPrivs:\s+1\n",
                         r"Seccomp:\s+2\n"):
                self.assertRegex(status, line)
            self.assertIn("Read-only file system", container.execute(muster, "install", "/file").stderr)
        self.assertRegex(pod.training.execute("cat", "/proc/mounts").stdout, r"(?m)^\S+ /dev/shm tmpfs ")
        self.assertEqual("", pod.training.execute("sh", "-c", "command -v muster").stdout, "the image has no muster")
        self.check_end(job)

    def test_a_killed_agent_disturbs_no_worker(self):
        job = self.at_the_gate(workers=2)
        before = job.starts()
        for pod in (job.pods[1], job.pods[0]):
            pod.agent.kill()
            pod.agent.start()
            pod.training.wait_for("takes over")
        self.check_end(job)
        self.assertEqual(before, job.starts())

    def test_a_killed_training_container_is_a_lost_node(self):
        job = self.at_the_gate()
        pod = job.pods[1]
        pod.training.kill()
        pod.agent.wait_for("every process of the training container has ended")
        pod.training.start()
        self.check_restarted(job)
        self.assertEqual([], pod.agent.said("of memory"))

    def check_stopped(self, *containers):
        job = self.at_the_gate()
        for name in containers:
            job.pods[1].containers[name].terminate()
        self.assertEqual([75, 75], job.pods[1].exit_codes())
        job.replace(1)
        self.check_restarted(job)

    def test_a_stopped_pod_leaves_in_order(self):
        """Where the agent is a native sidecar, it gets SIGTERM only after the training container has ended."""
        self.check_stopped("trainer")

    def test_a_stopped_pod_of_ordinary_containers_leaves_in_order(self):
        """Both get SIGTERM at once; here the agent first."""
        self.check_stopped("agent", "trainer")

    def test_a_lost_pod_is_replaced(self):
        job = self.at_the_gate(options=self.SHORT_LEASE)
        job.replace(1)
        self.check_restarted(job)

    def test_the_primarys_pod_returns_with_another_address(self):
        self.check_primary_moves(self.at_the_gate(options=self.SHORT_LEASE))


class Memory(PodTest):
    """A training container with a limit is killed as a whole: by a kernel with memory.oom.group, here by the test."""

    FILE = "indexed-job-sidecar.yaml"

    def taking(self, share):
        job = self.job(nodes=1, memory=MEMORY, arguments=[])
        job.template.training()["args"] = ["python3", "-c", TAKE_MEMORY, str(share)]
        return job.start(0)

    def test_a_container_killed_at_its_limit_probably_ran_out_of_memory(self):
        pod = self.taking(0.94)
        pod.training.wait_for("taken")
        pod.training.kill()
        pod.agent.wait_for(r"ended when it used 0\.2\d of 0\.25 GiB of memory")

    def test_a_container_killed_at_half_its_limit_did_not(self):
        pod = self.taking(0.5)
        pod.training.wait_for("taken")
        pod.training.kill()
        pod.agent.wait_for("every process of the training container has ended")
        self.assertEqual([], pod.agent.said("of memory"))

    def test_a_worker_beyond_the_limit_is_reported(self):
        self.taking(1.5).agent.wait_for("killed because memory ran out")


class Entrypoint(PodTest):
    """One container a pod, whose ENTRYPOINT is `muster run`."""

    FILE = "indexed-job.yaml"
    SHORT_LEASE = {"MUSTER_LEASE": "6s"}

    def test_a_stopped_pod_leaves_in_order(self):
        job = self.at_the_gate()
        job.pods[1].training.terminate()
        self.assertEqual([75], job.pods[1].exit_codes())
        job.replace(1)
        self.check_restarted(job)

    def test_a_killed_container_is_replaced(self):
        job = self.at_the_gate(options=self.SHORT_LEASE)
        job.pods[1].training.kill()
        job.replace(1)
        self.check_restarted(job)

    def test_the_primarys_pod_returns_with_another_address(self):
        self.check_primary_moves(self.at_the_gate(options=self.SHORT_LEASE))


if __name__ == "__main__":
    unittest.main()

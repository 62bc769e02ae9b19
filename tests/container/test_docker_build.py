"""The files of deploy/docker as a user follows them: both Dockerfiles, then the job of compose.yaml."""
import os
import subprocess
import unittest

import engine
import images
from engine import DOCKERFILES, ROOT, docker
from job import LOSS, ContainerTest, re, run_once, wait_until

BUILD_LIMIT_S = 3600.0  # everything is compiled; only a hang reaches it
IMAGE_LIMIT_BYTES = 20_000_000
TRAINING_LIMIT_S = 600.0


def compose_command():
    """`docker compose` or docker-compose; installed if neither is there. Skips the test if that is not possible."""
    if engine.call("compose", "version", check=False).returncode == 0:
        return ["docker", "compose"]
    try:
        images.install("docker-compose", "docker-compose")
    except images.Unavailable as error:
        raise unittest.SkipTest(f"neither `docker compose` nor docker-compose is here: {error}") from error
    return ["docker-compose"]


class Training(ContainerTest):
    def test_the_image_trains_as_it_is(self):
        done = run_once(engine.training("torch"), limit=TRAINING_LIMIT_S)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, LOSS)


class Dockerfile(ContainerTest):
    def test_it_makes_an_image_of_the_binary_alone(self):
        tag = engine.build(f"{engine.PREFIX}-built", DOCKERFILES / "Dockerfile", ROOT, "--build-arg",
                           f"BASE={engine.base('debian')}", "--build-arg", "SNAPSHOT=",
                           *os.environ.get("MUSTER_DOCKER_BUILD_OPTIONS", "").split(), limit=BUILD_LIMIT_S)
        self.assertLess(int(docker("image", "inspect", "--format", "{{.Size}}", tag)), IMAGE_LIMIT_BYTES)
        docker("create", "--name", f"{engine.PREFIX}-built", "--label", engine.LABEL, tag)
        files = subprocess.run(["sh", "-c", f"docker export {engine.PREFIX}-built | tar -t"], capture_output=True,
                               text=True, timeout=engine.COMMAND_LIMIT_S, check=True).stdout.split()
        # What Docker itself adds to each container.
        dockers = re.compile(r"\.dockerenv|(dev|etc|proc|sys)/.*")
        self.assertEqual(["muster"], [name for name in files if not dockers.fullmatch(name)])
        done = run_once(tag, "run", "--nproc-per-node", "2", "--no-python", "/muster", "version")
        self.assertEqual(0, done.returncode, done.stderr)


class Compose(ContainerTest):
    FILE = DOCKERFILES / "compose.yaml"

    def setUp(self):
        self.command = compose_command()
        self.environment = {**os.environ, "TRAINING_IMAGE": engine.training("torch")}
        self.addCleanup(self.compose, "down", "--volumes")

    def compose(self, *arguments):
        done = subprocess.run([*self.command, "-f", self.FILE, "-p", engine.PREFIX, *arguments], env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=engine.COMMAND_LIMIT_S, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout.strip()

    def undisturbed_loss(self):
        """Of as many workers in one container."""
        steps = re.search(r'--steps, "(\d+)"', self.FILE.read_text(encoding="utf-8"))[1]
        done = run_once("--network", "none", engine.training("torch"), "--nproc-per-node", "6", "train.py",
                        "--checkpoint", "/tmp/checkpoint.pt", "--steps", steps, limit=TRAINING_LIMIT_S)
        self.assertEqual(0, done.returncode, done.stderr)
        return re.search(LOSS, done.stdout)[1]

    def test_the_job_loses_a_container_and_ends_with_the_undisturbed_loss(self):
        self.compose("up", "-d")
        containers = {service: self.compose("ps", "-q", service)
                      for service in ("primary", "worker-0", "worker-1", "reducer")}
        wait_until("a checkpoint", lambda: "(checkpoint)" in docker("logs", containers["primary"]), TRAINING_LIMIT_S)
        self.compose("kill", "worker-1")
        self.compose("start", "worker-1")
        for service, container in containers.items():
            code = docker("wait", container, limit=TRAINING_LIMIT_S)
            self.assertEqual("0", code, engine.call("logs", container).stderr)
        log = docker("logs", containers["primary"])
        self.assertIn("with 6 workers, restart 1", log)
        self.assertEqual(self.undisturbed_loss(), re.search(LOSS, log)[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)

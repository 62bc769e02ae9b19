"""Signals that come before the workers have been started: devices are counted by a tool that hangs."""
import signal
import subprocess

import cluster
from cluster import ClusterTest, InAContainer, arguments_of, descendants, is_alive, wait_until

HANGS = ["sleep", "600"]
HANGING_TOOL = f"#!/bin/sh\nexec {' '.join(HANGS)}\n"


class WhileDevicesAreCounted(ClusterTest):
    def job_that_counts(self, environment=None):
        """A job whose nvidia-smi never answers."""
        job = self.cluster(1, nproc="auto", environment=environment)
        tool = job.folder / "nvidia-smi"
        tool.write_text(HANGING_TOOL)
        tool.chmod(0o755)
        job.environment = {**job.environment, "PATH": f"{job.folder}:/usr/bin:/bin"}
        return job

    def tool_of(self, process):
        return wait_until("the devices are being counted", lambda: [
            pid for pid in descendants(process.pid) if arguments_of(pid) == HANGS])[0]

    def test_the_first_signal_ends_muster_and_the_tool(self):
        for number, code, environment in ((signal.SIGTERM, 75, {}), (signal.SIGINT, self.cancelled, {}),
                                          (signal.SIGTERM, 134, {"MUSTER_RETRYABLE_EXIT_CODE": ""})):
            with self.subTest(signal=number.name, code=code):
                job = self.job_that_counts(environment)
                node = job.start(0)
                tool = self.tool_of(node.process)
                node.signal(number)
                wait_until("the node's line about it", lambda: node.said(f"muster: {number.name} before the start"))
                node.signal(signal.SIGINT)  # of two pending signals the kernel delivers this one first
                self.assertEqual(code, node.exit_code())
                wait_until("the tool is gone", lambda: not is_alive(tool))


class BelowMusterLocal(WhileDevicesAreCounted):
    def test_the_first_signal_ends_muster_and_the_tool(self):
        job = self.job_that_counts()
        environment = {**job.environment_of(0), "PATH": job.environment["PATH"]}
        del environment["CLUSTER_SPEC"], environment["CLOUD_ML_JOB_ID"]
        process = subprocess.Popen([str(cluster.BINARY), "local", "--nodes", "2", "--no-python", "true"], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tool = self.tool_of(process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(75, process.wait(cluster.LIMIT_S))
        wait_until("the tool is gone", lambda: not is_alive(tool))


class WhileDevicesAreCountedInAContainer(InAContainer, WhileDevicesAreCounted):
    pass


if __name__ == "__main__":
    cluster.main()

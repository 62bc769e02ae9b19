"""Bad nodes are kept out: by the preflight, and by GPUs that old workers still hold."""
import os
import unittest

import cluster
from cluster import CONTAINER, TOKEN, ClusterTest, arguments_of, bearers, kill, never, wait_until

CRASHES = {"exit": 5, "after": None}
FIRST_PID_NAMESPACE = "pid:[4026531836]"  # in which the driver's pids are the machine's


class Preflight(ClusterTest):
    def checked(self, nodes, line="", nnodes=None, **kwargs):
        """Nodes whose preflight fails while a file bad-PLACE exists. With nnodes the nodes have no places."""
        options = kwargs.pop("options", [])
        if nnodes:
            port = cluster.free_port("127.0.0.1")
            options = ["--nnodes", nnodes, "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "preflight",
                       "--last-call-timeout", "0s", *options]
        job = self.cluster(nodes, nproc=1, **kwargs)
        path = job.folder
        job.options += [*options, "--preflight",
                        f'echo x >>"{path}/ran-$TEST_PLACE"; {line} '
                        f'if test -e "{path}/bad-$TEST_PLACE"; then echo "no GPU 7" >&2; exit 3; fi']
        return job

    def start(self, job, *places):
        for place in places:
            job.start(place, options=["--rdzv-conf", f"is_host={'true' if place == 0 else 'false'}"])

    def runs(self, job, place):
        path = job.folder / f"ran-{place}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def test_it_runs_once_before_each_round_on_each_node(self):
        job = self.checked(2, plan=[{"when": {"rank": 1, "restart": 0}, **CRASHES}], options=["--max-restarts", "1"])
        job.start_all()
        job.wait_for_round(1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual([2, 2], [self.runs(job, place) for place in (0, 1)])
        self.assertTrue(job.nodes[0].said("preflight passed in "))

    def test_it_finds_no_rank_in_its_environment(self):
        job = self.checked(1, line='env >"$TEST_FOLDER/env";', environment={"RANK": "7", "MASTER_ADDR": "nowhere"})
        job.environment["TEST_FOLDER"] = str(job.folder)
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0}, job.exit_codes())
        found = dict(line.split("=", 1) for line in (job.folder / "env").read_text().splitlines() if "=" in line)
        self.assertEqual({"1"}, {found["LOCAL_WORLD_SIZE"], found["NPROC"]})
        self.assertFalse({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"} & set(found))

    def test_a_node_where_it_fails_is_left_out(self):
        job = self.checked(3, nnodes="2:3")
        job.open_gate("bad-1")
        self.start(job, 1)
        wait_until("it has failed", lambda: job.nodes[1].said(r"preflight failed on \S+: exit code 3: no GPU 7"))
        self.assertTrue(job.nodes[1].said("(?m)^preflight: no GPU 7$"))
        self.start(job, 0, 2)
        first = job.wait_for_round(0, workers=2)
        self.assertEqual({0, 2}, {record["place"] for record in first.values()})
        wait_until("the primary's line about it", lambda: job.nodes[0].said(r"preflight failed on \S+: exit code 3: no GPU 7"))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())

    def test_a_recovered_node_is_taken(self):
        job = self.checked(2)
        job.open_gate("bad-1")
        job.start_all()
        wait_until("the primary says why", lambda: job.nodes[0].said(
            r"waiting after .*: 1 of 2 nodes ready; gives up after .*; preflight failed on \S+: exit code 3: no GPU 7"))
        (job.folder / "bad-1").unlink()
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertTrue(job.nodes[1].said("this node is usable again"))

    def test_a_spare_replaces_a_node_where_it_fails(self):
        job = self.checked(3, nnodes="2", plan=[{"when": {"place": 1}, "exit": 5, "after": "crash"}],
                           options=["--max-restarts", "1"])
        self.start(job, 0, 1)
        job.wait_for_round(0, workers=2)
        self.start(job, 2)
        wait_until("it stands in line", lambda: job.nodes[2].said("spare 1 in line"))
        job.open_gate("bad-1")
        job.open_gate("crash")
        second = job.wait_for_round(1, workers=2)
        self.assertEqual({0, 2}, {record["place"] for record in second.values()})
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())

    def left(self, job):
        return [arguments_of(pid) for pid in bearers(TOKEN, job.token) if arguments_of(pid)[:1] == ["sleep"]]

    def test_its_leftovers_are_ended_before_the_round(self):
        job = self.checked(1, line="setsid sleep 3600 & sleep 3600 &")
        job.start_all()
        job.wait_for_round(0)
        self.assertEqual([], self.left(job))
        job.open_gate()
        self.assertEqual({0: 0}, job.exit_codes())

    def hanging(self):
        job = self.checked(2, line='setsid sleep 3600 & test $TEST_PLACE = 0 || { sleep 3600; };')
        return job

    def wait_until_it_hangs(self, job):
        wait_until("the preflight's processes", lambda: len(self.left(job)) >= 2)

    def test_a_hung_preflight_is_ended_with_its_descendants(self):
        job = self.hanging()
        job.options += ["--preflight-timeout", "1s"]
        job.start(1)
        self.wait_until_it_hangs(job)
        wait_until("its time is over", lambda: job.nodes[1].said(r"preflight failed on \S+: timed out after 1s"))
        self.assertEqual([], self.left(job))
        job.nodes[1].signal(15)
        self.assertEqual(75, job.nodes[1].exit_code())

    def test_a_leaving_node_ends_it(self):
        job = self.hanging()
        job.start(1)
        self.wait_until_it_hangs(job)
        job.nodes[1].signal(15)
        self.assertEqual(75, job.nodes[1].exit_code())
        self.assertEqual([], self.left(job))
        self.assertFalse(job.nodes[1].said("preflight failed"))

    def test_it_is_ended_when_the_main_process_dies(self):
        job = self.hanging()
        job.start(1)
        self.wait_until_it_hangs(job)
        kill(job.nodes[1].host())
        wait_until("nothing is left", lambda: not self.left(job))


class GpuRelease(ClusterTest):
    """A fake nvidia-smi lists the contents of a file."""

    def cluster_with_gpus(self, *options, gpus=1, plan=({"when": {"restart": 0}, "exit": 5, "after": "crash"},), **kwargs):
        job = self.cluster(1, nproc="gpu", plan=plan, options=["--max-restarts", "1", *options], **kwargs)
        listed = "".join(f"GPU {gpu}: Fake (UUID: GPU-{gpu})\n" for gpu in range(gpus))
        folder = job.folder / "bin"
        folder.mkdir()
        tool = folder / "nvidia-smi"
        tool.write_text(f"""#!/bin/sh
if [ "$1" = -L ]; then printf '{listed}'; exit 0; fi
echo "$*" >>"{job.folder}/asked"
if [ -e "{job.folder}/broken" ]; then exit 9; fi
if [ -e "{job.folder}/hangs" ]; then sleep 3600; fi
cat "{job.folder}/held" 2>/dev/null
exit 0
""")
        tool.chmod(0o755)
        job.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
        return job

    def asked(self, job):
        path = job.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def first_round(self, job, held=None):
        """Lets its worker fail while the fake GPU goes on listing that pid (or `held`); returns the pid."""
        job.start_all()
        pid = job.wait_for_round(0, workers=1)[0]["pid"]
        self.assertEqual([], self.asked(job), "before the first round there are no old workers")
        (job.folder / "held").write_text(f" {held or pid}\n[N/A]\n")
        job.open_gate("crash")
        return pid

    def end(self, job):
        job.wait_for_round(1, workers=1)
        job.open_gate()
        self.assertEqual({0: 0}, job.exit_codes())

    def test_a_round_starts_once_the_old_workers_have_left(self):
        job = self.cluster_with_gpus()
        self.first_round(job)
        wait_until("several questions", lambda: len(self.asked(job)) >= 3)
        self.assertEqual([], job.records("start", restart=1))
        (job.folder / "held").unlink()
        self.end(job)
        self.assertEqual({"--query-compute-apps=pid --format=csv,noheader"}, set(self.asked(job)))

    @unittest.skipUnless(os.readlink("/proc/self/ns/pid") == FIRST_PID_NAMESPACE, "in a PID namespace of its own")
    def test_beyond_its_time_the_node_is_unusable(self):
        job = self.cluster_with_gpus("--gpu-release-timeout", "500ms")
        pid = self.first_round(job)
        wait_until("it is unusable", lambda: job.nodes[0].said(
            rf"GPUs of \S+ are still held by exited workers \(pid {pid}\) after 500ms"))
        never("a round", lambda: job.records("start", restart=1))
        (job.folder / "held").unlink()
        self.end(job)

    @unittest.skipUnless(os.readlink("/proc/self/ns/pid") == FIRST_PID_NAMESPACE, "in a PID namespace of its own")
    def test_a_training_behind_a_wrapper_is_an_old_worker(self):
        job = self.cluster_with_gpus("--gpu-release-timeout", "500ms", gpus=2, plan=[
            {"when": {"restart": 0}, "term": "exit"}, {"when": {"restart": 0, "rank": 1}, "exit": 5, "after": "crash"}])
        job.program = ["bash", "-c", '"$@"; exit $?', "bash", *job.program]
        job.start_all()
        pid = job.wait_for_round(0, workers=2)[0]["pid"]
        (job.folder / "held").write_text(f" {pid}\n")
        job.open_gate("crash")
        wait_until("it is waited for", lambda: job.nodes[0].said(rf"still held by exited workers \(pid {pid}\)"))
        (job.folder / "held").unlink()
        job.wait_for_round(1, workers=2)
        job.open_gate()
        self.assertEqual({0: 0}, job.exit_codes())

    @unittest.skipUnless(os.readlink("/proc/self/ns/pid") == FIRST_PID_NAMESPACE, "in a PID namespace of its own")
    def test_foreign_gpu_processes_are_not_awaited(self):
        job = self.cluster_with_gpus()
        self.first_round(job, held=os.getpid())
        self.end(job)
        self.assertEqual(1, len(self.asked(job)))

    @unittest.skipUnless(os.geteuid() == 0, "needs root for a PID namespace")
    def test_in_a_container_lasting_users_are_foreign(self):
        job = self.cluster_with_gpus(prefix=lambda place: CONTAINER)
        self.first_round(job, held=4242)
        self.end(job)
        self.assertTrue(job.nodes[0].said("unknown processes hold GPUs .*4242"))

    def test_a_failing_tool_is_one_warning(self):
        job = self.cluster_with_gpus()
        job.open_gate("broken")
        self.first_round(job)
        self.end(job)
        self.assertEqual(1, len(job.nodes[0].said("assumed to be free: nvidia-smi exited with code 9")))

    def test_a_hung_tool_is_given_up(self):
        job = self.cluster_with_gpus()
        job.open_gate("hangs")
        self.first_round(job)
        self.end(job)
        self.assertTrue(job.nodes[0].said("assumed to be free: nvidia-smi did not answer within 15s"))
        self.assertEqual([], [pid for pid in bearers(TOKEN, job.token) if arguments_of(pid)[:1] == ["sleep"]])


if __name__ == "__main__":
    cluster.main()

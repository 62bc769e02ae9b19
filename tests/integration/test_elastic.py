"""Growing, spares, pauses, bad nodes, and the end without progress."""
import unittest

import cluster
from cluster import ClusterTest, kill, wait_until

CRASHES = {"exit": 5, "after": None}


class Elastic(ClusterTest):
    def cluster_by_name(self, nodes, nnodes, **kwargs):
        """Nodes without places: they come and go, and above MAX they are spares. Node 0 is the primary."""
        port = cluster.free_port("127.0.0.1")
        options = ["--nnodes", nnodes, "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "elastic",
                   *kwargs.pop("options", ())]
        return self.cluster(nodes, nproc=1, options=options, **kwargs)

    def start_primary_and(self, job, *places):
        job.start(0, options=["--rdzv-conf", "is_host=true"])
        for place in places:
            job.start(place, options=["--rdzv-conf", "is_host=false"])

    def test_simultaneous_joins_cost_one_restart(self):
        job = self.cluster_by_name(5, "2:5", options=["--join-settle", "1s", "--last-call-timeout", "0s"])
        self.start_primary_and(job, 1)
        job.wait_for_round(0, workers=2)
        for place in (2, 3, 4):
            job.start(place, options=["--rdzv-conf", "is_host=false"])
        job.wait_for_round(1, workers=5)
        job.open_gate()
        self.assertEqual({place: 0 for place in range(5)}, job.exit_codes())
        self.assertEqual([], job.records("start", restart=2))
        self.assert_rounds_do_not_overlap(job)

    # A container that crashes and is started anew, again and again: each return would restart the others.
    def test_a_crash_loop_neither_disturbs_nor_ends_the_rest(self):
        job = self.cluster(3, nproc=1, options=["--nnodes", "2:3", "--max-node-losses", "1", "--last-call-timeout", "0s"])
        job.start_all()
        job.wait_for_round(0)
        for restart in (1, 3):
            kill(job.nodes[2].host())
            job.wait_for_round(restart, workers=2)
            job.start(2)
            if restart == 1:
                job.wait_for_round(2)
        wait_until("it hears why it waits", lambda: job.nodes[2].said("this node was lost 2 times in a row"))
        cluster.never("another round", lambda: job.records("start", restart=4))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())

    def test_replacement_only_nodes_wait_in_line(self):
        job = self.cluster_by_name(3, "2:3", options=["--scale-up", "never", "--last-call-timeout", "0s"])
        self.start_primary_and(job, 1)
        job.wait_for_round(0, workers=2)
        job.start(2, options=["--rdzv-conf", "is_host=false"])
        wait_until("it stands in line", lambda: job.nodes[2].said("spare 1 in line"))
        host, agent = job.nodes[1].host(), job.nodes[1].agent()
        kill(host)
        kill(agent)
        after = job.wait_for_round(1, workers=2)
        self.assertEqual({0, 2}, {record["place"] for record in after.values()})
        job.open_gate()
        self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])

    def test_a_repeated_cause_is_replaced_by_a_spare(self):
        job = self.cluster_by_name(3, "2", plan=[{"when": {"place": 1}, "exit": 5, "after": "spare"}],
                                   options=["--exclude-after", "2", "--max-restarts", "9", "--restart-delay", "0s"])
        self.start_primary_and(job, 1)
        job.wait_for_round(0, workers=2)
        job.start(2, options=["--rdzv-conf", "is_host=false"])
        wait_until("it stands in line", lambda: job.nodes[2].said("spare 1 in line"))
        job.open_gate("spare")
        wait_until("the spare has a rank", lambda: job.records("start", place=2))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assertTrue(job.nodes[0].said("root cause 2 times in a row"))
        failed = len(job.records("start", place=1))
        self.assertEqual(failed, job.records("start", place=2)[0]["restart"], "every failure was its own")

    def test_three_restarts_without_progress_end_the_job(self):
        job = self.cluster(2, nproc=1, plan=[{"when": {"rank": 1}, **CRASHES}], options=[
            "--max-restarts", "100", "--restart-delay", "0s", "--progress-file", "/nowhere/progress"])
        job.start_all()
        self.assertEqual({0: 93, 1: 93}, job.exit_codes())
        self.assertEqual([0, 1, 2, 3], sorted({record["restart"] for record in job.records("start")}))
        self.assertTrue(job.nodes[1].said("no progress in 3 restarts"))
        self.assertTrue(job.nodes[1].said("--progress-file /nowhere/progress: its folder does not exist yet"))

    def test_an_invisible_progress_file_is_a_warning(self):
        job = self.cluster(1, nproc=1)
        (job.folder / "file").touch()
        node = job.start(0, options=("--progress-file", f"{job.folder}/file/progress"))
        job.wait_for_round(0, workers=1)
        wait_until("the warning", lambda: node.said(
            r"warning: --progress-file \S*/file/progress cannot be accessed \(Not a directory\)"))
        job.open_gate()
        self.assertEqual(0, node.exit_code())

    def test_each_touch_allows_three_more_restarts(self):
        job = self.cluster(2, nproc=1)
        progress = job.folder / "progress"
        job.program = ["bash", "-c", f'touch "{job.folder}/started-$RANK-$TORCHELASTIC_RESTART_COUNT"; '
                       f'if [ $RANK = 1 ]; then '
                       f'  if [ $TORCHELASTIC_RESTART_COUNT = 2 ]; then echo checkpoint >>"{progress}"; fi; exit 5; '
                       f'fi; sleep 600']
        job.options += ["--max-restarts", "100", "--restart-delay", "0s", "--progress-file", str(progress)]
        job.start_all()
        self.assertEqual({0: 93, 1: 93}, job.exit_codes())
        starts = sorted(int(path.name.rsplit("-", 1)[1]) for path in job.folder.glob("started-1-*"))
        self.assertEqual([0, 1, 2, 3, 4, 5], starts, "the third round counted as progress: three more after it")

    def test_fast_failures_back_off(self):
        job = self.cluster(2, nproc=1, plan=[{"when": {"rank": 1}, **CRASHES}],
                           options=["--max-restarts", "3", "--restart-delay", "400ms"])
        job.start_all()
        self.assertEqual({0: 5, 1: 5}, job.exit_codes())
        second, third, fourth = [next(r["time"] for r in job.records("start", rank=1, restart=restart))
                                        for restart in (1, 2, 3)]
        self.assertGreaterEqual(third - second, 0.2, "half of the delay at least")
        self.assertGreaterEqual(fourth - third, 0.4)


if __name__ == "__main__":
    unittest.main()

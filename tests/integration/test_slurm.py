"""A real Slurm: srun starts muster on each node, and Slurm's own variables give each node its place."""
import shutil
import signal
import unittest

import cluster
import slurm
from cluster import ClusterTest, Node, plain_environment, wait_until

NODES = 3


def setUpModule():
    reason = slurm.missing()
    if reason:
        raise unittest.SkipTest(reason)
    SlurmTest.slurm = slurm.Slurm(NODES)
    unittest.addModuleCleanup(SlurmTest.slurm.close)


class SlurmTest(ClusterTest):
    slurm = None  # shared by all tests of this file

    def job(self, **kwargs):
        return self.cluster(NODES, **kwargs)

    def start(self, job, launcher, options=(), environment=None):
        """Starts `launcher... muster run ...` in the Slurm; the node stands for all that the launcher starts."""
        command = [*self.slurm.prefix(), *launcher,
                   *cluster.node_command(["--nproc-per-node", str(job.nproc), *job.options, *options], job.program)]
        node = Node(f"launcher{len(job.all_nodes)}", command,
                    {**plain_environment(), **self.slurm.environment(), cluster.TOKEN: job.token, **(environment or {})},
                    job.folder)
        job.all_nodes.append(node)
        return node


class Srun(SlurmTest):
    def test_three_nodes_by_srun_are_one_job(self):
        job = self.job()
        node = self.start(job, ["srun", "--nodes=3", "--ntasks-per-node=1"])
        starts = job.wait_for_round(0)
        job.open_gate()
        self.assertEqual(0, node.exit_code())
        self.assertEqual([0, 0, 1, 1, 2, 2], [starts[rank]["node_rank"] for rank in range(6)])
        self.assertEqual({6}, {record["world"] for record in starts.values()})
        self.assertRegex(starts[0]["run_id"], r"^\d+$")
        self.assert_same_master(starts)
        self.assertTrue(node.said(r"node 1 of 3 \(slurm\), primary 127\.0\.0\.1:2\d{4}"), node.err())

    def test_a_step_beside_it_tells_how_the_job_is(self):
        job = self.job(nproc=1)
        node = self.start(job, ["srun", "--nodes=3", "--ntasks-per-node=1"])
        run_id = job.wait_for_round(0)[0]["run_id"]
        look = ["srun", f"--jobid={run_id}", "--overlap", "-N1", "-n1", str(cluster.BINARY), "status", "--rdzv-id", run_id]
        wait_until("the job is well", lambda: self.slurm.run(*look).startswith(f"well: job {run_id} runs: "))
        job.open_gate()
        self.assertEqual(0, node.exit_code())

    def test_a_step_on_part_of_the_allocation_is_the_job(self):
        job = self.job(nproc=1)
        script = "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --relative=1 \"$@\""
        node = self.start(job, ["salloc", "--nodes=3", "bash", "-c", script, "bash"])
        starts = job.wait_for_round(0, workers=2)
        job.open_gate()
        self.assertEqual(0, node.exit_code())
        self.assertEqual({2}, {record["world"] for record in starts.values()})
        self.assertTrue(node.said(r"node 1 of 2 \(slurm\), primary 127\.0\.0\.2:"), node.err())

    def test_a_heterogeneous_step_is_one_job_of_all_its_groups(self):
        job = self.job(nproc=1)
        muster = cluster.node_command(["--nproc-per-node", "1", *job.options], job.program)
        node = self.start(job, ["srun", "--nodes=1", *muster, ":", "--nodes=2", "--ntasks-per-node=1"])
        starts = job.wait_for_round(0, workers=3)
        job.open_gate()
        self.assertEqual(0, node.exit_code())
        self.assertEqual([0, 1, 2], [starts[rank]["node_rank"] for rank in range(3)])

    def test_srun_exits_with_the_workers_code(self):
        job = self.job(nproc=1, plan=[{"when": {"rank": 1}, "exit": 7},
                                      {"when": {"rank": 1, "restart": 0}, "after": "fail"}],
                       options=["--max-restarts", "1"])
        node = self.start(job, ["srun", "--nodes=3", "--ntasks-per-node=1"])
        job.wait_for_round(0)
        job.open_gate("fail")
        job.wait_for_round(1)
        job.open_gate()
        self.assertEqual(7, node.exit_code())

    def test_scancel_ends_the_workers_in_their_grace(self):
        job = self.job(nproc=1, plan=[{"term": "exit"}])
        node = self.start(job, ["srun", "--nodes=3", "--ntasks-per-node=1"])
        starts = job.wait_for_round(0)
        self.slurm.run("scancel", starts[0]["run_id"])
        node.exit_code()
        wait_until("the workers' records of SIGTERM",
                   lambda: len(job.records("signal", number=int(signal.SIGTERM))) >= 3)


class Refused(SlurmTest):
    def check_refused(self, launcher, pattern, options=()):
        job = self.job(nproc=1)
        node = self.start(job, launcher, options)
        self.assertEqual(65, node.exit_code())
        self.assertTrue(node.said(pattern), node.err())
        self.assertEqual([], job.records("start"))
        return node

    def test_several_tasks_on_a_node_get_the_line_to_type(self):
        node = self.check_refused(["srun", "--nodes=3", "--ntasks-per-node=2", "--overcommit"],
                                  r"SLURM_STEP_NUM_TASKS is 6: expected 3, one on each node.*write srun --nodes=3 "
                                  r"--ntasks=3 --ntasks-per-node=1 --kill-on-bad-exit=0 muster run --nproc-per-node 2 SCRIPT")
        self.assertTrue(node.said(r"SLURM_LOCALID is 1: expected 0"), node.err())

    def test_an_allocation_without_srun_gets_the_line_to_type(self):
        self.check_refused(["salloc", "--nodes=3"],
                           r"SLURM_STEP_NODELIST is missing.*write srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --kill-on-bad-exit=0 muster run")

    def test_the_advised_line_works_for_many_tasks(self):
        job = self.job(nproc=1)
        script = "srun --nodes=3 --ntasks=3 --ntasks-per-node=1 \"$@\""
        node = self.start(job, ["salloc", "--nodes=3", "--ntasks-per-node=2", "--overcommit", "bash", "-c", script, "bash"])
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual(0, node.exit_code())

    def test_one_node_without_srun_is_a_job_with_a_warning(self):
        job = self.job(nproc=1)
        node = self.start(job, ["salloc", "--nodes=1"])
        job.wait_for_round(0, workers=1)
        job.open_gate()
        self.assertEqual(0, node.exit_code())
        self.assertTrue(node.said(r"SLURM_STEP_NODELIST is missing: the job runs on this node alone"), node.err())


class Batch(SlurmTest):
    def test_a_requeued_job_is_another_run(self):
        job = self.job(nproc=1)
        script = job.folder / "batch.sh"
        script.write_text("#!/bin/bash\nsrun --nodes=2 --ntasks=2 \"$@\"\n")
        number = self.start(job, ["sbatch", "--parsable", "--nodes=2", "--requeue", f"--output={job.folder}/batch.out",
                                  str(script)])
        self.assertEqual(0, number.exit_code())
        number = number.out().split()[0]
        first = job.wait_for_round(0, workers=2)
        self.slurm.run("scontrol", "requeue", number)
        wait_until("the end of the first run", lambda: not any(cluster.is_alive(r["pid"]) for r in first.values()))
        wait_until("the job in the queue and its nodes free", lambda: (
            "PENDING" in self.slurm.run("scontrol", "show", "job", number)
            and self.slurm.run("sinfo", "--noheader", "--Node", "--format=%t").split() == ["idle"] * NODES))
        # A requeued job waits two minutes by default; a node refuses it within the second in which its first run ended.
        self.slurm.run("scontrol", "update", f"JobId={number}", "StartTime=now+2")
        wait_until("the second run", lambda: len(job.records("start")) >= 4)
        job.open_gate()
        wait_until("the end of the job", lambda: "COMPLETED" in self.slurm.run("scontrol", "show", "job", number))
        runs = [record["run_id"] for record in job.records("start")]
        self.assertEqual({number, f"{number}-requeue-1"}, set(runs))

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun here (Debian: openmpi-bin)")
    def test_mpirun_beats_the_step_of_its_daemons(self):
        job = self.job(nproc=1)
        script = job.folder / "batch.sh"
        script.write_text("#!/bin/bash\nexec mpirun --allow-run-as-root --bind-to none --map-by ppr:1:node "
                          "-x MASTER_ADDR=127.0.0.1 \"$@\"\n")
        node = self.start(job, ["sbatch", "--wait", "--nodes=3", f"--output={job.folder}/batch.out", str(script)])
        starts = wait_until("three workers, or the script's end",
                            lambda: node.has_ended() or (len(r := job.records("start")) == 3 and r))
        said = (job.folder / "batch.out").read_text()
        self.assertEqual([0, 1, 2], sorted(r["node_rank"] for r in starts) if starts is not True else said)
        self.assertIn("(openmpi)", said)
        job.open_gate()
        self.assertEqual(0, node.exit_code())


if __name__ == "__main__":
    cluster.main()

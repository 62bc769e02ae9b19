"""Foreign processes survive: a sweep, the agent of a dead host, the next start of the same run."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import cluster
from cluster import ClusterTest, InAContainer, wait_until

# Creates the file sys.argv[1], and waits.
WAITS = "import sys, time; open(sys.argv[1], 'w').close(); time.sleep(1000)"
PYTHON = [sys.executable, "-S", "-E", "-c"]


class StrangersTest(ClusterTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-strangers-"))
        self.addCleanup(shutil.rmtree, self.folder)


class WithAWorkersEnvironment(StrangersTest):
    def another_job(self, worker):
        """A process with a worker's whole environment that is not its descendant, like one of `sbatch --export=ALL`."""
        environment = cluster.started_with(worker)
        self.assertIn(b"MUSTER_HOST_ID", environment)
        job = subprocess.Popen([*PYTHON, WAITS, str(self.folder / "another")], env=environment, start_new_session=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        wait_until("the other job", (self.folder / "another").exists)
        return job.pid

    def test_a_foreign_job_survives_the_host(self):
        job = self.cluster(2, nproc=1, plan=[{"when": {"restart": 0, "place": 1}, "spawn": ["setsid"]}])
        job.start_all()
        worker = job.wait_for_round(0)[1]["pid"]
        wait_until("a descendant in a session of its own", lambda: job.descendants_of("setsid"))
        left = job.descendants_of("setsid")
        stranger = self.another_job(worker)
        node = job.nodes[1]
        cluster.kill(node.host())
        wait_until("the worker's leftovers are gone", lambda: not any(map(cluster.is_alive, left)))
        job.start(1)
        job.wait_for_round(1)
        self.assertTrue(cluster.is_alive(stranger))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())

    def test_a_foreign_job_survives_the_next_start(self):
        job = self.cluster(1, nproc=1, plan=[{"when": {"restart": 0}, "spawn": ["setsid"]}])
        node = job.start(0)
        worker = job.wait_for_round(0)[0]["pid"]
        wait_until("a descendant in a session of its own", lambda: job.descendants_of("setsid"))
        left = job.descendants_of("setsid")
        stranger = self.another_job(worker)
        host, agent = node.host(), node.agent()
        for pid in (host, agent):
            cluster.stop(pid)  # so that neither sees the other's end
        for pid in (host, agent):
            cluster.kill(pid)
        node.exit_code()
        self.assertTrue(any(map(cluster.is_alive, left)))
        started = len(job.records("start"))
        again = job.start(0)
        wait_until("the next start", lambda: len(job.records("start")) > started)
        self.assertFalse(any(map(cluster.is_alive, left)))
        self.assertTrue(again.said("processes left by a dead muster of this run"))
        self.assertTrue(cluster.is_alive(stranger))
        job.open_gate()
        self.assertEqual(0, again.exit_code())


class OfTheShellThatExecutedMuster(StrangersTest):
    def assert_daemon_outlives_a_restart(self, start):
        """`start`: shell code by which a child of the shell starts the daemon "$@" once the job runs."""
        daemon_command = [*PYTHON, WAITS, str(self.folder / "daemon")]
        before = ["sh", "-c", f"""( while [ ! -e '{self.folder}/go' ]; do sleep 0.05; done
                                    set -- "$0" "$1" "$2" "$3" "$4" "$5"; {start} ) & shift 5; exec "$@" """,
                  *daemon_command]
        kinds = ["setsid", "double_fork", "unmarked"]
        job = self.cluster(1, nproc=1, prefix=lambda place: before,
                           plan=[{"when": {"restart": 0}, "spawn": kinds},
                                 {"when": {"restart": 0}, "after": "failure", "exit": 1}])
        node = job.start(0)
        job.wait_for_round(0)
        for kind in kinds:
            wait_until(f"descendants of kind {kind}", lambda kind=kind: job.descendants_of(kind))
        (self.folder / "go").touch()
        daemon = wait_until("a daemon that has lost its parent", lambda: [
            pid for pid in cluster.children(node.main()) if cluster.arguments_of(pid) == daemon_command])[0]
        wait_until("the daemon's own parents are gone", (self.folder / "daemon").exists)
        job.open_gate("failure")
        job.wait_for_round(1)
        for kind in kinds:
            self.assertEqual(set(), job.descendants_of(kind), kind)
        self.assertTrue(cluster.is_alive(daemon))
        job.open_gate()
        self.assertEqual(0, node.exit_code())
        if not self.container:  # the container's end ends all processes in it
            self.assertTrue(cluster.is_alive(daemon))

    def test_its_childs_orphan_survives_a_sweep(self):
        self.assert_daemon_outlives_a_restart('setsid "$@" &')

    def test_an_orphans_orphan_survives_a_sweep(self):
        # The pause lets the shell's child end and be reaped: then muster has no child that it knows to be foreign.
        self.assert_daemon_outlives_a_restart("""setsid sh -c 'sleep 0.3; setsid "$@" & exit 0' sh "$@" &""")


class OfTheShellOfAContainer(InAContainer, OfTheShellThatExecutedMuster):
    pass


if __name__ == "__main__":
    cluster.main()

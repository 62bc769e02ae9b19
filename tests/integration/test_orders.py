"""`muster stop`, `restart`, `drain` and `signal`: what a person orders of a running job."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import cluster
from cluster import ClusterTest, wait_until

WAITS = ["sh", "-c", "sleep 1000"]
# Says that it got the signal, and only then goes on waiting.
HANDLES = ["sh", "-c", 'trap "echo got $RANK >> $SIGNALS" USR1; sleep 1000 & echo $RANK >> $READY; while :; do wait; done']
PATIENT = ("--lease", "60s")  # the end of the job waits for a quarter of it, at most 5 s, for who asks
NOBODY = 65534


class Orders(ClusterTest):
    def start(self, *options, nodes=3, program=WAITS):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.signals, self.ready = folder / "signals", folder / "ready"
        for path in (self.signals, self.ready):
            path.touch()
        self.job = self.cluster(nodes, program=program, nproc=1, options=options,
                                environment={"SIGNALS": str(self.signals), "READY": str(self.ready)})
        self.job.start_all()
        self.when_running(1)

    def muster(self, *words, run_id=True, **more):
        return subprocess.run([str(cluster.BINARY), *words, *(("--rdzv-id", self.job.job_id) if run_id else ())],
                              capture_output=True, text=True, env=cluster.plain_environment(), timeout=cluster.LIMIT_S,
                              **more)

    def status(self):
        done = self.muster("status", "--json")
        return json.loads(done.stdout) if done.stdout else {}

    def when_running(self, round_number, nodes=None):
        def there():
            said = self.status()
            running = [node["node_rank"] for node in said.get("nodes", []) if node["live_workers"] == 1]
            return (said.get("state"), said.get("round") and said["round"]["number"], len(running)) == (
                "running", round_number, nodes or self.job.size) and said
        return wait_until(f"round {round_number}", there)

    def token_file(self):
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "token"
        path.write_text(subprocess.run([str(cluster.BINARY), "token"], capture_output=True, text=True, check=True).stdout)
        path.chmod(0o600)
        return str(path)

    def workers(self):
        return [sorted(self.job.workers_of(place)) for place in self.job.nodes]

    def test_a_stop_ends_all_nodes_with_its_code_and_names_who_did_it(self):
        self.start(*PATIENT)
        done = self.muster("stop", "--code", "3", "--reason", "the data is wrong")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"^the job ends with exit code 3\nATTENTION: the job has ended with exit code 3: "
                                      r"muster stop --code 3 by \S+@\S+: the data is wrong\n$")
        for node in self.job.nodes.values():
            self.assertEqual(3, node.exit_code())
            self.assertIn("muster stop --code 3 by ", node.err())

    def test_a_stop_without_a_code_is_a_cancellation(self):
        self.start(*PATIENT, nodes=1)
        self.assertEqual(0, self.muster("stop").returncode)
        self.assertEqual(130, self.job.nodes[0].exit_code())

    def test_a_restart_costs_nothing(self):
        self.start("--max-restarts", "0")
        done = self.muster("restart", "--reason", "new data")
        self.assertEqual((0, "round 1 ends, and another one follows\n", ""), (done.returncode, done.stdout, done.stderr))
        said = self.when_running(2)
        self.assertEqual("asked", said["ended"][0]["kind"])
        self.assertRegex(said["ended"][0]["cause"], "^muster restart by .*: new data$")
        events = [json.loads(line) for line in self.muster("events", "--json").stdout.splitlines()]
        self.assertEqual(1, sum(event["event"] == "ordered" for event in events), events)

    def test_a_drained_node_leaves_and_a_spare_takes_its_rank(self):
        self.job = self.cluster(3, program=WAITS, nproc=1)
        port = cluster.free_port("127.0.0.1")
        nodes = []
        for place in range(3):
            self.job.program = WAITS
            environment = {**cluster.plain_environment(), cluster.TOKEN: self.job.token}
            nodes.append(subprocess.Popen([str(cluster.BINARY), "run", "--nnodes", "2:2", "--rdzv-endpoint",
                                           f"127.0.0.1:{port}", "--rdzv-id", self.job.job_id, *cluster.LEASE,
                                           "--nproc-per-node", "1", *(("--node-rank", "0") if place == 0 else ()),
                                           "--no-python", "--", *WAITS], env=environment, stderr=subprocess.DEVNULL))
            for clean in (nodes[-1].wait, nodes[-1].kill):
                self.addCleanup(clean)
            wait_until("the first one holds the coordinator", lambda: cluster.listens("127.0.0.1", port))
        self.when_running(1, nodes=2)
        done = self.muster("drain", "1")
        self.assertEqual((0, "", f"node 1 ({os.uname().nodename}) leaves the job\n"), (done.returncode, done.stderr, done.stdout))
        self.when_running(2, nodes=2)
        wait_until("one node has left", lambda: sum(node.poll() is not None for node in nodes) == 1)
        self.assertIsNone(nodes[0].poll())

    def test_a_signal_reaches_the_ranks_that_are_named_and_ends_nobody(self):
        self.start(program=HANDLES)
        wait_until("all handle it", lambda: len(self.ready.read_text().split()) == 3)
        before = self.workers()
        done = self.muster("signal", "--ranks", "1-2", "USR1")
        self.assertEqual((0, "SIGUSR1: 2 processes of 2 workers got it\n", ""), (done.returncode, done.stdout, done.stderr))
        wait_until("they got it", lambda: sorted(self.signals.read_text().split("\n")) == ["", "got 1", "got 2"])
        done = self.muster("signal", "usr2")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertEqual("muster: not done: no process of 3 workers handles SIGUSR2, so none got it\n", done.stderr)
        self.assertEqual([worker[0] for worker in before], [worker[0] for worker in self.workers()])

    def test_a_worker_that_is_killed_by_it_has_failed(self):
        self.start("--max-restarts", "1")
        done = self.muster("signal", "--ranks", "1", "KILL")
        self.assertEqual((0, "SIGKILL: 1 of 1 worker got it\n"), (done.returncode, done.stdout))
        ended = self.when_running(2)["ended"][0]
        self.assertEqual("worker_failure", ended["kind"])
        self.assertIn("muster signal SIGKILL --ranks 1 by ", ended["cause"])

    def test_a_frozen_node_is_named(self):
        self.start("--lease", "5m", program=HANDLES)
        frozen = [self.job.nodes[2].host(), self.job.nodes[2].agent()]
        for pid in frozen:
            cluster.stop(pid)
        done = self.muster("signal", "USR1")
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertRegex(done.stderr, r"^muster: not done: SIGUSR1: 2 processes of 2 workers got it; no answer from node 2 ")
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)

    def test_only_who_has_the_token_gives_orders_over_the_network(self):
        token = self.token_file()
        self.start("--token-file", token)
        endpoint = ("--endpoint", self.job.endpoint(0))
        wrong = self.muster("restart", *endpoint, "--token-file", self.token_file())
        self.assertEqual(2, wrong.returncode)
        self.assertRegex(wrong.stderr, "the token is not this job's, or the run id is not")
        self.assertEqual(64, self.muster("restart", *endpoint).returncode)
        self.assertEqual(1, self.status()["round"]["number"])
        self.assertEqual(0, self.muster("restart", *endpoint, "--token-file", token).returncode)
        self.when_running(2)

    def test_a_job_without_a_token_takes_no_orders_over_the_network(self):
        self.start()
        done = self.muster("restart", "--endpoint", self.job.endpoint(0), "--token-file", self.token_file())
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertEqual(1, self.status()["round"]["number"])

    @unittest.skipUnless(os.geteuid() == 0, "needs a second user")
    def test_another_user_gives_no_orders(self):
        self.start(nodes=1)
        readable = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, readable)
        readable.chmod(0o755)
        program = shutil.copy(cluster.BINARY, readable / "muster")
        done = subprocess.run([program, "stop", "--rdzv-id", self.job.job_id], capture_output=True, text=True, user=NOBODY,
                              group=NOBODY, extra_groups=[], env=cluster.plain_environment(), timeout=cluster.LIMIT_S, check=False)
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertRegex(done.stderr, "no job of this user has a node here|no such job is here")
        self.assertEqual("running", self.status()["state"])

    def test_where_the_coordinator_does_not_answer_it_cannot_be_told(self):
        self.start("--lease", "5m", nodes=1)
        frozen = self.job.nodes[0].agent()
        cluster.stop(frozen)
        self.assertEqual(2, self.muster("restart").returncode)
        os.kill(frozen, signal.SIGCONT)

    def test_a_takeover_while_the_job_is_stopped_is_told(self):
        """Its workers take their time, and the next coordinator does not know the order."""
        self.start("--shutdown-timeout", "60s", program=["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"])
        with subprocess.Popen([str(cluster.BINARY), "stop", "--rdzv-id", self.job.job_id], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=cluster.plain_environment()) as stops:
            self.assertEqual("the job ends with exit code 130\n", stops.stdout.readline())
            os.kill(self.job.nodes[0].agent(), signal.SIGKILL)
            _, error = stops.communicate(timeout=cluster.LIMIT_S)
        self.assertEqual(2, stops.returncode)
        self.assertIn("another coordinator decides by now, and does not know whether the one before it obeyed", error)

    def test_of_two_ids_neither_is_taken(self):
        self.start(nodes=1)
        self.assertEqual(64, self.muster("drain", "0", "another").returncode)
        self.assertEqual("running", self.status()["state"])

    def test_wrong_lines_are_explained(self):
        self.job = self.cluster(1)
        for words, expected in ((("stop", "--code", "256"), "--code 256: expected an exit code from 0 to 255"),
                                (("drain",), "muster drain: expected a node: its rank or its host name"),
                                (("signal",), "muster signal: expected the name or number of a signal, such as USR1"),
                                (("stop", "--reason", "x" * 129), "--reason: expected one line of text of at most 128 bytes"),
                                (("signal", "USR9"), "muster signal USR9: expected the name or number of a signal"),
                                (("signal", "--ranks", "x", "USR1"), "--ranks x: expected ranks as in 3 or 0-7,12")):
            done = self.muster(*words)
            self.assertEqual(64, done.returncode, words)
            self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    cluster.main()

"""`muster events` and `--events`: what has happened to a job."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
from datetime import datetime, timedelta

import cluster
from cluster import ClusterTest, free_port, wait_until
from test_status import awaits_the_end

PATIENT = ("--lease", "60s")  # the end of the job waits for a quarter of it, at most 5 s, until its events are shown
WAITS = ["sh", "-c", "sleep 1000"]
FAILS_ONCE = ["sh", "-c", '[ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || [ "$RANK" != 1 ] || exit 7; sleep 1000']
FAILS = ["sh", "-c", '[ "$RANK" != 1 ] || exit 7; sleep 1000']


def names(events):
    return [event["event"] for event in events]


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Events(ClusterTest):
    def start(self, *options, program=WAITS, nodes=2):
        self.job = self.cluster(nodes, program=program, nproc=1, options=options)
        return self.job.start_all()

    def folder(self):
        return pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def command(self, *options):
        return [str(cluster.BINARY), "events", "--rdzv-id", self.job.job_id, *options]

    def events(self, *options):
        done = subprocess.run(self.command("--json", *options), capture_output=True, text=True,
                              env=cluster.plain_environment(), timeout=cluster.LIMIT_S)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def heard(self, rank):
        """When the coordinator had this node's newest status."""
        done = subprocess.run([str(cluster.BINARY), "status", "--json", self.job.job_id], capture_output=True, text=True,
                              env=cluster.plain_environment(), timeout=cluster.LIMIT_S)
        return datetime.fromisoformat(json.loads(done.stdout)["nodes"][rank]["heard"].replace("Z", "+00:00"))

    def when(self, *wanted):
        """All events, once these are among them."""
        def there():
            events = self.events()
            return set(wanted) <= set(names(events)) and events
        return wait_until(f"events {wanted}", there)

    def test_a_restart_tells_its_cause_and_what_it_cost(self):
        self.start("--max-restarts", "3", program=FAILS_ONCE)
        events = self.when("recovered")
        self.assertEqual(["round_started", "round_stopping", "round_started", "recovered"], names(events))
        stopping, recovered = events[1], events[3]
        self.assertEqual((1, 1, 1), (stopping["round"], stopping["rank"], stopping["node_rank"]))
        self.assertIn("exited with code 7", stopping["message"])
        self.assertEqual({"detecting_s", "draining_s", "gathering_s"}, set(recovered["recovery"]))
        self.assertEqual([1, 2, 3, 4], [event["number"] for event in events])
        text = subprocess.run(self.command(), capture_output=True, text=True, env=cluster.plain_environment())
        self.assertRegex(text.stdout, r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}    round_started     ")

    def test_following_ends_with_the_job(self):
        job = self.start(*PATIENT)
        self.when("round_started")
        with subprocess.Popen(self.command("--follow", "--json"), stdout=subprocess.PIPE, text=True,
                              env=cluster.plain_environment()) as follows:
            self.addCleanup(follows.kill)
            self.assertEqual("round_started", json.loads(follows.stdout.readline())["event"])
            wait_until("its question for the end", lambda: awaits_the_end(follows.pid))
            job.nodes[0].signal(signal.SIGINT)
            rest = [json.loads(line) for line in follows.stdout]
            self.assertEqual(1, follows.wait())
        self.assertEqual(["verdict", "job_ended"], names(rest)[-2:])
        self.assertEqual([130, 130], [event["exit_code"] for event in rest[-2:]])
        self.assertNotIn("round_started", names(rest))

    def test_somebody_hears_that_the_job_was_asked_to_leave(self):
        told = self.folder() / "told"
        # A worker ends once its node's leaving was told.
        waits = f"trap 'until [ -s {told} ]; do sleep 0.01; done; exit 0' TERM; echo ready; sleep 1000 & wait"
        job = self.start("--on-event", f"cat >> {told}", program=["sh", "-c", waits])
        wait_until("the workers", lambda: all("ready" in node.out() for node in job.all_nodes))
        job.nodes[0].signal(signal.SIGTERM)
        self.assertEqual(75, job.nodes[0].exit_code())
        self.assertEqual(["leaving"], names(lines_of(told)))

    def test_the_next_coordinator_knows_what_happened_before(self):
        job = self.start("--max-restarts", "3", program=FAILS_ONCE)
        before = self.when("recovered")
        since = self.heard(1)
        wait_until("two heartbeats, whose answers have them", lambda: self.heard(1) >= since + timedelta(seconds=1))
        os.kill(job.nodes[0].agent(), signal.SIGKILL)
        after = self.when("takeover")
        wait_until("what node 1 still holds", lambda: set(names(before)) <= set(names(self.events())))
        first = before[0]["coordinator"]
        self.assertEqual([event for event in before if event["coordinator"] == first],
                         [{**event, "time": old["time"]} for event, old in zip(self.events(), before)])
        self.assertNotIn(first, [event["coordinator"] for event in after if event["event"] == "takeover"])

    def test_a_file_has_them_as_lines_also_after_the_end(self):
        path = self.folder() / "events.jsonl"
        job = self.start(*PATIENT, "--events", str(path), "--max-restarts", "0", program=FAILS)
        self.assertEqual(7, job.nodes[0].exit_code())
        job.nodes[1].exit_code()
        events = lines_of(path)
        self.assertEqual(["round_started", "round_stopping", "verdict"], names(events))
        self.assertEqual({self.job.job_id}, {event["run_id"] for event in events})

    def test_a_command_is_told_of_what_went_wrong_and_of_the_end(self):
        told = self.folder() / "told"
        job = self.start(*PATIENT, "--on-event", f"cat >> {told}", "--max-restarts", "0", program=FAILS)
        self.assertEqual([7, 7], [node.exit_code() for node in job.all_nodes])
        self.assertEqual(["round_stopping", "verdict"], names(lines_of(told)))

    def test_a_command_is_told_of_what_its_filter_names(self):
        told = self.folder() / "told"
        job = self.start(*PATIENT, "--on-event", f"cat >> {told}", "--on-event-filter", "round_started,hang", program=["true"])
        self.assertEqual([0, 0], [node.exit_code() for node in job.all_nodes])
        self.assertEqual(["round_started"], names(lines_of(told)))

    def test_a_command_that_hangs_delays_nothing_but_its_last_seconds(self):
        job = self.start("--on-event", "sleep 1000", "--on-event-filter", "all", "--max-restarts", "3", program=FAILS_ONCE)
        self.assertEqual(["round_started", "round_stopping", "round_started", "recovered"], names(self.when("recovered")))
        job.nodes[0].signal(signal.SIGINT)
        self.assertEqual([-signal.SIGINT, 130], [node.exit_code() for node in job.all_nodes])
        wait_until("the end of the command, too", lambda: not cluster.bearers(cluster.TOKEN, job.token))

    def test_the_file_tells_how_a_job_went(self):
        path = self.folder() / "events.jsonl"
        job = self.start(*PATIENT, "--events", str(path), "--max-restarts", "0", program=FAILS)
        self.assertEqual([7, 7], [node.exit_code() for node in job.all_nodes])
        told = subprocess.run([str(cluster.BINARY), "status", "--from", str(path)], capture_output=True, text=True)
        self.assertEqual(1, told.returncode, told.stderr)
        self.assertRegex(told.stdout, r"^ATTENTION: job \S+ has ended: verdict 7: .*\n.* round_started ")

    def test_a_coordinator_by_itself_writes_them_too(self):
        path, port = self.folder() / "events.jsonl", free_port("127.0.0.1")
        process = subprocess.Popen([str(cluster.BINARY), "coordinator", "--nnodes", "1", "--rdzv-id", "r", "--listen",
                                    f"127.0.0.1:{port}", "--events", str(path)], env=cluster.plain_environment())
        for clean in (process.wait, process.kill):
            self.addCleanup(clean)
        done = subprocess.run([str(cluster.BINARY), "run", "--coordinator", f"127.0.0.1:{port}", "--nnodes", "1",
                               "--node-rank", "0", "--rdzv-id", "r", "--no-python", "true"],
                              env=cluster.plain_environment(), timeout=cluster.LIMIT_S)
        self.assertEqual((0, 0), (done.returncode, process.wait(cluster.LIMIT_S)))
        self.assertEqual(["round_started", "verdict"], names(lines_of(path)))

    def test_a_file_that_cannot_be_opened_costs_the_job_nothing(self):
        job = self.start("--events", str(self.folder() / "missing" / "events.jsonl"), program=["true"])
        self.assertEqual([0, 0], [node.exit_code() for node in job.all_nodes])
        self.assertTrue(job.nodes[0].said("it cannot be opened: No such file or directory"))

    def test_the_token_opens_them_from_elsewhere(self):
        token = self.folder() / "token"
        token.write_text(subprocess.run([str(cluster.BINARY), "token"], capture_output=True, text=True, check=True).stdout)
        token.chmod(0o600)
        job = self.start("--token-file", str(token))
        self.when("round_started")
        self.assertEqual(["round_started"], names(self.events("--endpoint", job.endpoint(0), "--token-file", str(token))))
        self.assertEqual([], self.events("--endpoint", job.endpoint(0)))

    def test_a_wrong_line_is_refused(self):
        for words, code, said in ((["x", "y"], 64, "y: muster events takes the id of one job"), (["x"], 2, "no"),
                                  (["x", "--rdzv-id", "x"], 64, "x: muster events takes the id of one job"), ([], 64, "--chase")):
            done = subprocess.run([str(cluster.BINARY), "events", *(words or ["--chase"])], capture_output=True, text=True,
                                  env=cluster.plain_environment())
            self.assertEqual(code, done.returncode, done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    cluster.main()

"""--preemption-notice and --stop-before: real nodes, and metadata servers on loopback."""
import datetime
import json
import os
import signal
import time
import unittest

import cluster
import metadata
from cluster import ClusterTest, free_port, never, wait_until

PREEMPTED = "preemption notice of gce: this instance is being preempted"
INTERRUPTED = "preemption notice of aws: terminate at 2026-11-21T16:00:00Z"
WAITS = "?wait_for_change=true&timeout_sec=60&last_etag="
WARNED = r"preemption notice: .*retrying with increasing pauses"
NOWHERE = "http://127.0.0.1:9"  # the discard port: nobody is there


class NoticeTest(ClusterTest):
    def serve(self, kind, port=0):
        server = kind(port)
        self.addCleanup(server.close)
        return server

    def one_node(self, server, *options, **kwargs):
        """A job of one node whose workers run until the gate is open."""
        environment = {**(server.environment if server else {}), "http_proxy": NOWHERE, "HTTP_PROXY": NOWHERE}
        job = self.cluster(1, nproc=1, options=options, environment=environment, plan=[{"term": "exit"}], **kwargs)
        return job, job.start(0)

    def assert_left(self, job, node, reason):
        self.assertEqual(75, node.exit_code())
        self.assertEqual(1, len(job.records("signal")), "the worker was told, once")
        self.assertIn(reason + ": leaving the job", node.err())
        self.assertIn(f"exit code 75 (muster): asked to leave: {reason}\n", node.err())


class Gce(NoticeTest):
    def gce(self):
        return self.serve(metadata.Gce)

    def waiting(self, server, key="preempted"):
        return wait_until("it waits for a change", lambda: server.asked(f"{key}?wait_for_change=true"))

    def test_a_preempted_node_leaves(self):
        server = self.gce()
        job = self.cluster(3, options=("--nnodes", "2:3"), environment=server.environment,
                           plan=[{"when": {"restart": 0}, "term": "exit"}])
        for place in (0, 2):
            job.start(place)
        report = job.folder / "report.json"
        job.start(1, options=("--preemption-notice", "gce", "--report", str(report)))
        job.wait_for_round(0)
        self.waiting(server)
        server.set("preempted", "TRUE")
        self.assertEqual(75, job.nodes[1].exit_code())
        job.wait_for_round(1, workers=4)
        self.assertEqual(6, len(job.records("signal", restart=0)), "everybody's workers were told")
        self.assertTrue(job.nodes[0].said(f"was asked to leave: {PREEMPTED}"), "the others are told why")
        job.open_gate()
        self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])
        self.assertIn(PREEMPTED, json.loads(report.read_text())["reason"])
        self.assert_rounds_do_not_overlap(job)

    def test_no_change_between_two_requests_is_lost(self):
        server = self.gce()
        job, node = self.one_node(server, "--preemption-notice", "gce")
        for key in ("preempted", "maintenance-event"):
            wait_until("the answer's tag comes back", lambda: server.asked(f"{key}{WAITS}1"))
        self.assertEqual({"Google"}, {headers.get("Metadata-Flavor") for _, _, headers in server.requests})
        server.set("maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE")
        wait_until("the word of it", lambda: node.said("about to migrate this instance; the job continues"))
        wait_until("the new tag comes back", lambda: server.asked(f"maintenance-event{WAITS}2"))
        server.set("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")
        self.assert_left(job, node, "preemption notice of gce: host maintenance is about to end this instance")

    def test_without_a_notice_the_job_ends_as_usual(self):
        server = self.gce()
        job, node = self.one_node(server, "--preemption-notice", "gce")
        job.wait_for_round(0)
        self.waiting(server)
        job.open_gate()
        self.assertEqual(0, node.exit_code(limit=20), "nobody waits for the server")
        self.assertEqual([], node.said("preemption"))

    def test_an_earlier_notice_starts_nothing(self):
        server = self.gce()
        server.set("preempted", "TRUE")
        job = self.cluster(2, options=("--preemption-notice", "gce"), environment=server.environment)
        node = job.start(1)
        self.assertEqual(75, node.exit_code())
        self.assertEqual([], job.records("start"))

    def test_the_next_agent_asks_anew(self):
        server = self.gce()
        job, node = self.one_node(server, "--preemption-notice", "gce")
        job.wait_for_round(0)
        self.waiting(server)
        cluster.kill(node.agent())
        wait_until("the next agent waits", lambda: len(server.asked("preempted?wait_for_change=true")) == 2)
        server.set("preempted", "TRUE")
        self.assert_left(job, node, PREEMPTED)

    def test_a_late_server_is_one_line_and_then_heard(self):
        port = free_port("127.0.0.1")
        late = type("Late", (), {"environment": {"GCE_METADATA_HOST": f"127.0.0.1:{port}"}})
        job, node = self.one_node(late, "--preemption-notice", "gce")
        job.wait_for_round(0)
        wait_until("both warnings", lambda: len(node.said(WARNED)) == 2)
        server = self.serve(metadata.Gce, port)
        self.waiting(server)
        self.assertEqual(2, len(node.said(WARNED)))
        server.set("preempted", "TRUE")
        self.assert_left(job, node, PREEMPTED)

    def test_strange_answers_are_survived(self):
        def raw(data):
            return lambda handler: handler.wfile.write(data)
        flavor = {"Metadata_Flavor": "Google"}
        head = b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\n"
        answers = {
            "401": lambda handler: handler.reply(401, **flavor),
            "404": lambda handler: handler.reply(404, **flavor),
            "500": lambda handler: handler.reply(500, **flavor),
            "503": lambda handler: handler.reply(503, **flavor),
            "a redirection": lambda handler: handler.reply(302, Location="http://127.0.0.1:9/", **flavor),
            "a word that nobody knows": lambda handler: handler.reply(200, "PERHAPS\x1b[31m\n\xff", **flavor),
            "nothing": lambda handler: handler.reply(200, "", **flavor),
            "somebody else's page": lambda handler: handler.reply(200, "TRUE"),
            "a huge body": lambda handler: handler.reply(200, "TRUE" * (1 << 20), **flavor),
            "a body without an end": raw(head + b"\r\n" + b"TRUE" * 100_000),
            "a huge header": raw(head + b"X: " + b"x" * 1_000_000),
            "a length that is none": raw(head + b"Content-Length: -5\r\n\r\nTRUE"),
            "less than it said": raw(head + b"Content-Length: 50\r\n\r\nTRUE"),
            "no HTTP": raw(os.urandom(4096)),
            "nothing at all": lambda handler: None,
            "no answer": lambda handler: handler.server_hangs(),
        }
        jobs = []
        for name, answer in answers.items():  # in parallel: each waits for its own server
            server = self.gce()
            seen = []

            def once(handler, server=server, seen=seen, answer=answer):
                if seen or "preempted" not in handler.path:
                    return False
                seen.append(handler.path)
                handler.server_hangs = server.hang
                answer(handler)
                return True
            server.misbehave = once
            jobs.append((name, server, *self.one_node(server, "--preemption-notice", "gce")))
        for name, server, job, node in jobs:
            with self.subTest(name):
                job.wait_for_round(0)
                self.waiting(server)
                self.assertEqual(1, len(node.said(WARNED)), node.err())
                self.assertRegex(node.err(), r"\A[\n -~]*\Z")
                server.set("preempted", "TRUE")
                self.assert_left(job, node, PREEMPTED)

    def test_a_chunks_header_without_an_end_is_not_kept(self):
        server = self.gce()
        taken = []

        def once(handler):
            if taken or "preempted" not in handler.path:
                return False
            taken.append(0)
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\nTransfer-Encoding: chunked\r\n\r\n")
            while taken[0] < 64 << 20:  # until the client gives up
                taken[0] += handler.connection.send(b"1" * 65536)
            return True
        server.misbehave = once
        job, node = self.one_node(server, "--preemption-notice", "gce")
        job.wait_for_round(0)
        self.waiting(server)
        self.assertLess(taken[0], 16 << 20, "what the kernels of both sides hold, and little more")
        server.set("preempted", "TRUE")
        self.assert_left(job, node, PREEMPTED)

    def test_an_impatient_server_is_asked_with_pauses(self):
        server = self.gce()
        server.misbehave = lambda handler: handler.reply(200, "FALSE", Metadata_Flavor="Google") is None
        began = time.monotonic()
        self.one_node(server, "--preemption-notice", "gce")
        wait_until("some questions", lambda: len(server.asked("preempted?wait")) >= 3)
        self.assertGreater(time.monotonic() - began, 1.9, "at least a second between two of them")


class Aws(NoticeTest):
    def test_an_interruption_is_a_notice(self):
        server = self.serve(metadata.Aws)
        server.rebalance = '{"noticeTime": "2026-11-21T15:00:00Z"}'
        job, node = self.one_node(server, "--preemption-notice", "aws")
        job.wait_for_round(0)
        wait_until("it is asked for recommendations", lambda: server.asked("rebalance"))
        server.expire_tokens()
        wait_until("another token", lambda: len(server.asked("/latest/api/token")) == 2)
        wait_until("a request with the new token", lambda: len(server.asked("instance-action")) == 3)
        self.assertEqual([], node.said("leaving the job"))
        self.assertEqual(1, len(node.said("rebalance recommendation")))
        self.assertEqual([], node.said(WARNED), "that a token's time is over is no outage")
        server.action = '{"action": "terminate", "time": "2026-11-21T16:00:00Z"}'
        self.assert_left(job, node, INTERRUPTED)
        put = server.requests[0]
        self.assertEqual(("PUT", "21600"), (put[0], put[2].get("X-aws-ec2-metadata-token-ttl-seconds")))

    def test_garbage_and_errors_are_survived(self):
        action = '{"action": "terminate", "time": "2026-11-21T16:00:00Z"}'
        answers = {
            "no token: 403": ("token", lambda handler: handler.reply(403)),
            "a token that is none": ("token", lambda handler: handler.reply(200, "a b\x01\n\xff")),
            "a huge token": ("token", lambda handler: handler.reply(200, "x" * (1 << 20))),
            "401 to a new token": ("action", lambda handler: handler.reply(401)),
            "500": ("action", lambda handler: handler.reply(500)),
            "a page": ("action", lambda handler: handler.reply(200, "<html>terminate</html>")),
            "half a document": ("action", lambda handler: handler.reply(200, '{"action": "term')),
            "deep": ("action", lambda handler: handler.reply(200, "[" * 2000)),
            "a strange action": ("action", lambda handler: handler.reply(200, '{"action": "a\\u001b[31m"}')),
            "no object": ("action", lambda handler: handler.reply(200, '"terminate"')),
            "a number": ("action", lambda handler: handler.reply(200, '{"action": 5}')),
        }
        jobs = []
        for name, (part, answer) in answers.items():
            server = self.serve(metadata.Aws)
            server.action = action
            seen = []

            def once(handler, part=part, seen=seen, answer=answer):
                if seen or part not in handler.path:
                    return False
                seen.append(handler.path)
                answer(handler)
                return True
            server.misbehave = once
            jobs.append((name, *self.one_node(server, "--preemption-notice", "aws")))
        for name, job, node in jobs:
            with self.subTest(name):
                self.assert_left(job, node, INTERRUPTED)
                self.assertEqual(1, len(node.said(WARNED)), node.err())
                self.assertRegex(node.err(), r"\A[\n -~]*\Z")


class File(NoticeTest):
    def test_a_file_that_appears_is_a_notice(self):
        job = self.cluster(1, nproc=1, plan=[{"term": "exit"}])
        file = job.folder / "evicted"
        node = job.start(0, options=("--preemption-notice", f"file:{file}"))
        job.wait_for_round(0)
        file.touch()
        self.assert_left(job, node, f"preemption notice of file:{file}")

    def test_touching_an_empty_file_is_a_notice(self):
        for name, change in (("touched", lambda file: os.utime(file)), ("written", lambda file: file.write_text("soon"))):
            with self.subTest(name):
                job = self.cluster(1, nproc=1, plan=[{"term": "exit"}])
                file = job.folder / "evicted"
                file.touch()
                os.utime(file, (1_000_000_000, 1_000_000_000))
                node = job.start(0, options=("--preemption-notice", f"file:{file}"))
                job.wait_for_round(0)
                never("it leaves", lambda: node.said("leaving"), limit=1.5)
                change(file)
                self.assert_left(job, node, f"preemption notice of file:{file}")

    def test_a_file_from_1970_is_a_notice(self):
        job = self.cluster(1, nproc=1, plan=[{"term": "exit"}])
        file = job.folder / "evicted"
        node = job.start(0, options=("--preemption-notice", f"file:{file}"))
        job.wait_for_round(0)
        made = job.folder / "made"
        made.touch()
        os.utime(made, (0, 0))
        made.rename(file)
        self.assert_left(job, node, f"preemption notice of file:{file}")

    def test_an_earlier_file_is_named_as_such(self):
        job = self.cluster(1, nproc=1)
        file = job.folder / "evicted"
        file.write_text("yesterday")
        node = job.start(0, options=("--preemption-notice", f"file:{file}"))
        self.assertEqual(75, node.exit_code())
        self.assertIn(f"file:{file} (written before this node started", node.err())

    def test_a_folder_is_refused(self):
        job = self.cluster(1, nproc=1)
        node = job.start(0, options=("--preemption-notice", f"file:{job.folder}"))
        self.assertEqual(64, node.exit_code())
        self.assertIn("is a folder", node.err())
        self.assertEqual(1, len(node.err().splitlines()), node.err())

    def test_a_later_sigterm_keeps_the_grace(self):
        job = self.cluster(1, nproc=1, plan=[{"term": "ignore"}], options=("--termination-grace", "5m"))
        file = job.folder / "evicted"
        node = job.start(0, options=("--preemption-notice", f"file:{file}"))
        job.wait_for_round(0)
        file.touch()
        wait_until("the worker has got the signal", lambda: job.records("signal"))
        node.signal(signal.SIGTERM)
        wait_until("it says so", lambda: node.said("SIGTERM: already leaving"))
        never("the worker is killed", lambda: not job.workers_of(0))
        job.open_gate()
        self.assertEqual(75, node.exit_code())


class Auto(NoticeTest):
    """The firmware's strings are mounted over /sys in a mount namespace."""
    def machine(self, **dmi):
        script = "mount -t tmpfs none /sys/class && mkdir -p /sys/class/dmi/id"
        for name, value in dmi.items():
            script += f" && echo '{value}' > /sys/class/dmi/id/{name}"
        return lambda place: ["unshare", "-m", "sh", "-c", script + ' && exec "$@"', "sh"]

    def ask(self, **dmi):
        """The two servers, and the node after its job has ended by itself."""
        if os.geteuid() != 0:
            self.skipTest("needs root, for a mount namespace")
        servers = self.serve(metadata.Gce), self.serve(metadata.Aws)
        environment = {**servers[0].environment, **servers[1].environment}
        job = self.cluster(1, nproc=1, environment=environment, prefix=self.machine(**dmi),
                           options=("--preemption-notice", "auto"))
        node = job.start(0)
        job.wait_for_round(0)
        return job, node, *servers

    def test_on_gce_only_its_server_is_asked(self):
        job, node, gce, aws = self.ask(product_name="Google Compute Engine", sys_vendor="Google")
        wait_until("it is asked", lambda: gce.asked("preempted"))
        job.open_gate()
        self.assertEqual(0, node.exit_code())
        self.assertEqual([], aws.requests)

    def test_on_ec2_only_its_server_is_asked(self):
        job, node, gce, aws = self.ask(product_name="p4d.24xlarge", sys_vendor="Amazon EC2")
        wait_until("it is asked", lambda: aws.asked("instance-action"))
        job.open_gate()
        self.assertEqual(0, node.exit_code())
        self.assertEqual([], gce.requests)

    def test_elsewhere_nobody_is_asked(self):
        for dmi in ({"product_name": "Standard PC", "sys_vendor": "QEMU"}, {}):
            job, node, gce, aws = self.ask(**dmi)
            job.open_gate()
            self.assertEqual(0, node.exit_code())
            self.assertEqual([], gce.requests + aws.requests)


class Deadline(NoticeTest):
    def test_all_nodes_stop_before_it_with_75(self):
        end = int(time.time()) + 26  # the workers start long before 10 s have passed
        job = self.cluster(2, options=("--nnodes", "1:2", "--stop-before", "8"), plan=[{"term": "exit"}],
                           environment={"SLURM_JOB_END_TIME": str(end)})
        job.start(1)
        job.start(0, options=("--deadline", str(end + 3)))  # by its own deadline it could start another round alone
        job.wait_for_round(0)
        self.assertEqual({0: 75, 1: 75}, job.exit_codes())
        self.assertEqual(4, len(job.records("signal")))
        self.assertEqual([], job.records("start", restart=1))
        text = datetime.datetime.fromtimestamp(end, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.assertIn(f"--stop-before 8s, deadline {text} (SLURM_JOB_END_TIME): leaving", job.nodes[1].err())
        self.assertIn("(--deadline): too little time is left for another round: leaving", job.nodes[0].err())

    def test_the_primary_stays_while_the_others_save(self):
        end = int(time.time()) + 60
        job = self.cluster(2, nproc=1, options=("--stop-before", "24", "--deadline", str(end)),
                           plan=[{"when": {"rank": 0}, "term": "exit"}, {"when": {"rank": 1}, "term": "ignore"}])
        job.start_all()
        job.wait_for_round(0, workers=2)
        wait_until("the primary has nothing to do any more", lambda: job.nodes[0].said("it stays for"))
        never("the other lease ends", lambda: job.nodes[1].has_ended() or job.nodes[1].said("lease"), limit=4)
        job.open_gate()
        self.assertEqual({0: 75, 1: 75}, job.exit_codes())
        self.assertEqual([], job.nodes[1].said("SIGKILL|lease"))

    def test_nothing_starts_after_it(self):
        job = self.cluster(1, nproc=1, options=("--deadline", "2026-01-01T00:00:00+01:00"))
        node = job.start(0)
        self.assertEqual(75, node.exit_code())
        self.assertEqual([], job.records("start"))
        self.assertIn("deadline 2025-12-31T23:00:00Z (--deadline)", node.err())

    def test_a_distant_deadline_disturbs_nobody(self):
        job = self.cluster(1, nproc=1, options=("--deadline", "9999-12-31T23:59:59Z", "--stop-before", "87600h"))
        node = job.start(0)
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual(0, node.exit_code())


if __name__ == "__main__":
    cluster.main()

"""`muster status`: what a running job says of itself at the doors of its nodes."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

import cluster
from cluster import ClusterTest, wait_until

WAITS = ["sh", "-c", "sleep 1000"]
NO_QUESTION = struct.pack("<I", 0)  # a frame without bytes: an empty question
LONGEST_POLL_MS = 60001  # base/io/frame_exchange.cc: of a wait without a limit
DOORS = re.compile(r"@(muster/door/\w+)")


def doors_of(run_id):
    """The doors of this machine whose job has this id."""
    found = []
    for name in sorted(set(DOORS.findall(pathlib.Path("/proc/net/unix").read_text()))):
        try:
            if run_id.encode() in ask(name, struct.pack("<I", 2) + b"\x38\x01"):  # KIND_NAME
                found.append(name)
        except OSError:
            continue
    return found


def waits_without_limit(pid):
    """Whether this process has asked at a door for the end: of all its waits only that one has no limit."""
    call = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()  # poll(descriptors, count, milliseconds)
    return call[2:4] == [hex(2), hex(LONGEST_POLL_MS)]


def awaits_the_end(pid):
    """Whether a thread of this process has asked for it."""
    try:
        return any(waits_without_limit(f"{pid}/task/{thread.name}")
                   for thread in pathlib.Path(f"/proc/{pid}/task").iterdir())
    except cluster.GONE:
        return False


def ask(door, frame=NO_QUESTION):
    """All that the door says to this."""
    with socket.socket(socket.AF_UNIX) as visitor:
        visitor.connect("\0" + door)  # waits while too many others do
        visitor.settimeout(cluster.LIMIT_S)
        visitor.sendall(frame)
        said = b""
        while more := visitor.recv(65536):
            said += more
        return said


class Status(ClusterTest):
    def start(self, *options, nodes=2, **more):
        """A job whose workers wait, under a run id of its own."""
        self.job = job = self.cluster(nodes, program=WAITS, options=options, nproc=1, **more)
        job.start_all()
        return job

    def status(self, *options):
        return subprocess.run([str(cluster.BINARY), "status", "--rdzv-id", self.job.job_id, *options],
                              capture_output=True, text=True, env=cluster.plain_environment(), timeout=cluster.LIMIT_S)

    def when(self, state, condition=lambda said: True):
        """Exit code and status, once the job is in this state."""
        def there():
            done = self.status("--json")
            said = json.loads(done.stdout) if done.stdout else {}
            return said.get("state") == state and condition(said) and (done.returncode, said)
        return wait_until(f"the job is {state}", there)

    def test_a_job_that_runs_is_well(self):
        self.start()
        code, said = self.when("running", lambda said: all(node["live_workers"] == 1 for node in said["nodes"]))
        self.assertEqual((0, True, []), (code, said["well"], said["odd"]))
        self.assertEqual([0, 1], [node["node_rank"] for node in said["nodes"]])
        self.assertEqual(2, said["round"]["world_size"])
        text = self.status("--verbose")
        self.assertEqual(0, text.returncode, text.stderr)
        self.assertRegex(text.stdout, rf"^well: job {self.job.job_id} runs: 2 workers on 2 nodes, round 1 for \d+s\n")

    def test_every_node_answers_for_the_whole_job(self):
        for options in ((), ("--token-file", self.token_file())):
            job = self.start(*options)
            self.when("running")
            doors = doors_of(job.job_id)
            self.assertEqual(2, len(doors))
            for door in doors:
                # An answer is kept for half a second: it may be older than the round.
                wait_until(f"all nodes at {door}, {options}", lambda: all(
                    other.rsplit("/")[-1].encode() in ask(door) for other in doors))

    def token_file(self):
        path = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-")) / "token"
        self.addCleanup(shutil.rmtree, path.parent)
        path.write_text(subprocess.run([str(cluster.BINARY), "token"], capture_output=True, text=True, check=True).stdout)
        path.chmod(0o600)
        return str(path)

    def test_the_token_opens_the_coordinators_port(self):
        token = self.token_file()
        job = self.start("--token-file", token)
        self.when("running")
        endpoint = ("--endpoint", job.endpoint(0))
        self.assertEqual(0, self.status(*endpoint, "--token-file", token).returncode)
        wrong = self.status(*endpoint, "--token-file", self.token_file())
        self.assertEqual(2, wrong.returncode, wrong.stdout)
        self.assertRegex(wrong.stderr, "the token is not this job's, or the run id is not")
        none = self.status(*endpoint)
        self.assertEqual(64, none.returncode)
        self.assertRegex(none.stderr, "--endpoint needs the job's token")
        nobody = self.status("--endpoint", "127.0.0.9:9", "--token-file", token)
        self.assertEqual(2, nobody.returncode)

    def test_missing_nodes_are_named(self):
        job = self.cluster(2, program=WAITS, nproc=1)
        self.job = job
        job.start(0)
        code, said = self.when("gathering")
        self.assertEqual((1, False), (code, said["well"]))
        self.assertRegex(said["missing"][0], r"^node 1 \(127.0.0.2:")

    def test_a_job_of_one_node_that_listens_nowhere_answers_too(self):
        self.start(nodes=1)
        code, said = self.when("running")
        self.assertEqual((0, 1), (code, len(said["nodes"])))

    def test_a_new_coordinator_knows_the_job_again(self):
        job = self.start()
        self.when("running", lambda said: all(node["live_workers"] == 1 for node in said["nodes"]))
        os.kill(job.nodes[0].agent(), signal.SIGKILL)
        # The new one does not know when the round started.
        code, said = self.when("running", lambda said: said["round"]["started"] is None and
                               len(said["nodes"]) == 2 and all(node["connected"] for node in said["nodes"]))
        self.assertEqual((0, 0), (code, said["round"]["restart_count"]))

    def test_a_coordinator_by_itself_answers_and_is_one_job_with_its_nodes(self):
        self.job = job = self.cluster(1)
        port = cluster.free_port("127.0.0.1")
        processes = []
        def run(*words):
            processes.append(subprocess.Popen([str(cluster.BINARY), *words, "--nnodes", "1", "--rdzv-id", job.job_id,
                                               *(("--no-python", *WAITS) if words[0] == "run" else ())],
                                              env={**cluster.plain_environment(), cluster.TOKEN: job.token}))
            for clean in (processes[-1].wait, processes[-1].kill):
                self.addCleanup(clean)
        run("coordinator", "--listen", f"127.0.0.1:{port}")
        code, said = self.when("recovering")
        self.assertEqual((1, [], None), (code, said["nodes"], said["coordinator"]))
        run("run", "--coordinator", f"127.0.0.1:{port}", "--node-rank", "0")
        self.when("running")
        wait_until("both doors", lambda: len(doors_of(job.job_id)) == 2)
        with subprocess.Popen([str(cluster.BINARY), "status", "--rdzv-id", job.job_id, "--wait", "ended"],
                              stdout=subprocess.PIPE, text=True, env=cluster.plain_environment()) as waits:
            wait_until("it waits", lambda: waits_without_limit(waits.pid))
            processes[1].send_signal(signal.SIGINT)
            self.assertEqual(1, waits.wait(cluster.LIMIT_S))
            self.assertIn("exit code 130", waits.stdout.read())

    def test_a_coordinator_that_does_not_answer_cannot_be_told(self):
        job = self.start("--lease", "5m")
        self.when("running")
        primary = job.nodes[0].process.pid
        for pid in (primary, *cluster.descendants(primary)):
            cluster.stop(pid)
        done = self.status()
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertRegex(done.stderr, "^muster: the coordinator of .* does not answer: ")

    def waiting_for(self, state, *options):
        """`muster status --wait STATE`, which waits."""
        process = subprocess.Popen([str(cluster.BINARY), "status", "--rdzv-id", self.job.job_id, "--wait", state, *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=cluster.plain_environment())
        for clean in (process.stdout.close, process.stderr.close, process.wait, process.kill):
            self.addCleanup(clean)
        return process

    def test_one_can_wait_until_a_round_runs(self):
        job = self.job = self.cluster(2, program=WAITS, nproc=1)
        waits = self.waiting_for("running")  # before there is a job
        job.start(0)
        self.when("gathering")
        job.start(1)
        out, err = waits.communicate(timeout=cluster.LIMIT_S)
        self.assertRegex(out, f"job {job.job_id} runs: ", err)
        self.assertEqual(0, waits.returncode)
        self.assertRegex(err, "^muster: waiting for a round: ")
        both = self.status("--wait", "ended", "--watch")
        self.assertEqual(64, both.returncode, both.stderr)
        wrong = self.status("--wait", "Godot")
        self.assertEqual((64, "muster: --wait Godot: expected running or ended\n"), (wrong.returncode, wrong.stderr))

    def test_one_can_wait_for_the_end_and_is_told_how_it_was(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for code in (0, 7):
            stop = folder / str(code)
            job = self.job = self.cluster(2, nproc=1, options=("--max-restarts", "0"),
                                          program=["sh", "-c", f"until [ -e {stop} ]; do sleep 0.05; done; exit {code}"])
            job.start_all()
            self.when("running")
            waits = self.waiting_for("ended", "--json")
            wait_until("its visit", lambda: waits_without_limit(waits.pid))
            agents = {node: node.agent() for node in job.nodes.values()}
            for pid in agents.values():  # the door of the next agent is as good
                os.kill(pid, signal.SIGKILL)
            wait_until("the next agents", lambda: all(node.agent() not in (None, pid) for node, pid in agents.items()))
            wait_until("its next visit", lambda: waits_without_limit(waits.pid))
            stop.touch()
            out, err = waits.communicate(timeout=cluster.LIMIT_S)
            self.assertEqual("muster: waiting for the end of the job\n", err)
            self.assertEqual(0 if code == 0 else 1, waits.returncode, err)
            self.assertEqual(code, json.loads(out)["exit_code"])

    def test_doors_of_frozen_agents_are_awaited_together(self):
        for number in range(4):  # their names come first
            door = self.enterContext(socket.socket(socket.AF_UNIX))
            door.bind(f"\0muster/door/0{os.getpid():09}{number}")
            door.listen()
        self.start(nodes=1)
        self.assertEqual(0, self.when("running")[0])

    def test_no_job_and_another_job_are_told(self):
        self.start(nodes=1)
        self.when("running")
        done = subprocess.run([str(cluster.BINARY), "status", "--rdzv-id", "nobody's"], capture_output=True, text=True,
                              env=cluster.plain_environment(), timeout=cluster.LIMIT_S)
        self.assertEqual(2, done.returncode)
        self.assertRegex(done.stderr, f"(?s)^muster: --rdzv-id nobody's: no such job is here .*, but:\\n  .*{self.job.job_id}")

    @unittest.skipUnless(os.geteuid() == 0, "only root makes network namespaces")
    def test_without_a_job_the_ways_to_one_are_told(self):
        done = subprocess.run(["unshare", "--net", str(cluster.BINARY), "status"], capture_output=True, text=True,
                              env=cluster.plain_environment(), timeout=cluster.LIMIT_S)
        self.assertEqual(2, done.returncode)
        self.assertRegex(done.stderr, "^muster: no job of this user has a node here .*srun.*kubectl exec.*docker exec")

    def test_visitors_that_are_silent_or_talk_nonsense_keep_nobody_out(self):
        job = self.start(nodes=1)
        self.when("running")
        door = doors_of(job.job_id)[0]
        visitors = []
        for _ in range(200):  # more than may be there at a time
            visitor = socket.socket(socket.AF_UNIX)
            self.addCleanup(visitor.close)
            visitor.setblocking(False)
            try:
                visitor.connect("\0" + door)
                visitors.append(visitor)
            except BlockingIOError:
                continue
        for nonsense in (b"\xff" * 4, struct.pack("<I", 3) + b"\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"):
            try:
                self.assertEqual(b"", ask(door, nonsense))
            except ConnectionError:
                pass
        for visitor in visitors:
            visitor.close()
        self.assertEqual(0, self.when("running")[0])


if __name__ == "__main__":
    cluster.main()

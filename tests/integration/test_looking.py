"""Each way to look at a job of three nodes, in each of its states, from each place: no worker is disturbed by it."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

import cluster
from cluster import ClusterTest, wait_until
from network import Network, can_make_namespaces

PRIMARY, MEMBER, LAST, OUTSIDE = range(4)
PORT = 2222
RANK_OF_MEMBER = "1"
# Ends when GATE exists: rank 2 with code 7, the others only when they are killed.
STUBBORN = ["sh", "-c", "trap '' TERM; until [ -e $GATE ]; do sleep 0.05; done; [ $RANK != 2 ] || exit 7; while :; do "
                        "sleep 0.1; done"]
COMMANDS = (("status",), ("status", "--rank", RANK_OF_MEMBER), ("stacks",), ("events",))
PLACES = ("primary", "member", "outside with the token")


@unittest.skipUnless(can_make_namespaces(), "needs root and network namespaces")
class Looking(ClusterTest):
    def start(self, *options, nodes=3):
        """A job whose nodes share nothing but a network, so that each place has the door of its own node alone."""
        self.network = Network(4)
        self.addCleanup(self.network.close)
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.gate = folder / "gate"
        self.tokens = {}
        for name in ("right", "wrong"):
            self.tokens[name] = folder / name
            self.tokens[name].write_text(subprocess.run([str(cluster.BINARY), "token"], capture_output=True, text=True,
                                                        check=True).stdout)
            self.tokens[name].chmod(0o600)
        self.job = self.cluster(3, program=STUBBORN, nproc=1, prefix=self.network.prefix, ports=[PORT] * 3,
                                addresses=[self.network.address(place) for place in range(3)],
                                environment={"GATE": str(self.gate)},
                                options=("--token-file", str(self.tokens["right"]), *options))
        self.job.after_end.append(self.network.close)
        for place in range(nodes):
            self.job.start(place)

    def run_at(self, place, *words):
        return subprocess.run([*self.network.prefix(place), str(cluster.BINARY), *words], capture_output=True, text=True,
                              env=cluster.plain_environment(), timeout=cluster.LIMIT_S)

    def over_network(self, token):
        return ("--endpoint", self.job.endpoint(PRIMARY), "--rdzv-id", self.job.job_id,
                *(("--token-file", str(self.tokens[token])) if token else ()))

    def look(self, place, *command):
        if place == "outside with the token":
            return self.run_at(OUTSIDE, *command, *self.over_network("right"))
        return self.run_at({"primary": PRIMARY, "member": MEMBER}[place], *command)

    def when(self, state, more=lambda said: True):
        def there():
            done = self.look("member", "status", "--json")
            said = json.loads(done.stdout) if done.stdout else {}
            return said.get("state") == state and more(said)
        wait_until(f"the job is {state}", there)

    def run_all(self):
        self.when("running", lambda said: [node["live_workers"] for node in said["nodes"]] == [1, 1, 1])

    def expect(self, *expected):
        """Code and beginning of what each command says, from all places; then that outsiders learn nothing."""
        for place in PLACES:
            for command, (code, text) in zip(COMMANDS, expected):
                # A door keeps an answer for half a second, and a question to nodes may come too early.
                wait_until(f"{command} from {place} says {text!r}", lambda: (
                    done := self.look(place, *command)).returncode == code and re.search(text, done.stdout), limit=20)
        for command in COMMANDS:
            wrong = self.run_at(OUTSIDE, *command, *self.over_network("wrong"))
            self.assertEqual((2, ""), (wrong.returncode, wrong.stdout), command)
            self.assertRegex(wrong.stderr, "the token is not this job's, or the run id is not")
            none = self.run_at(OUTSIDE, *command, *self.over_network(None))
            self.assertEqual((64, ""), (none.returncode, none.stdout), command)
            here = self.run_at(OUTSIDE, *command)
            self.assertEqual((2, ""), (here.returncode, here.stdout), command)
            self.assertRegex(here.stderr, "no job of this user has a node here")

    def workers(self):
        return [sorted(self.job.workers_of(place)) for place in range(3)]

    def test_while_it_waits_for_nodes(self):
        self.start(nodes=2)
        self.when("gathering")
        self.expect((1, "^ATTENTION: job .* waits for nodes for .*: 2 of 3 nodes ready"), (1, "^rank 1: no round runs\n$"),
                    (1, "^job .*: no round runs\n$"), (0, "^$"))

    def test_while_it_runs(self):
        self.start()
        self.run_all()
        before = self.workers()
        self.expect((0, "^well: job .* runs: 3 workers on 3 nodes, round 1 for "),
                    (0, r"^rank 1 on node 1 \(.*\), pid \d+ \(\w+\): "), (0, r"3 ranks \(0-2\): |rank 0 "),
                    (0, "round_started"))
        self.assertEqual(before[0][0:1], self.workers()[0][0:1])
        self.assertFalse([worker for worker in self.workers() for pid in worker if cluster.process_state(pid) == "T"])

    def test_while_a_round_ends(self):
        self.start("--max-restarts", "1", "--shutdown-timeout", "60s")
        self.run_all()
        self.gate.touch()
        self.when("draining")
        self.expect((1, "^ATTENTION: job .* ends round 1 for .*: rank 2 .* exited with code 7"),
                    (0, r"^rank 1 on node 1 \(.*\), pid \d+ \(\w+\): "), (0, r"ranks \(0-1\): |rank [01] "),
                    (0, "round_stopping"))

    def test_while_a_new_coordinator_finds_out_what_runs(self):
        self.start("--lease", "60s")
        self.run_all()
        before = self.workers()
        frozen = [self.job.nodes[LAST].host(), self.job.nodes[LAST].agent()]
        for pid in frozen:
            cluster.stop(pid)
        os.kill(self.job.nodes[PRIMARY].agent(), signal.SIGKILL)
        self.when("recovering", lambda said: len(said["nodes"]) == 2)
        self.expect((1, "^ATTENTION: job .* has a new coordinator, which finds out what runs, for "),
                    (1, "^rank 1: a new coordinator finds out what runs: ask again\n$"),
                    (1, "^job .*: a new coordinator finds out what runs: ask again\n$"), (0, "round_started"))
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        self.run_all()
        self.assertEqual([worker[0] for worker in before], [worker[0] for worker in self.workers()])

    def test_while_its_coordinator_does_not_answer(self):
        self.start("--lease", "5m")
        self.run_all()
        before = self.workers()
        frozen = self.job.nodes[PRIMARY].agent()
        cluster.stop(frozen)
        for place in PLACES[1:]:
            for command in COMMANDS[:2]:
                wait_until(f"{command} from {place} cannot tell", lambda: (  # a door keeps its answer for half a second
                    done := self.look(place, *command)).returncode == 2 and done.stdout == "")
        os.kill(frozen, signal.SIGCONT)
        self.run_all()
        self.assertEqual([worker[0] for worker in before], [worker[0] for worker in self.workers()])

    def test_while_it_tells_all_nodes_the_verdict(self):
        self.start("--max-restarts", "0", "--shutdown-timeout", "5s", "--lease", "60s")
        self.run_all()
        self.gate.touch()
        # The last node has nothing left to stop, and then does not store the verdict, for which the others wait.
        self.when("draining", lambda said: said["nodes"][LAST]["phase"] == "ready")
        frozen = [self.job.nodes[LAST].host(), self.job.nodes[LAST].agent()]
        for pid in frozen:
            cluster.stop(pid)
        self.when("ending")
        self.expect((1, "^ATTENTION: job .* is over, exit code 7: "), (1, "^rank 1: the job is over\n$"),
                    (1, "^job .*: the job is over\n$"), (0, "verdict"))
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    cluster.main()

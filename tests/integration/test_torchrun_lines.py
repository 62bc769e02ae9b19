"""Command lines that torchrun answers by chance or not at all, and links by which muster is called."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import cluster
from cluster import wait_until

SAY_RANKS = ["sh", "-c", "echo $$GROUP_RANK $$RANK of $$WORLD_SIZE"]  # "$$" escapes a dollar


class TorchrunLines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.nodes = []

    def start(self, *words, program=str(cluster.BINARY)):
        node = cluster.Node(f"node{len(self.nodes)}", [program, *words], cluster.plain_environment(), self.folder)
        self.nodes.append(node)
        self.addCleanup(node.exit_code)
        self.addCleanup(node.signal, cluster.signal.SIGTERM)  # before: clean-ups run backwards
        return node

    def endpoint(self):
        return f"--rdzv-endpoint=127.0.0.1:{cluster.free_port('127.0.0.1')}"

    def test_a_node_rank_is_kept_in_every_backend(self):
        for backend in ("static", "c10d", "etcd", "etcd-v2"):
            with self.subTest(backend):
                line = ["run", "--nnodes=2", f"--rdzv-backend={backend}", "--rdzv-id=ranks", self.endpoint()]
                nodes = [self.start(*line, f"--node-rank={rank}", "--no-python", *SAY_RANKS) for rank in (1, 0)]
                self.assertEqual([0, 0], [node.exit_code() for node in nodes], nodes[0].err() + nodes[1].err())
                self.assertEqual(["1 1 of 2\n", "0 0 of 2\n"], [node.out() for node in nodes])

    def test_one_rank_for_all_nodes_is_a_hint_to_torchrun(self):
        link = str(self.folder / "torchrun")
        os.symlink(cluster.BINARY, link)
        line = ["--nnodes=3", "--node_rank=0", "--rdzv_backend=c10d", "--rdzv_id=77", self.endpoint(), "--no-python",
                *SAY_RANKS]
        nodes = [self.start(*line, program=link) for _ in range(3)]
        self.assertEqual([0, 0, 0], [node.exit_code() for node in nodes], "".join(node.err() for node in nodes))
        self.assertEqual([f"{rank} {rank} of 3\n" for rank in range(3)], sorted(node.out() for node in nodes))
        # Whether the third has come by then depends on speed.
        self.assertTrue(any(node.said("both claim node 0(, and so do 1 more)?; .*a hint") for node in nodes))

    def test_one_rank_for_two_nodes_is_told_to_both(self):
        line = ["run", "--nnodes=2", "--node-rank=0", "--rdzv-id=twice", self.endpoint(), "--no-python", "true"]
        nodes = [self.start(*line) for _ in range(2)]
        for node in nodes:
            wait_until("its line", lambda node=node: node.said("both claim node 0|has already joined as node 0"))

    def test_a_spare_exits_with_the_jobs_code(self):
        for code in (0, 5):
            with self.subTest(code):
                gate = self.folder / f"gate{code}"
                line = ["run", "--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-id=spare", self.endpoint(), "--no-python",
                        "sh", "-c", f"echo ready; while ! [ -e {gate} ]; do sleep 0.05; done; exit {code}"]
                members = [self.start(*line) for _ in range(2)]
                wait_until("two nodes' workers", lambda: all("ready" in node.out() for node in members))
                spare = self.start(*line)
                wait_until("the spare's line that it waits", lambda: spare.said("round 1 runs with 2 nodes"))
                gate.touch()
                self.assertEqual([code] * 3, [node.exit_code() for node in (*members, spare)], spare.err())
                self.assertEqual("", spare.out())

    def test_a_link_named_torchrun_takes_its_options(self):
        link = str(self.folder / "torchrun")
        os.symlink(cluster.BINARY, link)
        node = self.start("--standalone", "--nproc_per_node=2", "--no_python", *SAY_RANKS, program=link)
        self.assertEqual(0, node.exit_code(), node.err())
        self.assertEqual(["0 0 of 2", "0 1 of 2"], sorted(node.out().splitlines()))
        helped = self.start("--help", program=link)
        self.assertEqual(0, helped.exit_code())
        self.assertIn("Usage: torchrun [options]", helped.out())
        wrong = self.start("--no-such-option", "x.py", program=link)
        self.assertEqual(64, wrong.exit_code())
        self.assertIn("see torchrun --help", wrong.err())

    def test_the_first_line_says_who_is_in_the_job(self):
        for options, said in ((["--standalone"], r"single-node job, 1 worker, run id: [0-9a-f]{16}$"),
                              (["--nproc-per-node=2", "--rdzv-id=mine"], r"single-node job, 2 workers, run id: mine$"),
                              (["--nnodes=1:2", "--rdzv-id=mine", "--last-call-timeout=0", "--lease=1",
                                self.endpoint()],
                               r"node with no rank yet of 1 to 2 \(from the command line\), primary 127\.0\.0\.1:\d+, "
                               r"1 worker, run id: mine$")):
            node = self.start("run", *options, "--no-python", "true")
            self.assertEqual(0, node.exit_code(), node.err())
            self.assertRegex(node.err().splitlines()[0], said)

    def test_an_interpreter_inside_gets_the_line_to_type(self):
        node = self.start("run", "python", "-W", "error", "x.py")
        self.assertEqual(64, node.exit_code())
        self.assertTrue(node.err().rstrip().endswith("type: muster run --no-python python -W error x.py"), node.err())

    def test_a_muster_in_a_worker_has_its_own_job(self):
        inner = [str(cluster.BINARY), "run", "--standalone", "--nproc-per-node=1", "--no-python", "sh", "-c",
                 "echo $$$$RANK of $$$$WORLD_SIZE"]
        node = self.start("run", "--nproc-per-node=2", "--no-python", *inner)
        self.assertEqual(0, node.exit_code(), node.err())
        self.assertEqual(["0 of 1", "0 of 1"], node.out().splitlines())

    def test_the_completion_script_is_printed(self):
        completing = "complete -o filenames -F _muster muster torchrun"
        for shell, expected in (("bash", completing), ("zsh", completing), ("fish", "complete -c torchrun -l nnodes -r")):
            done = subprocess.run([str(cluster.BINARY), "run", f"--print-completion={shell}", "no-such.py"],
                                  capture_output=True, text=True, timeout=cluster.LIMIT_S, check=True)
            self.assertIn(expected, done.stdout)
            self.assertEqual("", done.stderr)

    def test_ranks_of_a_restart_are_those_before(self):
        # The first node's worker fails once all three have printed their rank; the others run until they are ended.
        script = (f"cd {self.folder}; echo $$GROUP_RANK $$TORCHELASTIC_RESTART_COUNT >>rank$$NODE; "
                  "[ $$TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; "
                  "while [ $$NODE != 0 ] || [ $$(cat rank* | wc -l) != $$((3 * TORCHELASTIC_RESTART_COUNT + 3)) ]; "
                  "do sleep 0.05; done; exit 1")
        line = ["run", "--nnodes=3", "--rdzv-backend=c10d", "--rdzv-id=stable", "--max-restarts=2", self.endpoint()]
        nodes = [self.start(*line, "--no-python", "sh", "-c", f"NODE={number}; {script}") for number in range(3)]
        self.assertEqual([0, 0, 0], [node.exit_code() for node in nodes], nodes[0].err())
        told = {}
        for number in range(3):
            lines = [line.split() for line in (self.folder / f"rank{number}").read_text().splitlines()]
            self.assertEqual(["0", "1", "2"], [count for _, count in lines], json.dumps(lines))
            self.assertEqual(1, len({rank for rank, _ in lines}), json.dumps(lines))
            told[number] = lines[0][0]
        self.assertEqual(["0", "1", "2"], sorted(told.values()))


if __name__ == "__main__":
    cluster.main()

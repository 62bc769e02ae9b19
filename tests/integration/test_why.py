"""muster names why nothing starts, which nodes differ from the others, and what ended a round."""
import os
import re
import signal
import sys
import unittest

import cluster
from cluster import BINARY, CONTAINER, ClusterTest, Node, descendants, is_alive, kill, process_state, stop, wait_until


class WhyNotYet(ClusterTest):
    def said_by(self, node, pattern):
        return wait_until(f"{node.name} says {pattern}", lambda: node.said(pattern))

    def test_an_absent_node_is_named_by_the_primary(self):
        job = self.cluster(3)
        job.start(0)
        job.start(1)
        self.said_by(job.nodes[0],
                     rf"waiting after \S+: 2 of 3 nodes ready; gives up after 45m \(--join-timeout\); missing: node 2 \({re.escape(job.addresses[2])}")
        self.said_by(job.nodes[1], r"waiting after \S+: 2 of 3 nodes ready; gives up after 45m \(--join-timeout\) \(reported by the primary \(node rank 0\) at ")

    def test_a_standalone_coordinator_says_why_it_waits(self):
        job = self.cluster(2)
        port = cluster.free_port("127.0.0.1")
        command = [str(BINARY), "coordinator", "--nnodes", "2", "--rdzv-id", "why", "--lease", "1s",
                   "--listen", f"127.0.0.1:{port}"]
        environment = {name: value for name, value in job.environment_of(0).items() if name != "CLUSTER_SPEC"}
        coordinator = Node("coordinator", command, environment, job.folder)
        job.all_nodes.append(coordinator)
        job.options += ["--coordinator", f"127.0.0.1:{port}", "--nnodes", "2"]
        job.start(0, options=["--rdzv-id", "why"])
        self.said_by(coordinator, r"waiting.*1 of 2 nodes ready; gives up after 10m \(--join-timeout\); missing: 1 more node")
        stranger = job.start(1, options=["--rdzv-id", "another"])
        self.assertEqual(77, stranger.exit_code())
        self.assertTrue(stranger.said("run id 'another' is not this job's; set the same --rdzv-id"))
        self.said_by(coordinator, r"waiting.*refused: .*run id 'another' differs from this job's")
        self.said_by(job.nodes[0], r"waiting.*refused: .*run id 'another'")

    def test_a_standby_names_the_holder_of_its_place(self):
        job = self.cluster(2)
        job.start_all()
        job.wait_for_round(0)
        second = job.start(1)
        self.said_by(second, r"waiting.*another process on \S+ has already joined as node 1")

    def test_a_node_lost_before_the_start_is_named(self):
        job = self.cluster(3)
        job.start(0)
        node = job.start(1)
        self.said_by(node, "waiting")
        stop(node.host())
        kill(node.agent())
        self.said_by(job.nodes[0], rf"waiting.*missing: node 1 \({re.escape(job.addresses[1])}")


class NodesThatDiffer(ClusterTest):
    def test_they_are_named_with_both_values(self):
        job = self.cluster(3, nproc=1)
        for place in range(3):
            job.environment = {"NCCL_IB_DISABLE": "1" if place == 1 else "0", "NCCL_DEBUG": "WARN"}
            job.start(place, options=["--max-restarts", "5"] if place == 2 else ["--max-restarts", "0"])
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        primary = job.nodes[0]
        self.assertEqual(1, len(primary.said(r"nodes differ: NCCL_IB_DISABLE is 1 on node 1 \(.*\); 0 on the 2 others")))
        self.assertEqual(1, len(primary.said(r"nodes differ: --max-restarts is 5 on node 2 \(.*\); 0 on the 2 others")))
        self.assertEqual(2, len(primary.said("nodes differ")), primary.err())

    def test_another_program_is_named_once(self):
        job = self.cluster(2, nproc=1, plan=[{"when": {"restart": 0, "rank": 0}, "exit": 3}],
                           options=["--max-restarts", "1"])
        job.start(0)
        job.program = [*job.program, "--api-key=s3cret"]
        job.start(1)
        job.wait_for_round(0)
        job.open_gate()
        job.wait_for_round(1)
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(1, len(job.nodes[0].said(r"nodes differ: the program is .*--api-key=\*+' on node 1")))
        self.assertNotIn("s3cret", job.nodes[0].err())

    def of_other_files(self, python_name, *options):
        """A job that has ended, whose nodes have other scripts, Pythons and numbers of workers."""
        job = self.cluster(2, nproc=1)
        for place in range(2):
            folder = job.folder / f"node{place}"
            folder.mkdir()
            script = folder / "train.py"
            script.write_text(f"print({place})\n")
            python = folder / python_name.format(place)
            python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            python.chmod(0o755)
            command = [str(BINARY), "run", *job.options, "--nproc-per-node", str(place + 1), "--python", str(python),
                       *options, "train.py"]
            job.nodes[place] = Node(f"place{place}", command, job.environment_of(place), job.folder, cwd=folder)
            job.all_nodes.append(job.nodes[place])
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        return job

    def test_another_script_python_or_number_of_workers_is_named(self):
        job = self.of_other_files("python3.9{}")
        said = job.nodes[0].said("nodes differ: .*")
        self.assertEqual(3, len(said), job.nodes[0].err())
        for line in (r"the number of workers \(--nproc-per-node\) is 2 on node 1 \(.*\); 1 on node 0 \(.*\)",
                     r"the script's hash at the node's start is [0-9a-f]{16} on node 1 \(.*\); [0-9a-f]{16} on node 0 \(.*\)",
                     r"the workers' Python is 3.91 \(.*/node1/python3.91\) on node 1 \(.*\); "
                     r"3.90 \(.*/node0/python3.90\) on node 0 \(.*\)"):
            self.assertEqual(1, len(job.nodes[0].said(f"nodes differ: {line}\n")), line)

    def test_a_python_without_a_version_and_a_script_before_the_setup_are_not_compared(self):
        job = self.of_other_files("python", "--node-setup", "true")
        said = job.nodes[0].said("nodes differ: .*")
        self.assertEqual(1, len(said), job.nodes[0].err())
        self.assertIn("the number of workers", said[0])

    def test_equal_nodes_are_no_warning(self):
        job = self.cluster(2)
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual([], job.nodes[0].said("nodes differ"))


class WhatEndedTheJob(ClusterTest):
    @staticmethod
    def kill_whole(job, place):
        """Kills everything at once: neither host nor agent has time to see the other's end."""
        pids = (job.nodes[place].host(), job.nodes[place].agent())
        for pid in pids:
            stop(pid)
        for pid in (*pids, *job.workers_of(place)):
            kill(pid)

    def test_a_killed_worker_is_the_cause(self):
        job = self.cluster(3, nproc=1, plan=[{"exit": 1}], options=["--max-restarts", "0"])
        job.start_all()
        starts = job.wait_for_round(0)
        kill(starts[2]["pid"])
        wait_until("it is dead", lambda: process_state(starts[2]["pid"]) in (None, "Z"))
        job.open_gate()  # the others exit with 1 within milliseconds
        self.assertEqual({place: 137 for place in range(3)}, job.exit_codes())
        for node in job.nodes.values():
            self.assertTrue(node.said("exit code 137 \(worker\): rank 2 on .* was killed \(SIGKILL\)"))

    def test_a_killed_node_is_the_cause(self):
        job = self.cluster(3, nproc=1, plan=[{"when": {"restart": 0}, "exit": 1},
                                             {"when": {"restart": 1}, "after": "again"}],
                           options=["--nnodes", "2:3", "--max-restarts", "0"])
        job.start_all()
        job.wait_for_round(0)
        self.kill_whole(job, 1)
        job.open_gate()
        job.wait_for_round(1, workers=2)
        job.open_gate("again")
        self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])
        primary = job.nodes[0]
        self.assertEqual(1, len(primary.said(r"warning: node 1 \(.*\) was lost: no heartbeat for \d+s")), primary.err())
        self.assertTrue(primary.said(r"round 1 ended; root cause: node 1 \(.*\) was lost"))

    @unittest.skipUnless(os.geteuid() == 0, "needs root: a PID namespace for each node")
    def test_a_restarted_container_is_named(self):
        job = self.cluster(3, nproc=1, plan=[{"when": {"restart": 0}, "exit": 1}], options=["--max-restarts", "0"],
                           prefix=lambda place: CONTAINER)
        job.start_all()
        job.wait_for_round(0)
        inside = descendants(job.nodes[1].process.pid)
        # While this is open, the next namespace does not get the number of this one.
        with open(f"/proc/{inside[0]}/ns/pid", "rb"):
            kill(job.nodes[1].process.pid)  # process 1 of the namespace dies with it, and then all processes in it
            wait_until("all of its processes are dead", lambda: not any(is_alive(pid) for pid in inside))
            job.open_gate()
            job.start(1)
            job.wait_for_round(1)
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        primary = job.nodes[0]
        self.assertTrue(primary.said(r"round 1 ended; root cause: node 1 \(.*\) was lost: no heartbeat for \d+s; its "
                                     r"container ended \(a new one started .* later\)"), primary.err())

    def test_a_killed_primary_costs_no_workers_failure(self):
        job = self.cluster(3, nproc=1, plan=[{"when": {"restart": 0}, "exit": 1}],
                           options=["--max-restarts", "0"])
        job.start_all()
        job.wait_for_round(0)
        self.kill_whole(job, 0)
        job.open_gate()
        wait_until("its peers have failed", lambda: len(job.records("end", restart=0)) == 2)
        job.start(0)
        job.wait_for_round(1)
        self.assertEqual({0: 0, 1: 0, 2: 0}, job.exit_codes())
        self.assertTrue(job.nodes[0].said("round 1 ended; root cause: .*node 0"), job.nodes[0].err())


if __name__ == "__main__":
    cluster.main()

"""muster as process 1 of a container: what only its PID namespace shows."""
import os
import signal
import unittest

import cluster
from cluster import CONTAINER, ClusterTest, kill, wait_until
from terminal import Terminal

CTRL_Z = b"\x1a"


@unittest.skipUnless(os.geteuid() == 0, "needs root: a PID namespace for each node")
class Container(ClusterTest):
    container = CONTAINER

    def test_a_killed_hosts_agent_reports_the_loss(self):
        # The lease is longer than any wait of this test: only the report can start the next round.
        job = self.cluster(3, nproc=1, options=["--nnodes", "2:3", "--lease", "5m"])
        job.start_all()
        job.wait_for_round(0)
        kill(job.nodes[1].host())
        job.wait_for_round(1, workers=2)
        self.assertEqual(137, job.nodes[1].exit_code())
        self.assertTrue(job.nodes[0].said(r"node 1 \(.*\) was lost: its main process died"), job.nodes[0].err())
        job.open_gate()
        self.assertEqual([0, 0], [job.nodes[place].exit_code() for place in (0, 2)])
        self.assert_rounds_do_not_overlap(job)

    def test_ctrl_z_is_ignored_without_a_shell(self):
        terminal = Terminal()
        job = self.cluster(1, nproc=1, program=["sh", "-c", "echo HERE; exec sleep 600"])
        job.after_end.append(terminal.close)
        node = job.start(0, terminal=terminal.slave, preexec_fn=terminal.become_controlling)
        wait_until("the worker", lambda: "HERE" in terminal.seen())
        host = node.host()
        terminal.type(CTRL_Z)
        wait_until("the key is ignored", lambda: "SIGTSTP (Ctrl-Z) is ignored" in terminal.seen())
        kill(host, signal.SIGTERM)
        self.assertEqual(75, node.exit_code())

    def test_a_cancelled_job_is_130(self):  # no signal ends process 1
        job = self.cluster(1, nproc=1)
        node = job.start(0)
        job.wait_for_round(0)
        kill(node.host(), signal.SIGINT)
        self.assertEqual(130, node.exit_code())


if __name__ == "__main__":
    cluster.main()

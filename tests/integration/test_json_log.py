"""muster's own lines as JSON: stable names of events, and the node or worker that each line concerns."""
import json
import os
import pathlib
import re
import signal
import unittest

import cluster
from cluster import ClusterTest, wait_until

NOTE_H = cluster.ROOT / "base/core/note.h"
OUTPUT_PAGE = cluster.ROOT / "docs/output.md"


def lines(node):
    return [json.loads(line) for line in node.err().splitlines() if line.startswith("{")]


class JsonLog(ClusterTest):
    def only(self, node, event):
        found = [line for line in lines(node) if line.get("event") == event]
        self.assertEqual(1, len(found), node.err())
        return found[0]

    def test_only_failure_lines_name_worker_and_node(self):
        job = self.cluster(2, plan=[{"when": {"rank": 3}, "exit": 7}], options=["--log-format", "json", "--max-restarts", "0"])
        job.start_all()
        job.open_gate()
        self.assertEqual({0: 7, 1: 7}, job.exit_codes())
        said = lines(job.nodes[1])
        for line in said:
            self.assertEqual((job.job_id, os.uname().nodename), (line["run_id"], line["host"]), line)
            self.assertEqual("rank" in line, line.get("event") in ("worker_failed", "failure_report"), line)
        failed = self.only(job.nodes[1], "worker_failed")
        self.assertEqual((3, 1, 1, 1, "WARNING"),
                         tuple(failed[key] for key in ("rank", "node_rank", "node", "round", "severity")))
        self.assertIn("worker rank 3", failed["message"])
        for node in job.nodes.values():
            self.assertEqual((3, 1), tuple(self.only(node, "failure_report")[key] for key in ("rank", "node_rank")))
            self.assertEqual("ERROR", self.only(node, "job_ended")["severity"])
        self.assertEqual("coordinator", self.only(job.nodes[0], "round_started")["part"])

    def test_an_end_that_was_asked_for_is_no_error(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            job = self.cluster(1, options=["--log-format", "json"])
            node = job.start(0)
            job.wait_for_round(0)
            node.signal(number)
            wait_until("its end", node.has_ended)
            self.assertEqual("INFO", self.only(node, "job_ended")["severity"])
            self.assertEqual([], [line for line in lines(node) if line["severity"] == "ERROR"])

    def test_every_event_is_documented(self):
        names = re.findall(r'char k\w+\[\] = "(\w+)"', NOTE_H.read_text().split("}  // namespace events")[0])
        self.assertGreater(len(names), 10)
        table = OUTPUT_PAGE.read_text().split("| `event` | |\n")[1].split("\n\n")[0]
        documented = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()))
        self.assertEqual(sorted(names), sorted(documented))


if __name__ == "__main__":
    cluster.main()

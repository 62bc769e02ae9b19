"""gloo over three agents of two workers each, from one CLUSTER_SPEC."""
import importlib.util
import pathlib
import re
import unittest

import cluster


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class AllReduceTest(unittest.TestCase):
    def test_three_nodes_and_a_reduction_server_sum(self):
        job = cluster.Cluster(3, pathlib.Path(__file__).with_name("allreduce.py"), reduction_server=True)
        self.addCleanup(job.close)
        job.start(3, pool="workerpool2")
        for place in (2, 0, 1):  # any order of starts
            job.start(place)
        self.assertEqual(job.exit_codes(), {0: 0, 1: 0, 2: 0, 3: 0}, job.output())

        told = [dict(re.findall(r"(\w+)=(\S+)", m.string)) | {"place": place}
                for place in range(3) for m in job.nodes[place].find(r"\btold RANK")]
        self.assertEqual(sorted(int(t["RANK"]) for t in told), list(range(6)), job.output())
        for t in told:
            self.assertEqual(t["sum"], "21")  # 1 + 2 + ... + 6
            self.assertEqual(t["WORLD_SIZE"], "6")
            self.assertEqual(int(t["GROUP_RANK"]), t["place"], "node ranks are in the spec's order")
            self.assertEqual(int(t["RANK"]), 2 * t["place"] + int(t["LOCAL_RANK"]))
        self.assertEqual(len({(t["MASTER_ADDR"], t["MASTER_PORT"]) for t in told}), 1, "one master endpoint")
        self.assertFalse(job.nodes[3].find(r"\btold RANK"), "the reduction server's replica trains nothing")


if __name__ == "__main__":
    unittest.main()

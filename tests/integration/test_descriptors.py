"""A primary that ran out of descriptors accepts nodes again when there are some."""
import socket
import unittest

from cluster import ClusterTest, wait_until

LIMIT = 128        # descriptors of each of the primary's processes
CONNECTIONS = 200  # more than it can accept


def listens(address):
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


class Descriptors(ClusterTest):
    def test_a_primary_that_had_no_descriptor_left_still_gets_its_nodes(self):
        job = self.cluster(2, prefix=lambda place: ["prlimit", f"--nofile={LIMIT}:{LIMIT}"] if place == 0 else [])
        job.start(0)
        address = (job.addresses[0], job.ports[0])
        wait_until("the primary listens", lambda: listens(address))
        strangers = [socket.create_connection(address) for _ in range(CONNECTIONS)]
        wait_until("the primary says what it lacks", lambda: job.nodes[0].said("could not be accepted"))
        for stranger in strangers:
            stranger.close()
        job.start(1)
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())


if __name__ == "__main__":
    unittest.main()

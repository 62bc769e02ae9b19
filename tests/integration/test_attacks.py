"""Strangers at the coordinator's port: the job does not notice them."""
import contextlib
import os
import pathlib
import re
import resource
import unittest

import attackers
import cluster
from cluster import ClusterTest, wait_until

MOST_GROWTH_KIB = 64 << 10  # of the primary's agent, by all attacks together
MOST_LEFT_KIB = 32 << 10    # once they are over
JOB_TOKEN = "a-token-of-more-than-22-characters"


def room_for(connections):
    """Lets this process have so many, or skips the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise unittest.SkipTest(f"{wanted} descriptors are needed and {hard} may be opened (ulimit -Hn)")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def memory_kib(pid, field="VmRSS"):
    return int(re.search(rf"^{field}:\s*(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M).group(1))


class WithoutAToken(ClusterTest):
    environment = {}
    begun_handshake = b"P"  # of HTTP/2's preface

    def setUp(self):
        self.job = self.cluster(2, options=["--lease", "10s", "--reconnect-grace", "8s"], environment=self.environment)
        self.job.start_all()
        self.before = self.job.wait_for_round(0)
        self.agent = self.job.nodes[0].agent()
        self.began = memory_kib(self.agent)
        self.where = (self.job.addresses[0], self.job.ports[0])

    def check(self):
        """No worker was disturbed, nothing was restarted, and the memory is given back."""
        if "MUSTER_SANITIZED" not in os.environ:  # AddressSanitizer keeps what was freed
            peak = memory_kib(self.agent, "VmHWM") - self.began
            self.assertLess(peak, MOST_GROWTH_KIB)
            wait_until("memory to be given back", lambda: memory_kib(self.agent) - self.began < MOST_LEFT_KIB)
        self.assertEqual(self.agent, self.job.nodes[0].agent(), "the primary's agent lives on")
        self.job.open_gate()
        self.assertEqual({0: 0, 1: 0}, self.job.exit_codes())
        self.assertEqual(len(self.before), len(self.job.records("start")), "no worker was started again")

    def test_a_header_of_many_frames(self):
        for _ in range(3):
            self.assertLess(attackers.header_bomb(*self.where), 8 << 20, "the connection was closed")
        self.check()

    def test_calls_that_are_cancelled_at_once(self):
        attackers.rapid_reset(*self.where, seconds=3)
        self.check()

    def test_idle_calls_on_many_connections(self):
        room_for(1255)
        self.check_agents_get_in(attackers.idle_calls(*self.where))

    def test_connections_that_say_nothing(self):
        self.check_agents_get_in(attackers.hold(*self.where, 500))

    def test_handshakes_that_never_end(self):
        self.check_agents_get_in(attackers.hold(*self.where, 500, self.begun_handshake))

    def test_a_message_without_end(self):
        taken = [attackers.endless_message(*self.where) for _ in range(8)]
        self.assertLess(max(taken), 16 << 20, "the connection was closed")
        self.check()

    def test_statuses_of_many_fields(self):
        taken = [attackers.many_fields(*self.where) for _ in range(20)]
        if not self.environment:
            self.assertEqual(max(taken), taken[0], "the status arrives whole each time, and is refused")
            self.assertGreater(taken[0], 400_000)
            wait_until("the primary says why",
                       lambda: self.job.nodes[0].said("it sent a status of more than 8192 fields"))
        self.check()

    def test_statuses_that_are_no_utf8(self):
        """Protobuf would write a line of its own for each, to standard error."""
        status = attackers.field(2, b"\xff\xfe") + attackers.field(35, attackers.PROTOCOL)
        if not self.environment:
            for _ in range(3):
                attackers.first_status(*self.where, status, b"grpc-status")
        self.check()
        self.assertNotIn("libprotobuf", self.job.nodes[0].err())

    def test_compressed_statuses(self):
        for _ in range(4):
            attackers.compressed_status(*self.where)
        self.check()

    def test_more_of_one_address_than_have_room(self):
        room_for(5000)
        strangers = attackers.hold(*self.where, 5000, self.begun_handshake, source="127.0.0.9")
        self.addCleanup(lambda: [stranger.close() for stranger in strangers])
        self.replace_an_agent()
        self.check()

    def replace_an_agent(self):
        cluster.kill(self.job.nodes[1].agent())
        wait_until("the new agent is admitted", lambda: self.job.nodes[1].said("has reconnected to the coordinator"))

    def check_agents_get_in(self, strangers):
        """While all these connections are there, and after they were closed."""
        with contextlib.ExitStack() as all_of_them:
            for stranger in strangers:
                all_of_them.callback(stranger.close)
            self.replace_an_agent()
            wait_until("the end of every idle connection", lambda: all(stranger.is_closed() for stranger in strangers))
        self.check()

    def test_headers_that_are_invalid_and_too_long(self):
        if self.environment:
            self.skipTest("no header of a stranger gets that far")
        for answer in attackers.invalid_headers(*self.where):
            self.assertIn(b"exceeds limit", answer)
        self.check()

    def test_noise(self):
        for _ in range(5):
            attackers.noise(*self.where)
        self.check()


class OtherVersions(ClusterTest):
    def test_both_sides_name_both_protocols(self):
        job = self.cluster(2)
        job.start(0)
        wait_until("the primary to listen", lambda: job.nodes[0].said("still waiting|waiting for"))
        firsts = (cluster.ROOT / "tests/fixtures/first_statuses.tsv").read_text().splitlines()[1:]
        for row in firsts[:attackers.PROTOCOL]:
            number, status = row.split("\t")
            both = (f"protocol {number} (muster 0.1.0) differs from this job's protocol {attackers.PROTOCOL}; "
                    "use one version of muster on all nodes").encode()
            with self.subTest(protocol=number):
                told = attackers.first_status(job.addresses[0], job.ports[0], bytes.fromhex(status), both)
                self.assertIn(both, told)
                wait_until("the primary's line",
                           lambda: job.nodes[0].said("refused old-node: " + re.escape(both.decode())))


class WithAToken(WithoutAToken):
    environment = {"MUSTER_TOKEN": JOB_TOKEN}
    begun_handshake = b"\x16\x03\x01\x02\x00"  # the head of a TLS record


class Misled(ClusterTest):
    def check_bounded(self, answer, said):
        job = self.cluster(2, options=["--join-timeout", "1m"])
        hostile = attackers.HostileCoordinator(job.addresses[0], job.ports[0], answer)
        self.addCleanup(hostile.close)
        node = job.start(1)
        wait_until("the node to name it", lambda: node.said(said))
        agent = node.agent()
        before = hostile.answered
        wait_until("further attempts", lambda: hostile.answered > before + 2)
        self.assertEqual(agent, node.agent(), "it lives, as the right coordinator may come yet")
        if "MUSTER_SANITIZED" not in os.environ:
            self.assertLess(memory_kib(agent, "VmHWM"), MOST_GROWTH_KIB)
        self.assertFalse(node.has_ended())

    def test_a_hostile_coordinators_header_of_many_frames(self):
        self.check_bounded(attackers.answer_with_headers, r"rank 0\) at .*: it sent headers of more than 16384 bytes")

    def test_a_hostile_coordinators_compressed_directive(self):
        self.check_bounded(attackers.answer_with_compression, r"the primary \(node rank 0\) at .*another program answers there")


    def test_a_hostile_coordinators_round_as_large_as_a_message(self):
        self.check_bounded(attackers.answer_with_a_large_round,
                           r"no coordinator gives \(Round.culprit has \d+ bytes, not at most 1024\)")


class Hidden(ClusterTest):
    """/proc shows the environment of a process to all others of its user: to the workers, too."""

    def test_no_process_shows_the_token(self):
        job = self.cluster(2, environment={"MUSTER_TOKEN": JOB_TOKEN})
        job.start_all()
        job.wait_for_round(0)
        ours = [pid for pid in cluster.bearers(cluster.TOKEN, job.token) if cluster.arguments_of(pid)[:1] != ["unshare"]]
        self.assertGreaterEqual(len(ours), 8, "two nodes with host, agent and two workers each")
        for pid in ours:
            shown = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            self.assertNotIn(JOB_TOKEN.encode(), shown, cluster.arguments_of(pid))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertNotIn(JOB_TOKEN, job.output())


class HiddenAsProcess1(cluster.InAContainer, Hidden):
    pass


class OpenSsl(ClusterTest):
    def test_the_images_settings_do_not_count(self):
        job = self.cluster(2, environment={"MUSTER_TOKEN": JOB_TOKEN})
        settings = job.folder / "openssl.cnf"
        settings.write_text("openssl_conf = a\n[a]\nproviders = b\n[b]\nmissing = c\n"
                            "[c]\nmodule = /missing.so\nactivate = 1\n")
        job.environment["OPENSSL_CONF"] = str(settings)
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
"""What strangers cost a primary: processor time and memory of its agent while they attack, each kind alone and all at
once, with a token and without one.

    python3 tests/bench/attacks.py [--seconds 10]

The job has 2 nodes of 2 workers and a lease of 10 s. Attackers are processes of their own, towards loopback alone.
Prints a table; asserts only that no worker was disturbed.
"""
import multiprocessing
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]
import attackers  # noqa: E402
import bench  # noqa: E402
from test_attacks import JOB_TOKEN, memory_kib, room_for  # noqa: E402
from cluster import ClusterTest  # noqa: E402

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
HELD = 1_000  # connections that stay open
HELLO = b"\x16\x03\x01\x02\x00"  # the head of a TLS record, which asks for 512 bytes


def again(attack):
    """The attack again and again until the time is over."""
    def run(where, until):
        while time.monotonic() < until:
            try:
                attack(*where)
            except OSError:
                time.sleep(0.001)  # no port is free: many connections have just ended
    return run


def hold(first):
    def run(where, until):
        room_for(HELD)
        while time.monotonic() < until:
            try:
                held = attackers.hold(*where, HELD, first)
            except OSError:
                continue
            while time.monotonic() < until and not all(stranger.is_closed() for stranger in held):
                time.sleep(0.1)
            for stranger in held:
                stranger.close()
    return run


attackers.compressed_message()  # takes time itself, so before the first attack

ATTACKS = {
    "connections that are closed at once": again(lambda *where: attackers.hold(*where, 1)[0].close()),
    "full TLS hellos without the token": again(attackers.stranger_hello),
    "HTTP/2 headers without end": again(attackers.header_bomb),
    "calls cancelled at once": again(lambda *where: attackers.rapid_reset(*where, 0.5)),
    "statuses of many fields": again(attackers.many_fields),
    "compressed statuses": again(attackers.compressed_status),
    "other protocols": again(attackers.noise),
    "1,000 silent connections": hold(b""),
    "1,000 handshakes begun": hold(HELLO),
    "messages without end": again(attackers.endless_message),
}


def processor_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S  # utime, stime


class Bench(ClusterTest):
    seconds = 10.0

    def one(self, job, attacks):
        agent, where = job.nodes[0].agent(), (job.addresses[0], job.ports[0])
        before = processor_s(agent)
        until = time.monotonic() + self.seconds
        processes = [multiprocessing.Process(target=attack, args=(where, until)) for attack in attacks]
        for process in processes:
            process.start()
        peak = memory_kib(agent)
        while time.monotonic() < until:
            time.sleep(0.05)
            peak = max(peak, memory_kib(agent))
        used = processor_s(agent) - before
        for process in processes:
            process.join(30)
            self.assertEqual(0, process.exitcode, "the attack took place")
        return 100 * used / self.seconds, peak

    def show(self, what, result, began):
        share, peak = result
        print(f"  {what:38} {share:5.1f} % of a core   +{(peak - began) / 1024:5.1f} MiB", flush=True)

    def job(self, environment):
        job = self.cluster(2, options=["--lease", "10s", "--reconnect-grace", "8s"], environment=environment)
        job.start_all()
        starts = job.wait_for_round(0)
        agent = job.nodes[0].agent()
        began = memory_kib(agent)
        self.show("nothing", self.one(job, []), began)
        for what, attack in ATTACKS.items():
            self.show(what, self.one(job, [attack]), began)
        self.show("all of them at once", self.one(job, ATTACKS.values()), began)
        time.sleep(2 * self.seconds)
        print(f"  afterwards                             +{(memory_kib(agent) - began) / 1024:5.1f} MiB")
        self.assertEqual(agent, job.nodes[0].agent())
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(len(starts), len(job.records("start")), "no worker was started again")

    def runTest(self):
        for what, environment in (("without a token", {}), ("with a token", {"MUSTER_TOKEN": JOB_TOKEN})):
            print(f"the primary's agent, {what}")
            self.job(environment)


if __name__ == "__main__":
    sys.exit(bench.run_case(Bench, __doc__, "seconds"))

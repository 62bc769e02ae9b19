"""Real trainings under faults of all kinds: the last loss is that of an undisturbed run, to the bit.

MUSTER_CHAOS_SECONDS (120) of faults, half with the coordinator in the primary's agent, half with a `muster coordinator`;
MUSTER_CHAOS_NODES (6) of 2 workers; MUSTER_CHAOS_SEED brings the same faults again.
"""
import importlib.util
import os
import random
import statistics
import sys
import unittest

import faults
import job as chaos
from job import now
import cluster
from network import Network, can_make_namespaces

SECONDS = float(os.environ.get("MUSTER_CHAOS_SECONDS", "120"))
NODES = int(os.environ.get("MUSTER_CHAOS_NODES", "6"))
SEED = int(os.environ.get("MUSTER_CHAOS_SEED", random.SystemRandom().randrange(1_000_000)))
WORKERS = 2
STEP_S = 0.03  # an undisturbed run takes less time for as many steps


class Outcome:
    """The cost of an incident."""

    def __init__(self, kind, restarts, seconds, steps):
        self.kind, self.restarts, self.seconds, self.steps = kind, restarts, seconds, steps


def cost(kind, began, steps):
    """From the fault to the first step of the lasting round; if no round ended, the longest time between steps."""
    before = max((step.restart for step in steps if step.time <= began), default=0)
    last = steps[-1].restart
    if last == before:
        times = [step.time for step in steps]
        return Outcome(kind, 0, max(b - max(a, began) for a, b in zip(times, times[1:]) if b > began), 0)
    first = next(step for step in steps if step.restart == last)
    reached = max((step.number for step in steps if step.restart < last), default=0)
    return Outcome(kind, last - before, first.time - began, max(0, reached - first.number + 1))


def table(outcomes):
    lines = [f"{'what befell the job':44} {'times':>5} {'restarts':>8}  {'time lost, s: median':>21} {'max':>7}"
             f"  {'steps lost: median':>19} {'max':>5}"]
    for kind in sorted({outcome.kind for outcome in outcomes}):
        mine = [outcome for outcome in outcomes if outcome.kind == kind]
        seconds, steps = [each.seconds for each in mine], [each.steps for each in mine]
        lines.append(f"{kind:44} {len(mine):5} {sum(each.restarts for each in mine):8}  "
                     f"{statistics.median(seconds):21.2f} {max(seconds):7.2f}  "
                     f"{statistics.median(steps):19.0f} {max(steps):5}")
    return "\n".join(lines)


def say(text):
    print(text, file=sys.stderr, flush=True)


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Chaos(cluster.ClusterTest):
    undisturbed = {}  # loss by step, as far as needed

    @classmethod
    def setUpClass(cls):
        say(f"chaos: MUSTER_CHAOS_SEED={SEED} brings these faults again")

    def adopt(self, job):
        self.addCleanup(self._end, job)
        return job

    def network(self, places):
        network = Network(places)
        self.addCleanup(network.close)
        return network

    def befall(self, job, incident):
        """Returns once the training continues and nothing is stopped, cut off or absent."""
        began = now()
        for fault in incident.faults:
            job.wait_until("the next fault", lambda fault=fault: now() >= began + fault.after_s)
            say(f"{now() - self.began:7.2f} s  {fault}")
            job.inject(fault)
        job.wait_until("the end of all faults", job.whole)
        mended = now() + chaos.SETTLED_S
        job.wait_until("steps after that", lambda: job.steps_since(mended) and job.whole())
        return cost(incident.kind(None if job.alone else 0), began, job.steps())

    def check_chaos(self, name, seconds, draws, **form):
        job = self.adopt(chaos.Job(NODES, WORKERS, step_s=STEP_S, **form))
        job.start_all()
        job.wait_until("the first steps", job.steps)
        self.began = now()
        outcomes = []
        for incident in faults.incidents(draws, job.places, WORKERS, job.alone, job.network is not None):
            calm = now() + incident.calm_s
            job.wait_until("a while of calm", lambda calm=calm: now() > calm)
            if now() > self.began + seconds:
                break
            outcomes.append(self.befall(job, incident))
        job.finish()
        say(f"\n{name}: seed {SEED}, {NODES} nodes x {WORKERS} workers, {job.spares} spares, {len(outcomes)} incidents\n"
            f"{table(outcomes)}")
        self.assertEqual({place: 0 for place in range(job.places)}, job.exit_codes(chaos.LIMIT_S))
        if job.alone:
            self.assertEqual(0, job.coordinator.exit_code())
        self.check_what_it_left(job)

    def check_what_it_left(self, job):
        cluster.wait_until("the end of every process", lambda: not cluster.bearers(cluster.TOKEN, job.token), limit=5)
        self.assert_rounds_do_not_overlap(job)
        self.assert_ranks_are_held_once(job)
        steps = job.steps()
        expected = self.undisturbed_losses(steps[-1].number)
        for step in steps:
            self.assertEqual(expected[step.number], step.loss, f"step {step.number}, restart {step.restart}")

    def assert_ranks_are_held_once(self, job):
        seen = set()
        for record in job.records("start"):
            self.assertEqual(NODES * WORKERS, record["world"])
            key = (record["restart"], record["master_addr"], record["master_port"], record["rank"])
            self.assertNotIn(key, seen, "one rank twice in one round")
            seen.add(key)

    def undisturbed_losses(self, last):
        if last not in self.undisturbed:
            job = self.adopt(chaos.Job(NODES, WORKERS))
            job.finish(at=last)
            job.start_all()
            self.assertEqual({place: 0 for place in range(NODES)}, job.exit_codes(chaos.LIMIT_S))
            self.assertEqual([0] * last, [step.restart for step in job.steps()])
            self.undisturbed.update({step.number: step.loss for step in job.steps()})
        return self.undisturbed

    def test_1_with_the_coordinator_in_the_primarys_agent(self):
        network = self.network(NODES) if can_make_namespaces() else None
        self.check_chaos("coordinator in the primary's agent", SECONDS / 2, random.Random(f"{SEED} primary"),
                         network=network)

    def test_2_with_a_coordinator_alone(self):
        draws = random.Random(f"{SEED} alone")
        spares = draws.choice([0, 1, 1])
        network = self.network(NODES + spares + 1) if can_make_namespaces() else None
        self.check_chaos("muster coordinator", SECONDS / 2, draws, network=network, alone=True, spares=spares)

    if not can_make_namespaces():
        def test_3_cuts(self):
            self.skipTest("needs root and network namespaces: no node was cut off, and no container killed whole")


if __name__ == "__main__":
    cluster.main()

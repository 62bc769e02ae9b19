"""What befalls a job, drawn from a seed alone: the same seed brings the same faults in the same order. No I/O."""
import dataclasses

SECOND_FAULT = 0.3       # of all incidents have a second fault, which mostly finds the group restarting
SECOND_WITHIN_S = 6.0
CALM_S = (0.2, 1.5)      # of steps between two incidents
MOMENT = "for a moment"  # shorter than what muster should notice, with the lease of 3 s
LONG = "for long"

# What, how, whether it needs namespaces, weight. A node is a container: all its processes, its PID 1 first.
NODE_FAULTS = [
    ("worker", "killed", False, 4), ("worker", "told to end", False, 2), ("worker", "stopped", False, 2),
    ("agent", "killed", False, 4), ("agent", "stopped", False, 3),
    ("host", "killed", False, 4), ("host", "stopped", False, 3),
    ("node", "killed", False, 4), ("node", "stopped", False, 2), ("node", "told to end", False, 3),
    ("node", "cut off", True, 4), ("node", "not heard", True, 2), ("node", "deaf", True, 2),
]
COORDINATOR_FAULTS = [
    ("coordinator", "killed", False, 8), ("coordinator", "stopped", False, 4), ("coordinator", "told to end", False, 3),
    ("coordinator", "cut off", True, 4),
]


@dataclasses.dataclass(frozen=True)
class Fault:
    what: str
    how: str
    place: int
    worker: int        # which of the node's
    duration_s: float  # of a stop or a cut; for a coordinator that ended: until it is started again
    after_s: float     # the incident's first fault

    def kind(self, primary):
        """Its row in the table."""
        owner = "primary's " if self.place == primary and self.what in ("agent", "host", "node") else ""
        lasts = self.how in ("stopped", "cut off", "not heard", "deaf") or self.what == "coordinator"
        length = f" {MOMENT if self.duration_s < 1 else LONG}" if lasts else ""
        return f"{owner}{self.what} {self.how}{length}"

    def __str__(self):
        return f"{self.what} {self.how} (place {self.place}, worker {self.worker}, {self.duration_s:.2f} s)"


@dataclasses.dataclass(frozen=True)
class Incident:
    faults: tuple
    calm_s: float  # of steps before it

    def kind(self, primary):
        kinds = [fault.kind(primary) for fault in self.faults]
        return kinds[0] if len(kinds) == 1 else "two of them, 0 to 6 s apart"


def draw_fault(random, nodes, workers, coordinator, namespaces, after_s):
    kinds = [kind for kind in NODE_FAULTS + (COORDINATOR_FAULTS if coordinator else []) if namespaces or not kind[2]]
    what, how, _, _ = random.choices(kinds, [kind[3] for kind in kinds])[0]
    low, high = random.choice([(0.0, 0.9), (1.0, 3.5), (3.5, 6.0)])
    # The primary's node is one of many and the one that matters most.
    place = 0 if random.random() < 0.25 else random.randrange(nodes)
    return Fault(what, how, nodes if what == "coordinator" else place, random.randrange(workers),
                 random.uniform(low, high), after_s)


def incidents(random, nodes, workers, coordinator, namespaces):
    """Without end."""
    while True:
        after = [0.0] + ([random.uniform(0, SECOND_WITHIN_S)] if random.random() < SECOND_FAULT else [])
        faults = tuple(draw_fault(random, nodes, workers, coordinator, namespaces, each) for each in after)
        yield Incident(faults, random.uniform(*CALM_S))

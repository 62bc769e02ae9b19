"""The faults of a job, drawn from a seed: the same seed gives the same faults in the same order. No I/O."""
import dataclasses

SECOND_FAULT = 0.3       # share of incidents with a second fault, usually during the restart
SECOND_WITHIN_S = 6.0
CALM_S = (0.2, 1.5)      # seconds of training between two incidents
MOMENT = "for a moment"  # shorter than muster should notice with a lease of 3 s
LONG = "for long"

# Target, action, whether it needs namespaces, weight. "Node" means a container: all its processes, PID 1 first.
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
    worker: int        # local index on the node
    duration_s: float  # of a stop or a cut; for an ended coordinator, until its restart
    after_s: float     # after the incident's first fault

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
    calm_s: float  # of training before it

    def kind(self, primary):
        kinds = [fault.kind(primary) for fault in self.faults]
        return kinds[0] if len(kinds) == 1 else "two of them, 0 to 6 s apart"


def draw_fault(random, nodes, workers, coordinator, namespaces, after_s):
    kinds = [kind for kind in NODE_FAULTS + (COORDINATOR_FAULTS if coordinator else []) if namespaces or not kind[2]]
    what, how, _, _ = random.choices(kinds, [kind[3] for kind in kinds])[0]
    low, high = random.choice([(0.0, 0.9), (1.0, 3.5), (3.5, 6.0)])
    # The primary's node is one of many and the most important one.
    place = 0 if random.random() < 0.25 else random.randrange(nodes)
    return Fault(what, how, nodes if what == "coordinator" else place, random.randrange(workers),
                 random.uniform(low, high), after_s)


def incidents(random, nodes, workers, coordinator, namespaces):
    """An endless sequence of incidents."""
    while True:
        after = [0.0] + ([random.uniform(0, SECOND_WITHIN_S)] if random.random() < SECOND_FAULT else [])
        faults = tuple(draw_fault(random, nodes, workers, coordinator, namespaces, each) for each in after)
        yield Incident(faults, random.uniform(*CALM_S))

"""A job of real trainings under faults, and its platform, which restarts an ended node at its place."""
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import cluster  # noqa: E402
from cluster import children, descendants  # noqa: E402

WORKER = pathlib.Path(__file__).resolve().parent / "worker.py"
PORT = 2222
LEASE_S = 3
ENDLESS = "1000000"
# Budgets must not end the job, and pauses after failures are off: the times in the table are muster's own.
COUNTS = ("--max-restarts", ENDLESS, "--max-node-losses", ENDLESS, "--max-membership-changes", "0",
          "--restart-delay", "0s")
BY_A_FAULT = {-signal.SIGKILL, 128 + signal.SIGKILL, 75}  # exit codes of a node that ends before the job
SETTLED_S = 0.5   # after this much training without a fault the incident is over
LIMIT_S = 180.0   # from an incident to its end; only a hang reaches it
SIGNALS = {"killed": signal.SIGKILL, "told to end": signal.SIGTERM, "stopped": signal.SIGSTOP}
CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Step:
    def __init__(self, line):
        restart, number, when, loss, _ = line.split()
        self.restart, self.number, self.time, self.loss = int(restart), int(number), float(when), loss


class Job(cluster.Cluster):
    """network: the places' namespaces, each a container too; None: plain processes on loopback addresses.
    alone: `muster coordinator` is another process, at the place after the last. spares: nodes above the maximum; they
    take the rank of a node that is cut off and still runs: only the lease keeps their workers apart.
    nnodes: "MIN:MAX" if not all nodes are required. program: replaces the training."""

    def __init__(self, nodes, nproc, network=None, alone=False, spares=0, step_s=0.0, nnodes=None, program=None,
                 environment=None, settle="5s"):
        self.places = nodes + spares
        count = self.places + int(alone)
        addresses = [network.address(place) if network else f"127.0.0.{place + 1}" for place in range(count)]
        self.nnodes = nnodes or str(nodes)
        options = ["--nnodes", self.nnodes, "--join-settle", settle, *COUNTS]
        self.network, self.alone, self.coordinator, self.spares = network, alone, None, spares
        self.later = []      # (time, function to call)
        self.absent = set()  # places at which nothing is restarted
        self.killed = set()  # nodes whose container was killed: `unshare` then reports a meaningless code
        if alone:
            self.coordinator_at = f"{addresses[-1]}:{PORT if network else cluster.free_port(addresses[-1])}"
            # Set the restart limits on the coordinator, not on the nodes.
            options = ["--coordinator", self.coordinator_at, "--nnodes", self.nnodes, "--rdzv-id", "chaos"]
        environment = {"OMP_NUM_THREADS": "1", "CHAOS_STEP_S": str(step_s), **(environment or {})}
        if network:
            environment["GLOO_SOCKET_IFNAME"] = "eth0"  # by default gloo resolves the host name
        super().__init__(nodes, options=options, nproc=nproc, addresses=addresses[:self.places],
                         ports=[PORT] * self.places if network else None, environment=environment,
                         prefix=(lambda place: [*network.prefix(place), *CONTAINER]) if network else None)
        self.program = program or [sys.executable, "-B", str(WORKER), str(self.folder)]

    # The platform.

    def environment_of(self, place):
        environment = super().environment_of(place)
        if self.alone:
            del environment["CLUSTER_SPEC"]
        return environment

    def start(self, place, options=(), **popen):
        # A node with a place is never replaced by a spare.
        places = ["--node-rank", str(place)] if self.alone and not self.spares else []
        return super().start(place, [*places, *options], **popen)

    def start_all(self, order=None):
        if self.alone:
            self.start_coordinator()
        return super().start_all(order)

    def start_coordinator(self):
        command = [*(self.network.prefix(self.places) if self.network else []), str(cluster.BINARY), "coordinator",
                   "--listen", self.coordinator_at, "--nnodes", self.nnodes, "--rdzv-id", "chaos",
                   "--lease", f"{LEASE_S}s", *COUNTS]
        self.coordinator = cluster.Node(f"coordinator-{len(self.all_nodes)}", command, self.environment_of(self.places),
                                        self.folder)
        self.all_nodes.append(self.coordinator)

    def tend(self):
        """Acts as the platform; to be called in a loop."""
        for place, node in list(self.nodes.items()):
            if node.has_ended() and place not in self.absent:
                self.note_end(node)
                self.start(place)
        due = [each for each in self.later if each[0] <= now()]
        self.later = [each for each in self.later if each not in due]
        for _, call in due:
            call()

    def note_end(self, node):
        if node.process.returncode not in BY_A_FAULT and node not in self.killed:
            raise AssertionError(f"{node.name} ended with {node.process.returncode}, which no fault explains")

    def whole(self):
        """True if nothing is stopped, cut off or absent."""
        return not self.later and not any(node.has_ended() for node in self.nodes.values()) and not (
            self.coordinator and self.coordinator.has_ended())

    def wait_until(self, what, condition, limit=LIMIT_S):
        def tended():
            self.tend()
            return condition()
        return cluster.wait_until(what, tended, limit)

    # Faults.

    def victims(self, fault):
        """Pids of that part; empty if it does not exist at the moment."""
        if fault.what == "coordinator":
            return [self.coordinator.process.pid] if not self.coordinator.has_ended() else []
        node = self.nodes[fault.place]
        host, agent = node.host(), node.agent()
        found = {"agent": [agent], "host": [host]}.get(fault.what)
        if fault.what == "worker":
            workers = sorted(pid for pid in (children(host) if host else []) if pid != agent)
            found = workers[fault.worker:fault.worker + 1]
        if fault.what == "node":
            first = self.first_process(node)
            if fault.how == "told to end":
                found = [first]
            elif self.network and fault.how == "killed":
                found = [first]  # the kernel ends what is in its namespace
            else:  # without a namespace the workers follow their host
                found = [first, *descendants(first)] if fault.how == "stopped" and first else [first, agent]
        return [pid for pid in found if pid]

    def first_process(self, node):
        if not self.network:
            return node.host()
        inner = children(node.process.pid)
        return inner[0] if inner else None

    def inject(self, fault):
        if fault.how in ("cut off", "not heard", "deaf"):
            cut = {"cut off": self.network.cut, "not heard": self.network.cut_outgoing,
                   "deaf": self.network.cut_incoming}[fault.how]
            cut(fault.place)
            self.later.append((now() + fault.duration_s, self.network.heal))
            return
        victims = self.victims(fault)
        if fault.what == "node" and fault.how == "killed":
            self.killed.add(self.nodes[fault.place])
        for pid in victims:
            try:
                handle = os.pidfd_open(pid)  # a pidfd, so that SIGCONT reaches the process that was stopped
                signal.pidfd_send_signal(handle, SIGNALS[fault.how])
            except ProcessLookupError:
                continue
            if fault.how == "stopped":
                self.later.append((now() + fault.duration_s, lambda handle=handle: self.go_on(handle)))
            else:
                os.close(handle)
        if fault.what == "coordinator" and fault.how != "stopped" and victims:
            self._replace_coordinator(self.coordinator, fault.duration_s)

    @staticmethod
    def go_on(handle):
        try:
            signal.pidfd_send_signal(handle, signal.SIGCONT)
        except ProcessLookupError:
            pass  # it has ended meanwhile
        os.close(handle)

    def _replace_coordinator(self, old, after_s):
        def again():
            if not old.has_ended():  # it was asked to end and is still running
                self._replace_coordinator(old, cluster.POLL_S)
            elif old is self.coordinator:
                self.note_end(old)
                self.start_coordinator()
        self.later.append((now() + after_s, again))

    # Records of the training.

    def steps(self):
        try:
            text = (self.folder / "steps").read_text()
        except FileNotFoundError:
            return []
        return [Step(line) for line in text.splitlines() if line.endswith(" .")]

    def steps_since(self, when):
        return [step for step in self.steps() if step.time > when]

    def finish(self, at=None):
        part = self.folder / "finish.part"
        part.write_text("" if at is None else str(at))
        part.rename(self.folder / "finish")

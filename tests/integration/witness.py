"""Records that a test's worker writes about itself for the harness (cluster.py). Standard library only.

FOLDER/records gets one JSON line for each event; FOLDER/beats/ one file for each worker with the last time at which
it ran. Times are CLOCK_BOOTTIME, the same in all namespaces of the machine.
"""
import json
import os
import time

NUMBERS = {"rank": "RANK", "world": "WORLD_SIZE", "restart": "TORCHELASTIC_RESTART_COUNT", "node_rank": "GROUP_RANK",
           "local_rank": "LOCAL_RANK", "nodes": "GROUP_WORLD_SIZE", "place": "TEST_PLACE"}
TEXTS = {"master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT", "run_id": "TORCHELASTIC_RUN_ID"}


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Witness:
    """This process's identity and its record file."""

    def __init__(self, folder):
        self.folder = folder
        self.facts = {name: int(os.environ.get(variable, "-1")) for name, variable in NUMBERS.items()}
        self.facts.update({name: os.environ.get(variable, "") for name, variable in TEXTS.items()})
        self.facts["pid"] = os.getpid()
        self._beat = None

    def record(self, event, **more):
        self.append("records", json.dumps({"event": event, "time": now(), **self.facts, **more}))

    def append(self, name, line):
        descriptor = os.open(os.path.join(self.folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        # One write, so that lines of several workers never mix. A worker killed in the middle leaves a partial line, to
        # which the next one must not be glued.
        os.write(descriptor, f"\n{line}\n".encode())
        os.close(descriptor)

    def beat(self):
        """Records that this process runs now."""
        if self._beat is None:
            beats = os.path.join(self.folder, "beats")
            os.makedirs(beats, exist_ok=True)
            name = "-".join(str(self.facts[key]) for key in ("restart", "place", "rank", "pid", "master_port"))
            self._beat = os.open(os.path.join(beats, name), os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(self._beat, f"{now():020.6f}".encode(), 0)

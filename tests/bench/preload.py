#!/usr/bin/env python3
"""From the death of a worker to the first all_reduce of the next round, with torch on gloo: torchrun, torchrun whose
rounds have a store each, muster, and muster with --preload, job by job in turn. How many restarts succeed at all; what 8
workers cost at their start. Prints tables; asserts nothing.

    python3 tests/bench/preload.py [--jobs 20] [--chart docs/pictures/restarts.svg]

A job is started, a worker of it is killed (SIGKILL) a second after all workers have done their first all_reduce, and
so in each of three rounds. A restart that has not come to its all_reduce within 40 s counts as failed.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "integration")]
import bench  # noqa: E402
import chart  # noqa: E402
from cluster import BINARY, descendants, free_port, is_alive, kill  # noqa: E402

PYTHON = ROOT / ".venv/bin/python"
TORCHRUN_FILE = ROOT / ".venv/bin/torchrun"
WORKER = HERE / "preload_worker.py"
KILLS = 3
INTO_ROUND_S = 1.0
LIMIT_S = 40.0
POLL_S = 0.005
SHAPES = ((1, 2), (1, 8), (2, 4))  # nodes, workers of each
# All rounds of a torchrun job share one store, in which a worker finds the addresses of the round before.
OWN_STORES = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
TORCHRUN, TORCHRUN_OWN_STORES, MUSTER, PRELOADED = LAUNCHERS = (
    "torchrun", "torchrun, own stores", "muster", "muster --preload")
LEARNED = "muster --preload auto"


def commands(launcher, nodes, workers, program):
    """One command for each node."""
    port = free_port("127.0.0.1")
    if launcher in (TORCHRUN, TORCHRUN_OWN_STORES):
        common = [str(TORCHRUN_FILE), "--nproc-per-node", str(workers), "--max-restarts", str(KILLS), "--monitor-interval", "0.1"]
        if nodes == 1:
            return [[*common, "--standalone", *program]]
        return [[*common, "--nnodes", str(nodes), "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
                 "--rdzv-id", "bench", "--local-addr", "127.0.0.1", *program] for _ in range(nodes)]
    common = [str(BINARY), "run", "--nproc-per-node", str(workers), "--max-restarts", str(KILLS), "--restart-delay", "0",
              "--python", str(PYTHON)]
    if launcher in (PRELOADED, LEARNED):
        common += ["--preload", "auto" if launcher == LEARNED else "torch,torch.distributed"]
    if nodes > 1:
        common += ["--nnodes", str(nodes), "--master-addr", "127.0.0.1", "--master-port", str(port), "--rdzv-id", "bench"]
    return [[*common, *(["--node-rank", str(node)] if nodes > 1 else []), *program] for node in range(nodes)]


class Job:
    """program: what the workers run; they get the paths of their log and of their gate. variables: added for it."""
    def __init__(self, launcher, nodes, workers, program=(str(WORKER),), variables=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-bench-"))
        self.log, self.gate, self.world = self.folder / "log", self.folder / "gate", nodes * workers
        program = [*program, str(self.log), str(self.gate)]
        self.began = bench.now_ns()
        self.processes = []
        environment = {**os.environ, **(variables or {}), **(OWN_STORES if launcher == TORCHRUN_OWN_STORES else {})}
        for node, command in enumerate(commands(launcher, nodes, workers, program)):
            with open(self.folder / f"out{node}", "wb") as out:
                self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                                       env=environment, start_new_session=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.gate.touch()
        ends = time.monotonic() + 10
        while any(process.poll() is None for process in self.processes) and time.monotonic() < ends:
            time.sleep(POLL_S)
        for process in self.processes:
            for pid in [*descendants(process.pid), process.pid] if process.poll() is None else []:
                kill(pid)
            process.wait()
        shutil.rmtree(self.folder)

    def round(self, restart):
        """Time of the last first all_reduce of a round in ns, and the pids by rank; None: it was not reached."""
        ends = time.monotonic() + LIMIT_S
        while time.monotonic() < ends and all(process.poll() is None for process in self.processes):
            found = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
            mine = {int(rank): (int(at), int(pid)) for at, rank, count, pid in found if int(count) == restart}
            if len(mine) == self.world:
                return max(at for at, _ in mine.values()), {rank: pid for rank, (_, pid) in mine.items()}
            time.sleep(POLL_S)
        return None

    def all_pids(self):
        return [pid for process in self.processes for pid in [process.pid, *descendants(process.pid)] if is_alive(pid)]

    def why(self):
        """The last line of its output that says what failed."""
        text = "".join((self.folder / f"out{node}").read_text(errors="replace") for node in range(len(self.processes)))
        lines = [line.strip() for line in text.splitlines() if re.search(r"Error|failed|refused|timed out", line)]
        wanted = [line for line in lines if "connect" in line.lower()] or lines or ["it said nothing and did not go on"]
        return re.sub(r"^\[rank\d+\]:?\s*", "", wanted[-1])[:160]


def restarts(launcher, nodes, workers, **settings):
    """Nanoseconds of each restart that succeeded, and why the job's first that did not failed. settings: of Job."""
    samples = []
    with Job(launcher, nodes, workers, **settings) as job:
        reached = job.round(0)
        if reached is None:
            return samples, "its first round: " + job.why()
        for restart in range(1, KILLS + 1):
            time.sleep(INTO_ROUND_S)
            began = bench.now_ns()
            kill(reached[1][job.world - 1])
            reached = job.round(restart)
            if reached is None:
                return samples, job.why()
            samples.append(reached[0] - began)
    return samples, None


def cost_of(pid):
    """Processor time in ms, with that of children that have ended, and proportional memory in MiB."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = sum(int(field) for field in stat[11:15])
    memory = re.search(r"^Pss:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    return ticks * 1000 / os.sysconf("SC_CLK_TCK"), int(memory.group(1)) / 1024


def cold_start(launcher, workers, **settings):
    """Of a start: milliseconds to the last first all_reduce, processor time in ms, memory in MiB. settings: of Job."""
    with Job(launcher, 1, workers, **settings) as job:
        reached = job.round(0)
        if reached is None:
            raise SystemExit(f"{launcher}: {job.why()}")
        costs = [cost_of(pid) for pid in job.all_pids()]
        return (reached[0] - job.began) / 1e6, sum(cost[0] for cost in costs), sum(cost[1] for cost in costs)


def median(values):
    return sorted(values)[len(values) // 2]


def show_restarts(jobs, nodes, workers):
    results = {launcher: ([], []) for launcher in LAUNCHERS}
    for _ in range(jobs):
        for launcher in LAUNCHERS:  # in turn, so that each meets the machine's same moods
            samples, why = restarts(launcher, nodes, workers)
            results[launcher][0].extend(samples)
            results[launcher][1].append(why)
    print(f"\n{nodes} node{'s' * (nodes > 1)} x {workers} workers, {jobs} jobs with {KILLS} killed workers each, ms from "
          "the kill to the last worker's first all_reduce")
    print(f"  {'':20} {'median':>7} {'least':>7} {'most':>7}   restarts that succeeded   jobs that went to their end")
    for launcher, (samples, whys) in results.items():
        times = [f"{value / 1e6:7.0f}" for value in (median(samples), min(samples), max(samples))] if samples else ["-"] * 3
        ended = sum(why is None for why in whys)
        print(f"  {launcher:20} {' '.join(times)}   {len(samples):4} of {jobs * KILLS:<4}               {ended:4} of {jobs}")
    for launcher, (_, whys) in results.items():
        for why in sorted({why for why in whys if why}):
            print(f"    {launcher}: {whys.count(why)} x {why}")
    sys.stdout.flush()
    return [(launcher, median(samples) / 1e9) for launcher, (samples, _) in reversed(results.items()) if samples]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20, help="of 1 node with 2 workers; of the other shapes a quarter")
    parser.add_argument("--chart", type=pathlib.Path, help="file for a chart of restarts and start")
    arguments = parser.parse_args()
    jobs = arguments.jobs
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    version = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True,
                             check=True).stdout.strip()
    surroundings = f"torch {version}, {os.cpu_count()} CPUs, torchrun with --monitor-interval 0.1"
    print(surroundings)
    groups = []
    for nodes, workers in SHAPES:
        bars = show_restarts(jobs if (nodes, workers) == SHAPES[0] else max(1, jobs // 4), nodes, workers)
        groups.append((f"A worker killed, {nodes} node{'s' * (nodes > 1)} x {workers} workers: until all have done an all_reduce again", bars))
    print("\ncold start of 8 workers on one node, medians of 3: ms to the last first all_reduce, processor time in ms, "
          "memory (PSS) in MiB of all processes")
    starts = []
    for launcher in LAUNCHERS:
        figures = [cold_start(launcher, 8) for _ in range(3)]
        print(f"  {launcher:20} {'  '.join(f'{median(column):8.0f}' for column in zip(*figures))}", flush=True)
        starts.insert(0, (launcher, median([figure[0] for figure in figures]) / 1000))
    if arguments.chart:
        chart.write(arguments.chart, f"Medians on gloo; {surroundings}; tests/bench/preload.py",
                    [*groups[:2], ("Start of 8 workers, until all have done an all_reduce", starts)])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What --group-lines costs: 64 ranks write 10,000 lines a second in all, through prefixes alone and grouped.

Each rank writes a line, and waits for the time of its next one. Printed for both ways, in turn: how long a write takes,
how late the slowest rank is at the end, processor time of the workers and of muster, and how many lines are shown.
"""
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("MUSTER_BINARY", ROOT / "build/release/bin/muster"))
RANKS, LINES_A_SECOND, SECONDS, TURNS = 64, 10_000, 10, 5
WORKER = """
import os, pathlib, sys, time
folder, ranks, each, seconds = pathlib.Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
rank = os.environ["RANK"]
(folder / rank).touch()
while len(os.listdir(folder)) < ranks: time.sleep(0.05)
start = time.time() // 1 + 2
busy = 0.0
for i in range(int(each * seconds)):
    time.sleep(max(0.0, start + i / each - time.time()))
    before = time.perf_counter()
    os.write(1, b"step %d loss 0.5\\n" % i)
    busy += time.perf_counter() - before
late = time.time() - (start + int(each * seconds - 1) / each)
(folder / rank).write_text(f"{busy} {late} {time.process_time()}")
"""


def turn(choice):
    with tempfile.TemporaryDirectory() as folder:
        options = ["--group-lines", choice] if choice == "on" else ["-t", "1", "--log-dir", "/dev/null"]
        command = [str(BINARY), "run", "--nproc-per-node", str(RANKS), *options, "--no-python", sys.executable, "-S", "-E",
                   "-c", WORKER, folder, str(RANKS), str(LINES_A_SECOND / RANKS), str(SECONDS)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        told = [tuple(map(float, path.read_text().split())) for path in pathlib.Path(folder).iterdir()]
    all_processors = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    workers = sum(processor for _, _, processor in told)
    return {"write_us": 1e6 * sum(busy for busy, _, _ in told) / (LINES_A_SECOND * SECONDS),
            "late_ms": 1e3 * max(late for _, late, _ in told),
            "worker_s": workers, "muster_s": all_processors - workers, "lines": shown.count(b"\n")}


def main():
    turns = {"off": [], "on": []}
    for _ in range(TURNS):
        for choice, results in turns.items():
            results.append(turn(choice))
    for choice, results in turns.items():
        middle = {name: statistics.median(result[name] for result in results) for name in results[0]}
        print(f"--group-lines {choice}: a write takes {middle['write_us']:.1f} us, the last line of the latest rank is "
              f"{middle['late_ms']:.1f} ms late; {middle['worker_s']:.2f} s of processor time of the workers, "
              f"{middle['muster_s']:.2f} s of muster and the start; {middle['lines']:,.0f} of "
              f"{RANKS * int(LINES_A_SECOND / RANKS * SECONDS):,} lines shown")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Throughput of following a worker's output (-t 3), and its cost to the worker. Prints a table; asserts nothing.

    python3 tests/bench/output.py [--binary build/release/bin/muster] [--bytes 1000000000] [--times 7]

Each time, in sequence: the worker alone writes to a file; muster follows it to a pipe that is read, and to a
file. The time with muster is from its start to its end.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(("MUSTER_", "PET_", "CLUSTER_SPEC"))}


def seconds(folder):
    return tuple(int(text) / 1e9 for text in (folder / "took").read_text().split())


def alone(flood, size, folder):
    """The worker's writing time and processor time, in seconds."""
    with open(folder / "plain", "wb") as out:
        subprocess.run([flood, str(size), folder / "took"], stdout=out, check=True)
    (folder / "plain").unlink()
    return seconds(folder)


def followed(binary, flood, size, folder, to_pipe):
    """The worker's writing and processor time, total seconds, and the megabytes of muster's largest process."""
    command = [binary, "run", "--standalone", "--log-dir", folder / "logs", "-t", "3", "--no-python", "--", flood,
               str(size), folder / "took"]
    with open(os.devnull if to_pipe else folder / "console", "wb") as out:
        reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=out) if to_pipe else None
        begin = time.monotonic()
        muster = subprocess.Popen(command, stdout=reader.stdin if reader else out, stderr=subprocess.DEVNULL,
                                  env=environment())
        if reader:
            reader.stdin.close()
        _, status, usage = os.wait4(muster.pid, 0)
        took = time.monotonic() - begin
        if reader:
            reader.wait()
    subprocess.run(["rm", "-rf", folder / "logs", folder / "console"], check=True)
    if status != 0:
        raise SystemExit(f"muster ended with wait status {status}")
    return *seconds(folder), took, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=ROOT / "build/release/bin/muster")
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--times", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:  # on a disk: /tmp may be memory
        folder = pathlib.Path(name)
        flood = folder / "flood"
        subprocess.run(["cc", "-O2", "-o", flood, HERE / "flood.c"], check=True)
        plain, runs = [], {True: [], False: []}
        for _ in range(options.times):
            plain.append(alone(flood, options.bytes, folder))
            for to_pipe in runs:
                runs[to_pipe].append(followed(options.binary, flood, options.bytes, folder, to_pipe))
    before, before_cpu = (statistics.median(column) for column in zip(*plain))
    print(f"{options.bytes / 1e6:.0f} MB, medians of {options.times}")
    print(f"the worker alone, to a file     {options.bytes / before / 1e6:7.0f} MB/s")
    for to_pipe, where in ((True, "a pipe"), (False, "a file")):
        writing, cpu, total, memory = (statistics.median(column) for column in zip(*runs[to_pipe]))
        print(f"-t 3 to {where}: the worker       {options.bytes / writing / 1e6:7.0f} MB/s "
              f"({100 * (writing / before - 1):+.0f} % time, {100 * (cpu / before_cpu - 1):+.0f} % processor time)")
        print(f"-t 3 to {where}: followed         {options.bytes / total / 1e6:7.0f} MB/s, {memory:.1f} MB of memory")


if __name__ == "__main__":
    main()

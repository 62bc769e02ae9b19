#!/usr/bin/env python3
"""What shortens a start of workers that import torch, without --preload? The time until 8 of them have imported it at
once, and their processor time: with its files in the page cache, without them, when they are read beforehand (as a node
could that waits for others), without compiled bytecode, and for 8 interpreters that import nothing. Asserts nothing.

    python3 tests/bench/start_up.py [--runs 3]
"""
import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / ".venv/bin/python"
WORKERS = 8
IMPORT = "import torch, torch.distributed"
LOADED = IMPORT + """
import sys
files = {line[line.index('/'):].strip() for line in open('/proc/self/maps') if '/' in line}
for module in list(sys.modules.values()):
    files |= {file for file in (getattr(module, '__cached__', 0), getattr(module, '__file__', 0)) if isinstance(file, str)}
print(*files, sep='\\n')
"""


def loaded_files():
    """The files that an import of torch reads."""
    listed = subprocess.run([PYTHON, "-c", LOADED], capture_output=True, text=True, check=True).stdout.splitlines()
    return [file for file in listed if os.path.isfile(file) and "site-packages" in file]


def evict(files):
    """Takes them out of the page cache."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)  # pages that are not written yet stay
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read(files):
    began = time.monotonic()
    for file in files:
        with open(file, "rb", 0) as opened:
            while opened.read(1 << 20):
                pass
    return time.monotonic() - began


def start(code, environment=()):
    """Seconds until all workers have ended, and their processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    workers = [subprocess.Popen([PYTHON, "-c", code], env={**os.environ, **dict(environment)}) for _ in range(WORKERS)]
    if any([worker.wait() for worker in workers]):
        sys.exit("a worker has failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show(what, samples):
    wall, cpu = (sorted(column)[len(column) // 2] for column in zip(*samples))
    print(f"{what:58} {wall:6.2f} s  {cpu:6.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    runs = range(parser.parse_args().runs)
    files = loaded_files()
    size = sum(os.path.getsize(file) for file in files)
    print(f"{WORKERS} workers on {os.cpu_count()} CPUs; an import of torch reads {len(files)} files, {size >> 20} MiB")
    print(f"{'medians':58} {'until all have':>8}  {'processor time':>8}")
    start(IMPORT)
    show("interpreters that import nothing", [start("pass") for _ in runs])
    show("files in the page cache", [start(IMPORT) for _ in runs])
    show("files not in the page cache", [(evict(files), start(IMPORT))[1] for _ in runs])
    reading = []
    warmed = [(evict(files), reading.append(read(files)), start(IMPORT))[2] for _ in runs]
    show(f"files read beforehand, which took {sorted(reading)[len(reading) // 2]:.2f} s", warmed)
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as empty:
        nothing = {"PYTHONPYCACHEPREFIX": empty, "PYTHONDONTWRITEBYTECODE": "1"}
        show("in the page cache, but no compiled bytecode", [start(IMPORT, nothing) for _ in runs])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Starts and restarts of real frameworks: DDP with a DataLoader of two processes, FSDP2, Lightning and the Trainer of
Transformers, on one node of two workers on gloo; with torchrun whose rounds have a store each, muster, and muster with
--preload auto, whose list an earlier job has learned. Prints a table; asserts nothing.

    python3 tests/bench/frameworks.py [--jobs 5] [NAME...]

A start lasts until both workers have done a step of the training. Then one worker is killed (SIGKILL) a second into each
of three rounds, and a restart lasts until both have done a step again. One that takes more than 40 s counts as failed.
"""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import preload
from framework_worker import WAYS

LAUNCHERS = (preload.TORCHRUN_OWN_STORES, preload.MUSTER, preload.LEARNED)
TITLES = {"ddp": "DDP, DataLoader", "fsdp2": "FSDP2", "lightning": "Lightning", "trainer": "HF Trainer"}
WORKERS = 2
LEARN_LIMIT_S = 120


def settings_of(folder, way):
    """A script of its own for each framework, since the learned lists are kept by the script."""
    script = folder / f"train_{way}.py"
    shutil.copy(preload.HERE / "framework_worker.py", script)
    return {"program": (str(script), way), "variables": {"XDG_CACHE_HOME": str(folder), "OMP_NUM_THREADS": "1"}}


def learn(settings):
    """Two jobs, each of one round that ends well: the first one learns, the second one finds what must be left out."""
    for _ in range(2):
        with preload.Job(preload.LEARNED, 1, WORKERS, **settings) as job:
            job.round(0)
            job.gate.touch()
            job.processes[0].wait(LEARN_LIMIT_S)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5, help="of each framework and launcher")
    parser.add_argument("names", nargs="*", choices=[[], *WAYS], metavar="NAME", help=f"of {', '.join(WAYS)}; all of them without one")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    versions = "import torch, lightning, transformers as t; print(f'torch {torch.__version__}, Lightning {lightning.__version__}, Transformers {t.__version__}')"
    print(subprocess.run([preload.PYTHON, "-c", versions], capture_output=True, text=True, check=True).stdout.strip(),
          f"{os.cpu_count()} CPUs, {arguments.jobs} jobs with {preload.KILLS} killed workers each", sep=", ")
    print(f"{'':18}{'':24}{'start':>8}{'restart: median':>18}{'most':>8}   came  (seconds)")
    for way in arguments.names or WAYS:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-bench-"))
        try:
            settings = settings_of(folder, way)
            learn(settings)
            results = {launcher: [] for launcher in LAUNCHERS}
            starts = {launcher: [] for launcher in LAUNCHERS}
            for _ in range(arguments.jobs):
                for launcher in LAUNCHERS:  # in turn, so that each meets the machine's same moods
                    starts[launcher].append(preload.cold_start(launcher, WORKERS, **settings)[0] / 1e3)
                    results[launcher] += preload.restarts(launcher, 1, WORKERS, **settings)[0]
        finally:
            shutil.rmtree(folder)
        for launcher, samples in results.items():
            middle, most = (f"{at / 1e9:.2f}" if samples else "-" for at in (preload.median(samples or [0]), max(samples, default=0)))
            print(f"{TITLES[way]:18}{launcher:24}{preload.median(starts[launcher]):8.2f}{middle:>18}{most:>8}   "
                  f"{len(samples)} of {arguments.jobs * preload.KILLS}", flush=True)


if __name__ == "__main__":
    main()

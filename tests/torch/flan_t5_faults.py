"""Runs deploy/examples/flan-t5/train.py unchanged, in workers that fail at the moments in FLAN_FAULTS.

FLAN_FAULTS: a JSON list of {"restart": N, "rank": N, "at": MOMENT, "step": N}. Moments: "step" (after that step),
"save" (while the ranks write that step's checkpoint, before this rank has written all of its part), "end" (after the
last checkpoint) and "exit" (a crash while the interpreter shuts down). Each rank that ends by itself leaves a file in
FLAN_ENDED; the last rank ends last.
"""
import atexit
import json
import os
import pathlib
import runpy
import signal
import sys
import time

import transformers

LAST_RANK_DELAY_S = 1.0
RANK = int(os.environ["RANK"])


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_on(event, step=None):
    """Dies in this event of the Trainer: in every one, or only at this step."""
    def die_now(self, args, state, control, **kwargs):
        if step in (None, state.global_step):
            die()

    transformers.trainer.DEFAULT_CALLBACKS.append(type("Die", (transformers.TrainerCallback,), {event: die_now}))


def die_in_save(step):
    """The optimizer's state is written by then, with barriers of its own; this rank's random state is not."""
    save_rng_state = transformers.Trainer._save_rng_state

    def save_or_die(trainer, output_dir):
        if trainer.state.global_step == step:
            die()
        save_rng_state(trainer, output_dir)

    transformers.Trainer._save_rng_state = save_or_die


def end_in_order():
    if RANK == int(os.environ["WORLD_SIZE"]) - 1:
        time.sleep(LAST_RANK_DELAY_S)  # gives a hook that does not wait for every rank the time to be too early
    pathlib.Path(os.environ["FLAN_ENDED"], str(RANK)).touch()


def main():
    # Functions of atexit run last in, first out, so the crash is the last thing to happen.
    for fault in json.loads(os.environ["FLAN_FAULTS"]):
        if (fault["restart"], fault["rank"]) != (int(os.environ["TORCHELASTIC_RESTART_COUNT"]), RANK):
            continue
        if fault["at"] == "step":
            die_on("on_step_end", fault["step"])
        elif fault["at"] == "end":
            die_on("on_train_end")
        elif fault["at"] == "save":
            die_in_save(fault["step"])
        else:
            atexit.register(os.abort)
    atexit.register(end_in_order)
    del sys.argv[0]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()

"""torch.distributed.elastic.timer over the launcher's pipe. With "late", rank 0 of the first attempt overruns."""
import os
import sys
import time

import torch.distributed.elastic.timer as timer

rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
late = sys.argv[1:] == ["late"] and attempt == "0"
with timer.expires(after=1 if late and rank == "0" else 600):
    if late:
        time.sleep(600)  # rank 0 is ended by the timer's SIGKILL, rank 1 with it
print(f"result rank={rank} world={os.environ['WORLD_SIZE']} value=0", flush=True)

"""A worker that saves when it is asked to end, and records its signals. Runs until then.

    saver.py FOLDER [save | ignore | orphans | eat]

save: on SIGTERM it writes its state, piece by piece for some seconds, to FOLDER/saved-RANK, and exits with 0.
ignore: SIGTERM has no effect. orphans: it leaves children whose parent ends before them, and which then end, too.
eat: it takes memory until the kernel ends it.
"""
import os
import pathlib
import signal
import sys
import time

PIECES, PIECE_S = 20, 0.1
ORPHANS = 20
BLOCK = 1 << 20

folder, conduct = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "save"
rank = os.environ["RANK"]


def save(_number, _frame):
    with open(folder / f"part-{rank}", "w", encoding="utf-8") as file:
        for piece in range(PIECES):
            time.sleep(PIECE_S)
            print(piece, file=file, flush=True)
    os.rename(folder / f"part-{rank}", folder / f"saved-{rank}")
    os._exit(0)


def leave_orphans():
    for _ in range(ORPHANS):
        child = os.fork()
        if child == 0:
            os.setsid()
            if os.fork() == 0:
                while not (folder / "gate").exists():
                    time.sleep(0.01)
            os._exit(0)
        os.waitpid(child, 0)


signal.signal(signal.SIGTERM, signal.SIG_IGN if conduct == "ignore" else save)
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _frame: (folder / f"signal-{number}-{rank}").touch())
if conduct == "orphans":
    leave_orphans()
print(f"worker rank={rank} world={os.environ['WORLD_SIZE']} node={os.environ['GROUP_RANK']} "
      f"restart={os.environ['TORCHELASTIC_RESTART_COUNT']} pid={os.getpid()}", flush=True)
eaten = []
while True:
    if conduct == "eat":
        eaten.append(os.urandom(BLOCK))
    else:
        time.sleep(0.02)

"""Processes of this machine, as /proc shows them: for all tests in Python."""
import os
import pathlib

GONE = (FileNotFoundError, ProcessLookupError)


def children(pid):
    """Children of all threads of a process, zombies too."""
    found = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except GONE:
        return found
    for task in tasks:
        try:
            found += [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
        except GONE:
            continue
    return found

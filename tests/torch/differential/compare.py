"""Compares two tables of fields and returns the unexplained differences."""
from differential.differences import ABSENT, DIFFERENCES


def unexplained(case, torchrun, muster, used):
    """One line for each difference without a reason in DIFFERENCES. Entries that explain one are added to `used`."""
    lines = []
    for field in sorted(torchrun.keys() | muster.keys()):
        ours, theirs = muster.get(field, ABSENT), torchrun.get(field, ABSENT)
        if ours == theirs:
            continue
        reasons = [entry for entry in DIFFERENCES if entry.explains(case.name, field, theirs, ours)]
        used.update(reasons)
        if not reasons:
            lines.append(f"{field}\n    torchrun: {theirs}\n    muster:   {ours}")
    return lines

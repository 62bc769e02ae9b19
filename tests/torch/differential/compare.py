"""Two tables of fields in, what differs and is not meant to out."""
from differential.differences import ABSENT, DIFFERENCES


def unexplained(case, torchrun, muster, used):
    """Lines that say what differs without a reason in DIFFERENCES. Those of its entries that explain are put in `used`."""
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

#!/usr/bin/env python3
"""Makes node-loss.svg: a real run of 3 nodes, one of which is killed: python3 docs/pictures/capture.py [MUSTER]"""
import html
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUSTER = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/bin/muster")
WORDS = "local --nodes 3 --nproc-per-node 2 train.py --steps 60 --step-time 0.05 --checkpoint-every 10 --checkpoint c.json"
KILL_AT_STEP = 20
LIMIT_S = 60
# What the picture leaves out: what each node says of itself, each worker's first line, the tracebacks of workers whose
# peer is gone, and the date.
LEFT_OUT = re.compile(r"OMP_NUM_THREADS|python is |node [12] of 3|still waiting|\[node 1\].*stopping workers|"
                      r"rank \d+\] (?!starting|step|final)")
DATE = re.compile(r"\d{4}-\d\d-\d\d (?=\d\d:)")
WIDTH_CHARS, LINE_PX, CHAR_PX, MARGIN_PX = 118, 19, 7.83, 18
NODES = {"node 0": "#7dcfff", "node 1": "#9ece6a", "node 2": "#e0af68"}


def node_of(pid):
    variables = dict(line.split("=", 1) for line in pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0") if line)
    task = json.loads(variables["CLUSTER_SPEC"])["task"]
    return int(task["type"][-1]) + int(task["index"])


def run():
    """The lines, and the number of the one before which the node died."""
    lines, killed_at = [], None
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "deploy/examples/train_stdlib.py", f"{folder}/train.py")
        job = subprocess.Popen([MUSTER, *WORDS.split()], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
        limit = threading.Timer(LIMIT_S, job.terminate)
        limit.start()
        for line in job.stdout:
            lines.append(line.rstrip())
            if killed_at is None and re.search(rf"\bstep +{KILL_AT_STEP}\b", line):
                killed_at = len(lines)
                children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
                victim = next(pid for pid in children if node_of(pid) == 2)
                os.kill(int(victim), signal.SIGKILL)
        limit.cancel()
        if job.wait(LIMIT_S) != 0:
            sys.exit(f"capture: the job ended with {job.returncode}; it may take {LIMIT_S} s")
    return lines, killed_at


def shown(lines, killed_at):
    for number, line in enumerate(lines):
        if number == killed_at:
            yield "$ kill -9 NODE_2                    # in another terminal"
        if not LEFT_OUT.search(line):
            yield from textwrap.wrap(DATE.sub("", line), WIDTH_CHARS, subsequent_indent="           ",
                                     drop_whitespace=False)


def coloured(line):
    prefix = re.match(r"\[(node \d)[^]]*\]", line)
    text = html.escape(line)
    if line.startswith("$"):
        return f'<tspan class="typed">{text}</tspan>'
    if "warning:" in line or "was ended by" in line:
        text = f'<tspan class="warning">{text}</tspan>'
    elif " muster: " in line:
        text = f'<tspan class="muster">{text}</tspan>'
    if not prefix:
        return text
    start, end = text.index("["), text.index("]") + 1
    return f'{text[:start]}<tspan fill="{NODES[prefix[1]]}">{text[start:end]}</tspan>{text[end:]}'


def svg(lines):
    width = round(WIDTH_CHARS * CHAR_PX + 2 * MARGIN_PX)
    height = len(lines) * LINE_PX + 2 * MARGIN_PX
    rows = "\n".join(f'<text xml:space="preserve" x="{MARGIN_PX}" y="{MARGIN_PX + (row + 1) * LINE_PX - 5}">{coloured(line)}</text>'
                     for row, line in enumerate(lines))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img"
  aria-label="A job of three nodes: node 2 is killed, is started again, and all go on from the checkpoint">
<style>text {{ font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #c0caf5; white-space: pre }}
.typed {{ fill: #ffffff; font-weight: bold }} .muster {{ fill: #9aa5ce }} .warning {{ fill: #f7768e }}</style>
<rect width="100%" height="100%" rx="8" fill="#1a1b26"/>
{rows}
</svg>
"""


if __name__ == "__main__":
    picture = [*textwrap.wrap(f"$ muster {WORDS}", WIDTH_CHARS, subsequent_indent="    "), *shown(*run())]
    (pathlib.Path(__file__).parent / "node-loss.svg").write_text(svg(picture))

#!/usr/bin/env bash
# From a fresh Debian 12 or Ubuntu 24.04 machine to a training job that loses a worker and recovers, in one command:
#
#   bash deploy/quickstart.sh
#
# Installs what is missing (root or sudo), builds, and runs three nodes of two workers each on this machine. Safe to
# run twice: the second time it only runs the job.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly STEPS=40 KILL_STEP=22 KILL_RANK=3

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n%s\n' "$*"; }

say "1. What is needed to build and to train"
bash deploy/setup.sh --torch
python=python3
[ ! -x .venv/bin/python ] || python=$PWD/.venv/bin/python
if "$python" -c 'import torch' 2>/dev/null; then
  script=deploy/examples/train_ddp.py
  echo "torch $("$python" -c 'import torch; print(torch.__version__)'): $script"
else
  script=deploy/examples/train_stdlib.py
  echo "torch cannot be had on this machine: a worker of Python's standard library takes its place, $script"
fi

say "2. Building muster"
export CCACHE_DIR=${CCACHE_DIR:-$PWD/.cache/ccache}
mkdir -p build
cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
[ -x build/release/bin/muster ] ||
  echo "(The linker will warn of getaddrinfo and the like in libraries. muster asks c-ares for names, not them.)"
cmake --build --preset release --target muster
ls -lh build/release/bin/muster

say "3. Three nodes, two workers each, from one CLUSTER_SPEC. At step $KILL_STEP the worker of rank $KILL_RANK is killed."
echo "   The whole group is started again and goes on from the newest checkpoint; watch 'restart 1' below."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command=(build/release/bin/muster local --nodes 3 --nproc-per-node 2 --max-restarts 3 --python "$python"
         "$script" --steps $STEPS --step-time 0.05)
printf '   %s\n' "${command[*]}"

"${command[@]}" --checkpoint "$work/disturbed" --kill-rank $KILL_RANK --kill-step $KILL_STEP | tee "$work/disturbed.log"

say "4. The same job, left in peace"
"${command[@]}" --checkpoint "$work/peace" | tee "$work/peace.log" | grep --line-buffered -E 'starting at|final loss'

final_loss() { grep -oE 'final loss [0-9.]+' "$1"; }
if ! grep -q 'killing myself' "$work/disturbed.log" ||
   [ "$(final_loss "$work/disturbed.log")" != "$(final_loss "$work/peace.log")" ]; then
  say "Something is wrong: the two runs differ."
  exit 1
fi
say "Both end with the same loss, to the last digit: nothing was lost with the worker."

#!/usr/bin/env bash
# Builds muster on a fresh Debian 12 or Ubuntu 24.04 machine and runs a training job that loses a worker and recovers:
#
#   bash deploy/quickstart.sh [--no-torch]
#
# --no-torch: trains with Python's standard library, so that torch (5 GB with its GPU libraries) is not installed.
# Installs missing packages (needs root or sudo), builds, and runs three nodes of two workers each on this machine. It
# may be repeated: the second time it only runs the job.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly STEPS=40 KILL_STEP=22 KILL_RANK=3

case "$*" in
  "") with_torch=1 ;;
  --no-torch) with_torch= ;;
  *) sed -n 's/^# \{0,1\}//; 2,8p' "${BASH_SOURCE[0]}"; [ "$*" = --help ] || exit 64; exit 0 ;;
esac

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n%s\n' "$*"; }

say "1. Installing the packages to build and to train"
bash deploy/setup.sh ${with_torch:+--torch}
python=python3
[ -z "$with_torch" ] || [ ! -x .venv/bin/python ] || python=$PWD/.venv/bin/python
if [ -z "$with_torch" ]; then
  script=deploy/examples/train_stdlib.py
elif "$python" -c 'import torch' 2>/dev/null; then
  script=deploy/examples/train_ddp.py
  echo "torch $("$python" -c 'import torch; print(torch.__version__)'): $script"
else
  script=deploy/examples/train_stdlib.py
  echo "torch cannot be installed on this machine: using $script, which needs only Python's standard library"
fi

say "2. Building muster"
mkdir -p build
cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
[ -x build/release/bin/muster ] ||
  echo "(The linker warns about getaddrinfo and the like in libraries. muster resolves names with c-ares instead.)"
cmake --build --preset release --target muster
ls -lh build/release/bin/muster

say "3. Running 3 nodes x 2 workers from one CLUSTER_SPEC. The worker of rank $KILL_RANK is killed at step $KILL_STEP."
echo "   The whole group restarts and continues from the newest checkpoint; look for 'restart 1' below."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command=(build/release/bin/muster local --nodes 3 --nproc-per-node 2 --max-restarts 3 --python "$python"
         "$script" --steps $STEPS --step-time 0.05)
printf '   %s\n' "${command[*]}"

"${command[@]}" --checkpoint "$work/disturbed" --kill-rank $KILL_RANK --kill-step $KILL_STEP | tee "$work/disturbed.log"

say "4. Running the same job without a failure"
"${command[@]}" --checkpoint "$work/peace" | tee "$work/peace.log" | grep --line-buffered -E 'starting at|final loss'

final_loss() { grep -oE 'final loss [0-9.]+' "$1"; }
if ! grep -q 'killing myself' "$work/disturbed.log" ||
   [ "$(final_loss "$work/disturbed.log")" != "$(final_loss "$work/peace.log")" ]; then
  say "The two runs differ, so the recovery went wrong. Compare the output of steps 3 and 4 above."
  exit 1
fi
say "Both runs end with the same loss, to the last digit: the failure of the worker lost no progress."

#!/usr/bin/env bash
# Fuzzes every reader of foreign text and bytes, two in parallel: builds (preset "fuzz", clang), writes the corpus, runs.
#
#   bash tests/fuzz/run.sh [SECONDS [TARGET...]]    each target so long; default 60, and all targets
#   MUSTER_FUZZ_RUNS=N                  each target so many executions instead; coordinator, agent and meddler a twentieth
#   MUSTER_FUZZ_SEED=N                  the same ones each time; otherwise others
#
# An input that breaks a target is kept in build/fuzz-run/TARGET-*; put it into tests/fuzz/corpus/TARGET with its mend.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly SECONDS_EACH=${1:-60}
readonly RUNS=${MUSTER_FUZZ_RUNS:-}
readonly SEED=${MUSTER_FUZZ_SEED:-0}  # 0: libFuzzer draws one
readonly OUT=$PWD/build/fuzz-run
readonly BESIDE=2          # targets at a time
readonly MAX_BYTES=4096    # of an input
readonly TIMEOUT_S=300     # for one input: only a hang reaches it, however busy the machine is
readonly MEMORY_MB=2048
readonly ALL=(cluster_spec tf_config resourceconfig nodelist hostfile environment frame_guard handshake meddler
  received_status coordinator agent)
TARGETS=("${@:2}")
[ $# -gt 1 ] || TARGETS=("${ALL[@]}")

cmake --preset fuzz >/dev/null && cmake --build --preset fuzz -j "$(nproc)" --target fuzz_targets || exit 1
rm -rf "$OUT"
mkdir -p "$OUT"
python3 tests/fuzz/seeds.py "$OUT/seeds" || exit 1

# fuzz TARGET: prints the result in one line.
fuzz() {
  local target=$1 dictionary=tests/fuzz/json.dict log=$OUT/$1.log kept=tests/fuzz/corpus/$1 status=0
  case $target in
    nodelist | hostfile) dictionary=tests/fuzz/lists.dict ;;
    environment) dictionary=tests/fuzz/environment.dict ;;
    frame_guard | handshake | received_status | coordinator | agent) dictionary=tests/fuzz/wire.dict ;;
  esac
  local runs=$RUNS
  # Each of their inputs is a whole job, or a whole handshake.
  case $target in coordinator | agent | meddler) runs=${RUNS:+$((RUNS / 20))} ;; esac
  local -a limit=(-max_total_time="$SECONDS_EACH") corpus=("$OUT/corpus-$target" "$OUT/seeds/$target")
  [ -z "$runs" ] || limit=(-runs="$runs")
  [ ! -d "$kept" ] || corpus+=("$kept")
  mkdir -p "$OUT/corpus-$target" "$OUT/seeds/$target"
  "build/fuzz/bin/fuzz_$target" "${limit[@]}" -seed="$SEED" -dict="$dictionary" -max_len=$MAX_BYTES -timeout=$TIMEOUT_S \
    -rss_limit_mb=$MEMORY_MB -artifact_prefix="$OUT/$target-" -print_final_stats=1 "${corpus[@]}" >"$log" 2>&1 || status=$?
  local executions
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  if [ $status = 0 ]; then
    echo "fuzz $target: ok, ${executions:-no} executions"
  else
    echo "fuzz $target: FAILED ($status) after ${executions:-some} executions: $(grep -aE 'ERROR|SUMMARY|CHECK' "$log" | tail -1)"
    tail -40 "$log"
  fi
  return $status
}
export -f fuzz
export OUT RUNS SEED SECONDS_EACH MAX_BYTES TIMEOUT_S MEMORY_MB
printf '%s\n' "${TARGETS[@]}" | xargs -P "$BESIDE" -I{} bash -c 'fuzz {}'

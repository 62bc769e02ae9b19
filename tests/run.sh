#!/usr/bin/env bash
# Installs what the tests need and runs them. Safe to run twice; the second time builds from the cache.
#
#   bash tests/run.sh               whether this tree is sound: under 25 minutes on 2 cores, from nothing built
#   bash tests/run.sh quick         what one runs before each commit: under 4 minutes after a build
#   bash tests/run.sh full          everything, in more than 2 hours
#   bash tests/run.sh STAGE...      only these stages, at their full length, and the builds that they need
#
# tests/README.md describes the stages and names those that only `full` runs. Stages continue after a failed one; the
# end lists every failure. The last line counts the tests.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

form=stages
case ${1:-} in
  "") form=short ;;
  quick | full)
    form=$1
    shift
    [ $# = 0 ] || { echo "tests/run.sh: $form chooses the stages, so nothing may follow it: $*" >&2; exit 64; }
    ;;
esac
readonly form

# by_form SHORT FULL: a setting by the form of this run. The short form does the same work each time, so that the same
# commit gets the same result: its counts and seeds are fixed, where `full` draws new ones within its time.
by_form() { if [ "$form" = short ]; then echo "$1"; else echo "$2"; fi; }

seeds=$(by_form 20000 100000)
[ "$form" != quick ] || seeds=1000
readonly SEEDS=${MUSTER_SIM_SEEDS:-$seeds}
# Beside the fixed seeds, which begin at 1, each commit runs some of its own. muster_sim prints the first one.
commit=$(git rev-parse HEAD 2>/dev/null || echo 00000000)
export MUSTER_SIM_FIRST=${MUSTER_SIM_FIRST:-$((0x${commit:0:8} * 1000000 + 1000000000))}
readonly SANITIZED_SEEDS=${MUSTER_SANITIZED_SEEDS:-$(by_form 100 1000)}
readonly FUZZ_SECONDS=${MUSTER_FUZZ_SECONDS:-120}
readonly TIDY_BUDGET_S=${MUSTER_TIDY_BUDGET_S:-$(by_form 60 0)}
readonly REPORTS=$PWD/build/reports
if [ "$form" = short ]; then
  export MUSTER_FUZZ_RUNS=${MUSTER_FUZZ_RUNS:-60000} MUSTER_FUZZ_SEED=${MUSTER_FUZZ_SEED:-1}
  export MUSTER_CHAOS_SECONDS=${MUSTER_CHAOS_SECONDS:-40} MUSTER_CHAOS_NODES=${MUSTER_CHAOS_NODES:-3}
  export MUSTER_CHAOS_SEED=${MUSTER_CHAOS_SEED:-1}
fi
# Of deploy/, what needs no download and no platform.
readonly SHORT_DEPLOY=(ShippedFilesTest PackageTest)
# The torch tests of the short form: trainings that survive the loss of a worker, an agent and the primary.
readonly SHORT_TORCH=(test_all_reduce test_tqdm StandardLibraryTest test_a_killed_worker
  test_a_killed_primary_host test_killed_agents test_accelerate_launch test_every_option_of_torchs_parser)
# Those with containers: one is killed, and the primary returns under another address. Their image is made of this
# machine's own files, so that they start within seconds.
readonly SHORT_CONTAINER=(Killed.test_a_killed_worker Moved.test_the_primary)
jobs=$(nproc)
readonly jobs
# ccache's own folder serves all checkouts of this user: what one of them has compiled, the next one need not.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export CTEST_OUTPUT_ON_FAILURE=1 PYTHONDONTWRITEBYTECODE=1

failures=()
notes=()

python_for_tests() { if [ -x .venv/bin/python ]; then echo "$PWD/.venv/bin/python"; else echo python3; fi; }

# stage NAME COMMAND...: runs it, prints its duration, records a failure.
stage() {
  local name=$1 began=$SECONDS status=0
  shift
  printf '\n=== %s\n' "$name"
  "$@" || status=$?
  if [ $status = 0 ]; then
    printf '=== %s: ok, %d s\n' "$name" $((SECONDS - began))
  else
    printf '=== %s: FAILED (%d), %d s\n' "$name" $status $((SECONDS - began))
    failures+=("$name")
  fi
  return 0
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  cmake --preset "$preset" >"$REPORTS/configure-$preset.log" 2>&1 || { cat "$REPORTS/configure-$preset.log"; return 1; }
  cmake --build --preset "$preset" -j "$jobs" --target "${@:-all}"
}

# run_ctest PRESET SEEDS LABEL...: one report folder for each, which tests/report.py adds up.
run_ctest() {
  local preset=$1 seeds=$2 label status=0
  # Under a sanitizer the sweep over all wrong command lines, with thousands of starts, would find what the unit tests
  # find there.
  local but=^$
  [ "$preset" = release ] || but="integration_command_line"
  shift 2
  for label in "$@"; do
    local folder=$REPORTS/$preset-$label parallel=$jobs
    [[ $label != integration && $label != preloaded ]] || parallel=2  # they mostly wait, and none depends on speed
    mkdir -p "$folder"
    MUSTER_SIM_SEEDS=$seeds GTEST_OUTPUT=xml:$folder/ ctest --test-dir "build/$preset" -L "^$label\$" -E "$but" \
      -j "$parallel" --no-tests=error --output-junit "$folder/ctest.junit" || status=1
  done
  return $status
}

# python_tests FOLDER [NAME...]: all tests below tests/FOLDER, or those whose full name contains one of the names.
python_tests() {
  local log=$REPORTS/python-$1${MUSTER_CALLED:+-$MUSTER_CALLED}.log name
  local -a only=()
  for name in "${@:2}"; do only+=(-k "$name"); done
  "$(python_for_tests)" -m unittest discover -s "tests/$1" -v "${only[@]}" 2>&1 | tee "$log"
  return "${PIPESTATUS[0]}"
}

torch_tests() {
  if [ "$form" = short ]; then
    python_tests torch "${SHORT_TORCH[@]}"
  else
    # Also by the two ways in which other launchers come to it, without the cases that count what all others need.
    python_tests torch && MUSTER_CALLED=module python_tests torch differential &&
      MUSTER_CALLED=launcher python_tests torch differential
  fi
}

deploy_tests() {
  if [ "$form" = short ]; then python_tests deploy "${SHORT_DEPLOY[@]}"; else python_tests deploy; fi
}

container_tests() {
  if [ "$form" = short ]; then python_tests container "${SHORT_CONTAINER[@]}"; else python_tests container; fi
}

# The integration tests whose files the last commit or the working tree has changed.
changed_tests() {
  local -a names
  mapfile -t names < <({ git diff --diff-filter=d --name-only HEAD~1 -- tests/integration; git ls-files -o --exclude-standard -- tests/integration; } | sed -n 's,^tests/integration/\(test_.*\)\.py$,\1,p')
  [ ${#names[@]} -gt 0 ] || return 0
  python_tests integration "${names[@]/%/.}"
}

spin_model() {
  bash rendezvous/model/check.sh 2>&1 | tee "$REPORTS/spin.log"
  return "${PIPESTATUS[0]}"
}

# Whether each mutant still fits the sources and, where there is time, whether the tests notice it.
cores_mutants() {
  if [ "$form" != full ] && [ "$form" != stages ]; then
    python3 tests/mutants/run.py --check
  else
    python3 tests/mutants/run.py --quick --jobs "$jobs"
  fi
}

# A Debian with only debootstrap's packages shows what deploy/setup.sh and the tests forget to install.
fresh_machine() {
  local log=$REPORTS/fresh.log
  bash tests/fresh/run.sh 2>&1 | tee "$log"
  return "${PIPESTATUS[0]}"
}

fuzz_targets() {
  bash tests/fuzz/run.sh "$FUZZ_SECONDS" 2>&1 | tee "$REPORTS/fuzz.log"
  return "${PIPESTATUS[0]}"
}

our_sources() { git ls-files -co --exclude-standard -- '*.cc' '*.h'; }

format_check() { our_sources | xargs -r clang-format-14 --dry-run --Werror; }

# clang-tidy, and clang's check of the locks, on all compiled files. A file that has passed with the same preprocessed
# text and rules is not checked again. Changed files come first; after the budget no further file is started.
tidy_check() {
  local log=$REPORTS/tidy.log
  local -a which=()
  [ "$form" != quick ] || which=(--changed)
  MUSTER_TIDY_BUDGET_S=$TIDY_BUDGET_S python3 tests/tidy.py build/release "${which[@]}" 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]}
  ! grep -q '^left out' "$log" || notes+=("clang-tidy did not come to all files in $TIDY_BUDGET_S s; MUSTER_TIDY_BUDGET_S=0 tests/run.sh tidy does")
  return "$status"
}

# After the first stages two lanes run in parallel: tests with real processes mostly wait, builds and simulations mostly
# compute.
if [ "$form" = short ]; then
  first=(program)
  waiting=(integration torch chaos deploy container)
  computing=(ceilings asan-build asan simulation mutants fuzz format tidy)
else
  first=(release unit)
  waiting=(integration preloaded torch chaos deploy container asan-integration)
  # asan-integration waits for the first. What is quick, or finds most, comes before what takes half an hour.
  computing=(ceilings asan-build format tsan-build tsan mutants fuzz spin asan tidy simulation)
fi
[ "$form" != quick ] || first=(format release unit mutants simulation changed tidy) waiting=() computing=()
readonly first waiting computing
readonly last=(fresh)
readonly all_stages=(program release unit changed integration preloaded torch chaos deploy container asan-integration simulation mutants
  asan-build spin asan tsan-build tsan fuzz format tidy ceilings "${last[@]}")
run_stage() {
  case $1 in
    program) stage "build of the program and its simulation" build release muster tests_simulation ;;
    release) stage "build release" build release ;;
    unit) stage "unit" run_ctest release "$SEEDS" unit ;;
    simulation) stage "simulation, $SEEDS seeds" run_ctest release "$SEEDS" simulation ;;
    mutants) stage "mutants of the cores" cores_mutants ;;
    changed) stage "integration tests that have changed" changed_tests ;;
    integration) stage "integration" run_ctest release "$SEEDS" integration ;;
    preloaded) stage "integration with --preload" run_ctest release "$SEEDS" preloaded ;;
    torch) stage "torch, end to end" torch_tests ;;
    chaos) stage "chaos" python_tests chaos ;;
    deploy) stage "job descriptions of deploy/" deploy_tests ;;
    container) stage "containers" container_tests ;;
    spin) stage "spin model and its mutants" spin_model ;;
    fuzz) stage "fuzz" fuzz_targets ;;
    format) stage "clang-format" format_check ;;
    tidy) stage "clang-tidy" tidy_check ;;
    asan-build) stage "build asan" build asan ;;
    asan) stage "asan: unit, simulation" run_ctest asan "$SANITIZED_SEEDS" unit simulation ;;
    asan-integration) stage "asan: integration" run_ctest asan "$SANITIZED_SEEDS" integration ;;
    tsan-build) stage "build tsan" build tsan tests_threads ;;
    tsan) stage "tsan: tests with threads" run_ctest tsan "$SANITIZED_SEEDS" threads ;;
    ceilings) stage "ceilings: what the tree may cost" python3 tests/ceilings/check.py ;;
    fresh) stage "a machine with nothing on it" fresh_machine ;;
  esac
}

computing_lane() {
  failures=() notes=()
  local name
  for name in "${computing[@]}"; do
    run_stage "$name"
    : >"$REPORTS/done-$name"
  done
  printf '%s\n' "${failures[@]}" >"$REPORTS/lane-failures"
  printf '%s\n' "${notes[@]}" >"$REPORTS/lane-notes"
}

# await_stage NAME PID: waits until the lane with this pid has run that stage or has ended.
await_stage() {
  while [ ! -e "$REPORTS/done-$1" ] && kill -0 "$2" 2>/dev/null; do sleep 1; done
}

# The computing lane's output is shown once both lanes are done.
run_all() {
  local name line
  for name in "${first[@]}"; do run_stage "$name"; done
  computing_lane >"$REPORTS/computing.out" 2>&1 &
  local lane=$!
  for name in "${waiting[@]}"; do
    [ "$name" != asan-integration ] || await_stage asan-build "$lane"
    run_stage "$name"
  done
  wait "$lane" || failures+=("builds and simulations: ended before their time")
  cat "$REPORTS/computing.out"
  while read -r line; do [ -z "$line" ] || failures+=("$line"); done <"$REPORTS/lane-failures"
  while read -r line; do [ -z "$line" ] || notes+=("$line"); done <"$REPORTS/lane-notes"
  [ "$form" != full ] || for name in "${last[@]}"; do run_stage "$name"; done
}

# The stage that builds the binaries of a stage; empty if it runs none of ours.
build_for() {
  case $1 in
    unit) echo release ;;
    simulation | changed | integration | preloaded | tidy | ceilings) echo program ;;
    torch | chaos | deploy | container) [ -n "${MUSTER_BINARY:-}" ] || echo program ;;
    asan | asan-integration) echo asan-build ;;
    tsan) echo tsan-build ;;
  esac
}

for name in "$@"; do
  case " ${all_stages[*]} " in
    *" $name "*) ;;
    *) echo "no such stage: $name; there are: full, or any of ${all_stages[*]}" >&2; exit 64 ;;
  esac
done

rm -rf "$REPORTS"
mkdir -p "$REPORTS"
bash deploy/setup.sh --tests || { echo "tests/run.sh: what the tests need cannot be installed"; exit 1; }
"$(python_for_tests)" -c 'import torch' 2>/dev/null || notes+=("no torch here: its tests were skipped")
[ "$(id -u)" = 0 ] || notes+=("not root: tests that need network namespaces or containers were skipped")

notes+=("tsan leaves out the tests that run gRPC itself: Debian builds it without ThreadSanitizer")
notes+=("asan leaves out the tests that have no descriptor left: UndefinedBehaviorSanitizer needs some")
notes+=("asan leaves out the sweep over all wrong command lines: the unit tests read such lines under it")

declare -A has_run=()
[ "$form" = stages ] || run_all
no_tests=yes  # empty once a stage with tests runs
[ "$form" = stages ] || no_tests=
for name in "$@"; do
  case $name in
    program | release | *-build | format | tidy | ceilings | fresh) ;;
    *) no_tests= ;;
  esac
  for step in $(build_for "$name") "$name"; do
    [ -n "${has_run[$step]:-}" ] || run_stage "$step"
    has_run[$step]=yes
  done
done

printf '\n=== %d s in all\n' $SECONDS
if [ "$form" = short ]; then
  times >"$REPORTS/times"  # of this shell, and of the processes that it has waited for
  processor_s=$(awk -F'[ms ]+' 'END { printf "%d", 60 * ($1 + $3) + $2 + $4 }' "$REPORTS/times")
  # A note and no failure: it says as much about the machine as about this tree, and a slow one must pass, too.
  python3 tests/ceilings/check.py run_processor_s "$processor_s" ||
    notes+=("this run needed $processor_s s of processor time: a slow machine, or tests that cost more than before?")
fi
for note in "${notes[@]}"; do
  echo "note: $note"
done
if [ ${#failures[@]} -gt 0 ]; then
  echo "FAILED stages:"
  printf '  %s\n' "${failures[@]}"
fi
python3 tests/report.py "$REPORTS" ${#failures[@]} ${no_tests:+no-tests}

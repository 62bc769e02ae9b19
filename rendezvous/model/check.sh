#!/usr/bin/env bash
# Searches the model whole, a line for each fault, and checks that each mutant is detected. Needs spin and cc on PATH,
# 6 GiB of memory and about 90 s on two cores. Exit 0: all as expected. Works in a temporary folder.
set -u
readonly model="$(cd "$(dirname "$0")" && pwd)/takeover.pml"
readonly memory_mib=4000   # for each search
readonly depth=100000      # steps; a search that would go deeper is not whole, and fails
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failed=0

# search NAME SWITCHES...: leaves pan's words in $work/NAME.txt; 1 if it could not be built.
search() {
  local name="$1"
  shift
  mkdir -p "$work/$name" && cd "$work/$name" || return 1
  { spin -a "$@" "$model" &&
    cc -O2 -w -DSAFETY -DNOFAIR -DHC4 -DMEMLIM="$memory_mib" -o pan pan.c; } \
    >build.txt 2>&1 || { cat build.txt; return 1; }
  ./pan -m"$depth" >"$work/$name.txt" 2>&1
}

# Its exit status says whether it held.
holds() {
  local name="$1" text="$work/$1.txt"
  search "$@" || { echo "model $name: not built or not run"; return 1; }
  if grep -q 'errors: 0' "$text" && ! grep -Eq 'max search depth too small|not completed|out of memory' "$text"; then
    echo "model $name: ok, $(awk '/states, stored/ { print $1; exit }' "$text") states"
  else
    echo "model $name: FAILED"
    grep -E 'pan:|errors:|reached|memory' "$text"
    return 1
  fi
}

must_fail() {
  local mutant="$1"
  search "$mutant" "-D$mutant" "${@:2}" || { echo "mutant $mutant: not built or not run"; return 1; }
  if grep -q 'assertion violated' "$work/$mutant.txt"; then
    echo "mutant $mutant: caught"
  else
    echo "mutant $mutant: NOT CAUGHT"
    return 1
  fi
}

# The two long searches have a core each.
holds coordinator-dies -DDEATHS=1 -DCLOSES=0 &
first=$!
holds stream-closes -DDEATHS=0 -DCLOSES=1 &
second=$!
wait "$first" || failed=1
wait "$second" || failed=1

readonly no_fault=(-DDEATHS=0 -DCLOSES=0) death=(-DDEATHS=1 -DCLOSES=0) close=(-DDEATHS=0 -DCLOSES=1)
must_fail STALE_READY "${no_fault[@]}" || failed=1
must_fail LEASE_FROM_RECEIPT "${no_fault[@]}" || failed=1
must_fail CLOSE_IS_DEATH "${close[@]}" || failed=1
must_fail VERDICT_UNKEPT "${death[@]}" -DROUNDS=1 || failed=1
must_fail ROUND_REPEATS "${death[@]}" || failed=1
must_fail NO_WAIT_FOR_ABSENT "${death[@]}" || failed=1
must_fail UNHEARD_ROUND "${death[@]}" || failed=1
must_fail RUN_AGAIN "${no_fault[@]}" || failed=1
exit "$failed"

#!/usr/bin/env python3
"""Breaks the pure cores at random places and counts how many of these mutants the tests notice.

  sample.py                   50 mutants, another sample each time
  sample.py --count 200 --seed 7
  sample.py --all --only-unit every mutant there is, and the unit tests alone
  sample.py --list            prints the mutants of the sample; builds and runs nothing

A mutant negates a condition, drops a statement, moves a bound by one, or swaps operands, at one place of one function.
Each mutant meets the unit tests of its core, then the simulation's transcripts, then its seeds. What survives is
printed with its place: it is redundant, or a test is missing. README.md has the rest.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import difflib
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import time

import run

CORES = ("rendezvous/core", "agent/process/core", "agent/host/core")
UNIT_TEST_SECONDS = 60  # each takes less than one; a mutant that exceeds it counts as hung
# The unit tests of each core and of its parts; the longest matching prefix of a file's path decides. Those that detect
# most come first: the others are not run once one has failed.
UNIT_TESTS = {
    "rendezvous/core/": ["coordinator_test", "rendezvous_core_test"],
    "rendezvous/core/budgets": ["rendezvous_core_test", "coordinator_test"],
    "rendezvous/core/differences": ["rendezvous_core_test"],
    "rendezvous/core/port_retry": ["rendezvous_core_test"],
    "rendezvous/core/root_cause": ["rendezvous_core_test", "coordinator_test"],
    "rendezvous/core/roster": ["rendezvous_core_test", "coordinator_test"],
    "rendezvous/core/states": ["rendezvous_core_test"],
    "agent/process/core/": ["agent_core_test"],
    "agent/host/core/": ["host_core_test"],
}
DEFAULT_COUNT = 50
DEFAULT_SEEDS = 1000
NUMBERS_OF_A_FILE = 1000  # so that a change of one file does not change the numbers in others
BUILD_ATTEMPTS = 5
TRANSCRIPTS = "simulation_transcripts_test"  # small jobs of the simulation without random faults: a second

# One program holds all possible mutants, whatever the sample is, so that a new sample need not be built.
WORK = run.WORK / "all"
run.SOURCE, run.BUILD = WORK / "source", WORK / "build"
REJECTED = WORK / "rejected.json"  # mutants that are not C++
NOTICED = WORK / "noticed.json"  # what noticed a mutant before

# Whole statements on lines of their own that call or assign; declarations and jumps are left out.
STATEMENT = re.compile(r"^[ ]+(?!return|break|continue|case|default|goto|using|static|const|auto|else|if|for|while|switch)"
                       r"[\w:>.\[\]()*&-]+(?:\(.*\)| [-+|&]?= .+);$")
# Statements that no test can miss: they reserve memory, or check what holds anyway.
WITHOUT_EFFECT = re.compile(r"\.reserve\(|\bMUSTER_CHECK\(")
BOUND = re.compile(r" (<=|>=|<|>) ")
EQUALITY = re.compile(r" (==|!=) ")
LOGIC = re.compile(r" (&&|\|\|) ")
EXTREME = re.compile(r"\bstd::(min|max)\(")
ONE = re.compile(r" [-+] (1)\b(?!\.)")
TRUTH = re.compile(r"(?:= |return )(true|false);")
OTHER = {"<=": "<", "<": "<=", ">=": ">", ">": ">=", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "min": "max",
         "max": "min", "1": "2", "true": "false", "false": "true"}
KINDS = {"bound": BOUND, "equality": EQUALITY, "logic": LOGIC, "extreme": EXTREME, "one": ONE, "truth": TRUTH}


@dataclasses.dataclass
class Place(run.Edit):
    at: int = 0  # where `old` stands in the file
    kind: str = ""

    def span(self):
        return self.at, self.at + len(self.old)

    def __str__(self):
        line = self.original.count("\n", 0, self.at) + 1
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}:{line}: {self.kind}: `{old}` -> `{new}`"


def unit_tests_of(mutant):
    file = mutant.edits[0].file
    return UNIT_TESTS[max((prefix for prefix in UNIT_TESTS if file.startswith(prefix)), key=len)]


def failing_test(environment, programs):
    """The name of the first test that fails, or ""."""
    for test in programs:
        try:
            ran = subprocess.run([run.BUILD / "bin" / test, "--gtest_fail_fast"], cwd=run.BUILD, capture_output=True,
                                 text=True, check=False, timeout=UNIT_TEST_SECONDS, env=environment)
        except subprocess.TimeoutExpired:
            return f"{test}: no end within {UNIT_TEST_SECONDS} s"
        if ran.returncode == 0:
            continue
        failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", ran.stdout, re.MULTILINE)
        begun = re.findall(r"^\[ RUN      \] (\S+)", ran.stdout, re.MULTILINE)
        return failed[1] if failed else f"{begun[-1] if begun else test} (aborts: {ran.returncode})"
    return ""


def without_comments_and_strings(text):
    """The same length, so that places are the same; what no mutant may touch is blank."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])
    return re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text)


def condition_of(text, begin):
    """The end of the parentheses that open at `begin`."""
    depth = 0
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return None


def places(file):
    """(kind, begin, end, replacement) of every mutant of a file."""
    original = (run.ROOT / file).read_text()
    text = without_comments_and_strings(original)
    for kind, pattern in KINDS.items():
        for found in pattern.finditer(text):
            yield kind, found.start(1), found.end(1), OTHER[found[1]]
    for found in re.finditer(r"\bif \(", text):
        end = condition_of(text, found.end() - 1)
        condition = original[found.end():end]
        if end and "\n" not in condition and not re.search(r"[^=!<>]=[^=]|;", condition):
            yield "negation", found.end(), end, f"!({condition})"
    for found in re.finditer(STATEMENT.pattern, text, re.MULTILINE):
        begin = found.start() + len(found[0]) - len(found[0].lstrip())
        before = text[:found.start()].rstrip()
        balanced = found[0].count("(") == found[0].count(")")
        if before.endswith((";", "{", "}")) and balanced and not WITHOUT_EFFECT.search(found[0]):
            yield "statement", begin, found.end(), ";"


def candidates():
    """All mutants of the cores, those of one function only where its body can be found."""
    found = []
    for core in CORES:
        for path in sorted((run.ROOT / core).glob("*.cc")):
            file = str(path.relative_to(run.ROOT))
            original = path.read_text()
            for kind, begin, end, new in places(file):
                place = Place(file, original[begin:end], new, at=begin, kind=kind)
                try:
                    run.find_function(place)
                except run.Problem:
                    continue  # a table, or a default of a field
                found.append(place)
    return found


def key_of(mutant):
    """The same as long as the function that it breaks is the same."""
    place = mutant.edits[0]
    begin, end, _ = run.find_function(place)
    body = place.original[begin:place.at] + place.new + place.original[place.at + len(place.old):end]
    return hashlib.sha1(f"{place.file}\n{body}".encode()).hexdigest()


def stored(path):
    return json.loads(path.read_text()) if path.exists() else {}


def numbered(found):
    """Each place as a mutant."""
    mutants, counts, files = [], collections.Counter(), {}
    for place in found:
        number = (1 + files.setdefault(place.file, len(files))) * NUMBERS_OF_A_FILE + counts[place.file]
        counts[place.file] += 1
        mutants.append(run.Mutant(str(place), [place], number=number))
    return mutants


def build_all(mutants, options):
    """Builds them into one program and returns those that the compiler accepts."""
    rejected = set(stored(REJECTED))
    targets = sorted({test for mutant in mutants for test in unit_tests_of(mutant)})
    for _ in range(BUILD_ATTEMPTS):
        accepted = [mutant for mutant in mutants if key_of(mutant) not in rejected]
        run.copy_sources(accepted)
        run.configure("-O0")  # compiling thousands of mutants takes longer than running a sample of them
        made = subprocess.run(["ninja", "-C", run.BUILD, "-k", "0", "-j", str(options.jobs), *targets, TRANSCRIPTS,
                               "muster_sim"], capture_output=True, text=True, check=False)
        if made.returncode == 0:
            return accepted
        wrong = {int(number) for number in re.findall(r"\bmutant_(\d+):", made.stdout)}
        if not wrong:
            break
        rejected |= {key_of(mutant) for mutant in accepted if mutant.number in wrong}
        REJECTED.write_text(json.dumps(dict.fromkeys(sorted(rejected), True)))
    raise run.Problem(f"the mutants do not build:\n{made.stdout[-4000:]}")


def meet_tests(mutant, options, before):
    """What noticed it: a unit test, a seed, or nothing ("")."""
    if known := before.get(key_of(mutant)):
        return known
    failed = failing_test(mutant.environment(), unit_tests_of(mutant))
    if failed:
        return f"unit test {failed}"
    if options.only_unit:
        return ""
    failed = failing_test(mutant.environment(), [TRANSCRIPTS])
    if failed:
        return f"transcript {failed}"
    seed, message = run.hunt(mutant, options.seeds)
    return f"seed {seed}: {message[:80]}" if message else ""


def difference(mutant):
    """The changed lines, with the first one's place."""
    place = mutant.edits[0]
    after = place.original[:place.at] + place.new + place.original[place.at + len(place.old):]
    lines = difflib.unified_diff(place.original.splitlines(), after.splitlines(), n=0, lineterm="")
    line = place.original.count("\n", 0, place.at) + 1
    return "\n".join([f"{place.file}:{line}", *list(lines)[3:]])


def report(mutants, seen, total, options):
    survivors = [mutant for mutant in mutants if not seen[mutant.number]]
    by_kind = collections.Counter(mutant.edits[0].kind for mutant in mutants)
    lost = collections.Counter(mutant.edits[0].kind for mutant in survivors)
    print("\n| kind | mutants | noticed |\n|---|---|---|")
    for kind, count in sorted(by_kind.items()):
        print(f"| {kind} | {count} | {count - lost[kind]} |")
    print("\nsurvivors:" if survivors else "\nno survivors")
    for mutant in survivors:
        print(difference(mutant))
    by_unit, by_transcript = (sum(what.startswith(by) for what in seen.values()) for by in ("unit test", "transcript"))
    noticed = len(mutants) - len(survivors)
    others = ("the simulation was not run" if options.only_unit else
              f"{by_transcript} by transcripts, the others by at most {options.seeds} seeds")
    print(f"\n{noticed} of {len(mutants)} noticed ({100 * noticed / max(1, len(mutants)):.0f} %), {by_unit} of them by "
          f"unit tests, {others}; sample seed {options.seed}, of {total} possible mutants")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT)
    parser.add_argument("--all", action="store_true", help="every mutant instead of a sample")
    parser.add_argument("--under", default="", help="only mutants of files whose path starts with this")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--seeds", type=int, default=DEFAULT_SEEDS, help="of the simulation, for each mutant")
    parser.add_argument("--only-unit", action="store_true", help="do not run the simulation")
    parser.add_argument("--afresh", action="store_true", help="also run those that were noticed before")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    began = time.monotonic()
    possible = numbered(candidates())
    if not options.list:
        possible = build_all(possible, options)
    drawn = [mutant for mutant in possible if mutant.edits[0].file.startswith(options.under)]
    if not options.all:
        drawn = random.Random(options.seed).sample(drawn, min(len(drawn), options.count))
    if options.list:
        print("\n".join(mutant.name for mutant in drawn), f"\n{len(possible)} possible mutants")
        return 0
    for test in sorted({test for mutant in drawn for test in unit_tests_of(mutant)}):
        if failed := failing_test(dict(os.environ, MUSTER_MUTANT="0"), [test]):
            raise run.Problem(f"{failed} fails without any mutant")
    noticed = stored(NOTICED)
    before = {} if options.afresh else dict(noticed)
    seen = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for mutant, what in zip(drawn, pool.map(lambda m: meet_tests(m, options, before), drawn)):
            seen[mutant.number] = what
            if what:
                noticed[key_of(mutant)] = what
                NOTICED.write_text(json.dumps(noticed, indent=0))
            print(f"{mutant.name}: {what or 'NOTHING'}", flush=True)
    report(drawn, seen, len(possible), options)
    print(f"{time.monotonic() - began:.0f} s, {sum(key_of(m) in before for m in drawn)} results from earlier runs")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except run.Problem as problem:
        print(f"sample.py: {problem}", file=sys.stderr)
        sys.exit(run.USAGE)

#!/usr/bin/env python3
"""Breaks the pure cores at random places and counts how many of these mutants the tests notice.

  sample.py                   50 mutants, another sample each time
  sample.py --count 200 --seed 7
  sample.py --list            prints the mutants of the sample; builds and runs nothing

A mutant negates a condition, drops a statement, moves a bound by one, or swaps operands, at one place of one function.
What does not compile is replaced by another. Each mutant meets the unit tests of its core, then seeds of the simulation.
What survives is printed with its place: it is redundant, or a test is missing. README.md has the rest.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import random
import re
import subprocess
import sys
import time

import run

CORES = ("rendezvous/core", "agent/core", "agent/host/core")
DEFAULT_COUNT = 50
DEFAULT_SEEDS = 1000
COMPILE_SECONDS = 120
SPARE_SHARE = 1.5  # candidates for each mutant that is asked for: some do not compile

# Whole statements on lines of their own that call or assign; declarations and jumps are left out.
STATEMENT = re.compile(r"^[ ]+(?!return|break|continue|case|default|goto|using|static|const|auto|else|if|for|while|switch)"
                       r"[\w:>.\[\]()*&-]+(?:\(.*\)| [-+|&]?= .+);$")
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

    def place(self):
        return self.at

    def __str__(self):
        line = self.original.count("\n", 0, self.at) + 1
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}:{line}: {self.kind}: `{old}` -> `{new}`"


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
        if before.endswith((";", "{", "}")) and found[0].count("(") == found[0].count(")"):
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


def compiles(place, commands):
    """Whether the file with this edit alone is still C++."""
    text = place.original[:place.at] + place.new + place.original[place.at + len(place.old):]
    words = re.sub(r" -o \S+ -c \S+$| -Werror", "", commands[place.file]["command"]).split()
    done = subprocess.run([*words, "-w", "-fsyntax-only", "-x", "c++", "-"], input=text, text=True, capture_output=True,
                          cwd=commands[place.file]["directory"], timeout=COMPILE_SECONDS, check=False)
    return done.returncode == 0


def compile_commands():
    entries = json.loads((run.BUILD / "compile_commands.json").read_text())
    prefix = str(run.SOURCE) + "/"
    return {e["file"].removeprefix(prefix): e for e in entries if e["file"].startswith(prefix)}


def choose(options):
    """A sample of mutants that compile, and how many there are to choose from."""
    everything = candidates()
    generator = random.Random(options.seed)
    drawn = generator.sample(everything, min(len(everything), int(options.count * SPARE_SHARE)))
    if not options.list:
        run.copy_sources([])
        run.configure()
        run.build(["muster_proto"], options.jobs)
        commands = compile_commands()
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            drawn = [place for place, fits in zip(drawn, pool.map(lambda p: compiles(p, commands), drawn)) if fits]
    return [run.Mutant(str(place), "unit", [place], number=number)
            for number, place in enumerate(drawn[:options.count], 1)], len(everything)


def meet_tests(mutant, options):
    """What noticed it: a unit test, a seed, or nothing ("")."""
    failed = run.failing_unit_test(mutant.environment(), mutant.cores())
    if failed:
        return f"unit test {failed}"
    seed, message = run.hunt(mutant, options.seeds)
    return f"seed {seed}: {message[:80]}" if message else ""


def report(mutants, seen, total, options):
    survivors = [mutant for mutant in mutants if not seen[mutant.name]]
    by_kind = collections.Counter(mutant.edits[0].kind for mutant in mutants)
    lost = collections.Counter(mutant.edits[0].kind for mutant in survivors)
    print("\n| kind | mutants | noticed |\n|---|---|---|")
    for kind, count in sorted(by_kind.items()):
        print(f"| {kind} | {count} | {count - lost[kind]} |")
    for mutant in survivors:
        print(f"survived: {mutant.name}")
    by_unit = sum(what.startswith("unit test") for what in seen.values())
    noticed = len(mutants) - len(survivors)
    print(f"\n{noticed} of {len(mutants)} noticed ({100 * noticed / max(1, len(mutants)):.0f} %), {by_unit} of them by unit "
          f"tests, the others by at most {options.seeds} seeds; sample seed {options.seed}, of {total} possible mutants")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--seeds", type=int, default=DEFAULT_SEEDS, help="of the simulation, for each mutant")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    began = time.monotonic()
    mutants, total = choose(options)
    if options.list:
        print("\n".join(mutant.name for mutant in mutants), f"\n{total} possible mutants")
        return 0
    run.copy_sources(mutants)
    cores = {core for mutant in mutants for core in mutant.cores()}
    run.build(sorted({test for core in cores for test in run.UNIT_TESTS[core]}) + ["muster_sim"], options.jobs)
    seen = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for mutant, what in zip(mutants, pool.map(lambda m: meet_tests(m, options), mutants)):
            seen[mutant.name] = what
            print(f"{mutant.name}: {what or 'NOTHING'}", flush=True)
    report(mutants, seen, total, options)
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except run.Problem as problem:
        print(f"sample.py: {problem}", file=sys.stderr)
        sys.exit(run.USAGE)

#!/usr/bin/env python3
"""Breaks one decision of the pure cores at a time and checks that the simulation, or a unit test, detects it.

  run.py                      all mutants of mutants.toml
  run.py NAME...              only these
  run.py --check              only whether each mutant still fits the sources; builds nothing
  run.py --seeds 12000        seeds for each mutant (default: 2500, or the number in the list if that is greater)

The sources are copied to build/mutants, and all mutants are built there together: each function that mutants
break gets one more copy for each of them, and MUSTER_MUTANT in the environment selects one. The working tree
is not touched. README.md has the rest.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIST = pathlib.Path(__file__).resolve().parent / "mutants.toml"
WORK = ROOT / "build/mutants"
SOURCE, BUILD = WORK / "source", WORK / "build"
DEFAULT_SEEDS = 2500
SECONDS_FOR_EACH_SEED = 1.0  # on a busy machine; a mutant that exceeds the total counts as hung
LEAST_SECONDS = 120
USAGE, FAILED = 64, 1

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
    "rendezvous/gate/frame_guard": ["gate_test"],
    "rendezvous/gate/gate_core": ["gate_test"],
    "agent/core/": ["agent_core_test"],
    "agent/notice/notice": ["notice_test"],
    "agent/host/core/": ["host_core_test"],
    "base/proc/": ["marker_test"],
    "base/ranges": ["base_test"],
}
EXPECTATIONS = ("simulation", "unit", "redundant", "open")


class Problem(Exception):
    """An error that makes the whole run meaningless; the text names the mutant."""


@dataclasses.dataclass
class Edit:
    """One replacement, within one function of one file."""
    file: str
    old: str
    new: str
    original: str = ""  # the whole file, as it is when this starts: somebody may edit it while this runs

    def __post_init__(self):
        self.original = (ROOT / self.file).read_text()

    def place(self):
        found = self.original.count(self.old)
        if found != 1:
            raise Problem(f"its old text is found {found} times in {self.file}, not once: adapt it to what the rule "
                          "looks like now")
        return self.original.index(self.old)


@dataclasses.dataclass
class Mutant:
    name: str
    expected: str
    edits: list[Edit]
    why: str = ""
    seeds: int = 0  # needed to notice it, where the default does not suffice
    mix: str = ""  # the mix of faults that was made for it: its seeds alone are run
    quick: bool = False  # the simulation notices it soon: part of --quick
    number: int = 0  # its value of MUSTER_MUTANT; 0: the program as it is

    def environment(self):
        return dict(os.environ, MUSTER_MUTANT=str(self.number))

    def cores(self):
        return sorted({core_of(edit.file) for edit in self.edits})


@dataclasses.dataclass
class Result:
    mutant: Mutant
    seed: int | None = None
    message: str = ""
    unit: str = ""  # the test that failed
    seeds: int = 0  # number of seeds that were run
    seconds: float = 0.0

    def outcome(self):
        if self.message:
            return "simulation"
        return "unit" if self.unit else "survived"

    def is_as_expected(self):
        if self.mutant.expected == "open":
            return True
        accepted = {"simulation": ("simulation",), "unit": ("unit", "simulation"), "redundant": ("survived",)}
        return self.outcome() in accepted[self.mutant.expected]


def core_of(file):
    return max((prefix for prefix in UNIT_TESTS if file.startswith(prefix)), key=len, default=None)


def read(entry, number):
    """A mutant of the list: `file`, `old` and `new` are one edit, `also` has others."""
    edits = [{key: entry.pop(key) for key in ("file", "old", "new")}, *entry.pop("also", [])]
    return Mutant(**entry, edits=[Edit(**edit) for edit in edits], number=number)


def complaint_about(mutant):
    """What is wrong with it; "" if nothing is."""
    if mutant.expected not in EXPECTATIONS:
        return f"expected is {mutant.expected}, not one of {EXPECTATIONS}"
    if mutant.expected != "simulation" and not mutant.why:
        return "which test notices it, or why none does, is not said"
    for edit in mutant.edits:
        if core_of(edit.file) is None:
            return f"{edit.file} is in none of the pure cores"
        if edit.old == edit.new:
            return "it changes nothing"
        find_function(edit)
        unknown = unknown_members(edit)
        if unknown:
            return f"{', '.join(unknown)} is no member there any more: adapt it"
    return ""


def unknown_members(edit):
    """Members that its new text uses, and that neither the file nor its classes have. A compiler sees more, but this
    costs nothing, so that --check notices a member that has moved."""
    classes = set(re.findall(r"\b(\w+)::\w+\(", edit.original))
    known = edit.original
    for header in (ROOT / edit.file).parent.glob("*.h"):
        text = header.read_text()
        if any(re.search(rf"^(class|struct) {name} ", text, re.MULTILINE) for name in classes):
            known += text
    return [name for name in re.findall(r"(?<![\w.>])[a-z]\w*_\b", edit.new)
            if not re.search(rf"\b{name}\b", known)]


def load():
    mutants = [read(entry, i) for i, entry in enumerate(tomllib.loads(LIST.read_text())["mutant"], 1)]
    names = set()
    for mutant in mutants:
        try:
            complaint = "it is there twice" if mutant.name in names else complaint_about(mutant)
        except Problem as problem:
            complaint = str(problem)
        if complaint:
            raise Problem(f"mutant {mutant.name}: {complaint}")
        names.add(mutant.name)
    return mutants


# ---- all mutants in one program

PRELUDE = """\
#ifndef MUSTER_MUTANT_SELECTED
#define MUSTER_MUTANT_SELECTED
#include <cstdlib>
inline const int muster_mutant = std::getenv("MUSTER_MUTANT") ? std::atoi(std::getenv("MUSTER_MUTANT")) : 0;
#endif
"""


def find_function(edit):
    """Where the body of the function begins and ends that the edit breaks, and whether it returns nothing."""
    text, at = edit.original, edit.place()
    end_at = at + len(edit.old)
    on_one_line = re.compile(r"^[^\S\n]*(?!(?:if|for|while|switch|\}) )(?P<head>\S.*?\)[^{\n]*)\{ (?P<body>.*) \}$",
                             re.MULTILINE)
    for found in on_one_line.finditer(text):
        if found.start("body") <= at and end_at <= found.end("body"):
            return found.start("body"), found.end("body"), returns_nothing(found["head"])
    defined = re.compile(r"^(?P<head>[A-Za-z][^;{}]*?\)[^;{}]*)\{\n(?P<body>.*?\n)\}$", re.MULTILINE | re.DOTALL)
    for found in defined.finditer(text):
        if found.start("body") - 1 <= at and end_at <= found.end("body"):
            return found.start("body") - 1, found.end("body"), returns_nothing(found["head"])
    raise Problem(f"its old text is not within one function of {edit.file}")


def returns_nothing(head):
    return re.match(r"(static |inline )*void ", head) is not None


def with_all(edits):
    """The text of a file with every edit of every mutant, as (number of the mutant, edit); MUSTER_MUTANT selects."""
    text = edits[0][1].original
    functions = {}
    for number, edit in edits:
        functions.setdefault(find_function(edit), {}).setdefault(number, []).append(edit)
    for (begin, end, nothing), broken in sorted(functions.items(), reverse=True):
        body = text[begin:end]
        copies = ""
        for number, those in sorted(broken.items()):
            changed = body
            for edit in sorted(those, key=lambda edit: edit.place(), reverse=True):
                at = edit.place() - begin
                changed = changed[:at] + edit.new + changed[at + len(edit.old):]
            # The name of the lines tells which mutant a compiler rejects.
            copies += (f"\n#line 1 \"mutant_{number}\"\n if (muster_mutant == {number}) {{\n{changed}\n"
                       f"{'return;' if nothing else ''} }}\n")
        text = f"{text[:begin]}{copies}#line 1 \"unchanged\"\n{body}{text[end:]}"
    return (PRELUDE + text).encode()


# ---- building

def write_if_changed(path, data):
    """Writes only changed files, because Ninja compares modification times."""
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def copy_sources(mutants):
    broken = {}
    for mutant in mutants:
        for edit in mutant.edits:
            broken.setdefault(edit.file, []).append((mutant.number, edit))
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.splitlines()
    for name in listed:
        if not (ROOT / name).is_file():
            continue
        data = (ROOT / name).read_bytes()
        if name == "cmake/targets.cmake":  # a variable or function that a mutant no longer uses is no error
            if b"-Werror" not in data:
                raise Problem("cmake/targets.cmake has no -Werror any more: adapt copy_sources() in run.py")
            data = data.replace(b"-Werror", b"-w")
        if name in broken:
            data = with_all(broken[name])
        write_if_changed(SOURCE / name, data)


def configure(optimisation="-O1"):
    """Low optimisation: half of a mutant's time would otherwise go into optimising it."""
    if (BUILD / "build.ninja").exists():
        return
    subprocess.run(["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    f"-DCMAKE_CXX_FLAGS_RELEASE={optimisation}"], check=True, stdout=subprocess.DEVNULL)


def build(targets, jobs):
    made = subprocess.run(["ninja", "-C", BUILD, "-j", str(jobs), *targets], capture_output=True, text=True,
                          check=False)
    if made.returncode != 0:
        raise Problem(f"the mutants do not build:\n{made.stdout[-4000:]}{made.stderr[-1000:]}")


# ---- running

def simulate(environment, first, seeds, mix=""):
    """The first seed that fails and the violation; (None, "") if none fails."""
    limit = LEAST_SECONDS + seeds * SECONDS_FOR_EACH_SEED
    command = [BUILD / "bin/muster_sim", "--first", str(first), "--seeds", str(seeds), "--until-failed",
               "--mix", mix]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return first, f"no end within {limit:.0f} s"
    found = re.search(r"^seed (\d+): (.*)$", ran.stdout, re.MULTILINE)
    if found:
        return int(found[1]), found[2]
    if ran.returncode == 0:
        return None, ""
    died_at = re.search(r"^aborted in seed (\d+)", ran.stderr, re.MULTILINE)
    said = ran.stderr.strip().splitlines()
    return int(died_at[1]) if died_at else first, f"aborts ({ran.returncode}): {said[0] if said else ''}"


def hunt(mutant, seeds):
    """A seed counts only if it holds without the mutant."""
    first = 1
    while first <= seeds:
        seed, message = simulate(mutant.environment(), first, seeds - first + 1, mutant.mix)
        if not message:
            break
        if simulate(os.environ, seed, 1)[1] == "":
            return seed, message
        print(f"  seed {seed} fails without {mutant.name}, too: it does not count", flush=True)
        first = seed + 1
    return None, ""


def failing_unit_test(environment, cores):
    """The name of the first test of these cores that fails, or ""."""
    return failing_test(environment, dict.fromkeys(test for core in cores for test in UNIT_TESTS[core]))


def failing_test(environment, programs):
    for test in programs:
        try:
            ran = subprocess.run([BUILD / "bin" / test, "--gtest_fail_fast"], cwd=BUILD, capture_output=True, text=True,
                                 check=False, timeout=UNIT_TEST_SECONDS, env=environment)
        except subprocess.TimeoutExpired:
            return f"{test}: no end within {UNIT_TEST_SECONDS} s"
        if ran.returncode == 0:
            continue
        failed = re.search(r"^\[  FAILED  \] ([^\s,]+)", ran.stdout, re.MULTILINE)
        begun = re.findall(r"^\[ RUN      \] (\S+)", ran.stdout, re.MULTILINE)
        return failed[1] if failed else f"{begun[-1] if begun else test} (aborts: {ran.returncode})"
    return ""


def run_mutant(mutant, options):
    """Unit tests take moments, thousands of seeds minutes: they run first if they suffice. A mutant that is listed as
    detected by the simulation must be detected by it."""
    began = time.monotonic()
    result = Result(mutant)
    if options.unit and mutant.expected != "simulation":
        result.unit = failing_unit_test(mutant.environment(), mutant.cores())
    if not result.unit and not options.only_unit:
        result.seeds = options.seeds or max(DEFAULT_SEEDS, mutant.seeds)
        result.seed, result.message = hunt(mutant, result.seeds)
        if options.unit and mutant.expected == "simulation" and not result.message:
            result.unit = failing_unit_test(mutant.environment(), mutant.cores())
    result.seconds = time.monotonic() - began
    print(describe(result), flush=True)
    return result


def run_mutants(mutants, options):
    copy_sources(load())  # all mutants, so that a later run of some finds them built
    configure()
    cores = {core for mutant in mutants for core in mutant.cores()} if options.unit else set()
    tests = sorted({test for core in cores for test in UNIT_TESTS[core]})
    build(tests + ([] if options.only_unit else ["muster_sim"]), options.jobs)
    for core in sorted(cores):
        if failed := failing_unit_test(os.environ, [core]):
            raise Problem(f"{failed} fails without any mutant")
    with concurrent.futures.ThreadPoolExecutor(options.runs) as pool:
        return list(pool.map(lambda mutant: run_mutant(mutant, options), mutants))


# ---- results

def describe(result):
    if result.message:
        what = f"seed {result.seed}: {result.message[:110]}"
    elif result.unit:
        what = f"unit test {result.unit}"
    elif result.seeds:
        what = f"not in {result.seeds} seeds"
    else:
        what = "in no unit test"
    return f"{result.mutant.name:44} {what} ({result.seconds:.0f} s)"


def report(results):
    print("\n| mutant | seen by | at seed | expected | |\n|---|---|---|---|---|")
    for r in results:
        seen = r.message[:90] if r.message else r.unit or "nothing"
        at = r.seed if r.message else f"none of {r.seeds}" if r.seeds else "not run"
        print(f"| {r.mutant.name} | {seen} | {at} | {r.mutant.expected} | "
              f"{'' if r.is_as_expected() else 'NOT AS EXPECTED'} |")
    counts = {what: sum(r.outcome() == what for r in results) for what in ("simulation", "unit", "survived")}
    wrong = [r.mutant.name for r in results if not r.is_as_expected()]
    found = [r.mutant.name for r in results if r.mutant.expected == "open" and r.outcome() != "survived"]
    if found:
        print(f"\nno longer open, say so in the list: {' '.join(found)}")
    print(f"\n{len(results)} mutants: {counts['simulation']} seen by the simulation, {counts['unit']} by unit "
          f"tests, {counts['survived']} by nothing; {len(wrong)} not as expected: {' '.join(wrong)}")
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "results.json").write_text(json.dumps(
        [{"name": r.mutant.name, "outcome": r.outcome(), "seed": r.seed, "message": r.message, "unit": r.unit,
          "seeds": r.seeds} for r in results], indent=1))
    return FAILED if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at a time")
    parser.add_argument("--runs", type=int, default=os.cpu_count() or 1, help="simulations at a time")
    parser.add_argument("--no-unit", dest="unit", action="store_false", help="run the simulation alone")
    parser.add_argument("--only-unit", action="store_true",
                        help="run the unit tests alone, of all that are not said to be seen by the simulation")
    parser.add_argument("--quick", action="store_true",
                        help="those that unit tests notice, and those that the simulation notices soon")
    options = parser.parse_args()
    try:
        mutants = load()
        unknown = set(options.names) - {m.name for m in mutants}
        if unknown:
            raise Problem(f"no such mutant: {' '.join(sorted(unknown))}")
        chosen = [m for m in mutants if not options.names or m.name in options.names]
        if options.only_unit:
            chosen = [m for m in chosen if m.expected != "simulation"]
        if options.quick:
            chosen = [m for m in chosen if m.quick or m.expected == "unit"]
        if options.check:
            print(f"{len(chosen)} mutants fit the sources")
            return 0
        return report(run_mutants(chosen, options))
    except Problem as problem:
        print(f"run.py: {problem}", file=sys.stderr)
        return USAGE


if __name__ == "__main__":
    sys.exit(main())

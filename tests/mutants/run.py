#!/usr/bin/env python3
"""Breaks one decision of the pure cores at a time and looks whether the simulation, or a unit test, sees it.

  run.py                      all mutants of mutants.toml
  run.py NAME...              only these
  run.py --check              only whether each mutant still fits the sources; builds nothing
  run.py --seeds 12000        seeds for each mutant (default: 2500, or what the list says of it, if that is more)

The sources are copied to build/mutants, and built there; the working tree is not touched. README.md has the rest.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LIST = pathlib.Path(__file__).resolve().parent / "mutants.toml"
WORK = ROOT / "build/mutants"
SOURCE, BUILD, BIN = WORK / "source", WORK / "build", WORK / "bin"
DEFAULT_SEEDS = 2500
SECONDS_FOR_EACH_SEED = 1.0  # on a busy machine; a mutant that exceeds it in all counts as one that hangs
LEAST_SECONDS = 120
USAGE, FAILED = 64, 1

# The pure cores, and the unit tests of each. The longest prefix of a file's path decides.
UNIT_TESTS = {
    "rendezvous/core/": ["coordinator_test", "roster_test", "budgets_test", "first_cause_test", "states_test",
                         "differences_test"],
    "agent/core/": ["agent_core_test", "notice_test"],
    "agent/host/core/": ["host_core_test", "preparing_test", "report_test", "file_timer_test"],
}
EXPECTATIONS = ("simulation", "unit", "redundant", "open")


class Problem(Exception):
    """Something that makes the run as a whole meaningless; the text says which mutant."""


@dataclasses.dataclass
class Mutant:
    name: str
    file: str
    old: str
    new: str
    expected: str
    why: str = ""
    seeds: int = 0  # needed to catch it, where the default does not suffice
    mix: str = ""  # the mix of faults that was made for it: its seeds alone are run

    def __post_init__(self):
        self.original = (ROOT / self.file).read_text()  # as it is now: somebody may edit it while this runs

    def mutated(self):
        text = self.original
        found = text.count(self.old)
        if found != 1:
            raise Problem(f"mutant {self.name}: its old text is found {found} times in {self.file}, not once: "
                          "adapt it to what the rule looks like now")
        return text.replace(self.old, self.new)


@dataclasses.dataclass
class Result:
    mutant: Mutant
    seed: int | None = None
    message: str = ""
    unit: str = ""  # the test that failed
    seeds: int = 0  # that were run
    built: float = 0.0  # seconds
    ran: float = 0.0

    def outcome(self):
        if self.message:
            return "simulation"
        return "unit" if self.unit else "survived"

    def is_as_expected(self):
        """A mutant that is said to be seen by unit tests alone may be seen by the simulation, too."""
        if self.mutant.expected == "open":
            return True
        accepted = {"simulation": ("simulation",), "unit": ("unit", "simulation"), "redundant": ("survived",)}
        return self.outcome() in accepted[self.mutant.expected]


def core_of(file):
    return max((prefix for prefix in UNIT_TESTS if file.startswith(prefix)), key=len, default=None)


def load():
    mutants = [Mutant(**entry) for entry in tomllib.loads(LIST.read_text())["mutant"]]
    names = set()
    for mutant in mutants:
        if mutant.name in names:
            raise Problem(f"mutant {mutant.name} is there twice")
        names.add(mutant.name)
        if core_of(mutant.file) is None:
            raise Problem(f"mutant {mutant.name}: {mutant.file} is in none of the pure cores")
        if mutant.expected not in EXPECTATIONS:
            raise Problem(f"mutant {mutant.name}: expected is {mutant.expected}, not one of {EXPECTATIONS}")
        if mutant.expected != "simulation" and not mutant.why:
            raise Problem(f"mutant {mutant.name}: why the simulation does not see it is not said")
        if mutant.old == mutant.new:
            raise Problem(f"mutant {mutant.name} changes nothing")
        mutant.mutated()
    return mutants


# ---- building

def write_if_changed(path, data):
    """Ninja goes by times: what is the same is not written."""
    if path.exists() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def copy_sources():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.splitlines()
    for name in listed:
        if not (ROOT / name).is_file():
            continue
        data = (ROOT / name).read_bytes()
        if name == "cmake/targets.cmake":  # what a mutant no longer uses is no error of it
            if b"-Werror" not in data:
                raise Problem("cmake/targets.cmake has no -Werror any more: adapt copy_sources() in run.py")
            data = data.replace(b"-Werror", b"-w")
        write_if_changed(SOURCE / name, data)


def configure():
    if (BUILD / "build.ninja").exists():
        return
    # Optimised little: half of a mutant's time would go into optimising it.
    subprocess.run(["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DCMAKE_CXX_FLAGS_RELEASE=-O1"], check=True, stdout=subprocess.DEVNULL)


def build(targets, jobs, what):
    made = subprocess.run(["ninja", "-C", BUILD, "-j", str(jobs), *targets], capture_output=True, text=True,
                          check=False)
    if made.returncode != 0:
        raise Problem(f"{what} does not build:\n{made.stdout[-4000:]}{made.stderr[-1000:]}")


def build_simulator(name, jobs):
    build(["muster_sim"], jobs, f"mutant {name}" if name else "the simulation")
    BIN.mkdir(parents=True, exist_ok=True)
    target = BIN / (name or "unbroken")
    target.unlink(missing_ok=True)  # somebody may be running it
    shutil.copy2(BUILD / "bin/muster_sim", target)
    return target


# ---- running

def simulate(binary, first, seeds, mix=""):
    """The first seed that fails, and what was violated; (None, "") where none does."""
    limit = LEAST_SECONDS + seeds * SECONDS_FOR_EACH_SEED
    try:
        ran = subprocess.run([binary, "--first", str(first), "--seeds", str(seeds), "--until-failed", "--mix", mix],
                             capture_output=True, text=True, timeout=limit, check=False)
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


def hunt(mutant, binary, unbroken, seeds):
    """A seed counts only if it holds without the mutant."""
    first = 1
    while first <= seeds:
        seed, message = simulate(binary, first, seeds - first + 1, mutant.mix)
        if not message:
            break
        if simulate(unbroken, seed, 1)[1] == "":
            return seed, message
        print(f"  seed {seed} fails without {mutant.name}, too: it does not count", flush=True)
        first = seed + 1
    return None, ""


def failing_unit_test(mutant, jobs):
    tests = UNIT_TESTS[core_of(mutant.file)]
    build(tests, jobs, f"the unit tests with mutant {mutant.name}")
    for test in tests:
        try:
            ran = subprocess.run([BUILD / "bin" / test], cwd=BUILD, capture_output=True, text=True, timeout=300,
                                 check=False)
        except subprocess.TimeoutExpired:
            return f"{test}: no end"
        if ran.returncode == 0:
            continue
        named = re.search(r"^\[  FAILED  \] (\S+)", ran.stdout, re.MULTILINE)
        return named[1] if named else f"{test} ends with {ran.returncode}"
    return ""


class Applied:
    """The copy of the sources with one mutant in it, and without it again at the end."""

    def __init__(self, mutant):
        self.mutant = mutant

    def __enter__(self):
        (SOURCE / self.mutant.file).write_text(self.mutant.mutated())

    def __exit__(self, *unused):
        (SOURCE / self.mutant.file).write_text(self.mutant.original)


def run_mutants(mutants, options):
    """The next one is built while those before it run."""
    copy_sources()
    configure()
    unbroken = build_simulator("", options.jobs)
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.runs) as pool:
        running = []
        for mutant in mutants:
            seeds = options.seeds or max(DEFAULT_SEEDS, mutant.seeds)
            began = time.monotonic()
            with Applied(mutant):
                binary = build_simulator(mutant.name, options.jobs)
            result = Result(mutant, seeds=seeds, built=time.monotonic() - began)
            results.append(result)
            running.append(pool.submit(hunt_one, result, binary, unbroken))
            while sum(not r.done() for r in running) > options.runs:  # no heap of binaries
                time.sleep(0.2)
        for future in running:
            future.result()
    if options.unit:
        for result in results:
            if result.message:
                continue
            with Applied(result.mutant):
                result.unit = failing_unit_test(result.mutant, options.jobs)
    return results


def hunt_one(result, binary, unbroken):
    began = time.monotonic()
    result.seed, result.message = hunt(result.mutant, binary, unbroken, result.seeds)
    result.ran = time.monotonic() - began
    binary.unlink()
    print(describe(result), flush=True)


# ---- what came of it

def describe(result):
    if result.message:
        what = f"seed {result.seed}: {result.message[:110]}"
    elif result.unit:
        what = f"not in {result.seeds} seeds; unit test {result.unit}"
    else:
        what = f"not in {result.seeds} seeds"
    return f"{result.mutant.name:44} {what} ({result.built:.0f} s, {result.ran:.0f} s)"


def report(results):
    print("\n| mutant | seen by | at seed | expected | |\n|---|---|---|---|---|")
    for r in results:
        seen = r.message[:90] if r.message else r.unit or "nothing"
        at = r.seed if r.message else f"none of {r.seeds}"
        print(f"| {r.mutant.name} | {seen} | {at} | {r.mutant.expected} | "
              f"{'' if r.is_as_expected() else 'NOT AS EXPECTED'} |")
    counts = {what: sum(r.outcome() == what for r in results) for what in ("simulation", "unit", "survived")}
    wrong = [r.mutant.name for r in results if not r.is_as_expected()]
    found = [r.mutant.name for r in results if r.mutant.expected == "open" and r.outcome() != "survived"]
    if found:
        print(f"\nno longer open, say so in the list: {' '.join(found)}")
    print(f"\n{len(results)} mutants: {counts['simulation']} seen by the simulation, {counts['unit']} by unit "
          f"tests alone, {counts['survived']} by nothing; {len(wrong)} not as expected: {' '.join(wrong)}")
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
    parser.add_argument("--no-unit", dest="unit", action="store_false", help="survivors meet no unit tests")
    options = parser.parse_args()
    try:
        mutants = load()
        unknown = set(options.names) - {m.name for m in mutants}
        if unknown:
            raise Problem(f"no such mutant: {' '.join(sorted(unknown))}")
        chosen = [m for m in mutants if not options.names or m.name in options.names]
        if options.check:
            print(f"{len(chosen)} mutants fit the sources")
            return 0
        return report(run_mutants(chosen, options))
    except Problem as problem:
        print(f"run.py: {problem}", file=sys.stderr)
        return USAGE


if __name__ == "__main__":
    sys.exit(main())

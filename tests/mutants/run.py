#!/usr/bin/env python3
"""Breaks one decision of the pure cores at a time and checks that the simulation detects it.

  run.py                      all mutants of mutants.toml
  run.py NAME...              only these
  run.py --quick              those that few seeds detect
  run.py --check              only whether each mutant still fits the sources; builds nothing
  run.py --seeds 12000        seeds for each mutant (default: 2500, or the number in the list if that is greater)

The sources are copied to build/mutants, and all mutants are built there together: each function that mutants
break gets one more copy for each of them, and MUSTER_MUTANT in the environment selects one. The working tree
is not touched. README.md has the rest.
"""
import argparse
import concurrent.futures
import dataclasses
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

# Where the pure cores are, and the pure parts beside them.
CORES = ("rendezvous/core/", "rendezvous/gate/frame_guard", "rendezvous/gate/gate_core", "agent/process/core/", "agent/platform/notice/notice",
         "agent/host/core/", "base/proc/", "base/wire/ranges")


class Problem(Exception):
    """An error that makes the whole run meaningless; the text names the mutant."""


@dataclasses.dataclass
class Edit:
    """One replacement, within one function of one file."""
    file: str
    old: str  # a part of the function; blanks and ends of lines are all the same
    new: str
    function: str = ""
    original: str = ""  # the whole file, as it is when this starts: somebody may edit it while this runs

    def __post_init__(self):
        self.original = (ROOT / self.file).read_text()

    def span(self):
        """Where the old text begins and ends."""
        text = r"\s+".join(re.escape(word) for word in self.old.split())
        bodies = [(begin, end) for begin, end, head in functions(self.original) if self.function in names(head)]
        if not bodies:
            raise Problem(f"there is no {self.function}() in {self.file}")
        found = [found.span() for begin, end in bodies
                 for found in re.compile(text).finditer(self.original, begin, end)]
        if len(found) != 1:
            raise Problem(f"its old text is found {len(found)} times in {self.function}() of {self.file}, not once: "
                          "adapt it to what the rule looks like now")
        return found[0]


@dataclasses.dataclass
class Mutant:
    name: str
    edits: list[Edit]
    seeds: int = 0  # needed to notice it, where the default does not suffice
    mix: str = ""  # the mix of faults that was made for it: its seeds alone are run
    quick: bool = False  # few seeds notice it
    number: int = 0  # its value of MUSTER_MUTANT; 0: the program as it is

    def environment(self):
        return dict(os.environ, MUSTER_MUTANT=str(self.number))


@dataclasses.dataclass
class Result:
    mutant: Mutant
    seed: int | None = None
    message: str = ""  # "": no seed failed
    seeds: int = 0  # number of seeds that were run
    seconds: float = 0.0


def read(entry, number):
    """A mutant of the list: `file`, `in`, `old` and `new` are one edit, `also` has others."""
    edits = [{key: entry.pop(key) for key in ("file", "in", "old", "new")}, *entry.pop("also", [])]
    return Mutant(**entry, edits=[Edit(edit["file"], edit["old"], edit["new"], edit["in"]) for edit in edits],
                  number=number)


def complaint_about(mutant):
    """What is wrong with it; "" if nothing is."""
    for edit in mutant.edits:
        if not edit.file.startswith(CORES):
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


ON_ONE_LINE = re.compile(r"^[^\S\n]*(?!(?:if|for|while|switch|\}) )(?P<head>\S.*?\)[^{\n]*)\{ (?P<body>.*) \}$",
                         re.MULTILINE)
DEFINED = re.compile(r"^(?P<head>[A-Za-z][^;{}]*?\)[^;{}]*)\{(?P<body>\n.*?\n)\}$", re.MULTILINE | re.DOTALL)


def functions(text):
    """Where the bodies of the functions begin and end, and what stands before them."""
    for pattern in (ON_ONE_LINE, DEFINED):
        for found in pattern.finditer(text):
            yield found.start("body"), found.end("body"), found["head"]


def names(head):
    """Of the function and what qualifies it: "Job::IsReady"; and of what its parameters call, which does no harm."""
    return re.findall(r"([~\w:]+)\(", head)


def find_function(edit):
    """Where the body of the function begins and ends that the edit breaks, and whether it returns nothing."""
    at, end_at = edit.span()
    for begin, end, head in functions(edit.original):
        if begin <= at and end_at <= end:
            return begin, end, returns_nothing(head)
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
            for edit in sorted(those, key=lambda edit: edit.span(), reverse=True):
                first, last = (at - begin for at in edit.span())
                changed = changed[:first] + edit.new + changed[last:]
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


def run_mutant(mutant, options):
    began = time.monotonic()
    result = Result(mutant, seeds=options.seeds or max(DEFAULT_SEEDS, mutant.seeds))
    result.seed, result.message = hunt(mutant, result.seeds)
    result.seconds = time.monotonic() - began
    print(f"{mutant.name:44} {describe(result)} ({result.seconds:.0f} s)", flush=True)
    return result


def run_mutants(mutants, options):
    copy_sources(load())  # all mutants, so that a later run of some finds them built
    configure()
    build(["muster_sim"], options.jobs)
    with concurrent.futures.ThreadPoolExecutor(options.runs) as pool:
        return list(pool.map(lambda mutant: run_mutant(mutant, options), mutants))


# ---- results

def describe(result):
    return f"seed {result.seed}: {result.message[:110]}" if result.message else f"not in {result.seeds} seeds"


def report(results):
    missed = [result.mutant.name for result in results if not result.message]
    print(f"\n{len(results)} mutants: {len(results) - len(missed)} seen by the simulation, {len(missed)} not: "
          f"{' '.join(missed)}")
    return FAILED if missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at a time")
    parser.add_argument("--runs", type=int, default=os.cpu_count() or 1, help="simulations at a time")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    try:
        mutants = load()
        unknown = set(options.names) - {m.name for m in mutants}
        if unknown:
            raise Problem(f"no such mutant: {' '.join(sorted(unknown))}")
        chosen = [m for m in mutants if not options.names or m.name in options.names]
        if options.quick:
            chosen = [m for m in chosen if m.quick]
        if options.check:
            print(f"{len(chosen)} mutants fit the sources")
            return 0
        return report(run_mutants(chosen, options))
    except Problem as problem:
        print(f"run.py: {problem}", file=sys.stderr)
        return USAGE


if __name__ == "__main__":
    sys.exit(main())

"""Runs clang-tidy, with clang's check of the locks, on all compiled files, newest changes first; names skipped files.

  tidy.py BUILD_FOLDER [--changed]

  --changed             only the files that the last commit or the working tree has changed
  MUSTER_TIDY_BUDGET_S  after this time nothing further is started (0: no limit)

The files of a folder are read together, as one source that includes them: clang-tidy spends nine tenths of its time
in the headers, which they share. Clang's analyzer follows such files as it does a single one. Files whose names of
their own clash are read apart.

A passed file is stored in .cache/clang-tidy by its text, the text of all of ours that it includes, the rules and the
installed packages, and not checked again until one of them changes.
"""
import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache/clang-tidy"
TIDY, CLANG = "clang-tidy-14", "clang++-14"
# Clang 14 considers [this] unused in a generic lambda of a template.
FLAGS = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-unused-lambda-capture"]
BUDGET_S = float(os.environ.get("MUSTER_TIDY_BUDGET_S", "0"))
MAX_FILES_TOGETHER = 10
OWN_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def environment():
    """What a result depends on beside our own files; without Debian's list of packages nothing is stored."""
    if shutil.which("dpkg-query") is None:
        return None
    return output_of(TIDY, "--version") + output_of("dpkg-query", "--show", "lib*-dev", "nlohmann*", "clang*")


@dataclasses.dataclass(frozen=True)
class Source:
    path: pathlib.Path  # below ROOT
    flags: tuple        # what the preprocessor and the language depend on


def compiled_sources(build):
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.is_relative_to(build):
            continue
        # clang-tidy cannot read GCC's precompiled headers.
        words = shlex.split(re.sub(r" -include \S+/cmake_pch\.hxx", "", entry["command"]))
        flags = tuple(word for before, word in zip(["", *words], words)
                      if word.startswith(("-I", "-D", "-std=", "-isystem")) or before == "-isystem")
        found[path] = Source(path.relative_to(ROOT), flags)
    return sorted(found.values(), key=lambda source: source.path)


def changed_files():
    """The files that the last commit and the working tree changed; none if git knows no such commit."""
    return set(subprocess.run(["git", "diff", "--name-only", "HEAD~1"], cwd=ROOT, capture_output=True, text=True,
                              check=False).stdout.split())


class Stamps:
    """Which files have passed before, with this text, these rules and these packages."""

    def __init__(self, build):
        self._build = build
        self._environment = environment()
        self._included = {}

    def of(self, source):
        """The cache file that exists if this text has passed."""
        if self._environment is None:
            return None
        rules = [(folder / ".clang-tidy").read_text() for folder in (ROOT / source.path).parents
                 if folder.is_relative_to(ROOT) and (folder / ".clang-tidy").exists()]
        known = hashlib.sha256("\n".join([self._environment, *FLAGS, *rules, *source.flags]).encode())
        known.update(pathlib.Path(__file__).read_bytes())
        for path in self._closure(source.path):
            known.update(str(path).encode() + self._bytes(path))
        return CACHE / known.hexdigest()

    def _find(self, path):
        """Our file of this name: a source, or a header that the build generates."""
        return next((found for found in (ROOT / path, self._build / "proto" / path) if found.is_file()), None)

    def _bytes(self, path):
        return self._find(path).read_bytes()

    def _includes(self, path):
        if path not in self._included:
            names = OWN_INCLUDE.findall(self._bytes(path).decode())
            self._included[path] = [pathlib.Path(name) for name in names if self._find(name)]
        return self._included[path]

    def _closure(self, path):
        seen, left = {path}, [path]
        while left:
            for name in self._includes(left.pop()):
                if name not in seen:
                    seen.add(name)
                    left.append(name)
        return sorted(seen)


class Checker:
    def __init__(self, build, stamps, deadline):
        """stamps: {source: the file to make when it has passed}"""
        self._folder, self._stamps, self._deadline = build / "tidy", stamps, deadline
        self._numbers = itertools.count()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        for rules in ROOT.glob("*/.clang-tidy"):
            (self._folder / rules.parent.name).mkdir()
            shutil.copy(rules, self._folder / rules.parent.name)

    def check(self, sources):
        """{source: outcome} for files with the same flags in one folder."""
        outcomes = {}
        left = list(sources)
        while left:
            if time.monotonic() > self._deadline:
                outcomes.update((source, "left out") for source in left)
                return outcomes
            together, text = self._those_that_fit(left)
            outcomes.update(self._check_together(together, text))
            left = [source for source in left if source not in together]
        return outcomes

    def _those_that_fit(self, sources):
        """The first of them, and all others that can be compiled in one source with it, and that source."""
        while True:
            text = self._write(sources)
            if len(sources) == 1:
                return sources, text
            done = subprocess.run([CLANG, *sources[0].flags, "-fsyntax-only", "-w", "-ferror-limit=0", text], cwd=ROOT,
                                  capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return sources, text
            named = {source for source in sources[1:] if f"{ROOT / source.path}:" in done.stderr}
            sources = [source for source in sources if source not in named] if named else sources[:1]

    def _write(self, sources):
        if len(sources) == 1:
            return ROOT / sources[0].path
        text = self._folder / sources[0].path.parts[0] / f"together-{next(self._numbers)}.cc"
        text.parent.mkdir(exist_ok=True)
        text.write_text("".join(f'#include "{ROOT / source.path}"  // NOLINT(bugprone-suspicious-include)\n'
                                for source in sources))
        return text

    def _check_together(self, sources, text):
        done = subprocess.run([TIDY, "--quiet", text, "--", *sources[0].flags, *FLAGS], cwd=ROOT, capture_output=True,
                              text=True, check=False)
        failed = {source for source in sources if str(source.path) in done.stdout + done.stderr}
        if done.returncode != 0:
            print(f"{' '.join(str(source.path) for source in sources)}:\n{done.stdout}{done.stderr}", flush=True)
            # What a header is blamed for may come from any of them.
            failed = failed or set(sources)
        else:
            failed = set()
        for source in set(sources) - failed:
            if self._stamps[source] is not None:
                self._stamps[source].touch()
        return {source: "failed" if source in failed else "passed" for source in sources}


def groups(sources, changed):
    """Files that may be read together, those with changes first."""
    by_folder = {}
    for source in sources:
        by_folder.setdefault((source.path.parent, source.flags), []).append(source)
    cut = [group[at:at + MAX_FILES_TOGETHER] for group in by_folder.values()
           for at in range(0, len(group), MAX_FILES_TOGETHER)]
    return sorted(cut, key=lambda group: not any(str(source.path) in changed for source in group))


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    CACHE.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + BUDGET_S if BUDGET_S > 0 else float("inf")
    changed = changed_files()
    sources = compiled_sources(build)
    if "--changed" in sys.argv[2:]:
        sources = [source for source in sources if str(source.path) in changed]
    known = Stamps(build)
    stamps = {source: known.of(source) for source in sources}  # of the text as it is before it is checked
    outcomes = {source: "known" for source, stamp in stamps.items() if stamp is not None and stamp.exists()}
    checker = Checker(build, stamps, deadline)
    unknown = [source for source in sources if source not in outcomes]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(checker.check, groups(unknown, changed)):
            outcomes.update(result)
    counts = [f"{list(outcomes.values()).count(name)} {name}" for name in ("passed", "known", "failed", "left out")]
    print(", ".join(counts))
    left_out = [str(source.path) for source, outcome in outcomes.items() if outcome == "left out"]
    if left_out:
        print(f"left out when {BUDGET_S:.0f} s were spent: " + " ".join(left_out))
    return 1 if "failed" in outcomes.values() else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs clang-tidy, with clang's check of the locks, on all compiled files, newest changes first; names skipped files.

  tidy.py BUILD_FOLDER      MUSTER_TIDY_BUDGET_S  after this time no further file is started (0: no limit)

A passed file is stored in .cache/clang-tidy by its preprocessed text, the rules and the version, and not
checked again until one of them changes.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache/clang-tidy"
TIDY, CLANG = "clang-tidy-14", "clang++-14"
# Clang 14 considers [this] unused in a generic lambda of a template.
FLAGS = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-unused-lambda-capture"]
EXTRA = [f"--extra-arg={flag}" for flag in FLAGS]
BUDGET_S = float(os.environ.get("MUSTER_TIDY_BUDGET_S", "0"))
VERSION = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout


def database_without_precompiled_headers(build):
    """A folder with compile commands for clang-tidy, which cannot read GCC's precompiled headers."""
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in entries:
        entry["command"] = re.sub(r" -Winvalid-pch| -fpch-preprocess| -include \S+/cmake_pch\.hxx", "", entry["command"])
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return folder


def changed_files():
    """The files that the last commit and the working tree changed; none if git knows no such commit."""
    changed = subprocess.run(["git", "diff", "--name-only", "HEAD~1"], cwd=ROOT, capture_output=True, text=True,
                             check=False).stdout.split()
    return {str(ROOT / name) for name in changed}


def compiled_sources(build):
    entries = json.loads((build / "compile_commands.json").read_text())
    ours = {entry["file"]: entry for entry in entries if not entry["file"].startswith(str(build))}
    changed = changed_files()
    return sorted(ours.values(), key=lambda entry: (entry["file"] not in changed, entry["file"]))


def rules_for(source):
    """The text of every .clang-tidy that applies to a source, and the clang-tidy command."""
    folders = [folder for folder in pathlib.Path(source).parents if folder.is_relative_to(ROOT)]
    rules = [path.read_text() for folder in reversed(folders) if (path := folder / ".clang-tidy").exists()]
    return ("".join(rules) + "\n".join([VERSION, *EXTRA])).encode()


def stamp_of(entry):
    """The cache file that exists if this text has passed; None if the source cannot be preprocessed."""
    words = shlex.split(entry["command"])
    flags = [word for before, word in zip(["", *words], words)
             if word.startswith(("-I", "-D", "-std=", "-isystem")) or before == "-isystem"]
    done = subprocess.run([CLANG, *flags, "-E", "-w", entry["file"]], cwd=entry["directory"], capture_output=True,
                          check=False)
    if done.returncode != 0:
        return None
    return CACHE / hashlib.sha256(rules_for(entry["file"]) + done.stdout).hexdigest()


def check(entry, database, deadline):
    """The result for one file; prints clang-tidy's output."""
    if time.monotonic() > deadline:
        return "left out"
    stamp = stamp_of(entry)
    if stamp is not None and stamp.exists():
        return "known"
    done = subprocess.run([TIDY, "-p", str(database), "--quiet", *EXTRA, entry["file"]], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{entry['file']}:\n{done.stdout}{done.stderr}", flush=True)
        return "failed"
    if stamp is not None:
        stamp.touch()
    return "passed"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    CACHE.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + BUDGET_S if BUDGET_S > 0 else float("inf")
    sources = compiled_sources(build)
    database = database_without_precompiled_headers(build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda entry: check(entry, database, deadline), sources))
    print(", ".join(f"{outcomes.count(name)} {name}" for name in ("passed", "known", "failed", "left out")))
    left_out = [entry["file"] for entry, outcome in zip(sources, outcomes) if outcome == "left out"]
    if left_out:
        print(f"left out when {BUDGET_S:.0f} s were spent: " + " ".join(str(pathlib.Path(f).relative_to(ROOT))
                                                                        for f in left_out))
    return 1 if "failed" in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())

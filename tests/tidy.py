"""clang-tidy, with clang's check of the locks, over what is compiled, newest changes first; says what it left out.

  tidy.py BUILD_FOLDER      MUSTER_TIDY_BUDGET_S  how long to begin new files (0: no end)

A file that passed is remembered in .cache/clang-tidy by its preprocessed text, the rules and the version, and not
read again until one of them changes.
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
# Clang 14 takes [this] for unused in a generic lambda of a template.
FLAGS = ["-Wthread-safety", "-Wno-unknown-warning-option", "-Wno-unused-lambda-capture"]
EXTRA = [f"--extra-arg={flag}" for flag in FLAGS]
BUDGET_S = float(os.environ.get("MUSTER_TIDY_BUDGET_S", "0"))
VERSION = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout


def database_without_precompiled_headers(build):
    """A folder with compile commands as clang-tidy can take them: it cannot read what GCC has precompiled."""
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in entries:
        entry["command"] = re.sub(r" -Winvalid-pch| -fpch-preprocess| -include \S+/cmake_pch\.hxx", "", entry["command"])
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    return folder


def changed_files():
    """What the last commit and the working tree changed; nothing where git knows no such commit."""
    changed = subprocess.run(["git", "diff", "--name-only", "HEAD~1"], cwd=ROOT, capture_output=True, text=True,
                             check=False).stdout.split()
    return {str(ROOT / name) for name in changed}


def compiled_sources(build):
    entries = json.loads((build / "compile_commands.json").read_text())
    ours = {entry["file"]: entry for entry in entries if not entry["file"].startswith(str(build))}
    changed = changed_files()
    return sorted(ours.values(), key=lambda entry: (entry["file"] not in changed, entry["file"]))


def rules_for(source):
    """The text of every .clang-tidy that rules a source, and how clang-tidy is called."""
    folders = [folder for folder in pathlib.Path(source).parents if folder.is_relative_to(ROOT)]
    rules = [path.read_text() for folder in reversed(folders) if (path := folder / ".clang-tidy").exists()]
    return ("".join(rules) + "\n".join([VERSION, *EXTRA])).encode()


def stamp_of(entry):
    """A file in the cache that exists if this very text has passed; None where it cannot be preprocessed."""
    words = shlex.split(entry["command"])
    flags = [word for before, word in zip(["", *words], words)
             if word.startswith(("-I", "-D", "-std=", "-isystem")) or before == "-isystem"]
    done = subprocess.run([CLANG, *flags, "-E", "-w", entry["file"]], cwd=entry["directory"], capture_output=True,
                          check=False)
    if done.returncode != 0:
        return None
    return CACHE / hashlib.sha256(rules_for(entry["file"]) + done.stdout).hexdigest()


def check(entry, database, deadline):
    """What came of one file; what clang-tidy said of it is printed."""
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

#!/usr/bin/env python3
"""Makes the release files of one architecture from a build folder: wheel, tar.gz, .deb, image, and their SHA256SUMS.

The same commit and the same packages of the system give the same bytes."""
import argparse
import hashlib
import os
import pathlib
import re
import subprocess

import archives
import contents
import image
import manual
import wheel

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELLS = ("bash", "zsh", "fish")


def time_of_sources():
    """SOURCE_DATE_EPOCH, as other tools read it, or the time of the commit; outside a git checkout that of a file."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    try:
        return int(contents.output("git", "-C", str(ROOT), "log", "-1", "--format=%ct"))
    except (OSError, subprocess.CalledProcessError):
        return int((ROOT / "CMakeLists.txt").stat().st_mtime)


def release_of(build, architecture):
    program = build / "bin/muster"
    emulator = contents.cache_entry(build, "CMAKE_CROSSCOMPILING_EMULATOR")

    def said(*words):
        return contents.output(*([emulator] if emulator else []), str(program), *words)
    version = re.fullmatch(r"muster (\S+)(?: \(.*\))?\n", said("version"))[1]
    commands = re.findall(r"^  muster (\w+)", said("--help"), re.MULTILINE)
    made_at = time_of_sources()
    parts = contents.components(build)
    licences = {"LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8")}
    licences.update({f"{part.name}.txt": part.copyright for part in parts})
    return contents.Release(
        version=version, architecture=architecture, made_at=made_at, program=program.read_bytes(),
        pages=contents.read_pages(ROOT),
        example=(ROOT / "deploy/examples/train_stdlib.py").read_text(encoding="utf-8"), licences=licences,
        sbom=contents.bill_of_materials(version, architecture, parts),
        manual=manual.page(version, made_at, said("--help"), {name: said(name, "--help") for name in commands}),
        completions={shell: said("run", "--print-completion", shell) for shell in SHELLS})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with bin/muster")
    parser.add_argument("--arch", choices=contents.ARCHITECTURES, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    release = release_of(arguments.build, arguments.arch)
    made = {wheel.file_name(release): wheel.make(release), archives.tarball_name(release): archives.tarball(release),
            archives.deb_name(release): archives.deb(release), image.name(release): image.make(release)}
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, data in made.items():
        (arguments.out / name).write_bytes(data)
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in arguments.out.iterdir()
            if file.name.startswith(("muster-", "muster_"))}
    (arguments.out / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))
    for name in made:
        print(arguments.out / name)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"make.py: {' '.join(error.cmd[:4])} ...: exit code {error.returncode}: {error.stderr[-2000:]}")

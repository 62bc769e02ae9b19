"""What a release is made of: the program, and the files that go with it."""
import dataclasses
import json
import os
import pathlib
import re
import subprocess

NAME = "muster-launch"  # on the package index "muster" is another project; the command is called muster
SUMMARY = "Starts, watches and restarts a distributed training job on every node; takes torchrun's command line."
LICENCE = "Apache-2.0"

# Names of an architecture: of the kernel, of wheels and of releases (key), and of Debian and container images (value).
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclasses.dataclass(frozen=True)
class Release:
    version: str
    architecture: str     # a key of ARCHITECTURES
    made_at: int          # seconds since 1970: the time of the commit, which all files in the archives bear
    program: bytes
    pages: dict           # path below the root of the tree -> bytes: README.md, CHANGELOG.md, those in docs/
    example: str          # a training that needs nothing but Python
    licences: dict        # name of a file -> text: ours, and those of all that is linked in
    sbom: bytes           # CycloneDX, JSON
    manual: bytes         # muster.1
    completions: dict     # name of a shell -> script

    @property
    def debian_architecture(self):
        return ARCHITECTURES[self.architecture]


@dataclasses.dataclass(frozen=True)
class Component:
    """A source package of Debian, some of which was compiled or linked into the program."""
    name: str
    version: str
    copyright: str  # the text of its copyright file

    def licence_names(self):
        """Of most of its files, as the copyright file calls them."""
        found = re.search(r"^Files: *\*\n(?:.+\n)*?License: *(.+)$", self.copyright, re.MULTILINE)
        return found[1].strip() if found else "see the copyright file"


def read_pages(root):
    files = [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md")),
             *sorted((root / "docs").rglob("*.svg"))]
    pages = {str(file.relative_to(root)): file.read_bytes() for file in files}
    return {path: text if path.endswith(".svg") else only_links_to(pages, path, text.decode()).encode()
            for path, text in pages.items()}


def only_links_to(pages, path, text):
    """The text of that page, where links to other files of the tree are plain words."""
    def shown(link):
        target = link[2].partition("#")[0]
        known = not target or re.match(r"\w+:", target) or \
            os.path.normpath(os.path.join(os.path.dirname(path), target)) in pages
        return link[0] if known else link[1]
    return re.sub(r"!?\[([^]]*)\]\(([^)]+)\)", shown, text)


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def cache_entry(build, name):
    """A value of the build's configuration; empty: it has none."""
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else ""


def linked_files(build, sysroot):
    """The archives and headers outside the tree of which the program in this build folder consists."""
    def words(target, ending):
        commands = output("ninja", "-C", str(build), "-t", "commands", "-s", target)
        return re.findall(rf"(?<!\S)\S+\.{ending}(?!\S)", commands)
    archives, objects = set(words("bin/muster", "a")), set(words("bin/muster", "o"))
    ours = {file for file in archives if not file.startswith("/")}
    for archive in ours:
        objects |= set(words(archive, "o"))
    headers, wanted = set(), False
    for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
        if not line.startswith(" "):
            wanted = line.split(":")[0] in objects
        elif wanted:
            headers.add(os.path.normpath(build.resolve() / line.strip()))
    headers = {header for header in headers if header.startswith(("/usr/", f"{sysroot}/usr/"))}
    linker = re.match(r"(?:: && )?(\S+)", output("ninja", "-C", str(build), "-t", "commands", "-s", "bin/muster"))[1]
    runtime = {output(linker, f"-print-file-name={name}").strip()
               for name in ("libstdc++.a", "libgcc.a", "libc.a")}
    return {str(pathlib.Path(file).resolve()) for file in (archives - ours) | headers | runtime}


def components_among(files, root):
    """The source packages of these files, in the system whose root this is."""
    database = ["dpkg-query", f"--admindir={root}/var/lib/dpkg"]
    owners = output(*database, "-S", *sorted("/" + str(pathlib.Path(file).relative_to(root)) for file in files))
    packages = {name.strip() for line in owners.splitlines() if ": " in line
                for name in line.split(": ")[0].split(",") if not line.startswith("diversion")}
    listed = output(*database, "-W", "-f", "${source:Package}\t${source:Version}\t${Package}\n", *sorted(packages))
    found = {}
    for line in sorted(listed.splitlines()):
        source, version, package = line.split("\t")
        # This machine has the same package; in a sysroot the text may be a link to a package that is not there.
        text = pathlib.Path("/usr/share/doc", package, "copyright").read_text(encoding="utf-8")
        found.setdefault(source, Component(source, version, text))
    return found


def components(build):
    sysroot = cache_entry(build, "MUSTER_SYSROOT")
    files = linked_files(build, sysroot)
    unpacked = {file for file in files if sysroot and file.startswith(sysroot + "/")}
    found = components_among(files - unpacked, "/")
    if unpacked:
        found |= components_among(unpacked, sysroot)
    return [found[name] for name in sorted(found)]


def bill_of_materials(version, architecture, parts):
    """CycloneDX 1.5. It has no time and no random number, so that the same program has the same one."""
    def purl(part):
        return f"pkg:deb/debian/{part.name}@{part.version}?arch=source"
    return json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "muster", "name": "muster", "version": version,
                                   "licenses": [{"license": {"id": LICENCE}}],
                                   "properties": [{"name": "architecture", "value": architecture}]}},
        "components": [{"type": "library", "bom-ref": purl(part), "name": part.name, "version": part.version,
                        "purl": purl(part), "licenses": [{"license": {"name": part.licence_names()}}]}
                       for part in parts],
        "dependencies": [{"ref": "muster", "dependsOn": [purl(part) for part in parts]}],
    }, indent=1).encode() + b"\n"

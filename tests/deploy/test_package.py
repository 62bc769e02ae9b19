"""The files of deploy/package.sh, installed and run as a user would. The program in them is the one under test."""
import dataclasses
import hashlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from emulated import BINARY, DEPLOY

sys.path.insert(0, str(DEPLOY / "package"))
import archives  # noqa: E402
import contents  # noqa: E402
import image  # noqa: E402
import make  # noqa: E402
import wheel  # noqa: E402

LIMIT_S = 180
LINK = re.compile(r"\]\((?!\w+:)([^)#]+)")
ARCHITECTURE = "x86_64"


def said(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_S, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.build = BINARY.parent.parent
        if not (cls.build / "build.ninja").exists():
            raise unittest.SkipTest(f"{BINARY} lies in no build folder, which tells what is linked into it")
        said(sys.executable, "-B", DEPLOY / "package" / "make.py", "--build", cls.build, "--arch", ARCHITECTURE, "--out",
             cls.folder / "out")
        [cls.wheel] = (cls.folder / "out").glob("*.whl")
        [cls.deb] = (cls.folder / "out").glob("*.deb")
        [cls.tarball] = (cls.folder / "out").glob("*.tar.gz")
        cls.version = said(BINARY, "version")

    def test_pip_installs_the_program_itself_and_it_trains(self):
        home = self.folder / "venv"
        said(sys.executable, "-m", "venv", home)
        said(home / "bin" / "pip", "install", "--no-index", self.wheel)
        self.assertEqual(BINARY.read_bytes(), (home / "bin" / "muster").read_bytes())
        output = said(home / "bin" / "muster", "local", "--nodes", "2", "--nproc-per-node", "1", "-m", "muster.example",
                      "--steps", "3", "--checkpoint", self.folder / "checkpoint")
        self.assertIn("final loss", output)
        self.assertEqual(self.version, said(home / "bin" / "python", "-m", "muster", "version"))
        files = said(home / "bin" / "pip", "show", "--files", contents.NAME)
        self.assertIn("licenses/openssl.txt", files)
        said(home / "bin" / "pip", "uninstall", "--yes", contents.NAME)
        self.assertFalse((home / "bin" / "muster").exists())

    def test_python_m_muster_works_where_pip_was_given_a_folder(self):
        for option in ("--target", "--prefix"):
            folder = self.folder / option.strip("-")
            said(sys.executable, "-m", "pip", "install", "--no-index", option, folder, self.wheel)
            [package] = folder.rglob("muster/__main__.py")
            environment = {"PYTHONPATH": str(package.parents[1])}
            self.assertEqual(self.version, said(sys.executable, "-m", "muster", "version", env=environment), option)

    def test_the_debian_package_holds_program_manual_and_completions(self):
        root = self.folder / "deb"
        said("dpkg-deb", "-x", self.deb, root)
        self.assertEqual(self.version, said(root / "usr/bin/muster", "version"))
        self.assertEqual(contents.NAME, said("dpkg-deb", "-f", self.deb, "Package").strip())
        for shell, path in archives.COMPLETIONS.items():
            self.assertEqual(said(BINARY, "run", "--print-completion", shell), (root / path).read_text())
        manual = said("gzip", "-dc", root / "usr/share/man/man1/muster.1.gz")
        shown = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-P-c"], input=manual, capture_output=True, text=True,
                               timeout=LIMIT_S)
        self.assertEqual((0, ""), (shown.returncode, shown.stderr))
        for option in ("--rdzv-endpoint", "--max-restarts", "muster token"):
            self.assertIn(option, shown.stdout)

    def test_the_archive_runs_and_its_sum_is_right(self):
        said("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.folder / "out")
        with tarfile.open(self.tarball) as archive:
            archive.extractall(self.folder / "tar")
        [top] = (self.folder / "tar").iterdir()
        self.assertEqual(self.version, said(top / "muster", "version"))
        links = [(page, link) for page in top.rglob("*.md") for link in LINK.findall(page.read_text())]
        self.assertGreater(len(links), 50)
        self.assertEqual([], [str(link) for link in links if not (link[0].parent / link[1]).exists()])

    def test_the_image_names_what_it_holds_and_holds_only_the_program(self):
        [path] = (self.folder / "out").glob("*-image.tar")
        with tarfile.open(path) as archive:
            files = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
        for name, data in files.items():
            if name.startswith("blobs/sha256/"):
                self.assertEqual(name.rpartition("/")[2], hashlib.sha256(data).hexdigest())

        def blob(described):
            return files["blobs/" + described["digest"].replace(":", "/")]
        [described] = json.loads(files["index.json"])["manifests"]
        self.assertEqual({"architecture": "amd64", "os": "linux"}, described["platform"])
        manifest = json.loads(blob(described))
        self.assertEqual({"Entrypoint": ["/muster"]}, json.loads(blob(manifest["config"]))["config"])
        with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0]))) as layer:
            self.assertEqual(["muster"], layer.getnames())
            self.assertEqual(BINARY.read_bytes(), layer.extractfile("muster").read())
            self.assertEqual(0o755, layer.getmember("muster").mode)
        [for_docker] = json.loads(files["manifest.json"])
        self.assertIn(for_docker["Config"], files)

    def test_every_library_that_the_program_names_has_a_licence_and_is_in_the_bill_of_materials(self):
        libraries = json.loads(said(BINARY, "version", "--json"))["libraries"]
        sbom = json.loads(self.sbom())
        listed = {part["name"]: part["version"] for part in sbom["components"]}
        debian = {"fmt": "fmtlib", "nlohmann_json": "nlohmann-json3"}
        for library, version in libraries.items():
            with self.subTest(library=library):
                name = debian.get(library, library)
                self.assertRegex(listed[name], rf"^(\d+:)?{version}\b")
        for name in listed:
            self.assertIn(f"licenses/{name}.txt", self.names())

    def names(self):
        with tarfile.open(self.tarball) as archive:
            return "\n".join(archive.getnames())

    def sbom(self):
        with tarfile.open(self.tarball) as archive:
            [name] = [name for name in archive.getnames() if name.endswith(".cyclonedx.json")]
            return archive.extractfile(name).read()

    def test_a_second_packaging_has_the_same_bytes(self):
        # A small program, which is compressed sooner.
        release = dataclasses.replace(make.release_of(self.build, ARCHITECTURE), program=b"\x7fELF" * 1000)
        again = dataclasses.replace(make.release_of(self.build, ARCHITECTURE), program=release.program)
        for kind in (wheel.make, archives.tarball, archives.deb, image.make):
            self.assertEqual(hashlib.sha256(kind(release)).digest(), hashlib.sha256(kind(again)).digest(), kind)


if __name__ == "__main__":
    unittest.main(verbosity=2)

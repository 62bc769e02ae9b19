"""A wheel that puts the program into bin/ as it is: no Python starts in front of it."""
import base64
import hashlib
import io
import time
import zipfile

from contents import LICENCE, NAME, SUMMARY, only_links_to

# The program is static: it needs neither glibc nor musl.
PLATFORMS = ("manylinux_2_17", "manylinux2014", "musllinux_1_1")

# python -m muster. sys.executable is the Python of the workers, unless options, PYTHON_EXEC or a launcher name another.
MAIN = '''"""python -m muster: executes the program that this package has put beside Python."""
import importlib.metadata
import os
import sys


def program():
    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for distribution in importlib.metadata.distributions(name="@NAME@", path=[site]):
        for file in distribution.files or []:
            path = os.path.realpath(distribution.locate_file(file))
            if file.name == "muster" and os.path.isfile(path):
                return path
    path = os.path.join(site, "bin", "muster")  # pip --target moves it after it has written the list
    if os.path.isfile(path):
        return path
    sys.exit("muster: its program is not beside " + site + "; install @NAME@ again")


def main():
    os.environ["MUSTER_CALLER_PYTHON"] = sys.executable
    path = program()
    try:
        os.execv(path, [path] + sys.argv[1:])
    except OSError as error:
        sys.exit("muster: cannot execute %s: %s" % (path, error.strerror))


if __name__ == "__main__":
    main()
'''.replace("@NAME@", NAME)


def metadata(release):
    return "\n".join([
        "Metadata-Version: 2.4", f"Name: {NAME}", f"Version: {release.version}", f"Summary: {SUMMARY}",
        f"License-Expression: {LICENCE}", *(f"License-File: {name}" for name in sorted(release.licences)),
        "Requires-Python: >=3.9", "Classifier: Operating System :: POSIX :: Linux",
        "Description-Content-Type: text/markdown", "", only_links_to({}, "", release.pages["README.md"].decode())])


def file_name(release):
    platforms = ".".join(f"{platform}_{release.architecture}" for platform in PLATFORMS)
    return f"{NAME.replace('-', '_')}-{release.version}-py3-none-{platforms}.whl"


def contents(release):
    """path -> (bytes, mode)"""
    stem = f"{NAME.replace('-', '_')}-{release.version}"
    info = f"{stem}.dist-info"
    tags = "".join(f"Tag: py3-none-{platform}_{release.architecture}\n" for platform in PLATFORMS)
    files = {
        f"{stem}.data/scripts/muster": (release.program, 0o755),
        "muster/__init__.py": (b'"""muster, as a package: python -m muster."""\n', 0o644),
        "muster/__main__.py": (MAIN.encode(), 0o644),
        "muster/example.py": (release.example.encode(), 0o644),
        f"{info}/METADATA": (metadata(release).encode(), 0o644),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: muster\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644),
        f"{info}/sboms/muster.cyclonedx.json": (release.sbom, 0o644),
    }
    for name, text in sorted(release.licences.items()):
        files[f"{info}/licenses/{name}"] = (text.encode(), 0o644)
    record = []
    for path, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(data)}\n")
    record.append(f"{info}/RECORD,,\n")
    files[f"{info}/RECORD"] = ("".join(record).encode(), 0o644)
    return files


def make(release):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, (data, mode) in contents(release).items():
            entry = zipfile.ZipInfo(path, time.gmtime(release.made_at)[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: the attributes are a mode
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    return out.getvalue()

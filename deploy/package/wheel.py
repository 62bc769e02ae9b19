"""A wheel that puts the program into bin/ as it is: no Python starts in front of it."""
import base64
import hashlib
import io
import time
import zipfile

from contents import LICENCE, NAME, SUMMARY

# The program is static: it needs neither glibc nor musl.
PLATFORMS = ("manylinux_2_17", "manylinux2014", "musllinux_1_1")

# python -m muster. sys.executable is the Python of the workers, unless options or variables name another.
MAIN = '''"""python -m muster: executes the program that this package has put beside Python."""
import os
import sys
import sysconfig


def program():
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [sysconfig.get_path("scripts"), os.path.join(os.path.dirname(here), "bin")]  # the second: pip --target
    scheme = os.name + "_user"
    if scheme in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", scheme))
    for folder in folders:
        path = os.path.join(folder, "muster")
        if os.path.isfile(path):
            return path
    sys.exit("muster: its program is in none of " + ", ".join(folders) + "; install @NAME@ again")


def main():
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    path = program()
    os.execv(path, [path] + sys.argv[1:])


if __name__ == "__main__":
    main()
'''.replace("@NAME@", NAME)


def metadata(release):
    return "\n".join([
        "Metadata-Version: 2.4", f"Name: {NAME}", f"Version: {release.version}", f"Summary: {SUMMARY}",
        f"License-Expression: {LICENCE}", *(f"License-File: {name}" for name in sorted(release.licences)),
        "Requires-Python: >=3.9", "Classifier: Operating System :: POSIX :: Linux",
        "Description-Content-Type: text/markdown", "", release.readme])


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

"""The archive for any Linux, and the package for Debian and its relatives."""
import gzip
import io
import lzma
import tarfile

from contents import NAME, SUMMARY

MAINTAINER = "The muster authors <muster@localhost>"


def tar(release, files):
    """files: path -> (bytes, mode). Owner, order and times do not depend on the machine."""
    out, folders = io.BytesIO(), set()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        def add(path, kind, mode, data=b""):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode, entry.size, entry.mtime = kind, mode, len(data), release.made_at
            entry.uname = entry.gname = "root"
            archive.addfile(entry, io.BytesIO(data))
        for path, (data, mode) in sorted(files.items()):
            parts = path.split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                folder = "/".join(parts[:depth])
                if folder not in folders and folder != ".":
                    folders.add(folder)
                    add(folder, tarfile.DIRTYPE, 0o755)
            add(path, tarfile.REGTYPE, mode, data)
    return out.getvalue()


def compressed(data):
    return gzip.compress(data, compresslevel=9, mtime=0)


def tarball_name(release):
    return f"muster-{release.version}-{release.architecture}-unknown-linux.tar.gz"


def tarball(release):
    top = f"muster-{release.version}-{release.architecture}-unknown-linux"
    files = {f"{top}/muster": (release.program, 0o755), f"{top}/example.py": (release.example.encode(), 0o644),
             f"{top}/muster.1": (release.manual, 0o644), f"{top}/muster.cyclonedx.json": (release.sbom, 0o644)}
    for path, page in release.pages.items():
        files[f"{top}/{path}"] = (page, 0o644)
    for shell, script in release.completions.items():
        files[f"{top}/completions/muster.{shell}"] = (script.encode(), 0o644)
    for name, text in release.licences.items():
        files[f"{top}/licenses/{name}"] = (text.encode(), 0o644)
    return compressed(tar(release, files))


def deb_name(release):
    return f"{NAME}_{release.version}_{release.debian_architecture}.deb"


# Where Debian's policy and shells look for them.
COMPLETIONS = {"bash": "usr/share/bash-completion/completions/muster",
               "zsh": "usr/share/zsh/vendor-completions/_muster",
               "fish": "usr/share/fish/vendor_completions.d/muster.fish"}


def deb(release):
    documents = f"./usr/share/doc/{NAME}"
    files = {"./usr/bin/muster": (release.program, 0o755),
             "./usr/share/man/man1/muster.1.gz": (compressed(release.manual), 0o644),
             f"{documents}/muster.cyclonedx.json.gz": (compressed(release.sbom), 0o644)}
    for path, page in release.pages.items():
        files[f"{documents}/{path}"] = (page, 0o644)
    for shell, script in release.completions.items():
        files[f"./{COMPLETIONS[shell]}"] = (script.encode(), 0o644)
    copyright = "\n\n".join(f"==== {name}\n\n{text}" for name, text in sorted(release.licences.items()))
    files[f"{documents}/copyright"] = (copyright.encode(), 0o644)
    size = sum(len(data) for data, _ in files.values()) // 1024
    control = (f"Package: {NAME}\nVersion: {release.version}\nArchitecture: {release.debian_architecture}\n"
               f"Maintainer: {MAINTAINER}\nInstalled-Size: {size}\nSection: science\nPriority: optional\n"
               f"Description: {SUMMARY.rstrip('.')}\n")
    members = [("debian-binary", b"2.0\n"),
               ("control.tar.gz", compressed(tar(release, {"./control": (control.encode(), 0o644)}))),
               ("data.tar.xz", lzma.compress(tar(release, files), preset=6))]
    out = b"!<arch>\n"
    for name, data in members:
        out += f"{name:<16}{release.made_at:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        out += data + b"\n" * (len(data) % 2)
    return out

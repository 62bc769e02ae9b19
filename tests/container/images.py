"""Root file systems for containers, as tar files that `docker import` and `podman import` read. No registry is needed.

    python3 tests/container/images.py python debian torch      makes what is missing, prints the paths

They are kept in build/containers. A name that cannot be had on this machine raises Unavailable, with what would help.

    python    this machine's Python, a shell and a few tools: seconds, no network, no root
    busybox   Debian's static busybox alone: no glibc, no bash, as in Alpine's images
    debian    Debian 12, debootstrap's smallest set, with this machine's package sources and trusted certificates
    torch     the same with Debian's Python, torch for the CPU and numpy
    ubuntu    Ubuntu 24.04 by debootstrap; or the tar that MUSTER_UBUNTU_ROOTFS names
    alpine    the tar that MUSTER_ALPINE_ROOTFS names (alpine-minirootfs)

debian, torch, busybox and ubuntu need root.
"""
import contextlib
import fcntl
import functools
import gzip
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/containers"
DEBOOTSTRAPPED = ROOT / "build/fresh/bookworm.tar"  # what tests/fresh/run.sh makes, too
DEBIAN, UBUNTU = "bookworm", "noble"
UBUNTU_SCRIPT = pathlib.Path("/usr/share/debootstrap/scripts/gutsy")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # an imported image has none
STEP_LIMIT_S = 900  # for one command; only a hang reaches it
TOOLS = ("sh", "bash", "true", "sleep", "setsid", "env", "cat", "id", "cp", "touch", "mkdir")  # in the image `python`
# Parts of the standard library that no test imports.
LEFT_OUT = ("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "site-packages",
            "dist-packages", "pydoc_data", "config-")
# What a chroot and `docker build` need to reach the package sources as this machine does.
SOURCES = ("/etc/apt/sources.list", "/etc/apt/sources.list.d", "/etc/apt/apt.conf.d", "/etc/apt/preferences.d",
           "/etc/apt/auth.conf.d", "/etc/apt/keyrings", "/etc/apt/trusted.gpg.d", "/etc/pip.conf", "/etc/ssl/certs",
           "/usr/local/share/ca-certificates", "/etc/resolv.conf")


class Unavailable(Exception):
    """The message says what is missing and how to get it."""


def torch_version():
    return re.search(r"^readonly TORCH_VERSION=(\S+)", (ROOT / "deploy/setup.sh").read_text(), re.MULTILINE)[1]


def path(name):
    """The tar of this root file system, made if it is not there yet."""
    file_name, make = {
        "python": (f"python-{interpreter()[1]}", python),
        "busybox": ("busybox", busybox),
        "debian": ("debian-12", debian),
        "torch": (f"torch-{torch_version()}", torch),
        "ubuntu": ("ubuntu-24.04", ubuntu),
        "alpine": ("alpine", alpine),
    }[name]
    FOLDER.mkdir(parents=True, exist_ok=True)
    tar = FOLDER / f"{file_name}.tar"
    with open(FOLDER / f"{file_name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run of the tests may be making it
        if not tar.exists():
            part = tar.with_suffix(".part")
            make(part)
            part.rename(tar)
    return tar


# ---- from the files of this machine ---------------------------------------------------------------------------------

@functools.cache
def interpreter():
    """Executable, version and folder of the standard library of this machine's own Python."""
    python3 = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    ask = ("import os, sys, sysconfig; print(os.path.realpath(sys.executable), '%d.%d.%d' % sys.version_info[:3], "
           "sysconfig.get_path('stdlib'), sep='\\n')")
    return tuple(run(python3, "-I", "-c", ask).split("\n")[:3])


def libraries(executable):
    """Shared libraries, the loader too, by the path at which the program looks for them; none for a static one."""
    result = subprocess.run(["ldd", executable], capture_output=True, text=True, timeout=STEP_LIMIT_S, check=False)
    return re.findall(r"(?:=> )?(/\S+) \(0x", result.stdout)


class Tree:
    """A tar that is written entry by entry. Folders above an entry come before it."""

    def __init__(self, tar):
        self.tar, self.names = tar, {"."}
        # As in Debian and Ubuntu: what asks for /bin/sh or /lib64/ld-linux-x86-64.so.2 finds it below /usr.
        for name in ("bin", "sbin", "lib", "lib64"):
            self.folder(f"usr/{name}")
            self.link(name, f"usr/{name}")

    def _add(self, name, kind, mode, content=None, target=""):
        if name in self.names:
            return
        self.names.add(name)
        parent = os.path.dirname(name)
        if parent:
            self.folder(parent)
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.linkname = kind, mode, target
        entry.size = len(content or b"")
        self.tar.addfile(entry, io.BytesIO(content) if content is not None else None)

    def folder(self, name, mode=0o755):
        self._add(name, tarfile.DIRTYPE, mode)

    def link(self, name, target):
        self._add(name, tarfile.SYMTYPE, 0o777, target=target)

    def text(self, name, content):
        self._add(name, tarfile.REGTYPE, 0o644, content.encode())

    def copy(self, source, name=None):
        """A file of this machine, at the same path unless named; its time stays, so that Python's caches stay valid."""
        name = re.sub(r"^(bin|sbin|lib|lib64)/", r"usr/\1/", str(name or source).lstrip("/"))
        if name in self.names:
            return
        self.folder(os.path.dirname(name))
        self.names.add(name)
        entry = self.tar.gettarinfo(os.path.realpath(source), name)
        entry.type, entry.uid, entry.gid, entry.uname, entry.gname = tarfile.REGTYPE, 0, 0, "", ""
        entry.size = os.stat(source).st_size  # gettarinfo takes a second name of a file for a link
        with open(source, "rb") as file:
            self.tar.addfile(entry, file)

    def program(self, source, name=None):
        self.copy(source, name)
        for library in libraries(source):
            self.copy(library)


def python(part):
    executable, _, library = interpreter()
    with tarfile.open(part, "w") as tar:
        tree = Tree(tar)
        tree.program(executable)
        for name in ("python3", "python"):
            tree.link(f"usr/bin/{name}", executable)
        for folder, names, files in os.walk(library):
            names[:] = [name for name in names if re.match(r"config-|[\w-]+", name)[0] not in LEFT_OUT]
            for file in files:
                source = os.path.join(folder, file)
                if os.path.isfile(source):
                    tree.program(source) if file.endswith(".so") else tree.copy(source)
        for tool in TOOLS:
            found = shutil.which(tool)
            if found:
                tree.program(os.path.realpath(found), f"/usr/bin/{tool}")
        tree.text("etc/nsswitch.conf", "hosts: files dns\n")
        for name in ("dev", "proc", "run", "sys"):
            tree.folder(name)
        tree.folder("tmp", 0o1777)


# ---- from Debian's packages -----------------------------------------------------------------------------------------

def run(*command, **options):
    """Output of a command; Unavailable with its last lines if it fails."""
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                            text=True, timeout=STEP_LIMIT_S, check=False, **options)
    if result.returncode != 0:
        last = " | ".join(result.stdout.strip().splitlines()[-3:])
        raise Unavailable(f"`{' '.join(map(str, command[:4]))} ...` failed with {result.returncode}: {last}")
    return result.stdout


def need_root(what):
    if os.geteuid() != 0:
        raise Unavailable(f"{what} needs root: run the tests as root once; the result is kept in build/containers")


def install(program, package):
    """Installs the package unless the program is there."""
    if shutil.which(program):
        return
    if not shutil.which("apt-get"):
        raise Unavailable(f"{program} is not there, and no apt-get to install it: install {package}")
    need_root(f"installing {package}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")
    run(*apt, "update", env=environment)
    run(*apt, "install", "-y", "--no-install-recommends", package, env=environment)


@contextlib.contextmanager
def staging():
    """A folder on this file system for a tree that becomes a tar. Its mounts are in namespaces that end before it."""
    folder = tempfile.mkdtemp(prefix="root.", dir=FOLDER)
    os.chmod(folder, 0o755)
    try:
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder)


def pack(folder, part):
    run("tar", "-C", str(folder), "--numeric-owner", "-cf", str(part), ".")


def unpack(tar, folder):
    run("tar", "-C", str(folder), "--numeric-owner", "-xpf", str(tar))


def bootstrap(suite, folder, *mirror_and_script):
    install("debootstrap", "debootstrap")
    run("debootstrap", "--variant=minbase", suite, str(folder), *mirror_and_script)
    for package in folder.glob("var/cache/apt/archives/*.deb"):
        package.unlink()


def carry_over_sources(folder):
    """The package sources and the trusted certificates are the same inside as outside."""
    (folder / "etc/apt/sources.list").unlink(missing_ok=True)
    for source in SOURCES:
        source, target = pathlib.Path(source), folder / source.lstrip("/")
        if not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            with contextlib.suppress(shutil.Error):  # a dangling link among certificates is no harm
                shutil.copytree(source, target, ignore_dangling_symlinks=True)
        else:
            target.unlink(missing_ok=True)
            shutil.copy(source, target)


def chroot(folder, *command):
    """Runs a command in the tree, with /proc and /dev, in namespaces of its own that end with it."""
    script = ('mount --make-rprivate / && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && '
              'exec chroot "$0" /usr/bin/env -i DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8 PATH="$1" "${@:2}"')
    return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", script, str(folder), PATH,
               *command)


def debootstrapped():
    if not DEBOOTSTRAPPED.exists():
        DEBOOTSTRAPPED.parent.mkdir(parents=True, exist_ok=True)
        with staging() as folder:
            bootstrap(DEBIAN, folder)
            part = DEBOOTSTRAPPED.with_suffix(f".{os.getpid()}")
            pack(folder, part)
            part.rename(DEBOOTSTRAPPED)
    return DEBOOTSTRAPPED


def debian(part):
    need_root("debootstrap")
    tar = debootstrapped()
    with staging() as folder:
        unpack(tar, folder)
        carry_over_sources(folder)
        pack(folder, part)


def torch(part):
    need_root("a root file system with torch")
    has_pip = [python3 for python3 in (ROOT / ".venv/bin/python", "/usr/bin/python3", sys.executable) if subprocess.run(
        ["sh", "-c", '"$0" -m pip --version', python3], capture_output=True, check=False).returncode == 0]
    if not has_pip:
        raise Unavailable("no pip here: `bash deploy/setup.sh --torch` creates .venv with one")
    base = path("debian")
    with staging() as folder:
        unpack(base, folder)
        chroot(folder, "apt-get", "-qq", "update")
        chroot(folder, "apt-get", "-qq", "install", "-y", "--no-install-recommends", "python3")
        (folder / "usr/bin/python").symlink_to("python3")
        version = chroot(folder, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
        packages = folder / f"usr/local/lib/python{version}/dist-packages"
        # From outside, where pip and its settings are; for the Python inside.
        run(str(has_pip[0]), "-m", "pip", "install", "--quiet", "--target", str(packages), "--python-version", version,
            "--only-binary=:all:", "--no-compile", f"torch=={torch_version()}", "numpy", cwd=ROOT)
        for unused in ("torch/include", "torch/test"):  # no training opens them
            shutil.rmtree(packages / unused, ignore_errors=True)
        chroot(folder, "python3", "-c", "import torch, numpy, torch.distributed")
        shutil.rmtree(folder / "var/lib/apt/lists", ignore_errors=True)
        pack(folder, part)


def busybox(part):
    need_root("installing busybox-static")
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        install("apt-get", "apt")
        os.chmod(folder, 0o777)  # apt's own user writes there
        if not any(pathlib.Path("/var/lib/apt/lists").glob("*_Packages*")):
            run("apt-get", "-qq", "update")
        run("apt-get", "-qq", "download", "busybox-static", cwd=folder)
        package = next(pathlib.Path(folder).glob("busybox-static*.deb"))
        run("dpkg-deb", "-x", str(package), f"{folder}/root")
        with tarfile.open(part, "w") as tar:
            tree = Tree(tar)
            tree.copy(f"{folder}/root/bin/busybox", "/bin/busybox")
            for applet in run(f"{folder}/root/bin/busybox", "--list").split():
                tree.link(f"usr/bin/{applet}", "/bin/busybox")
            for name in ("dev", "proc", "run", "sys"):
                tree.folder(name)
            tree.folder("tmp", 0o1777)


# ---- from elsewhere -------------------------------------------------------------------------------------------------

def given(variable, part):
    """Copies the tar, packed or not, that this variable names; False if it is not set."""
    source = os.environ.get(variable)
    if not source:
        return False
    with open(source, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(source, "rb") as file, open(part, "wb") as target:
        shutil.copyfileobj(file, target)
    return True


def ubuntu(part):
    if given("MUSTER_UBUNTU_ROOTFS", part):
        return
    need_root("debootstrap")
    try:
        with staging() as folder:
            # Debian 12's debootstrap does not know this release by name. The script for all of Ubuntu's releases also
            # names their archive.
            install("debootstrap", "debootstrap")
            mirror = re.search(r"default_mirror (\w+://archive\S+)", UBUNTU_SCRIPT.read_text())[1]
            bootstrap(UBUNTU, folder, mirror, str(UBUNTU_SCRIPT))
            pack(folder, part)
    except Unavailable as error:
        raise Unavailable("Ubuntu's archive cannot be used here; set MUSTER_UBUNTU_ROOTFS to the tar of its root file "
                          f"system (ubuntu-base-24.04-base-amd64.tar.gz): {error}") from error


def alpine(part):
    if not given("MUSTER_ALPINE_ROOTFS", part):
        raise Unavailable("Alpine has no package in Debian: set MUSTER_ALPINE_ROOTFS to an alpine-minirootfs-*.tar.gz")


if __name__ == "__main__":
    try:
        for wanted in sys.argv[1:]:
            print(path(wanted))
    except Unavailable as error:
        sys.exit(f"images.py: {error}")

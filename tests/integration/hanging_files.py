"""A file system that hangs: FUSE, with this process as its server.

    file        its writes hang
    silent      its reads hang
    python3     a link to the interpreter of this process
    py-spy      whoever looks for it hangs

A process that maps something else over a page of the file that it has changed waits for the write, and holds the lock
of its address space meanwhile. So whoever reads its /proc/PID/environ hangs as well: as with a dead NFS server or a
stuck driver.
"""
import ctypes
import mmap
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading

LOOKUP, GETATTR, READLINK, OPEN, READ, WRITE, INIT = 1, 3, 5, 14, 15, 16, 26
NEVER_ANSWERED = (2, 42)  # FORGET, BATCH_FORGET
ROOT_ID, FILE_ID, SILENT_ID, PYTHON_ID = 1, 2, 3, 4
NAME, SILENT, PYTHON, NEVER_FOUND = "file", "silent", "python3", "py-spy"
NODES = {NAME: FILE_ID, SILENT: SILENT_ID, PYTHON: PYTHON_ID}
HEADER = struct.Struct("<IIQQIIII")
MAX_REQUEST = 1 << 20
FOLDER_MODE, FILE_MODE, LINK_MODE = 0o040755, 0o100666, 0o120777
ENOENT, ENOSYS = 2, 38
FOREVER_S = 1 << 30
FORCE, LAZY = 1, 2  # MNT_FORCE: all calls fail, and whoever hangs goes on; MNT_DETACH

HOLDER = """
import ctypes, mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
page = mmap.mmap(fd, mmap.PAGESIZE)
page[0] = 1
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
print("changed", flush=True)
MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS = 0x02, 0x10, 0x20
over = ctypes.CDLL(None).mmap
over.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
over(address, mmap.PAGESIZE, mmap.PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0)
"""

libc = ctypes.CDLL(None, use_errno=True)


def is_possible():
    return os.geteuid() == 0 and pathlib.Path("/dev/fuse").exists()


def _attributes(node):
    mode, size = {ROOT_ID: (FOLDER_MODE, 0), PYTHON_ID: (LINK_MODE, 0)}.get(node, (FILE_MODE, mmap.PAGESIZE))
    return struct.pack("<QQQQQQIIIIIIIIII", node, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class HangingFiles:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.writes = threading.Event()  # a write has come, and hangs
        self.asked = threading.Event()   # so has a read of the silent file, or somebody who looks for py-spy
        self._device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"muster-test", bytes(self.folder), b"fuse", 0, options) != 0:
            raise OSError(ctypes.get_errno(), "mounting a FUSE file system")
        self._server = threading.Thread(target=self._serve, daemon=True)
        self._server.start()

    def holder(self, environment=None):
        """A process that hangs in mmap."""
        process = subprocess.Popen([sys.executable, "-S", "-E", "-c", HOLDER, str(self.folder / NAME)],
                                   stdout=subprocess.PIPE, env=environment, start_new_session=True)
        with process.stdout:
            process.stdout.readline()
        if not self.writes.wait(timeout=60):
            raise AssertionError("the file's pages were not written")
        return process

    def release(self):
        """Whoever hangs goes on."""
        libc.umount2(bytes(self.folder), FORCE)  # itself fails while the file is in use
        self._server.join()

    def close(self):
        self.release()
        libc.umount2(bytes(self.folder), LAZY)
        os.close(self._device)
        self.folder.rmdir()

    def _serve(self):
        while True:
            try:
                request = os.read(self._device, MAX_REQUEST)
            except OSError:
                return
            _, opcode, unique, node, *_ = HEADER.unpack_from(request)
            body = request[HEADER.size:]
            if opcode == WRITE:
                self.writes.set()
            elif (opcode, node) == (READ, SILENT_ID) or (opcode, self._name(body)) == (LOOKUP, NEVER_FOUND):
                self.asked.set()
            elif opcode not in NEVER_ANSWERED:
                error, body = self._answer(opcode, node, body)
                os.write(self._device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    @staticmethod
    def _name(body):
        return body.rstrip(b"\0").decode(errors="replace")

    @classmethod
    def _answer(cls, opcode, node, body):
        if opcode == INIT:
            return 0, struct.pack("<IIIIHHIIHHII6I", 7, 31, 0, 0, 8, 8, 4096, 1, 1, 0, 0, 0, *[0] * 6)
        if opcode == LOOKUP:
            found = NODES.get(cls._name(body))
            if found is None:
                return ENOENT, b""
            return 0, struct.pack("<QQQQII", found, 0, FOREVER_S, FOREVER_S, 0, 0) + _attributes(found)
        if opcode == READLINK:
            return 0, os.path.realpath(sys.executable).encode()
        if opcode == GETATTR:
            return 0, struct.pack("<QII", FOREVER_S, 0, 0) + _attributes(node)
        if opcode == OPEN:
            return 0, struct.pack("<QII", 1, 0, 0)
        if opcode == READ:
            return 0, bytes(struct.unpack_from("<QQI", body)[2])
        return ENOSYS, b""

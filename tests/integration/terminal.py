"""A pseudo-terminal for the programs under test."""
import fcntl
import os
import pty
import termios
import threading

from cluster import LIMIT_S


class Terminal:
    """A pseudo-terminal; all that appears on it is read by a thread, so that nobody is held up."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self._seen = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            if not data:
                return
            self._seen += data

    def seen(self):
        return self._seen.decode(errors="replace")

    def type(self, data):
        os.write(self.master, data)

    def become_controlling(self):
        """In the child, which leads a session of its own."""
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def close(self):
        os.close(self.slave)
        self._thread.join(LIMIT_S)
        os.close(self.master)

"""A pseudo-terminal for the programs under test."""
import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
import threading

LIMIT_S = 60.0  # only a hang reaches it
MARK_AGAIN_S = 0.2  # Ctrl-C and Ctrl-Z discard unread input, including a mark


class Terminal:
    """A pseudo-terminal whose output a thread reads, so that no writer blocks."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self._seen = b""
        self._marks = 0
        self._news = threading.Condition()
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
            with self._news:
                self._seen += data
                self._news.notify_all()

    def seen(self):
        """Everything written to the terminal before this call: waits until a mark written after it was read."""
        self._marks += 1
        mark = b"\0mark %d\0" % self._marks
        with self._news, contextlib.suppress(OSError):  # a closed terminal cannot be written to
            for _ in range(int(LIMIT_S / MARK_AGAIN_S)):
                os.write(self.slave, mark)
                if self._news.wait_for(lambda: mark in self._seen, MARK_AGAIN_S):
                    break
        return re.sub(rb"\0mark \d+\0", b"", self._seen).decode(errors="replace")

    def type(self, data):
        os.write(self.master, data)

    def become_controlling(self):
        """Runs in the child, which leads its own session."""
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def close(self):
        os.close(self.slave)
        self._thread.join(LIMIT_S)
        os.close(self.master)


class Screen(Terminal):
    """A terminal with a size, and what a simple one would show, including all rows that scrolled away."""

    def __init__(self, lines, columns):
        super().__init__()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def rows(self):
        rows, row, column = [""], 0, 0
        for token in re.findall(r"\x1b\[\d*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.seen()):
            if token == "\r":
                column = 0
            elif token == "\n":
                row += 1
                rows += [""] * (row + 1 - len(rows))
            elif token.startswith("\x1b[") and token.endswith("A"):
                row -= int(token[2:-1])
            elif token == "\x1b[J":
                rows[row:] = [rows[row][:column]]
            elif not token.startswith("\x1b"):
                rows[row] = rows[row][:column].ljust(column) + token + rows[row][column + len(token):]
                column += len(token)
        return rows

"""The socket to the host: whole messages, and files in memory for longer texts."""

import _socket
import os

CONTROL_FD = 5
MAX_MESSAGE = 64 * 1024  # bytes; longer texts come in a file of their own
MAX_DESCRIPTORS = 8  # in one message


class Host:
    """A message is a kind and fields, and may bring descriptors."""

    def __init__(self):
        self._socket = _socket.socket(fileno=CONTROL_FD)
        self._socket.setblocking(True)

    def tell(self, *fields):
        self._socket.send(b"\0".join(os.fsencode(field) for field in fields)[:MAX_MESSAGE])

    def receive(self):
        """The fields and the descriptors of the next message. Ends this process if the host has ended."""
        space = _socket.CMSG_SPACE(4 * MAX_DESCRIPTORS)
        data, ancillary, _, _ = self._socket.recvmsg(MAX_MESSAGE, space, _socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        descriptors = []
        for level, kind, content in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                view = memoryview(content)
                descriptors += view[: len(view) // 4 * 4].cast("i").tolist()
        return [os.fsdecode(field) for field in data.split(b"\0")], descriptors

    def close(self):
        self._socket.close()


def read_list(descriptor):
    """The texts, each ended by a zero byte, in a file of the host. Closes it."""
    content = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    os.close(descriptor)
    return [os.fsdecode(text) for text in content.split(b"\0")[:-1]]


def environment_of(entries):
    return dict(entry.partition("=")[::2] for entry in entries)


def describe(error):
    """The error, and the line where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = " (%s, line %d)" % (trace.tb_frame.f_globals.get("__name__"), trace.tb_lineno) if trace is not None else ""
    return "%s: %s%s" % (type(error).__name__, error, where)

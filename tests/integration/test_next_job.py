"""Two jobs in a row on the same machines, at the same address and without a run id of their own."""
import pathlib
import selectors
import shutil
import socket
import sys
import tempfile
import threading
import time
import unittest

import cluster
from cluster import BINARY, Node, free_port, kill, plain_environment

DELAY_S = 0.3  # of what node 1 sends and receives: so long the first job's primary waits for it after the verdict
RECORD = "import os, sys; open(os.path.join(sys.argv[1], os.environ['GROUP_RANK']), 'a').write('ran\\n')"


class SlowWay(threading.Thread):
    """A TCP proxy that delays each piece of data."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.target = port
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        self.ended = threading.Event()

    def run(self):
        while not self.ended.is_set():
            try:
                end, _ = self.door.accept()
            except OSError:
                return
            threading.Thread(target=self.relay, args=(end,), daemon=True).start()

    def relay(self, end):
        try:
            other = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            return end.close()
        pending, closed = [], set()
        with selectors.DefaultSelector() as ready, end, other:
            for source, target in ((end, other), (other, end)):
                ready.register(source, selectors.EVENT_READ, target)
            while not self.ended.is_set() and (pending or len(closed) < 2):
                for key, _ in ready.select(0.01):
                    try:
                        data = key.fileobj.recv(65536)
                    except OSError:
                        data = b""
                    pending.append((time.monotonic() + DELAY_S, key.data, data))
                    if not data:
                        ready.unregister(key.fileobj)
                        closed.add(key.fileobj)
                while pending and pending[0][0] <= time.monotonic():
                    _, target, data = pending.pop(0)
                    try:
                        target.sendall(data) if data else target.shutdown(socket.SHUT_WR)
                    except OSError:
                        pass

    def close(self):
        self.ended.set()
        self.door.close()


class NextJob(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.port = free_port("127.0.0.1")
        self.way = SlowWay(self.port)
        self.way.start()
        self.addCleanup(self.way.close)
        self.script = self.folder / "record.py"
        self.script.write_text(RECORD)

    def begin(self, job, rank):
        folder = self.folder / job
        folder.mkdir(exist_ok=True)
        port = self.way.port if rank == 1 else self.port
        command = [str(BINARY), "run", "--nnodes", "3", "--node-rank", str(rank), "--master-addr", "127.0.0.1",
                   "--master-port", str(port), "--python", sys.executable, str(self.script), str(folder)]
        node = Node(f"{job}-{rank}", command, plain_environment(), self.folder)
        self.addCleanup(lambda: node.has_ended() or kill(node.process.pid))
        return node

    def test_a_quick_nodes_next_job_is_not_over_at_once(self):
        first = [self.begin("first", rank) for rank in range(3)]
        self.assertEqual(0, first[2].exit_code())
        quick = self.begin("second", 2)
        self.assertEqual([0, 0], [node.exit_code() for node in first[:2]])
        second = [self.begin("second", rank) for rank in range(2)] + [quick]
        self.assertEqual([0, 0, 0], [node.exit_code() for node in second], quick.err())
        self.assertEqual(["0", "1", "2"], sorted(path.name for path in (self.folder / "second").iterdir()))


if __name__ == "__main__":
    cluster.main()

"""Nodes in their own network namespaces, joined by a bridge in another. Needs root; close() removes everything."""
import os
import pathlib
import shutil
import subprocess

NETNS_FILES = pathlib.Path("/etc/netns")
NOWHERE = "02:00:00:00:00:01"  # a station that does not exist

# Forwards each connection from one address and port to another.
FORWARDER = """
import socket, sys, threading
def copy(source, target):
    try:
        while data := source.recv(4096):
            target.sendall(data)
    except OSError:
        pass
    target.close()
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    print("ready", flush=True)
    while True:
        one, _ = server.accept()
        try:
            other = socket.create_connection((sys.argv[3], int(sys.argv[2])))
        except OSError:
            one.close()
            continue
        for pair in ((one, other), (other, one)):
            threading.Thread(target=copy, args=pair, daemon=True).start()
"""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def can_make_namespaces():
    return os.geteuid() == 0 and shutil.which("ip") is not None and subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "name", "br0", "type", "bridge"], capture_output=True, check=False).returncode == 0


class Network:
    """Places 0, 1, ... have the addresses 10.77.0.1, .2, ... A place resolves names once learn() was called for it."""

    def __init__(self, places):
        self.places = range(places)
        self.hub = f"mtest{os.getpid()}hub"
        try:
            ip("netns", "add", self.hub)
            ip("-n", self.hub, "link", "add", "name", "br0", "type", "bridge")
            ip("-n", self.hub, "link", "set", "br0", "up")
            for place in self.places:
                self._add(place)
        except BaseException:
            self.close()  # names are per process: leftovers would break every later network
            raise

    def _add(self, place):
        name, port = self.namespace(place), f"port{place}"
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.hub, "link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("-n", self.hub, "link", "set", port, "master", "br0", "up")
        ip("-n", name, "link", "set", "eth0", "address", self.station(place), "up")
        ip("-n", name, "addr", "add", f"{self.address(place)}/24", "dev", "eth0")
        folder = NETNS_FILES / name
        # iproute2 does not create /etc/netns. It is never removed: concurrent tests need it too.
        folder.mkdir(parents=True)
        (folder / "hosts").write_text("127.0.0.1 localhost\n")
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")

    def namespace(self, place):
        return f"mtest{os.getpid()}n{place}"

    @staticmethod
    def address(place):
        return f"10.77.0.{place + 1}"

    @staticmethod
    def station(place):
        return f"02:00:00:00:01:{place + 1:02x}"

    @staticmethod
    def name(place):
        return f"training-workerpool{min(place, 1)}-{max(place - 1, 0)}"

    def prefix(self, place):
        return ["ip", "netns", "exec", self.namespace(place)]

    def learn(self, place):
        """From now on all places' names resolve at this one. The file is rewritten in place because it is mounted."""
        with open(NETNS_FILES / self.namespace(place) / "hosts", "a", encoding="ascii") as hosts:
            hosts.writelines(f"{self.address(other)} {self.name(other)}\n" for other in self.places)

    def ask_for_long(self, place):
        """From now on this place's resolver waits for a name server longer than muster does."""
        (NETNS_FILES / self.namespace(place) / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:5 attempts:3\n")

    # Cuts are silent: no error reaches a sender, no interface goes down.

    def cut(self, place):
        """Cuts this place off in both directions."""
        ip("-n", self.hub, "link", "set", f"port{place}", "nomaster")

    def cut_outgoing(self, place):
        """Drops everything that this place sends; packets to it arrive."""
        for other in self.places:
            if other != place:
                self._point(place, other, NOWHERE)

    def cut_incoming(self, place):
        """Drops everything sent to this place; its own packets arrive."""
        for other in self.places:
            if other != place:
                self._point(other, place, NOWHERE)

    def heal(self):
        for place in self.places:
            ip("-n", self.hub, "link", "set", f"port{place}", "master", "br0")
            for other in self.places:
                if other != place:
                    self._point(place, other, self.station(other))

    def _point(self, place, other, station):
        ip("-n", self.namespace(place), "neigh", "replace", self.address(other), "lladdr", station, "dev", "eth0",
           "nud", "permanent")

    def close(self):
        for name in [*map(self.namespace, self.places), self.hub]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
            shutil.rmtree(NETNS_FILES / name, ignore_errors=True)

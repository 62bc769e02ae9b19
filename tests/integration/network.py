"""Nodes in network namespaces of their own, joined by a bridge in one more. Root only; all of it goes at the end."""
import os
import pathlib
import shutil
import subprocess

NETNS_FILES = pathlib.Path("/etc/netns")
NOWHERE = "02:00:00:00:00:01"  # a station that is not there


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def can_make_namespaces():
    return os.geteuid() == 0 and shutil.which("ip") is not None and subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "name", "br0", "type", "bridge"], capture_output=True, check=False).returncode == 0


class Network:
    """Places 0, 1, ... have the addresses 10.77.0.1, .2, ... Names are known to a place once learn() has told it."""

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
            self.close()  # the names are this process's: what stays would fail every later network, too
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
        # iproute2 does not bring /etc/netns along. It is never removed: tests that run at the same time need it, too.
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
        """From now on the names of all places resolve at this one. The file stays the same one: it is mounted."""
        with open(NETNS_FILES / self.namespace(place) / "hosts", "a", encoding="ascii") as hosts:
            hosts.writelines(f"{self.address(other)} {self.name(other)}\n" for other in self.places)

    def ask_for_long(self, place):
        """From now on this place waits for a name server for longer than muster does."""
        (NETNS_FILES / self.namespace(place) / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:5 attempts:3\n")

    # Cuts are silent: nobody is told, no interface goes down.

    def cut(self, place):
        """Both ways."""
        ip("-n", self.hub, "link", "set", f"port{place}", "nomaster")

    def cut_outgoing(self, place):
        """What this place sends reaches nobody; what is sent to it arrives."""
        for other in self.places:
            if other != place:
                self._point(place, other, NOWHERE)

    def cut_incoming(self, place):
        """What is sent to this place does not arrive; what it sends does."""
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

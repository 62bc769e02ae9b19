"""A real Slurm on one machine: a controller and several node daemons, in a folder and a network namespace of their own.

Nobody is asked for a name or a password there (auth/none), so nothing of it may be reached from outside: hence the
namespace, and root. Each node's name is its address on the namespace's loopback.
"""
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

from cluster import LIMIT_S, TOKEN, kill, wait_until
from network import can_make_namespaces, ip

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo")
CONTROLLER_PORT = 6817
FIRST_NODE_PORT = 6820
STOP_LIMIT_S = 10.0  # a node daemon waits for its steps, and a failed test may have left one
MOST_JOBS = 60_000_000  # jobs have random ids below it: no run mistakes another test's processes for its own

CONFIGURATION = """\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/linear
SchedulerParameters=bf_interval=1,sched_interval=1
ReturnToService=2
FirstJobId={first_job}
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""


def missing():
    """The reason why no Slurm can be started here; None if one can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"there is no {', '.join(absent)} here (Debian: slurmctld, slurmd, slurm-client)"
    return None if can_make_namespaces() else "a network namespace needs root and iproute2"


class Slurm:
    """Nodes 127.0.0.1, .2, ... of one partition, up when the constructor returns; close() ends all that it started.
    settings: further lines of slurm.conf."""

    def __init__(self, nodes=3, settings=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-slurm-"))
        self.token = self.folder.name
        self.namespace = f"mtest{os.getpid()}slurm"
        self.nodes = [f"127.0.0.{place + 1}" for place in range(nodes)]
        self._daemons = []
        (self.folder / "state").mkdir()
        text = CONFIGURATION.format(folder=self.folder, controller_port=CONTROLLER_PORT,
                                    first_job=random.randrange(1, MOST_JOBS))
        lines = [f"NodeName={node} NodeHostname=localhost NodeAddr={node} Port={FIRST_NODE_PORT + place} CPUs=1"
                 for place, node in enumerate(self.nodes)]
        (self.folder / "slurm.conf").write_text(text + "\n".join([*settings, *lines]) + "\n")
        ip("netns", "add", self.namespace)
        try:
            ip("-n", self.namespace, "link", "set", "lo", "up")
            # With loopback alone the C library's resolver returns no address, and mpirun needs another one.
            ip("-n", self.namespace, "link", "add", "name", "br0", "type", "bridge")
            ip("-n", self.namespace, "addr", "add", "10.77.1.1/24", "dev", "br0")
            ip("-n", self.namespace, "link", "set", "br0", "up")
            self._start("slurmctld", "-D")
            for node in self.nodes:
                self._start("slurmd", "-D", "-N", node)
            wait_until(f"{nodes} idle nodes", lambda: self._idle() == nodes)
        except BaseException:
            self.close()
            raise

    def prefix(self):
        """Command prefix to run inside this Slurm's namespace. (`ip netns exec` would hide the cgroups.)"""
        return ["nsenter", f"--net=/run/netns/{self.namespace}"]

    def environment(self):
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *command):
        """A command's standard output."""
        done = subprocess.run([*self.prefix(), *command], env={**os.environ, **self.environment()}, check=False,
                              capture_output=True, text=True, timeout=LIMIT_S)
        return done.stdout

    def logs(self):
        return "\n".join(f"----- {path.name}\n{path.read_text(errors='replace')}"
                         for path in sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.out")))

    def _start(self, program, *arguments):
        with open(self.folder / f"{program}{len(self._daemons)}.out", "wb") as out:
            self._daemons.append(subprocess.Popen(
                [*self.prefix(), program, *arguments, "-f", str(self.folder / "slurm.conf")],
                env={**os.environ, TOKEN: self.token}, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True))

    def _idle(self):
        for daemon in self._daemons:
            if daemon.poll() is not None:
                raise AssertionError(f"{daemon.args} has ended with {daemon.returncode}\n{self.logs()}")
        return self.run("sinfo", "--noheader", "--Node", "--format=%t").split().count("idle")

    def _nobody_left(self):
        """Also ends the step daemons, which have no token."""
        pids = subprocess.run(["ip", "netns", "pids", self.namespace], check=True, capture_output=True, text=True).stdout
        for pid in map(int, pids.split()):
            kill(pid)
        return not pids

    def close(self):
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        wait_until("the end of all in the namespace", self._nobody_left)
        ip("netns", "del", self.namespace)
        shutil.rmtree(self.folder)

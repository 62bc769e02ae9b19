"""Forks the workers of a round, in a way that the host knows each before it becomes its parent."""

import _signal
import os

from .control import environment_of, read_list

# As they are before a module may have replaced them.
fork, waitpid = os.fork, os.waitpid


class Spec:
    """What one worker gets from the host."""

    def __init__(self, host):
        fields, received = host.receive()
        content, self.stdin, self.stdout, self.stderr, self.line, self.stacks = received
        texts = read_list(content)
        self.host_pid = int(texts[0])
        self.cpus = {int(cpu) for cpu in texts[1].split(",") if cpu}
        self.learn = texts[2]  # the file that gets the names of the modules that it imports; empty: none
        count = int(texts[3])
        self.arguments = texts[4 : 4 + count]
        self.environment = environment_of(texts[4 + count :])

    def close(self):
        for descriptor in (self.stdin, self.stdout, self.stderr, self.line, self.stacks):
            os.close(descriptor)


def serve(host, preloaded):
    """Answers the host until this process is a worker: returns its spec, and the pid of its first parent."""
    while True:
        fields, received = host.receive()
        if fields[0] != "fork":
            raise ValueError("unknown request %r" % fields[0])
        (gate,) = received
        specs = [Spec(host) for _ in range(int(fields[1]))]
        refused = preloaded.why_not(specs)
        if refused:
            host.tell(*refused)
        else:
            worker = fork_workers(host, specs, gate)
            if worker is not None:
                return worker
        os.close(gate)
        for spec in specs:
            spec.close()


def fork_workers(host, specs, gate):
    """In a worker: its spec, and the pid of its first parent. In the preloader: None."""
    try:
        middle = fork()
    except OSError as error:
        host.tell("failed", "no process can be made: %s" % os.strerror(error.errno))
        return None
    if middle != 0:
        reap(middle)
        return None
    middle = os.getpid()
    # Until the script runs Ctrl-C ends a worker, instead of this package.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    return fork_from_middle(host, specs, gate), middle


def fork_from_middle(host, specs, gate):
    """Returns in the workers only, with the spec of each."""
    mine = None
    pids = []
    try:
        there, leads = os.pipe()
        for spec in specs:
            pid = fork()
            if pid == 0:
                mine = spec
                break
            pids.append(pid)
        if mine is None:
            os.close(leads)
            let_go(host, gate, pids, there)
        else:
            # Before the host knows it, because a signal goes to the group that it leads.
            os.setsid()
            os.write(leads, b"s")
            for fd in (gate, there, leads):
                os.close(fd)
            for spec in specs:
                if spec is not mine:
                    spec.close()
    except OSError as error:
        if mine is None:
            end_all(pids)
            host.tell("failed", "no worker can be made: %s" % (error.strerror or error))
        os._exit(126)
    if mine is None:
        os._exit(0)
    return mine


def let_go(host, gate, pids, there):
    """Tells the host about the workers once each leads its session, and waits until it knows them."""
    for _ in pids:
        if not os.read(there, 1):
            raise OSError("one has ended at once")
    host.tell("forked", *[str(pid) for pid in pids])
    if not os.read(gate, 1):
        end_all(pids)


def reap(child):
    try:
        waitpid(child, 0)
    except ChildProcessError:
        pass  # a module has SIGCHLD ignored


def end_all(pids):
    for pid in pids:
        os.kill(pid, _signal.SIGKILL)

"""Runs torchrun many times quickly: torch is imported once, then each run is a fork of this process.

A run calls torch.distributed.run.main(), which is all of the program `torchrun`, or torch.distributed.launch.main()
if the request says so, with the arguments, environment, folder and output files of the request. Requests are lines
of JSON on stdin; answers on stdout are {"id", "pid"} when a run has started and {"id", "status"} when it has ended.
Ends when stdin does.
"""
import json
import os
import random
import selectors
import signal
import sys

# Modules that a run would import later, loaded before the fork.
import torch.distributed.elastic.rendezvous.c10d_rendezvous_backend  # noqa: F401
import torch.distributed.elastic.rendezvous.dynamic_rendezvous  # noqa: F401
import torch.distributed.elastic.rendezvous.static_tcp_rendezvous  # noqa: F401
import torch.distributed.launch
import torch.distributed.run


def answer(**fields):
    os.write(1, (json.dumps(fields) + "\n").encode())


def become_torchrun(request):
    """In the child: restores the state of a new process."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.setsid()
    for path, flags, descriptor in ((os.devnull, os.O_RDONLY, 0), (request["out"], os.O_WRONLY | os.O_CREAT, 1),
                                    (request["err"], os.O_WRONLY | os.O_CREAT, 2)):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.closerange(3, 256)  # none of these may belong to a Python object: see serve()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["torchrun", *request["arguments"]]
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    random.seed()


def serve():
    """Returns torchrun's main in a forked child, or None at the end of stdin."""
    ids, rest = {}, b""
    woken, wake = os.pipe()
    for descriptor in (woken, wake):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    # Not the default, epoll: its object owns a descriptor and is in a reference cycle. In a child the garbage collector
    # would close that number in the middle of the run, although torchrun has reused it.
    selector = selectors.PollSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(woken, selectors.EVENT_READ)
    while True:
        ready = {key.fd for key, _ in selector.select()}
        if woken in ready:
            os.read(woken, 4096)
        for pid in list(ids):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                answer(id=ids.pop(pid), status=os.waitstatus_to_exitcode(status))
        if 0 not in ready:
            continue
        data = os.read(0, 1 << 16)
        if not data:
            return None
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            pid = os.fork()
            if pid == 0:
                become_torchrun(request)
                return torch.distributed.launch.main if request["launch"] else torch.distributed.run.main
            ids[pid] = request["id"]
            answer(id=request["id"], pid=pid)


if __name__ == "__main__":
    main = serve()
    if main:
        sys.exit(main())

"""The preloading Python of `muster run --preload`: imports modules once, then forks the workers of each round.

muster starts it exactly as it starts a worker, `python -u train.py ...`, with an archive of these files in front of
PYTHONPATH. It imports the modules, and waits for the host.

    host                     preloader                 middle                worker
    "modules"  ------------> imports, looks for what
               <------------ "ready" or "unsafe"
    "fork N", N specs -----> forks the middle -------> forks N workers ----> start of a session, environment
               <----------------------------------- "forked" with the pids
    a word to each ------------------------------------------------------> waits for it
    a byte through the gate ------------------------>  exits --------------> is now a child of the host: asks to
                                                                             end with it, and goes on

The host knows each pid before it becomes the worker's parent, so no exit code can be lost. Without the host's word a
worker ends: the host becomes the parent of any orphan, also of one that it has given up.

- `start`: the order of all this, and removal of what muster did to start it.
- `control`: messages from and to the host.
- `imports`: imports the modules, and decides whether workers may be forked from them.
- `variables`: which environment variables modules read, and changes that come too late for them.
- `safety`: what else of a module a fork would get wrong.
- `files`: the modules' files, which may change or be hidden by the script's.
- `script`: the script, as far as it is known before it runs.
- `fork`: forks the workers of a round.
- `worker`: turns a fork into a worker.

All of these import few modules, of the interpreter's own in C: what is loaded here is loaded in every worker. They
are all imported before the archive is closed, and then removed from sys.modules. CPython 3.9 or later; older ones are
told apart by the host's probe.
"""

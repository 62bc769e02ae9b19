"""Runs another launcher, such as `accelerate launch`, in which muster takes the place of torchrun.

Started by `muster run accelerate launch ...` as `python ARCHIVE MUSTER COUNT OPTIONS... file|module TARGET WORDS...`:
COUNT options of muster, then the launcher and its words. Launchers that are written in Python parse their command line,
prepare the environment, and end in one function, torch.distributed.run.run(args). The one that takes its place here
turns the arguments back into options, by the actions of torch's own parser, and executes muster with the environment
as it is then. So nothing of theirs is copied, and whatever their versions make of their options counts.
"""

import collections
import importlib.machinery
import os
import runpy
import signal
import sys

LAUNCHER_MODULE = "torch.distributed.run"
IN_PROCESS_MODULE = "torch.distributed.launcher.api"
TORCHS_PORT = "29500"  # Accelerate gives it if none was asked for

# muster: its path. options: those in front of the launcher. words: the launcher's own. secrets: variables that
# muster gets, and no worker that the launcher starts itself.
Started = collections.namedtuple("Started", "muster options words secrets")


def say(text):
    print("muster: " + text, file=sys.stderr, flush=True)


def typed(words, name):
    """Whether one of the launcher's own words is an option with this in its name."""
    return any(word.startswith("-") and name in word.partition("=")[0] for word in words)


def settle(args, own_words):
    """Takes back what Accelerate sets without being asked, where a platform knows better."""
    if args.standalone and not typed(own_words, "standalone"):
        args.standalone = False  # its way round a port that is in use
    if args.rdzv_backend == "static" and args.rdzv_endpoint and str(args.nnodes) != "1":
        # So node 0 serves, on whose machine Accelerate looks whether the port is free.
        host, colon, port = args.rdzv_endpoint.rpartition(":")
        has_port = colon and port.isdigit()
        args.master_addr = host if has_port else args.rdzv_endpoint
        args.master_port = port if has_port else args.master_port
        args.rdzv_endpoint = ""
    if str(args.master_port) == TORCHS_PORT and not typed(own_words, "port"):
        args.master_port = None


def options_of(parser, args):
    """The options, as words, from which this parser would make these arguments."""
    words = []
    # By these torchrun finds the others and its own rank even if they are the defaults; muster does not.
    is_static = args.rdzv_backend == "static" and str(args.nnodes) not in ("1", "1:1")
    always = (["node_rank"] + ([] if args.rdzv_endpoint else ["master_addr"])) if is_static else []
    for action in parser._actions:
        names = [name for name in action.option_strings if name.startswith("--")]
        value = getattr(args, action.dest, None)
        is_default = str(value) == str(action.default)
        if not names or value is None or (is_default and action.dest not in always):
            continue
        if action.nargs == 0:
            words += names[:1] if value else []
        elif isinstance(value, list):
            words.append(names[0] + "=" + ",".join(str(item).replace(",", ",,") for item in value))
        else:
            words.append("%s=%s" % (names[0], value))
    if getattr(args, "use_env", True) is False:  # of torch.distributed.launch
        words.append("--pass-local-rank")
    return words


def execute_muster(parser, args, started):
    settle(args, started.words)
    words = options_of(parser, args)
    os.environ.update(started.secrets, MUSTER_CALLER_PYTHON=sys.executable)
    script = [args.training_script, *args.training_script_args]
    for name in ("SIGPIPE", "SIGXFSZ"):  # which Python ignores, and muster would pass on to the workers
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(started.muster, ["muster", "run", *started.options, "-m", LAUNCHER_MODULE, *words, "--", *script])


class AfterImport:
    """A finder that changes modules once they are imported. changes: functions of a module, by its name."""

    def __init__(self, changes):
        self.changes = changes

    def find_spec(self, name, path=None, target=None):
        change = self.changes.get(name)
        if change is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


def replace_run(started):
    def change(module):
        module.run = lambda args: execute_muster(module.get_args_parser(), args, started)

    return change


def leave_it_to_python(why):
    say(why)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def announced(function, text):
    def call(*args, **kwargs):
        leave_it_to_python(text)
        return function(*args, **kwargs)

    return call


def warn_of_workers_in_process(launcher):
    """elastic_launch passes a function, which no other process can be given."""

    def change(module):
        module.launch_agent = announced(
            module.launch_agent, "%s starts its workers from within its own process, not by torchrun: muster has no part "
            "in this job" % launcher)

    return change


def warn_of_scripts_in_process(launcher):
    """torchtune runs recipes for one device so."""
    text = "%s runs the script in its own process, not by torchrun: muster has no part in this job" % launcher
    for name in ("run_path", "run_module"):
        setattr(runpy, name, announced(getattr(runpy, name), text))


def warn_of_other_programs(launcher, words):
    """Names a program that the launcher starts in place of torchrun: its last words are the launcher's own."""

    def hook(event, details):
        if event != "subprocess.Popen" or not isinstance(details[1], (list, tuple)):
            return
        command = [os.fsdecode(word) for word in details[1]]
        if len(command) > 1 and words and command[-1] == words[-1]:
            leave_it_to_python(
                "%s starts %s itself, not by torchrun: muster has no part in this job. Accelerate does so on CPU "
                "(type: ACCELERATE_USE_CPU=true muster run --nproc-per-node N SCRIPT), for one process (type: muster "
                "run SCRIPT; both with its other settings as variables, such as ACCELERATE_MIXED_PRECISION=bf16), "
                "and for DeepSpeed on several machines (add --deepspeed_multinode_launcher standard)"
                % (launcher, os.path.basename(command[0])))

    sys.addaudithook(hook)


def main():
    archive, muster, count, *rest = sys.argv
    os.close(int(archive.rpartition("/")[2]))  # this file is all that it holds
    options, (kind, target, *words) = rest[: int(count)], rest[int(count) :]
    # Ctrl-C during the imports ends this process as it would end muster, without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    secrets = {name: os.environ.pop(name) for name in ("MUSTER_TOKEN",) if name in os.environ}
    started = Started(muster, options, words, secrets)
    launcher = os.path.basename(target)
    changes = {LAUNCHER_MODULE: replace_run(started), IN_PROCESS_MODULE: warn_of_workers_in_process(launcher)}
    sys.meta_path.insert(0, AfterImport(changes))
    for name in changes.keys() & sys.modules.keys():  # by a sitecustomize or a .pth file
        changes[name](sys.modules[name])
    warn_of_other_programs(launcher, words)
    sys.argv = [target, *words]
    # As Python sets it for a file, and for -m.
    sys.path[:1] = [os.path.dirname(os.path.realpath(target)) if kind == "file" else os.getcwd()]
    if getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    run_path, run_module = runpy.run_path, runpy.run_module
    warn_of_scripts_in_process(launcher)
    if kind == "file":
        run_path(target, run_name="__main__")
    else:
        run_module(target, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

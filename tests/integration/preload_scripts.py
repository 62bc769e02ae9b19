"""Small scripts that show what a worker can see of itself. Each runs once started afresh and once forked from a
preloaded Python, and must print the same. What differs between any two processes, pids and times, they do not print.

A name is a claim about what is equal. Further files lie beside the script; `environment` is added to that of muster.
What the interpreter does by itself once it runs the script, such as other exit codes and tracebacks, has one example.
"""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Script:
    text: str
    arguments: tuple = ()
    files: dict = dataclasses.field(default_factory=dict)  # name: text
    environment: dict = dataclasses.field(default_factory=dict)
    program: tuple = ("script.py",)  # what muster is given in place of the script
    options: tuple = ()              # of muster
    ends: int = 0                    # exit code of the worker, as muster shows it
    oldest: tuple = (3, 9)           # Python that has what the script uses


STREAMS = """
import sys
for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__):
    print(stream.name, stream.mode, stream.encoding, stream.errors, stream.newlines, stream.line_buffering,
          stream.write_through, stream.isatty(), stream.seekable(), stream.fileno(), type(stream.buffer).__name__,
          stream.buffer.mode, stream.buffer.name, stream.closed, stream is sys.__stdout__)
"""

SCRIPTS = {
    "the arguments": Script("import sys; print(sys.argv, len(sys.argv))", ("a", "--b=c d", "", "é")),
    "the whole command line": Script("import sys; print(sys.orig_argv)", ("x", "y"), oldest=(3, 10)),
    "the command line in /proc": Script("print(open('/proc/self/cmdline').read().split(chr(0)))", ("x", "y z")),
    "the path of modules": Script("import sys; print(sys.path)"),
    "the path of modules with PYTHONPATH": Script(
        "import sys, os, other; print(sys.path, os.environ['PYTHONPATH'], other.x)",
        files={"more/other.py": "x = 'other'"}, environment={"PYTHONPATH": "more:/nowhere"}),
    "the path of modules with an empty PYTHONPATH": Script(
        "import sys, os; print(sys.path, repr(os.environ['PYTHONPATH']))", environment={"PYTHONPATH": ""}),
    "importers and their caches": Script(
        "import sys; print([p for p in sorted(sys.path_importer_cache) if 'fd' in p], sys.meta_path, "
        "[str(h) for h in sys.path_hooks])"),
    "the names of the main module": Script(
        "import sys\nmain = sys.modules['__main__']\nprint(__name__, __file__, __spec__, __package__, __doc__, "
        "type(__loader__), sorted(vars(main)), __builtins__ is sys.modules['builtins'])"),
    "no sitecustomize where there is none": Script("import sys; print('sitecustomize' in sys.modules)"),
    "a sitecustomize of the user's": Script(
        "import sys, os; print(sys.modules['sitecustomize'].__file__, sys.modules['sitecustomize'].x, "
        "os.environ['SET_BY_SITE'], sys.path)",
        files={"site/sitecustomize.py": "import os\nx = 1\nos.environ['SET_BY_SITE'] = 'yes'"},
        environment={"PYTHONPATH": "site"}),
    "a module in the current folder": Script(
        "", files={"work/job.py": "import sys\nprint(__name__, __spec__.name, __spec__.origin, __file__, "
                                  "__package__ or '', sys.argv, sys.path)"},
        program=("-m", "work.job"), arguments=("a",)),
    "a folder with a main module": Script(
        "", files={"folder/__main__.py": "import sys\nprint(sys.argv, sys.path, __file__, __spec__)"},
        program=("folder",)),
    "a script behind a link": Script(
        "", files={"real/script.py": "import sys, beside\nprint(sys.argv, sys.path[0], __file__, beside.x)",
                   "real/beside.py": "x = 3", "link.py": ("real/script.py",)}, program=("link.py",)),
    "a script by an absolute path": Script(
        "import sys; print(sys.argv[0] == __file__, sys.path[0])", program=("{folder}/script.py",)),
    "the environment": Script(
        "import os\nskip = ('MUSTER_', 'TORCHELASTIC_RUN_ID', 'TORCHELASTIC_ERROR_FILE', 'MASTER_PORT',\n"
        "        'JAX_COORDINATOR_ADDRESS')\n"
        "print([(k, v) for k, v in os.environ.items() if not k.startswith(skip)])\n"
        "print(type(os.environ), type(os.environb), len(os.environ) == len(os.environb))\n"
        "import posix; print({os.fsdecode(k): os.fsdecode(v) for k, v in posix.environ.items()} == dict(os.environ))",
        environment={"EMPTY": "", "ODD": "a=b=c", "PYTHONBREAKPOINT": "x.y"}),
    "the environment of a child process": Script(
        "import subprocess, os\nprint(subprocess.run(['env'], capture_output=True).stdout.decode().splitlines() == "
        "[f'{k}={v}' for k, v in os.environ.items()])\n"
        "os.environ['NEW'] = '1'; del os.environ['RANK']\n"
        "print(subprocess.run(['sh', '-c', 'echo $NEW $RANK'], capture_output=True).stdout)"),
    "the settings of the interpreter": Script(
        "import sys\nprint(sys.flags, sys.warnoptions, sys._xoptions, sys.executable, sys.prefix, sys.exec_prefix, "
        "sys.dont_write_bytecode, sys.getrecursionlimit(), sys.getswitchinterval(), sys.version)"),
    "standard streams": Script(STREAMS),
    "standard streams with another encoding": Script(
        STREAMS + "print('ä€')", environment={"PYTHONIOENCODING": "ascii:xmlcharrefreplace"}),
    "output in the order in which it is written": Script(
        "import os, sys\nprint('one', end=' ')\nos.write(1, b'two ')\nsys.stdout.buffer.write(b'three ')\n"
        "print('four', file=sys.stderr)\nsys.stdout.write('five')"),
    "what is read from standard input": Script("import sys; print(repr(sys.stdin.read()), sys.stdin.isatty())"),
    "the working directory, umask and limits": Script(
        "import os, resource\nprint(os.getcwd(), oct(os.umask(0)))\n"
        "print([(n, resource.getrlimit(getattr(resource, n))) for n in sorted(dir(resource)) "
        "if n.startswith('RLIMIT_')])"),
    "signal dispositions and masks": Script(
        "import signal\nfor line in open('/proc/self/status'):\n"
        "    if line.startswith(('SigBlk', 'SigIgn', 'SigPnd', 'ShdPnd')): print(line, end='')\n"
        "    if line.startswith('SigCgt'): print(f\"{int(line.split()[1], 16) & ~(1 << 61):x}\")\n"
        "print([(s.name, signal.getsignal(s)) for s in sorted(signal.valid_signals()) "
        "if isinstance(s, signal.Signals)])\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []))"),
    "open descriptors": Script(
        "import os\nprint([(d, os.get_inheritable(int(d))) for d in sorted(os.listdir('/proc/self/fd')) "
        "if os.path.exists('/proc/self/fd/' + d) and d != '1000'])"),
    "session, group, terminal and parent": Script(
        "import os, ctypes\npid = os.getpid()\nprint(os.getsid(0) == pid, os.getpgid(0) == pid, os.isatty(0), "
        "os.path.basename(os.readlink(f'/proc/{os.getppid()}/exe')))\n"
        "number = ctypes.c_int()\nprint(ctypes.CDLL(None).prctl(2, ctypes.byref(number)), number.value)\n"
        "try: print(open('/dev/tty'))\nexcept OSError as error: print(error)"),
    "what the kernel keeps of the process": Script(
        "import os\nprint(os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0), os.getgroups(), os.getuid())\n"
        "for line in open('/proc/self/status'):\n"
        "    if line.startswith(('Name', 'TracerPid', 'NoNewPrivs', 'Seccomp:', 'CapEff', 'Threads')): print(line)"),
    "the main thread": Script(
        "import threading, os\nmain = threading.main_thread()\nprint(main is threading.current_thread(), main.name, "
        "main.ident == threading.get_ident(), main.native_id == os.getpid(), threading.active_count(), "
        "threading.get_native_id() == os.getpid())"),
    "threads at the end": Script(
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
        "print('main')"),
    "the order at the end": Script(
        "import atexit, threading, weakref\natexit.register(print, 'first')\natexit.register(print, 'second')\n"
        "class C:\n    def __del__(self): print('deleted')\nc = C()\nweakref.finalize(c, print, 'finalized')"),
    "the stack of the script": Script(
        "import traceback, sys, inspect\ntraceback.print_stack()\ndef f(): traceback.print_stack(); "
        "return sys._getframe(1).f_back\nprint(f(), len(inspect.stack()))"),
    "the depth of recursion": Script(
        "def f(n):\n    try: return f(n + 1)\n    except RecursionError: return n\nprint(f(0))"),
    "a traceback": Script(
        "def f(x):\n    return 1 / x\ntry:\n    f(0)\nexcept ZeroDivisionError as error:\n"
        "    raise ValueError('why') from error", ends=1),
    "exit code 3": Script("import sys; sys.exit(3)", ends=3),
    "an interrupt": Script("raise KeyboardInterrupt", ends=130),
    "a signal from itself": Script("import os; os.kill(os.getpid(), 15)", ends=143),
    "a crash with its stack": Script("import ctypes\ndef f(): ctypes.string_at(0)\nf()", ends=139),
    "processes made by fork": Script(
        "import multiprocessing as m, os\ndef f(q): q.put((m.current_process().name, m.parent_process().name))\n"
        "if __name__ == '__main__':\n    c = m.get_context('fork'); q = c.Queue(); p = c.Process(target=f, args=(q,))\n"
        "    p.start(); print(q.get(), m.current_process().name, m.parent_process()); p.join(); print(p.exitcode)"),
    "processes made by spawn": Script(
        "import multiprocessing as m, sys\ndef f(x): return x * x, __name__, sys.argv, str(sys.flags)\n"
        "if __name__ == '__main__':\n    with m.get_context('spawn').Pool(2) as p: print(p.map(f, range(3)))",
        arguments=("a",)),
    "child processes": Script(
        "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys; print(sys.path[1:], "
        "\"sitecustomize\" in sys.modules)'], capture_output=True, text=True))\n"
        "print(subprocess.run('exit 3', shell=True).returncode)"),
    "hooks of fork": Script(
        "import os\nos.register_at_fork(before=lambda: print('before'), "
        "after_in_parent=lambda: (os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT), print('parent')), "
        "after_in_child=lambda: print('child'))\np = os.fork()\nif p == 0: os._exit(0)\nos.waitpid(p, 0)"),
    "no child process of its own": Script(
        "import os\ntry: print(os.waitpid(-1, os.WNOHANG))\nexcept ChildProcessError as error: print(error)"),
    "seeded random numbers": Script(
        "import random; random.seed(3); print(random.random(), random.getrandbits(64), random.sample(range(99), 3))"),
    "warnings": Script(
        "import warnings\nwarnings.warn('mine')\nwarnings.warn('old', DeprecationWarning)\n"
        "for i in range(2): warnings.warn('again', RuntimeWarning)"),
    "logging": Script(
        "import logging\nlogging.warning('x')\nlogging.basicConfig(level=10, format='%(name)s %(process)d')\n"
        "r = logging.makeLogRecord({})\nprint(r.relativeCreated < 30_000, r.processName, r.threadName)\n"
        "print(logging.root.handlers, logging.lastResort)"),
    "the garbage collector": Script("import gc; print(gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.get_debug())"),
    "finders and hooks": Script(
        "import sys\nprint(sys.displayhook, sys.excepthook, sys.gettrace(), sys.getprofile(), sys.breakpointhook)\n"
        "import os; print(os.getpid, os.fork, os.environ.__class__.__name__)"),
    "stacks on a signal of its own": Script(
        "import faulthandler, signal, os\nfaulthandler.register(signal.SIGUSR1)\nos.kill(os.getpid(), signal.SIGUSR1)"),
    "what a module finds of the script": Script(
        "import asks; print(asks.found)",
        files={"asks.py": "import __main__, sys\nfound = (__main__.__file__, sys.argv)"}),
}

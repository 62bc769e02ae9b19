"""Small scripts that show what a worker can see of itself. Each runs once started afresh and once forked from a
preloaded Python, and must print the same. What differs between any two processes, pids and times, they do not print.

A name is a claim about what is equal. Further files lie beside the script; `environment` is added to that of muster."""
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
    "a package with relative imports": Script(
        "", files={"pack/__init__.py": "print('package')", "pack/__main__.py": "from . import x\nprint(x.y, __spec__)",
                   "pack/x.py": "y = 2"}, program=("-m", "pack")),
    "a folder with a main module": Script(
        "", files={"folder/__main__.py": "import sys\nprint(sys.argv, sys.path, __file__, __spec__)"},
        program=("folder",)),
    "a script behind a link": Script(
        "", files={"real/script.py": "import sys, beside\nprint(sys.argv, sys.path[0], __file__, beside.x)",
                   "real/beside.py": "x = 3", "link.py": ("real/script.py",)}, program=("link.py",)),
    "a script by an absolute path": Script(
        "import sys; print(sys.argv[0] == __file__, sys.path[0])", program=("{folder}/script.py",)),
    "a script in another folder": Script(
        "", files={"sub/script.py": "import sys\nprint(sys.argv, __file__, sys.path[0])"},
        program=("./sub/../sub/script.py",)),
    "a coding cookie, and no newline at the end": Script("# -*- coding: latin-1 -*-\nprint(__file__, 'x')\nprint(1)"),
    "a module of the script's own folder": Script(
        "import helper; print(helper.__file__, helper.__spec__)", files={"helper.py": "pass"}),
    "the environment": Script(
        "import os\nskip = ('MUSTER_', 'TORCHELASTIC_RUN_ID', 'TORCHELASTIC_ERROR_FILE', 'MASTER_PORT')\n"
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
    "settings by variables": Script(
        "import sys, warnings\nprint(sys.flags, sys.warnoptions, sys._xoptions, warnings.filters)",
        environment={"PYTHONWARNINGS": "error::UserWarning,ignore", "PYTHONDONTWRITEBYTECODE": "1",
                     "PYTHONOPTIMIZE": "1", "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "latin-1:replace"}),
    "developer mode": Script(
        "import sys, faulthandler\nprint(sys.flags.dev_mode, faulthandler.is_enabled(), sys.stdout.encoding)",
        environment={"PYTHONDEVMODE": "1"}),
    "standard streams": Script(STREAMS),
    "standard streams with another encoding": Script(
        STREAMS + "print('ä€')", environment={"PYTHONIOENCODING": "ascii:xmlcharrefreplace"}),
    "output in the order in which it is written": Script(
        "import os, sys\nprint('one', end=' ')\nos.write(1, b'two ')\nsys.stdout.buffer.write(b'three ')\n"
        "print('four', file=sys.stderr)\nsys.stdout.write('five')"),
    "much output": Script("print('x' * 100_000)\nfor i in range(20_000): print(i)"),
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
    "a traceback of a module": Script("import bad", files={"bad.py": "x = 1\n\nraise OSError(2, 'no')"}, ends=1),
    "an error of syntax": Script("x = 1\nif x\n    pass\n", ends=1),
    "a module that is missing": Script("import there_is_none", ends=1),
    "an exception while another is handled": Script("try: 1/0\nexcept ZeroDivisionError: {}['x']", ends=1),
    "an exception in a thread": Script(
        "import threading\nt = threading.Thread(target=lambda: 1/0, name='T')\nt.start(); t.join(); print('on')"),
    "an exception at exit": Script("import atexit\natexit.register(lambda: 1/0)\nprint('on')"),
    "a hook for exceptions": Script(
        "import sys\nsys.excepthook = lambda *a: print('hook', a[0], a[1])\n1/0", ends=1),
    "exit code 0": Script("import sys; sys.exit()"),
    "exit code 3": Script("import sys; sys.exit(3)", ends=3),
    "exit code 256": Script("import sys; sys.exit(256)"),
    "exit with a text": Script("import sys; sys.exit('a text')", ends=1),
    "exit with True": Script("raise SystemExit(True)", ends=1),
    "exit without cleaning up": Script("import os, atexit; atexit.register(print, 'no'); os._exit(5)", ends=5),
    "exit from a thread": Script("import threading, os; threading.Thread(target=os._exit, args=(6,)).start()\n"
                                 "import time; time.sleep(60)", ends=6),
    "an interrupt": Script("raise KeyboardInterrupt", ends=130),
    "a signal from itself": Script("import os; os.kill(os.getpid(), 15)", ends=143),
    "a crash with its stack": Script("import ctypes\ndef f(): ctypes.string_at(0)\nf()", ends=139),
    "an abort": Script("import os; os.abort()", ends=134),
    "another program in its place": Script("import os; os.execvp('sh', ['sh', '-c', 'echo $0 $RANK; exit 4'])", ends=4),
    "a broken pipe": Script(
        "import os, signal\nr, w = os.pipe(); os.close(r)\ntry: os.write(w, b'x')\n"
        "except BrokenPipeError as error: print(error)\nprint(signal.getsignal(signal.SIGPIPE))"),
    "processes made by fork": Script(
        "import multiprocessing as m, os\ndef f(q): q.put((m.current_process().name, m.parent_process().name))\n"
        "if __name__ == '__main__':\n    c = m.get_context('fork'); q = c.Queue(); p = c.Process(target=f, args=(q,))\n"
        "    p.start(); print(q.get(), m.current_process().name, m.parent_process()); p.join(); print(p.exitcode)"),
    "processes made by spawn": Script(
        "import multiprocessing as m, sys\ndef f(x): return x * x, __name__, sys.argv, str(sys.flags)\n"
        "if __name__ == '__main__':\n    with m.get_context('spawn').Pool(2) as p: print(p.map(f, range(3)))",
        arguments=("a",)),
    "processes made by a fork server": Script(
        "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n"
        "    with m.get_context('forkserver').Pool(1) as p: print(p.map(f, range(3)))"),
    "an executor of processes": Script(
        "from concurrent.futures import ProcessPoolExecutor as E\ndef f(x): return -x\n"
        "if __name__ == '__main__':\n    with E(2) as e: print(list(e.map(f, range(4))))"),
    "child processes": Script(
        "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys; print(sys.path[1:], "
        "\"sitecustomize\" in sys.modules)'], capture_output=True, text=True))\n"
        "print(subprocess.run('exit 3', shell=True).returncode)"),
    "child processes of asyncio": Script(
        "import asyncio\nasync def f():\n    p = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1)\n"
        "    print(await p.communicate(), p.returncode)\nasyncio.run(f())"),
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
    "temporary files": Script(
        "import tempfile, os\nwith tempfile.NamedTemporaryFile() as f: print(os.path.dirname(f.name))\n"
        "print(tempfile.gettempdir())"),
    "locale and time zone": Script(
        "import locale, time\nprint(locale.getlocale(), locale.getpreferredencoding(), time.tzname, time.timezone)",
        environment={"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}),
    "the garbage collector": Script("import gc; print(gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.get_debug())"),
    "a breakpoint without a keyboard": Script("breakpoint()\nprint('on')", environment={"PYTHONBREAKPOINT": "0"}),
    "finders and hooks": Script(
        "import sys\nprint(sys.displayhook, sys.excepthook, sys.gettrace(), sys.getprofile(), sys.breakpointhook)\n"
        "import os; print(os.getpid, os.fork, os.environ.__class__.__name__)"),
    "a handler for SIGTERM": Script(
        "import signal, os\nsignal.signal(signal.SIGTERM, lambda *a: print('handled'))\nos.kill(os.getpid(), 15)\n"
        "print('after')"),
    "stacks on a signal of its own": Script(
        "import faulthandler, signal, os\nfaulthandler.register(signal.SIGUSR1)\nos.kill(os.getpid(), signal.SIGUSR1)"),
    "a package with data": Script(
        "import importlib.resources as r, pack\nprint(r.files('pack').joinpath('data.txt').read_text())",
        files={"pack/__init__.py": "", "pack/data.txt": "data"}),
    "what a module finds of the script": Script(
        "import asks; print(asks.found)",
        files={"asks.py": "import __main__, sys\nfound = (__main__.__file__, sys.argv)"}),
}

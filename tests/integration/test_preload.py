"""--preload: what the first round waits for, what is not preloaded and why, and what becomes of the preloader."""
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

import cluster
import stack_tools
from cluster import ClusterTest, wait_until

PACKAGES = cluster.ROOT / "agent/host/preload/python"
sys.path.insert(0, str(PACKAGES))
from muster_preload import script, worker  # noqa: E402

VENV = cluster.ROOT / ".venv/bin/python"
IMPORTED = r"--preload: imported (.*) in \S+"
OFF = r"--preload is off, workers start normally: (.*)"
# A line in one piece: print() makes two writes of it, which mix with those of other workers.
SAY = "import os\ndef say(*what): os.write(1, (' '.join(map(str, what)) + '\\n').encode())\n"
LEFT_OUT = r"--preload: each worker imports (\S+) itself, because it (.*)"


class Package(unittest.TestCase):
    """Modules of muster_preload by themselves, without muster."""

    def test_a_worker_waits_until_the_host_is_its_parent(self):
        self.assertTrue(self.becomes_child([2000, 2000, 1000]))
        self.assertTrue(self.becomes_child([1000]))

    def test_a_worker_that_another_process_adopts_has_lost_its_host(self):
        self.assertFalse(self.becomes_child([2000, 1]))

    @staticmethod
    def becomes_child(parents):
        with unittest.mock.patch("os.getppid", side_effect=parents):
            return worker.becomes_child_of(host_pid=1000, middle=2000)

    def test_writes_of_a_variable_are_told_from_reads(self):
        for text in ("os.environ['X'] = '1'", 'environ["X"]="1"', "os.environ.setdefault('X', y)", "putenv( 'X', y)",
                     "del os.environ['X']", "os.environ.pop('X', None)"):
            self.assertTrue(script.writes_variable(text, "X"), text)
        for text in ("os.environ['X']", "if os.environ['X'] == '1':", "os.environ.get('X')", "print('X')", "x = 'X'"):
            self.assertFalse(script.writes_variable(text, "X"), text)


class Imported(unittest.TestCase):
    """Modules that muster_preload imports in a Python of its own, without muster."""

    IMPORTS = ("import os, sys\nsys.path[:0] = sys.argv[1:3]\nfrom muster_preload import imports\ndel sys.path[0]\n"
               "try: done = imports.Preloading({'RANK', 'LOCAL_RANK'}, False).run(['module'], dict(os.environ))\n"
               "except imports.Unsafe as unsafe: print(unsafe.why)\n")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-preload-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def result(self, text, then="", python=sys.executable, **files):
        """What is printed when a module with this text is imported: why it is unsafe, and what `then` prints."""
        for name, content in {"module": text, **files}.items():
            (self.folder / f"{name}.py").write_text(content)
        done = subprocess.run([python, "-B", "-c", self.IMPORTS + then, PACKAGES, self.folder], capture_output=True,
                              text=True, timeout=cluster.LIMIT_S, env=cluster.plain_environment())
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout.rstrip("\n")

    def test_what_a_fork_would_get_wrong_is_unsafe(self):
        for text, why in {
                "import os\nos.environ.get('LOCAL_RANK')": "reads LOCAL_RANK",
                "import os\nx = 'RANK' in os.environ": "reads RANK",
                "import os\nos.environb.get(b'RANK')": "reads RANK",
                "import inner": r"reads RANK \(in inner\)",
                "import os\nCOPY = os.environ.copy()": "reads all variables",
                "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()":
                    "starts a thread",
                "import socket\ns = socket.socket()": r"keeps a descriptor open \(socket:.*\)",
                "import multiprocessing\nlock = multiprocessing.get_context('fork').Lock()":
                    "shares memory with its forks .*",
                "import random\nrandom.seed(7)": "seeds the generator of random, or draws from it",
                "import tempfile\nfolder = tempfile.TemporaryDirectory()": r"makes a temporary folder \(in module\)",
                "raise ValueError('no')": "cannot be imported: ValueError: no",
                "raise SystemExit(3)": "cannot be imported: SystemExit: 3"}.items():
            with self.subTest(text):
                self.assertRegex(self.result(text, inner="import os\nos.getenv('RANK')"), f"^{why}$")

    def test_a_variable_of_all_workers_may_be_read_and_changed(self):
        self.assertEqual("None {'NEW': '1'}", self.result(
            "import os\nos.environ['NEW'] = str(1 + len(os.environ.get('OTHER', '')))",
            "print(done.reads['OTHER'][0], done.changes)"))

    @unittest.skipUnless(VENV.exists(), "needs numpy")
    def test_the_generator_of_numpy_may_be_loaded_but_not_seeded(self):
        self.assertEqual("", self.result("import numpy.random", python=VENV))
        self.assertEqual("seeds the generator of numpy.random, or draws from it",
                         self.result("import numpy\nnumpy.random.seed(1)", python=VENV))

    def test_a_module_is_hidden_by_another_one_in_the_scripts_folder_only(self):
        """Of an archive, too: its modules have no files of their own."""
        with zipfile.ZipFile(self.folder / "packed.zip", "w") as archive:
            archive.writestr("packed.py", "")
        work = self.folder / "work"
        work.mkdir()
        text = "import sys\nsys.path.append(sys.argv[2] + '/packed.zip')\nimport packed"
        then = "print(done.files.shadowed_in(sys.argv[2] + '/work'), done.files.shadowed_in(sys.argv[2]))"
        for name in ("module.txt", "other.py"):
            (work / name).touch()
        self.assertEqual("None None", self.result(text, then))
        for name, found in (("packed.py", "packed"), ("module.py", "module")):
            (work / name).touch()
            self.assertEqual(f"{found} None", self.result(text, then))
            (work / name).unlink()

    def test_a_module_of_ours_is_not_left_in_the_interpreter(self):
        then = ("from muster_preload import start\nos.dup2(2, start.ARCHIVE_FD)\nstart.leave_no_trace({})\n"
                "print([name for name in sys.modules if 'muster' in name])")
        self.assertEqual("[]", self.result("", then))


class Preload(ClusterTest):
    """One node. `modules` are written to a folder on PYTHONPATH; the script prints what a worker sees."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-preload-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "modules").mkdir()
        (self.folder / "work").mkdir()

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def environment(self, **more):
        return {**cluster.plain_environment(), "PYTHONPATH": str(self.folder / "modules"),
                "PYTHONDONTWRITEBYTECODE": "1", **more}

    def start(self, script, preload, *options, nproc=1, environment=None, arguments=(), python=sys.executable,
              launcher=(str(cluster.BINARY), "run")):
        path = script if isinstance(script, pathlib.Path) else self.write("work/script.py", script)
        command = [*launcher, "--nproc-per-node", str(nproc), "--python", python,
                   "--preload", preload, *options, str(path), *arguments]
        node = cluster.Node("node", command, {**self.environment(), **(environment or {})}, self.folder,
                            cwd=self.folder / "work")
        self.addCleanup(self.end, node)
        return node

    def end(self, node):
        if not node.has_ended():
            node.process.kill()
        node.exit_code()

    def run_job(self, *arguments, code=0, **more):
        node = self.start(*arguments, **more)
        self.assertEqual(code, node.exit_code(), node.err())
        return node

    def assert_forked(self, node):
        """No round has started normally."""
        self.assertTrue(node.said(IMPORTED), node.err())
        self.assertEqual([], node.said("start normally"))

    def preloader(self, node):
        """The pid of the preloading Python; None: there is none now."""
        found = [pid for pid in cluster.children(node.process.pid) if cluster.is_preloader(pid) and cluster.is_alive(pid)]
        return found[0] if len(found) == 1 else None

    @staticmethod
    def environ_of(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/environ").read_text()
        except OSError:
            return ""

    # What is preloaded.

    def test_the_workers_of_every_restart_find_the_modules(self):
        self.write("modules/slow.py", "import os\nopen(os.environ['COUNT'], 'a').write('x')")
        count = self.folder / "count"
        script = (SAY + "import sys\nsay('slow' in sys.modules)\nimport slow\n"
                  "n = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\nsys.exit(0 if n == 2 else 3)")
        node = self.run_job(script, "slow", "--max-restarts", "2", "--restart-delay", "0", nproc=2,
                            environment={"COUNT": str(count)})
        self.assertEqual({"True"}, set(node.out().splitlines()))
        self.assertEqual("x", count.read_text())
        self.assert_forked(node)

    def test_each_worker_has_its_own_environment_and_arguments(self):
        script = SAY + "import sys, json\nsay(json.dumps([os.environ['RANK'], os.environ['LOCAL_RANK'], sys.argv[1:]]))"
        node = self.run_job(script, "json", "--pass-local-rank", nproc=12, arguments=["${local_rank}", "end"])
        seen = sorted((json.loads(line) for line in node.out().splitlines()), key=lambda line: int(line[0]))
        for rank, (global_rank, local_rank, argv) in enumerate(seen):
            self.assertEqual([str(rank), str(rank)], [global_rank, local_rank])
            self.assertEqual([f"--local-rank={rank}", str(rank), "end"], argv)
        self.assert_forked(node)

    def test_a_module_of_the_script_is_as_it_is_on_disk_in_each_round(self):
        self.write("work/own.py", "x = 0")
        script = ("import os, sys, own\nn = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\nprint(own.x, flush=True)\n"
                  "open('own.py', 'w').write('x = %d' % (n + 1))\nsys.exit(0 if n == 2 else 3)")
        node = self.run_job(script, "json", "--max-restarts", "2", "--restart-delay", "0")
        self.assertEqual("0\n1\n2\n", node.out())
        self.assert_forked(node)

    def test_workers_draw_different_random_numbers(self):
        node = self.run_job(SAY + "import random, multiprocessing\n"
                            "say(random.random(), multiprocessing.current_process().authkey.hex())",
                            "random,multiprocessing", nproc=3)
        lines = node.out().splitlines()
        self.assertEqual(3, len({line.split()[0] for line in lines}), lines)
        self.assertEqual(3, len({line.split()[1] for line in lines}), lines)
        self.assert_forked(node)

    def test_what_is_printed_at_the_import_is_shown_once(self):
        self.write("modules/loud.py", "print('it says'); import sys; print('it warns', file=sys.stderr)")
        node = self.run_job(SAY + "import loud; say('worker')", "loud", nproc=2)
        wait_until("both lines", lambda: node.said("preload: it says") and node.said("preload: it warns"))
        self.assertEqual(["worker"] * 2, node.out().splitlines())

    def test_nodes_of_muster_local_have_one_each(self):
        node = self.run_job(SAY + "import sys; say(os.environ['RANK'], 'json' in sys.modules)", "json", nproc=2,
                            launcher=(str(cluster.BINARY), "local", "--nodes", "2"))
        self.assertEqual(["0 True", "1 True", "2 True", "3 True"],
                         sorted(line.split("] ")[-1] for line in node.out().splitlines()), node.out())
        self.assertEqual(["json", "json"], node.said(IMPORTED))

    # What is not, and what is said.

    def check_left_out(self, text, why, script="import bad; say('worker')", **more):
        self.write("modules/bad.py", text)
        node = self.run_job(SAY + script, "json,bad", nproc=2, **more)
        self.assertEqual("worker\n" * 2, node.out())
        ((module, reason),) = node.said(LEFT_OUT)
        self.assertEqual("bad", module)
        self.assertRegex(reason, why)
        self.assertEqual(["json"], node.said(IMPORTED))

    def test_a_module_that_reads_a_rank(self):
        self.check_left_out("import os\nos.environ.get('LOCAL_RANK')", "^reads LOCAL_RANK$")

    def test_a_python_that_opens_a_descriptor_at_its_start(self):
        python = stack_tools.interpreter(self.folder)
        packages = subprocess.run([python, "-m", "site", "--user-site"], env=self.environment(PYTHONUSERBASE="base"),
                                  capture_output=True, text=True, timeout=cluster.LIMIT_S, check=False).stdout.strip()
        folder = self.folder / packages
        folder.mkdir(parents=True)
        (folder / "opens.pth").write_text("import os; os.open('/dev/null', 0)\n")
        node = self.run_job(SAY + "say('worker')", "json", python=python,
                            environment={"PYTHONUSERBASE": str(self.folder / "base")})
        self.assertEqual("worker\n", node.out())
        self.assertEqual(["the start of this Python (a file .pth, say) keeps a descriptor open (/dev/null)"],
                         node.said(OFF))

    def test_a_sitecustomize_that_reads_a_rank_is_blamed_itself(self):
        self.write("modules/sitecustomize.py", "import os\nrank = os.environ.get('RANK')")
        node = self.run_job(SAY + "import sys; say(sys.modules['sitecustomize'].rank)", "json", nproc=2)
        self.assertEqual(["0", "1"], sorted(node.out().splitlines()))
        self.assertEqual(["the start of this Python (sitecustomize) reads RANK (in sitecustomize)"], node.said(OFF))

    def test_a_module_that_closes_every_descriptor_makes_no_worker_without_a_rank(self):
        self.write("modules/bad.py", "import os\nos.closerange(3, 1000)")
        node = self.run_job(SAY + "say(os.environ.get('RANK'))", "bad")
        self.assertEqual("0\n", node.out())
        self.assertNotIn("preload: None", node.err())

    def test_forks_that_take_too_long_leave_no_second_worker_of_a_rank(self):
        self.write("modules/slow_fork.py", "import os, time\nos.register_at_fork(before=lambda: time.sleep(1.6))")
        node = self.run_job(SAY + "say(os.environ['RANK'])", "slow_fork", nproc=4)
        self.assertEqual(["0", "1", "2", "3"], sorted(node.out().splitlines()))
        self.assertTrue(node.said("does not answer"))

    def test_what_a_wrapper_of_the_interpreter_sets_is_set(self):
        wrapper = self.write("python", f"#!/bin/sh\nexport WRAPPED=1 PATH=/wrapped:$PATH\nexec {sys.executable} \"$@\"\n")
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        script = "import os; print(os.environ['WRAPPED'], os.environ['PATH'].split(':')[0])"
        node = self.run_job(script, "json", python=str(wrapper))
        self.assertEqual("1 /wrapped\n", node.out())
        self.assertEqual([], node.said(OFF))

    def test_a_module_that_replaces_what_a_fork_needs(self):
        self.write("modules/bad.py", "import codecs, sys\nsys.stdout = codecs.getwriter('utf-8')(sys.stdout.buffer)")
        node = self.run_job(SAY + "import bad; say('worker')", "bad", nproc=2)
        self.assertEqual("worker\n" * 2, node.out())
        self.assertRegex(node.said(OFF)[0],
                         r"no worker can be made of it: AttributeError: .* \(muster_preload.worker, line")

    def test_a_fork_that_cannot_become_a_worker_ends_preloading(self):
        """In the rehearsal it could."""
        self.write("modules/bad.py", "import atexit, os\nreal = atexit.register\ndef register(function):\n"
                                     "    if 'RANK' in os.environ: raise OSError(28, 'no')\n    real(function)\n"
                                     "atexit.register = register")
        node = self.run_job(SAY + "say('worker')", "bad", "--max-restarts", "1", "--restart-delay", "0")
        self.assertEqual("worker\n", node.out())
        self.assertIn("from the preloaded modules", node.said(OFF)[0])

    def test_a_module_that_is_not_there(self):
        node = self.run_job("print('worker')", "nowhere_to_be_found")
        self.assertEqual("worker\n", node.out())
        self.assertRegex(node.said(OFF)[0], "no module is left to preload")

    def test_a_variable_that_the_script_sets_itself(self):
        self.write("modules/reads.py", "import os\nx = os.environ.get('SETTING')")
        node = self.run_job("import os\nos.environ['SETTING'] = 'y'\nimport reads; print(reads.x)", "reads")
        self.assertEqual("y\n", node.out())
        self.assertEqual(["the script sets SETTING, which reads read when it was imported"], node.said(OFF))

    def test_a_variable_that_is_set_too_late_is_named_by_the_worker(self):
        self.write("modules/reads.py", "import os\nx = os.environ.get('SETTING')")
        node = self.run_job("import os\nname = 'SET' + 'TING'\nfor i in range(2): os.environ[name] = 'y'\n"
                            "os.environ['OMP_' + 'X'] = '1'\nos.environ['FREE'] = '1'\nimport reads; print(reads.x)",
                            "reads")
        self.assertEqual("None\n", node.out())
        self.assertEqual(["SETTING"], node.said("muster: the script changes (\\S+), but"))

    def test_an_installed_helper_that_sets_a_variable_too_late_is_named_too(self):
        """What it sets while it is imported is set at the same time in a fresh worker."""
        self.write("modules/reads.py", "import os\nx = os.environ.get('LATE'), os.environ.get('SAME')\n"
                                       "y = os.environ.get('EARLY')")
        packages = self.folder / "modules/site-packages"
        packages.mkdir()
        (packages / "helper.py").write_text("import os\nos.environ['EARLY'] = '1'\n"
                                            "def load(name, value): os.environ[name] = value\n")
        # The import system has the second name where nothing has imported importlib.
        for name in ("importlib._bootstrap", "_frozen_importlib"):
            node = self.run_job(f"import sys\nsys.modules['_frozen_importlib'].__name__ = {name!r}\n"
                                "import helper\nhelper.load('LA' + 'TE', '1')\nhelper.load('SA' + 'ME', 'x')", "reads",
                                environment={"SAME": "x", "PYTHONPATH": f"{self.folder / 'modules'}:{packages}"})
            self.assertEqual(["LATE"], node.said("muster: the script changes (\\S+), but"), name)

    @unittest.skipUnless(VENV.exists(), "needs numpy")
    def test_a_variable_of_native_libraries_that_is_set_too_late_is_named(self):
        node = self.run_job("import os\nos.environ['OMP_' + 'X'] = '1'", "numpy", python=str(VENV))
        self.assertEqual(["OMP_X"], node.said("muster: the script changes (\\S+), but"))

    def learned(self):
        return list((self.folder / "cache" / "muster" / "preload").glob("*"))

    def test_auto_learns_what_a_script_imports_and_keeps_it_for_the_next_job(self):
        self.write("modules/slow.py", "")
        self.write("work/own.py", "x = 1")
        script = ("import os, sys\nprint('json' in sys.modules, 'own' in sys.modules)\n"
                  "import json.scanner, own\nopen('imported', 'w')\n"
                  "n = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\nsys.exit(0 if n == 0 else 3)")
        caches = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        self.run_job(script, "auto", environment=caches)
        wait_until("the list", self.learned)
        (path,) = self.learned()
        first, *names = path.read_text().splitlines()
        self.assertIn("script.py with", first)
        self.assertIn("json.scanner", names)
        again = self.run_job(script + "\n", "auto", environment=caches)
        self.assertEqual("False False\n", again.out(), "the script has changed, so it may import something else")
        third = self.run_again(again)
        self.assertEqual("True False\n", third.out(), "what is the script's own is never imported ahead")
        a_week_ago = path.stat().st_mtime - 7 * 24 * 3600 - 60
        os.utime(path, (a_week_ago, a_week_ago))
        fourth = self.run_again(again)
        self.assertEqual("False False\n", fourth.out(), "its list is old")

    def run_again(self, node):
        """The same command with the same files. The list of the job before has been written by then."""
        wait_until("the list", lambda: any("json" in path.read_text() for path in self.learned()))
        node = cluster.Node("again", node.command, {**self.environment(), "XDG_CACHE_HOME": str(self.folder / "cache")},
                            self.folder, cwd=self.folder / "work")
        self.addCleanup(self.end, node)
        self.assertEqual(0, node.exit_code(), node.err())
        return node

    def test_auto_without_a_place_for_its_list_works_within_the_job(self):
        script = ("import os, sys\nprint('json' in sys.modules, flush=True)\nimport json\n"
                  "n = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
                  "while n == 1 and not os.path.exists('go'): pass\nsys.exit(0 if n == 2 else 3)")
        node = self.start(script, "auto", "--max-restarts", "2", "--restart-delay", "0",
                          environment={"XDG_CACHE_HOME": "/proc/nowhere"})
        wait_until("the import", lambda: node.said(IMPORTED))
        (self.folder / "work/go").touch()
        self.assertEqual(0, node.exit_code(), node.err())
        self.assertEqual(["False", "True"], [node.out().splitlines()[0], node.out().splitlines()[2]])

    def test_auto_leaves_out_what_is_unsafe_with_its_whole_package(self):
        (self.folder / "modules/pack").mkdir()
        self.write("modules/pack/__init__.py", "")
        self.write("modules/pack/ranks.py", "import os\nx = os.environ.get('RANK')")
        script = ("import os, sys\nprint('json' in sys.modules, 'pack' in sys.modules, flush=True)\n"
                  "import json, pack.ranks\nassert pack.ranks.x == os.environ['RANK']\n"
                  "n = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
                  "while n == 1 and not os.path.exists('go'): pass\nsys.exit(0 if n == 2 else 3)")
        node = self.start(script, "auto", "--max-restarts", "2", "--restart-delay", "0", environment={"HOME": ""})
        wait_until("the import", lambda: node.said(IMPORTED))
        (self.folder / "work/go").touch()
        self.assertEqual(0, node.exit_code(), node.err())
        self.assertEqual("True False", node.out().splitlines()[2])

    def test_a_module_that_the_scripts_folder_has_too(self):
        self.write("modules/twice.py", "x = 'preloaded'")
        self.write("work/twice.py", "x = 'own'")
        node = self.run_job("import twice; print(twice.x)", "twice")
        self.assertEqual("own\n", node.out())
        self.assertEqual(["the script's folder has a module twice of its own"], node.said(OFF))

    def test_a_file_that_has_changed_since(self):
        module = self.write("modules/changes.py", "x = 0")
        script = ("import os, sys, changes\nn = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
                  "print(changes.x, flush=True)\n"
                  f"open({str(module)!r}, 'w').write('x = 100 + %d' % n)\nsys.exit(0 if n == 1 else 3)")
        node = self.run_job(script, "changes", "--max-restarts", "1")
        self.assertEqual("0\n100\n", node.out())
        self.assertEqual([str(module)], node.said("--preload: (\\S+) has changed since it was imported"))

    def test_an_old_python(self):
        old = pathlib.Path(os.path.expanduser("~/.pyenv/versions/3.8.18/bin/python"))
        if not old.exists():
            self.skipTest("there is no Python 3.8")
        node = self.run_job("print('worker')", "json", python=str(old))
        self.assertEqual("worker\n", node.out())
        self.assertRegex(node.said(OFF)[0], r"needs CPython 3.9 or later, and .* is .*3\.8\.18")

    def test_a_python_that_passes_over_the_bootstrap_runs_the_script_only_as_a_worker(self):
        wrapper = self.write("python", f"#!/bin/sh\nexec {sys.executable} -E \"$@\"\n")
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        node = self.run_job("import os; print('rank', os.environ.get('RANK'))", "json", python=str(wrapper))
        self.assertEqual("rank 0\n", node.out())
        self.assertRegex(node.said(OFF)[0], "does not import sitecustomize")

    def test_a_python_that_is_none_runs_no_script_without_a_rank(self):
        wrapper = self.write("python", "#!/bin/sh\necho called $RANK \"$@\" >>$0.calls\nexit 0\n")
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
        node = self.run_job("", "json", python=str(wrapper))
        calls = (self.folder / "python.calls").read_text().splitlines()
        self.assertEqual([], [call for call in calls if "script.py" in call and not call.startswith("called 0")], calls)
        self.assertTrue(node.said("--preload: the preloading Python has ended"))

    # What becomes of it.

    WAITS = ("import os, time\nopen(os.environ['HERE'] + os.environ['TORCHELASTIC_RESTART_COUNT'] + '-' + "
             "os.environ['RANK'], 'w').write(str(os.getpid()))\n"
             "while not os.path.exists(os.environ['HERE'] + 'gate'): time.sleep(0.01)\n")

    def waiting(self, *options, nproc=2):
        here = str(self.folder / "here-")
        node = self.start(self.WAITS, "json", *options, nproc=nproc, environment={"HERE": here})
        self.pids(node, 0, nproc)
        return node

    def pids(self, node, restart, nproc=2):
        def found():
            paths = [self.folder / f"here-{restart}-{rank}" for rank in range(nproc)]
            texts = [path.read_text() for path in paths if path.exists()]
            return len(texts) == nproc and all(texts) and [int(text) for text in texts]
        return wait_until(f"the workers of restart {restart}: {node.err()}", found)

    def open_gate(self):
        (self.folder / "here-gate").touch()

    def test_its_death_disturbs_no_worker_and_another_one_is_started(self):
        node = self.waiting()
        first = wait_until("the preloader", lambda: self.preloader(node))
        os.kill(first, signal.SIGKILL)
        wait_until("the next one", lambda: (found := self.preloader(node)) and found != first)
        wait_until("its import", lambda: len(node.said(IMPORTED)) == 2)
        self.open_gate()
        self.assertEqual(0, node.exit_code(), node.err())
        self.assertEqual(["killed by signal 9 (SIGKILL)"],
                         node.said(r"the preloading Python has ended \((.*?)\); the next one starts in 1s"))

    def test_without_it_a_round_starts_normally(self):
        node = self.waiting("--max-restarts", "1")
        os.kill(wait_until("the preloader", lambda: self.preloader(node)), signal.SIGKILL)
        wait_until("the news", lambda: node.said("the preloading Python has ended"))
        os.kill(self.pids(node, 0)[1], signal.SIGKILL)
        second = self.pids(node, 1)
        self.assertIn("RANK=0", self.environ_of(second[0]), "a fresh worker's own environment")
        self.open_gate()
        self.assertEqual(0, node.exit_code(), node.err())

    def test_one_that_does_not_answer_is_replaced_and_the_round_starts_normally(self):
        node = self.waiting("--max-restarts", "1")
        frozen = wait_until("the preloader", lambda: self.preloader(node))
        cluster.stop(frozen)
        os.kill(self.pids(node, 0)[1], signal.SIGKILL)
        self.pids(node, 1)
        self.open_gate()
        self.assertEqual(0, node.exit_code(), node.err())
        self.assertTrue(node.said("does not answer"))
        self.assertFalse(cluster.is_alive(frozen))

    def test_it_ends_with_the_host_that_is_killed_and_leaves_nothing(self):
        node = self.waiting()
        preloader = wait_until("the preloader", lambda: self.preloader(node))
        workers = self.pids(node, 0)
        node.process.kill()
        wait_until("the end of all", lambda: not any(map(cluster.is_alive, [preloader, *workers])))

    def test_it_ends_with_the_job(self):
        node = self.waiting()
        preloader = wait_until("the preloader", lambda: self.preloader(node))
        self.open_gate()
        self.assertEqual(0, node.exit_code(), node.err())
        self.assertFalse(cluster.is_alive(preloader))

    def test_it_costs_no_time_while_workers_run(self):
        node = self.waiting()
        preloader = wait_until("the preloader", lambda: self.preloader(node))
        status = pathlib.Path(f"/proc/{preloader}/stat").read_text().rsplit(")", 1)[1].split()
        self.assertEqual("S", status[0])
        switches = [line for line in pathlib.Path(f"/proc/{preloader}/status").read_text().splitlines()
                    if "ctxt_switches" in line]
        cluster.never("that it wakes", lambda: switches != [
            line for line in pathlib.Path(f"/proc/{preloader}/status").read_text().splitlines()
            if "ctxt_switches" in line])
        self.open_gate()
        self.assertEqual(0, node.exit_code(), node.err())

    def test_rank_0_runs_before_the_others_because_it_opens_the_store(self):
        """The kernel counts the start of a process in steps of 10 ms."""
        script = (SAY + "import time\nnow = time.clock_gettime(time.CLOCK_BOOTTIME)\n"
                  "began = int(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[19]) / os.sysconf('SC_CLK_TCK')\n"
                  "say(os.environ['RANK'], now - began)")
        node = self.run_job(script, "json", nproc=3)
        self.assert_forked(node)
        ran = dict(line.split() for line in node.out().splitlines())
        self.assertGreaterEqual(float(ran["1"]), 0.04)
        self.assertGreaterEqual(float(ran["2"]), 0.04)

    def test_the_snapshot_of_a_hang_has_the_stacks_of_workers_also_without_py_spy(self):
        script = ("import time\ndef wait_for_ever():\n    while True: time.sleep(60)\n"
                  "print('ready', flush=True)\nwait_for_ever()")
        node = self.start(script, "json", nproc=2, python=stack_tools.interpreter(self.folder),
                          environment={"PATH": stack_tools.path_with(self.folder, None)})
        wait_until("the workers", lambda: node.out().count("ready") == 2)
        node.signal(signal.SIGUSR2)
        wait_until("the snapshot", lambda: node.said(r"2 ranks \(0-1\): at script.py:3 \(wait_for_ever\)"))
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())

    def test_a_read_only_root_and_another_user_are_no_obstacle(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        script = self.write("work/script.py", "import os, sys; print(os.getuid(), 'json' in sys.modules)")
        for path in (self.folder, self.folder / "work", self.folder / "modules"):
            path.chmod(0o755)
        python = "/usr/bin/python3"
        inner = (f"mount -o remount,bind,ro / 2>/dev/null || mount --bind / / && mount -o remount,bind,ro /; "
                 f"exec setpriv --reuid 12345 --regid 12345 --clear-groups {cluster.BINARY} run --python {python} "
                 f"--preload json {script}")
        done = subprocess.run(["unshare", "--mount", "sh", "-c", inner], capture_output=True, text=True,
                              env={**self.environment(), "HOME": "/nonexistent"}, timeout=cluster.LIMIT_S)
        self.assertEqual((0, "12345 True\n"), (done.returncode, done.stdout), done.stderr)


if __name__ == "__main__":
    cluster.main()

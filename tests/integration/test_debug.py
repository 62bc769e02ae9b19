"""--debug: one rank under pdb on the terminal, or under debugpy at a port; the others wait for it.

debugpy itself need not be installed: a stand-in of that name listens, waits for a client and runs the script.
"""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

import cluster
from cluster import never, wait_until
from test_terminal import OnATerminal

MUSTER = str(cluster.BINARY)
NO_TERMINAL_LINE = "pdb needs a terminal"

# Rank 1 opens the gate, for which all ranks wait, as they would in a collective operation.
MEET = """\
import os, sys, time
rank = os.environ['RANK']
x = 41
print(f'rank {rank} has come')
if rank == '1': open('gate', 'w').close()
while not os.path.exists('gate'): time.sleep(0.01)
print(' '.join([f'rank {rank} ends', *sys.argv[1:]]))  # in one piece: two ranks write
"""
DEBUGPY = """\
import json, os, runpy, socket, sys
if __name__ == '__main__':
    json.dump({'rank': os.environ['RANK'], 'arguments': sys.argv[1:], 'options': sys._xoptions}, open('debugpy.json', 'w'))
    host, port = sys.argv[sys.argv.index('--listen') + 1].split(':')
    listener = socket.create_server((host, int(port)))
    listener.accept()
    sys.argv = sys.argv[sys.argv.index('--wait-for-client') + 1:]
    runpy.run_path(sys.argv[0], run_name='__main__')
"""
# Its timer has expired long ago.
TIMER = """\
import json, os, time
with open(os.environ['TORCHELASTIC_TIMER_FILE'], 'w') as pipe:
    pipe.write(json.dumps({'pid': os.getpid(), 'scope_id': 'step', 'expiration_time': 1, 'signal': 9}) + '\\n')
print('timer set')
while not os.path.exists('gate'): time.sleep(0.01)
"""


class Debugging(OnATerminal):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "debugpy.py").write_text(DEBUGPY)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)

    def script(self, text, name="t.py"):
        (self.folder / name).write_text(text)
        return name

    def run_of_two(self, *options):
        return [MUSTER, "run", "--standalone", "--nproc-per-node", "2", "--python", sys.executable, *options]

    def local_of_two(self, *options):
        return [MUSTER, "local", "--nodes", "2", "--nproc-per-node", "1", "--python", sys.executable, *options]

    def two_nodes(self, *options):
        """The command of each of two nodes with one worker."""
        port = str(cluster.free_port("127.0.0.1"))
        return [[MUSTER, "run", "--nnodes", "2", "--node-rank", str(rank), "--master-addr", "127.0.0.1", "--master-port",
                 port, "--lease", "2", "--python", sys.executable, *options] for rank in (0, 1)]

    def popen(self, command, **environment):
        token = cluster.uuid.uuid4().hex
        process = subprocess.Popen(command, env={**cluster.plain_environment(), cluster.TOKEN: token, **environment},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(wait_until, "the end of everything",
                        lambda: not [cluster.kill(pid) for pid in cluster.bearers(cluster.TOKEN, token)])
        return process

    def ended(self, process):
        """Its exit code and output."""
        out, _ = process.communicate(timeout=cluster.LIMIT_S)
        return process.returncode, out


class Pdb(Debugging):
    def prompts(self, terminal, number=1):
        wait_until(f"prompt {number}", lambda: terminal.seen().count("(Pdb)") >= number)

    def test_pdb_has_the_keyboard_and_the_others_wait(self):
        script = self.script(MEET)
        for command in (self.run_of_two(), self.local_of_two()):
            with self.subTest(command):
                pathlib.Path("gate").unlink(missing_ok=True)
                terminal, process = self.start_command([*command, "--debug", "1", script, "a", "-b"])
                self.prompts(terminal)
                wait_until("rank 0 waits", lambda: "rank 0 has come" in terminal.seen())
                self.assertNotIn("rank 1 has come", terminal.seen())
                terminal.type(b"tbreak 5\nc\n")
                wait_until("the breakpoint", lambda: "rank 1 has come" in terminal.seen())
                terminal.type(b"p x + 1000\n")
                wait_until("the answer", lambda: "1041" in terminal.seen())
                self.assertNotIn("ends", terminal.seen())
                terminal.type(b"c\n")
                self.assertEqual(0, process.wait(cluster.LIMIT_S), terminal.seen())
                self.assertIn("rank 1 starts under pdb and has the keyboard; the other worker runs until it needs rank 1",
                              terminal.seen())
                for rank in (0, 1):
                    self.assertIn(f"rank {rank} ends a -b", terminal.seen())

    def test_quitting_pdb_ends_the_job_without_a_restart(self):
        terminal, process = self.start_command([*self.local_of_two(), "--debug", "1", self.script(MEET)])
        self.prompts(terminal)
        terminal.type(b"q\n")
        self.assertEqual(1, process.wait(cluster.LIMIT_S), terminal.seen())
        self.assertIn("pdb was quit: this worker has failed", terminal.seen())
        self.assertEqual(1, terminal.seen().count("starting 2 workers"))

    def test_restarts_that_are_asked_for_are_debugged(self):
        terminal, process = self.start_command([*self.run_of_two(), "--debug", "1", "--max-restarts", "1",
                                                self.script(MEET)])
        self.prompts(terminal)
        terminal.type(b"q\n")
        self.prompts(terminal, 2)
        terminal.type(b"c\n")
        self.assertEqual(0, process.wait(cluster.LIMIT_S), terminal.seen())

    def test_an_exception_stops_in_pdb(self):
        script = self.script("import os\ny = 5\nif os.environ['RANK'] == '0': raise ValueError(y)\n")
        terminal, process = self.start_command([*self.run_of_two(), "--debug", "0", script])
        self.prompts(terminal)
        terminal.type(b"c\n")
        wait_until("the exception", lambda: "Uncaught exception" in terminal.seen())
        terminal.type(b"p y * 300\nq\n")
        self.assertEqual(1, process.wait(cluster.LIMIT_S), terminal.seen())
        self.assertIn("1500", terminal.seen())

    def test_a_worker_under_pdb_ends_with_its_program(self):
        exits = self.script("import os, sys\nsys.exit(7 if os.environ['RANK'] == '0' else 0)\n")
        (self.folder / "package").mkdir()
        self.script("print(f'module {__name__}')\n", "package/part.py")
        for words, code, shown in (([exits], 7, ""), (["-m", "package.part"], 0, "module __main__"),
                                   (["-r", "3", self.script("print('seen')\n", "redirected.py")], 0, "seen")):
            with self.subTest(words):
                terminal, process = self.start_command([*self.run_of_two(), "--debug", "0", *words])
                self.prompts(terminal)
                terminal.type(b"c\n")
                self.assertEqual(code, process.wait(cluster.LIMIT_S), terminal.seen())
                self.assertIn(shown, terminal.seen())
                self.assertNotIn("restarted", terminal.seen())

    def debugged(self, *words, typed=(b"c\n",)):
        """The exit code of a job whose rank 0 is debugged, and its terminal."""
        terminal, process = self.start_command([*self.run_of_two(), "--debug", "0", *words])
        for number, line in enumerate(typed, 1):
            wait_until("a prompt", lambda: terminal.seen().count("(Pdb)") >= number)
            terminal.type(line)
        return process.wait(cluster.LIMIT_S), terminal.seen()

    def test_a_program_keeps_its_options_under_pdb(self):
        """From Python 3.13 on pdb takes options that follow the program for its own."""
        script = self.script("import sys\nprint(' '.join(['got', *sys.argv[1:], '.']))\n")
        code, seen = self.debugged(script, "-c", "p 1", "-m", "json", "--help", "--", "x")
        self.assertEqual(0, code, seen)
        self.assertEqual(2, seen.count("got -c p 1 -m json --help -- x ."), seen)

    def test_quitting_at_a_breakpoint_is_a_failure(self):
        script = self.script("import os\nif os.environ['RANK'] == '0':\n    breakpoint()\n    x = 1\n")
        code, seen = self.debugged(script, typed=(b"c\n", b"q\n"))
        self.assertEqual(1, code, seen)

    def test_processes_can_be_spawned_under_pdb(self):
        script = self.script("import multiprocessing\n\n\ndef twice(x):\n    return 2 * x\n\n\nif __name__ == '__main__':\n"
                             "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
                             "        print(f'got {pool.map(twice, [21])}')\n")
        code, seen = self.debugged(script)
        self.assertEqual(0, code, seen)
        self.assertEqual(2, seen.count("got [42]"), seen)

    def test_of_several_nodes_only_its_own_needs_the_keyboard(self):
        first, second = self.two_nodes("--debug", "1", self.script(MEET))
        other = self.popen(first)
        terminal, process = self.start_command(second)
        self.prompts(terminal)
        terminal.type(b"c\n")
        self.assertEqual(0, process.wait(cluster.LIMIT_S), terminal.seen())
        code, out = self.ended(other)
        self.assertEqual(0, code, out)
        self.assertIn("rank 1, which runs on another node, starts under pdb; the other worker runs until it needs rank 1", out)

    def test_a_node_without_a_keyboard_ends_the_job(self):
        nodes = [self.popen(command) for command in self.two_nodes("--debug", "1", self.script(MEET))]
        for node in nodes:
            code, out = self.ended(node)
            self.assertEqual(64, code, out)
            self.assertIn(f"--debug 1: {NO_TERMINAL_LINE}", out)


class Debugpy(Debugging):
    def attach(self, port):
        def connected():
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", port))
        return wait_until("debugpy listens", connected)

    def test_debugpy_waits_for_a_client_and_the_others_wait(self):
        script = self.script(MEET)
        for command in (self.run_of_two(), self.local_of_two()):
            with self.subTest(command):
                pathlib.Path("gate").unlink(missing_ok=True)
                port = cluster.free_port("127.0.0.1")
                process = self.popen([*command, "--debug", f"1:{port}", script, "a", "-b"])
                with self.attach(port):
                    code, out = self.ended(process)
                self.assertEqual(0, code, out)
                self.assertIn(f"rank 1 starts once a debugger attaches to 127.0.0.1:{port} on ", out)
                for rank in (0, 1):
                    self.assertIn(f"rank {rank} ends a -b", out)
                started = json.loads(pathlib.Path("debugpy.json").read_text())
                self.assertEqual("1", started["rank"])
                self.assertEqual(["--listen", f"127.0.0.1:{port}", "--wait-for-client", script, "a", "-b"],
                                 started["arguments"])
                self.assertEqual({"frozen_modules": "off"}, started["options"])

    def test_a_port_in_use_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, out = self.ended(self.popen([*self.run_of_two(), "--debug", f"1:{port}", self.script(MEET)]))
        self.assertEqual(64, code, out)
        self.assertRegex(out, rf"--debug 1:{port}: port {port} of 127.0.0.1 on \S+ is in use; choose another")

    def test_a_missing_debugpy_is_named_before_the_start(self):
        python = self.folder / "python"
        python.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n")
        python.chmod(0o755)
        for command in (["run", "--standalone"], ["local", "--nodes", "2"]):
            with self.subTest(command):
                code, out = self.ended(self.popen([MUSTER, *command, "--python", str(python), "--debug", "0:5678",
                                                   self.script(MEET)]))
                self.assertEqual((127, f"muster: --debug 0:5678: {python} has no module debugpy; install it: {python} -m "
                                  "pip install debugpy\n"), (code, out))

    def test_a_rank_that_the_job_lacks_ends_all_nodes(self):
        nodes = [self.popen(command) for command in self.two_nodes("--debug", "2:5678", self.script(MEET))]
        for node in nodes:
            code, out = self.ended(node)
            self.assertEqual(64, code, out)
            self.assertIn("--debug 2:5678: the job has 2 workers: expected a rank, 0 to 1", out)

    def test_file_timers_do_not_expire(self):
        port = cluster.free_port("127.0.0.1")
        process = self.popen([MUSTER, "run", "--standalone", "--python", sys.executable, "--debug", f"0:{port}",
                              self.script(TIMER)], TORCHELASTIC_ENABLE_FILE_TIMER="1")
        with self.attach(port):
            for line in process.stdout:
                if "timer set" in line:
                    break
            never("the timer ends the worker", lambda: process.poll() is not None)
            pathlib.Path("gate").touch()
            code, out = self.ended(process)
        self.assertEqual(0, code, out)


if __name__ == "__main__":
    cluster.main()

"""On a terminal: Ctrl-C, Ctrl-Z, hangup, nohup, standard input and breakpoint(), redrawn lines, colour."""
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import unittest

import cluster
from cluster import ClusterTest, kill, never, process_state, wait_until
from terminal import Screen, Terminal

CTRL_C, CTRL_Z, CTRL_D = b"\x03", b"\x1a", b"\x04"
READ_A_LINE = ["sh", "-c", "if read line; then echo rank $RANK got $line; else echo rank $RANK nothing; fi"]
# Like a shell with job control that starts a job with "&".
IN_THE_BACKGROUND = [sys.executable, "-S", "-E", "-c",
                     "import os, subprocess, sys; sys.exit(subprocess.call(sys.argv[1:], preexec_fn=os.setpgrp))"]
AFTER_SECOND_SIGNAL_S = 5  # until muster local kills what is left


class OnATerminal(ClusterTest):
    def start_on_terminal(self, job, place=0):
        terminal = Terminal()
        job.after_end.append(terminal.close)
        node = job.start(place, terminal=terminal.slave, preexec_fn=terminal.become_controlling)
        return terminal, node

    def terminal_job(self, program, nproc=1, **environment):
        job = self.cluster(1, nproc=nproc, program=program, environment=environment)
        return job, *self.start_on_terminal(job)

    def start_command(self, command, terminal=None):
        terminal = terminal or Terminal()
        token = cluster.uuid.uuid4().hex
        process = subprocess.Popen(command, env={**cluster.plain_environment(), cluster.TOKEN: token}, stdin=terminal.slave,
                                   stdout=terminal.slave, stderr=terminal.slave, start_new_session=True,
                                   preexec_fn=terminal.become_controlling)
        self.addCleanup(terminal.close)
        self.addCleanup(process.wait)
        self.addCleanup(wait_until, "the end of everything",
                        lambda: not [kill(pid) for pid in cluster.bearers(cluster.TOKEN, token)])
        return terminal, process

    def python(self, program):
        return [sys.executable, "-u", "-S", "-E", "-c", program]


class Keys(OnATerminal):
    def test_ctrl_c_ends_its_node_by_sigint(self):
        job = self.cluster(3, plan=[{"term": "exit"}])
        terminal, node = self.start_on_terminal(job)
        job.start(1)
        job.start(2)
        job.wait_for_round(0)
        terminal.type(CTRL_C)
        self.assertEqual({0: -signal.SIGINT, 1: 130, 2: 130}, job.exit_codes())
        self.assertEqual([], job.records("start", restart=1))

    def test_ctrl_c_of_a_single_node_ends_the_loop_of_a_shell(self):
        job = self.cluster(1, nproc=1, program=["sh", "-c", "echo HERE; sleep 600"],
                           prefix=lambda place: ["bash", "-c", 'for i in 1 2; do echo TURN $i; "$@"; done', "bash"])
        terminal, node = self.start_on_terminal(job)
        wait_until("the worker", lambda: "HERE" in terminal.seen())
        terminal.type(CTRL_C)
        self.assertEqual(-signal.SIGINT, node.exit_code())
        self.assertNotIn("TURN 2", terminal.seen())
        self.assertEqual([], job.workers_of(0))

    def test_a_second_ctrl_c_ends_it_now(self):
        _, terminal, node = self.terminal_job(
            ["sh", "-c", "trap 'echo told' INT TERM; echo HERE; while :; do sleep 0.05; done"])
        wait_until("the worker", lambda: "HERE" in terminal.seen())
        terminal.type(CTRL_C)
        wait_until("the worker has got the signal", lambda: "told" in terminal.seen())
        wait_until("its end", lambda: terminal.type(CTRL_C) or node.has_ended())
        self.assertEqual(-signal.SIGINT, node.exit_code())

    def test_ctrl_z_without_a_lease_stops_muster_too(self):
        # The worker starts no process: one stopped between a child's vfork and its exec is in state D, not T.
        # bash gives each of its jobs its own process group, and reads a line while the job is stopped.
        job = self.cluster(1, nproc=1, program=["sh", "-c", "echo HERE; exec sleep 600"],
                           prefix=lambda place: ["bash", "-mc", '"$@"; read line; fg', "bash"])
        terminal, node = self.start_on_terminal(job)
        wait_until("the worker", lambda: "HERE" in terminal.seen())
        worker = next(pid for pid in cluster.children(node.host()) if pid != node.agent())
        host = node.host()
        terminal.type(CTRL_Z)
        wait_until("host and worker stand still", lambda: process_state(host) == process_state(worker) == "T")
        terminal.type(b"\n")
        wait_until("both go on", lambda: "T" not in (process_state(host), process_state(worker)))
        kill(host, signal.SIGTERM)
        self.assertEqual(75, node.exit_code())

    def test_ctrl_z_is_ignored_without_a_shell_to_continue(self):
        # A session with one process group, as `docker run -it`, `ssh -t` and tmux make it.
        _, terminal, node = self.terminal_job(["sh", "-c", "echo HERE; exec sleep 600"])
        wait_until("the worker", lambda: "HERE" in terminal.seen())
        host = node.host()
        worker = next(pid for pid in cluster.children(host) if pid != node.agent())
        terminal.type(CTRL_Z)
        wait_until("the key is ignored", lambda: "SIGTSTP (Ctrl-Z) is ignored" in terminal.seen())
        self.assertNotIn("T", (process_state(host), process_state(worker)))
        kill(host, signal.SIGTERM)
        self.assertEqual(75, node.exit_code())

    def test_ctrl_z_under_a_lease_suspends_the_workers_only(self):
        job = self.cluster(2, nproc=1)
        terminal, node = self.start_on_terminal(job)
        job.start(1)
        starts = job.wait_for_round(0)
        worker = starts[0]["pid"]
        terminal.type(CTRL_Z)
        wait_until("the worker stands still", lambda: process_state(worker) == "T")
        host = node.host()
        never("muster itself stands still", lambda: process_state(host) == "T")
        self.assertIn("suspended", terminal.seen())
        kill(host, signal.SIGCONT)
        wait_until("the worker goes on", lambda: process_state(worker) != "T")
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual([], job.records("start", restart=1))

    def test_a_hangup_ends_it_but_not_with_nohup(self):
        job = self.cluster(1, nproc=1)
        node = job.start(0)
        job.wait_for_round(0)
        node.signal(signal.SIGHUP)
        self.assertEqual(75, node.exit_code())

        job = self.cluster(1, nproc=1, prefix=lambda place: ["nohup"])
        node = job.start(0)
        worker = job.wait_for_round(0)[0]["pid"]
        node.signal(signal.SIGHUP)
        kill(worker, signal.SIGHUP)
        never("nohup's job ends", node.has_ended)
        job.open_gate()
        self.assertEqual(0, node.exit_code())

    def test_ignored_signals_of_a_background_job_stay_ignored(self):
        job = self.cluster(1, nproc=1, prefix=lambda place: ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"])
        node = job.start(0)
        job.wait_for_round(0)
        node.signal(signal.SIGINT)
        never("it is cancelled", node.has_ended)
        job.open_gate()
        self.assertEqual(0, node.exit_code())


class Input(OnATerminal):
    def test_one_worker_reads_the_terminal(self):
        _, terminal, node = self.terminal_job(["sh", "-c", "echo HERE; read line; echo got $line; [ -t 0 ] && [ -t 1 ]"])
        wait_until("the worker", lambda: "HERE" in terminal.seen())
        terminal.type(b"words\n")
        self.assertEqual(0, node.exit_code())
        self.assertIn("got words", terminal.seen())

    def test_breakpoint_works_with_one_worker(self):
        job = self.cluster(1, nproc=1, program=[sys.executable, "-u", "-c", "x = 41\nbreakpoint()\nprint('end', x)\n"])
        terminal, node = self.start_on_terminal(job)
        wait_until("the debugger's prompt", lambda: "(Pdb)" in terminal.seen())
        terminal.type(b"p x + 1000\n")
        wait_until("its answer", lambda: "1041" in terminal.seen())
        terminal.type(b"c\n")
        self.assertEqual(0, node.exit_code())
        self.assertIn("end 41", terminal.seen())

    def test_breakpoint_works_with_several_workers(self):
        program = "import os, sys\nx = 41\nif os.environ['RANK'] == sys.argv[1]: breakpoint()\nprint(f'end {x}')\n"
        torchrun = self.enterContext(tempfile.TemporaryDirectory()) + "/torchrun"
        os.symlink(cluster.BINARY, torchrun)
        run = [str(cluster.BINARY), "run", "--standalone", "--nproc-per-node", "2"]
        commands = [run, [torchrun, "--standalone", "--nproc-per-node", "2"],
                    [str(cluster.BINARY), "local", "--nodes", "2", "--nproc-per-node", "1"]]
        if os.geteuid() == 0:  # as a container's first process
            commands.append(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *run])
        for rank, command in itertools.product("01", commands):
            with self.subTest(command, rank=rank):
                terminal, process = self.start_command([*command, "--no-python", sys.executable, "-u", "-c", program, rank])
                wait_until("the debugger's prompt", lambda: "(Pdb)" in terminal.seen())
                terminal.type(b"p x + 1000\n")
                wait_until("its answer", lambda: "1041" in terminal.seen() or process.poll() is not None)
                terminal.type(b"c\n")
                self.assertEqual(0, process.wait(cluster.LIMIT_S))
                self.assertEqual(2, terminal.seen().count("end 41"))

    def test_breakpoint_does_nothing_where_another_rank_was_given_the_keyboard(self):
        terminal, process = self.start_command([
            str(cluster.BINARY), "run", "--standalone", "--nproc-per-node", "2", "--stdin", "0", "--no-python",
            sys.executable, "-u", "-c", "breakpoint()\nprint('end', 41)\n"])
        wait_until("the debugger's prompt", lambda: "(Pdb)" in terminal.seen())
        wait_until("the end of the other worker", lambda: "end 41" in terminal.seen())
        terminal.type(b"c\n")
        self.assertEqual(0, process.wait(cluster.LIMIT_S))
        self.assertEqual(2, terminal.seen().count("end 41"))

    def test_who_wants_the_keyboard_in_vain_is_told_of_stdin(self):
        def program(wants):
            return ["--no-python", sys.executable, "-u", "-c", f"import os\nif os.environ['RANK'] == '1': {wants}()\nx = 1\n"]
        run = [str(cluster.BINARY), "run", "--standalone", "--nproc-per-node", "2", "--stdin", "0"]
        terminal, process = self.start_command([*run, *program("input")])
        self.assertEqual(1, process.wait(cluster.LIMIT_S), terminal.seen())
        self.assertIn("if its output ends with bdb.BdbQuit or EOFError, it wanted the keyboard", terminal.seen())
        done = subprocess.run([*run[:-2], *program("breakpoint")], env=cluster.plain_environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=cluster.LIMIT_S)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn("breakpoint() or input() found no keyboard", done.stderr)
        for said in (terminal.seen(), done.stderr):
            self.assertIn("--stdin 1", said)
            self.assertIn("--debug 1:PORT", said)

    def test_in_the_background_the_shell_keeps_the_keyboard(self):
        job = self.cluster(1, nproc=2, program=READ_A_LINE, prefix=lambda place: IN_THE_BACKGROUND)
        terminal, node = self.start_on_terminal(job)
        terminal.type(b"words\n")
        self.assertEqual(0, node.exit_code())
        self.assertEqual({"rank 0 nothing", "rank 1 nothing"}, set(re.findall("rank . [a-z ]+", terminal.seen())))

    def test_terminal_modes_are_restored_after_a_kill(self):
        program = ("import os, signal, sys, termios, tty\n"
                   "print('canonical' if termios.tcgetattr(0)[3] & termios.ICANON else 'raw')\n"
                   "tty.setraw(0)\n"
                   "os.kill(os.getpid(), signal.SIGKILL)\n")
        for command in (["run", "--standalone"], ["local", "--nodes", "1"]):
            with self.subTest(command):
                terminal = Terminal()
                before = termios.tcgetattr(terminal.slave)
                _, process = self.start_command([str(cluster.BINARY), *command, "--nproc-per-node", "1", "--max-restarts",
                                                 "1", "--no-python", *self.python(program)], terminal)
                self.assertEqual(128 + signal.SIGKILL, process.wait(cluster.LIMIT_S))
                self.assertEqual(before, termios.tcgetattr(terminal.slave))
                if command[0] == "run":  # the nodes of muster local cannot tell whose terminal it is
                    wait_until("the second worker", lambda: terminal.seen().count("canonical") == 2)

    def test_several_workers_get_no_input_by_default(self):
        for option, expected in (((), {"rank 0 nothing", "rank 1 nothing"}),
                                 (("--stdin", "1"), {"rank 0 nothing", "rank 1 got words"}),
                                 (("--stdin", "none"), {"rank 0 nothing", "rank 1 nothing"})):
            with self.subTest(option):
                job = self.cluster(1, program=READ_A_LINE, options=option)
                reader, writer = os.pipe()
                os.write(writer, b"words\n")
                os.close(writer)
                node = job.start(0, stdin=reader)
                os.close(reader)
                self.assertEqual(0, node.exit_code())
                self.assertEqual(expected, set(node.out().splitlines()))

    def test_an_impossible_stdin_reader_is_a_warning(self):
        job = self.cluster(2, nproc=1, options=["--stdin", "5"])
        job.start_all()
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertTrue(job.nodes[0].said("--stdin 5: no worker gets standard input, because the world size is 2"))

    def test_a_pipe_into_one_worker_arrives_whole(self):
        job = self.cluster(1, nproc=1, program=["wc", "-c"])
        with open(job.folder / "input", "wb") as file:
            file.write(b"x" * 1_000_000)
        with open(job.folder / "input", "rb") as file:
            node = job.start(0, stdin=file)
        self.assertEqual(0, node.exit_code())
        self.assertEqual("1000000", node.out().strip())


class Output(OnATerminal):
    def test_a_progress_bar_redraws_on_the_terminal_itself(self):
        program = "import sys, os\nassert sys.stdout.isatty()\nfor i in range(3): sys.stderr.write(f'\\r{i}0 %')\n"
        _, terminal, node = self.terminal_job(self.python(program))
        self.assertEqual(0, node.exit_code())
        self.assertIn("\r00 %\r10 %\r20 %", terminal.seen())

    def test_colour_is_for_terminals_without_no_color(self):
        for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
            with self.subTest(environment):
                _, terminal, node = self.terminal_job(["sh", "-c", "exit 3"], MUSTER_MAX_RESTARTS="0", **environment)
                self.assertEqual(3, node.exit_code())
                self.assertEqual(coloured, "\033[" in terminal.seen(), terminal.seen())
        job = self.cluster(1, nproc=1, program=["sh", "-c", "exit 3"], options=["--max-restarts", "0"])
        self.assertEqual(3, job.start(0).exit_code())
        self.assertNotIn("\033[", job.nodes[0].err())

    def test_the_last_line_says_code_origin_and_reason(self):
        job = self.cluster(1, nproc=1, program=["sh", "-c", "exit 3"], options=["--max-restarts", "0"])
        self.assertEqual(3, job.start(0).exit_code())
        self.assertRegex(job.nodes[0].err().splitlines()[-1], r"exit code 3 \(worker\): .*rank 0.*code 3")


class Local(unittest.TestCase):
    def test_bars_of_two_workers_keep_a_row_each(self):
        """They redraw in turns, so that their redraws always mix."""
        steps = 10
        program = ("import os, sys, time\nrank = int(os.environ['RANK'])\n"
                   f"for step in range({steps}):\n"
                   "    sys.stderr.write(f'\\r{rank}: {step + 1} steps')\n"
                   "    sys.stderr.flush()\n"
                   "    open(f'{rank}-{step}', 'w').close()\n"
                   "    while not os.path.exists(f'{1 - rank}-{step}'): time.sleep(0.001)\n"
                   "sys.stderr.write('\\n')\n")
        folder = self.enterContext(tempfile.TemporaryDirectory())
        screen = Screen(lines=24, columns=100)
        process = subprocess.Popen([str(cluster.BINARY), "local", "--nodes", "1", "--nproc-per-node", "2", "--no-python",
                                    sys.executable, "-u", "-S", "-E", "-c", program], cwd=folder, start_new_session=True,
                                   env={**cluster.plain_environment(), "NO_COLOR": "1"}, stdin=screen.slave,
                                   stdout=screen.slave, stderr=screen.slave)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(0, process.wait(cluster.LIMIT_S), screen.seen())
        screen.close()  # returns once everything is read
        self.assertEqual([f"[node 0 rank {rank}] {rank}: {steps} steps" for rank in (0, 1)],
                         sorted(row.rstrip() for row in screen.rows() if "steps" in row), "\n".join(screen.rows()))

    def test_muster_local_prefixes_lines_and_ends_by_ctrl_c(self):
        token = cluster.uuid.uuid4().hex
        environment = {**cluster.plain_environment(), cluster.TOKEN: token}
        command = [str(cluster.BINARY), "local", "--nodes", "2", "--nproc-per-node", "2", "--no-python", "sh", "-c",
                   "echo I am $RANK of $WORLD_SIZE; sleep 600"]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
        reader.start()
        try:
            for rank in range(4):
                wait_until(f"rank {rank}", lambda: any(line.rstrip().endswith(f"I am {rank} of 4")
                                                   and not line.startswith("I am") for line in lines))
            os.killpg(process.pid, signal.SIGINT)
            self.assertEqual(-signal.SIGINT, process.wait(cluster.LIMIT_S))
        finally:
            wait_until("the end of everything", lambda: not [kill(pid) for pid in cluster.bearers(cluster.TOKEN, token)])
            process.wait()
            reader.join(cluster.LIMIT_S)
            process.stdout.close()

    def test_node_0_reports_a_failure_and_leaves_last(self):
        ended = subprocess.run([str(cluster.BINARY), "local", "--nodes", "3", "--nproc-per-node", "1", "--max-restarts",
                                "0", "--no-python", "sh", "-c", "[ $RANK != 1 ] || exit 7; sleep 600"],
                               env=cluster.plain_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=cluster.LIMIT_S)
        self.assertEqual(7, ended.returncode, ended.stdout)
        lines = ended.stdout.splitlines()
        self.assertEqual(["[node 0] sh FAILED"], [line for line in lines if line.endswith("FAILED")])
        self.assertEqual(3, sum("exit code 7 (worker)" in line for line in lines), ended.stdout)

    def test_a_repeated_signal_kills_no_saving_node(self):
        token = cluster.uuid.uuid4().hex
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        command = [str(cluster.BINARY), "local", "--nodes", "2", "--nproc-per-node", "1", "--termination-grace", "5m",
                   "--no-python", "sh", "-c", "trap 'touch told$RANK' INT TERM; touch up$RANK; "
                   "while [ ! -e gate ]; do sleep 0.05; done"]
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   env={**cluster.plain_environment(), cluster.TOKEN: token},
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_until("both workers", lambda: all((folder / f"up{rank}").exists() for rank in (0, 1)))
            for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):  # as timeout(1) does
                process.send_signal(number)
            wait_until("both nodes have the verdict", lambda: all((folder / f"told{rank}").exists() for rank in (0, 1)))
            never("it ends", lambda: process.poll() is not None, limit=AFTER_SECOND_SIGNAL_S + 1)
            (folder / "gate").touch()
            self.assertEqual(-signal.SIGINT, process.wait(cluster.LIMIT_S))
        finally:
            wait_until("the end of everything", lambda: not [kill(pid) for pid in cluster.bearers(cluster.TOKEN, token)])
            process.wait()


if __name__ == "__main__":
    cluster.main()

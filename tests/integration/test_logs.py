"""The workers' output: files, tee, filters, prefixes, redrawn lines; and trouble with folders, disks and readers."""
import ctypes
import fcntl
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import cluster
from cluster import ClusterTest, InAContainer, kill, wait_until
from terminal import Screen

MIB = 1 << 20
LEASE_S = 2  # a busy machine may hold a process up for a second
OF_OURS = r"warning: (?!worker rank)"  # not about a worker that failed
# The leak check of a sanitized build stops all threads first, and would wait for one that a file system keeps.
NO_LEAK_CHECK = {"ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))}

SAYS = """
import os, sys
rank = os.environ["RANK"]
sys.stdout.write(f"out {rank}\\n")  # at once: where two write to one pipe, print's parts would mingle
sys.stderr.write(f"err {rank}\\n")
"""


def read_all(descriptor):
    """Everything from a pipe up to its end."""
    pieces = []
    while piece := os.read(descriptor, 65536):
        pieces.append(piece)
    return b"".join(pieces)


class Logs(ClusterTest):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-logs-"))
        self.addCleanup(subprocess.run, ["rm", "-rf", str(self.folder)], check=True)
        self.logs = self.folder / "logs"

    def start(self, program, *options, nproc=2, prefix=None, environment=None, **popen):
        """One node with the program as its workers, which are Python if it is a text."""
        if isinstance(program, str):
            program = [sys.executable, "-u", "-S", "-E", "-c", program]
        self.job = self.cluster(1, nproc=nproc, program=program, prefix=prefix, options=options,
                                environment=environment or {})
        return self.job.start(0, **popen)

    def run_job(self, program, *options, nproc=2, code=0, **more):
        node = self.start(program, *options, nproc=nproc, **more)
        self.assertEqual(code, node.exit_code())
        return node

    def file(self, name, attempt=0, folder=None):
        """The content of a file below attempt_N/, of the only run in the folder; None: there is none."""
        found = list((folder or self.logs).glob(f"*/attempt_{attempt}/{name}"))
        self.assertLessEqual(len(found), 1)
        return found[0].read_text() if found else None

    def assert_lines(self, wanted, text):
        """The workers' lines without muster's own, in any order."""
        lines = [line for line in text.splitlines() if " muster: [" not in line and not line.startswith("muster: ")]
        self.assertEqual(sorted(wanted), sorted(lines))

    def hang(self):
        """A file system at self.logs that never answers: FUSE without a server."""
        try:
            silent = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            self.skipTest(f"no FUSE here: {error}")
        self.addCleanup(os.close, silent)  # releases every process that waits in it
        self.logs.mkdir()
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"fd={silent},rootmode=40000,user_id=0,group_id=0"
        if libc.mount(b"muster-test", os.fsencode(self.logs), b"fuse", 0, options.encode()) != 0:
            self.skipTest(f"no FUSE can be mounted: {os.strerror(ctypes.get_errno())}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.logs)], check=True)


class Files(Logs):
    def test_redirected_streams_are_in_files_only(self):
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-r", "0:1,1:2")
        self.assertEqual(("out 0\n", None), (self.file("0/stdout.log"), self.file("0/stderr.log")))
        self.assertEqual((None, "err 1\n"), (self.file("1/stdout.log"), self.file("1/stderr.log")))
        self.assert_lines(["out 1"], node.out())
        self.assert_lines(["err 0"], node.err())

    def test_tee_d_streams_are_in_file_and_console(self):
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-t", "3")
        for rank in "01":
            self.assertEqual((f"out {rank}\n", f"err {rank}\n"),
                             (self.file(f"{rank}/stdout.log"), self.file(f"{rank}/stderr.log")))
        self.assert_lines(["[default0]:out 0", "[default1]:out 1"], node.out())
        self.assert_lines(["[default0]:err 0", "[default1]:err 1"], node.err())

    def test_tee_wins_over_redirect(self):
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-r", "3", "-t", "11:1", nproc=12)
        self.assert_lines(["[default11]:out 11"], node.out())
        self.assert_lines([], node.err())
        self.assertEqual("err 10\n", self.file("10/stderr.log"))

    def test_a_filtered_rank_is_in_its_files_at_most(self):
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-t", "1", "--local-ranks-filter", "1")
        self.assert_lines(["[default1]:out 1"], node.out())
        self.assert_lines(["err 1"], node.err())
        self.assertEqual("out 0\n", self.file("0/stdout.log"))

    def test_matching_lines_of_all_ranks_are_copied_to_one_file(self):
        program = "import os\nfor i in range(30): print('rank', os.environ['RANK'], 'line', i)"
        self.run_job(program, "--log-dir", str(self.logs), "-t", "1", "--duplicate-stdout-filters", "line 7,rank 1,default")
        wanted = ["[default0]:rank 0 line 7"] + [f"[default1]:rank 1 line {i}" for i in range(30)]
        self.assert_lines(wanted, self.file("filtered_stdout.log"))
        self.assertIsNone(self.file("filtered_stderr.log"))

    def test_the_prefix_follows_its_template(self):
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-t", "1", "--role", "trainer", "--log-line-prefix-template",
                            "${hostname}|${role_name}|$local_rank|${rank}|${node_rank}|${other} ")
        host = os.uname().nodename
        self.assert_lines([f"{host}|trainer|{r}|{r}|0|${{other}} out {r}" for r in "01"], node.out())

    def test_no_attempt_or_run_is_overwritten(self):
        program = ("import os, sys\nprint('attempt', os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
                   "sys.exit(1 if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' else 0)")
        node = self.run_job(program, "--log-dir", str(self.logs), "-t", "1", "--max-restarts", "1", nproc=1)
        self.assertEqual(["attempt 0\n", "attempt 1\n"], [self.file("0/stdout.log", attempt) for attempt in (0, 1)])
        self.assertEqual("[default0]:attempt 0\n[default0]:attempt 1\n", node.out())
        self.run_job(program, "--log-dir", str(self.logs), "-t", "1", "--max-restarts", "1", nproc=1)
        self.assertEqual(2, len(list(self.logs.iterdir())))

    def test_a_run_id_stays_inside_the_folder(self):
        self.run_job(SAYS, "--log-dir", str(self.logs), "-r", "1", environment={"CLOUD_ML_JOB_ID": "../../up/" + "x" * 240})
        found = [path.relative_to(self.folder) for path in self.folder.rglob("stdout.log")]
        self.assertEqual(2, len(found))
        for path in found:
            self.assertRegex(str(path), r"^logs/_\._\.\._up_x+_\w{6}/attempt_0/\d/stdout\.log$")

    def test_dev_null_means_prefixes_without_files(self):
        program = SAYS + "print(repr(os.environ['TORCHELASTIC_ERROR_FILE']))"
        node = self.run_job(program, "--log-dir", "/dev/null", "-t", "1", nproc=1)
        self.assert_lines(["[default0]:out 0", "[default0]:''"], node.out())

    def test_the_default_folder_is_temporary_and_logged(self):
        node = self.run_job(SAYS, "-r", "1", environment={"TMPDIR": str(self.folder)})
        said = node.said(r"the workers' output is in (\S+)")
        self.assertEqual("out 1\n", pathlib.Path(said[0], "1/stdout.log").read_text())
        self.assertTrue(said[0].startswith(str(self.folder)))


class Lines(Logs):
    def test_lines_of_64_ranks_are_whole_and_complete(self):
        count = 2000
        program = f"import os, sys\nr = os.environ['RANK']\nfor i in range({count}): sys.stdout.write(f'{{i}} of {{r}}\\n')"
        node = self.run_job([sys.executable, "-S", "-E", "-c", program], "--log-dir", str(self.logs), "-t", "3", nproc=64)
        following = [0] * 64
        for line in node.out().splitlines():
            local, number, rank = re.fullmatch(r"\[default(\d+)\]:(\d+) of (\d+)", line).groups()
            self.assertEqual((local, following[int(rank)]), (rank, int(number)))
            following[int(rank)] += 1
        self.assertEqual([count] * 64, following)

    def test_invalid_utf_8_passes(self):
        node = self.run_job("import os\nos.write(1, b'\\xff\\xfe \\x00 \\xc3\\n')", "--log-dir", str(self.logs), "-t", "1", nproc=1)
        self.assertEqual(b"[default0]:\xff\xfe \x00 \xc3\n", node.out_path.read_bytes())

    def test_an_unfinished_line_is_marked_twice(self):
        program = ("import os, sys, time\nsys.stdout.write('half'); sys.stdout.flush()\n"
                   "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\nprint(' and half')")
        gate = self.folder / "gate"
        node = self.start([sys.executable, "-u", "-S", "-E", "-c", program, str(gate)], "--log-dir", str(self.logs), "-t", "1", nproc=1)
        wait_until("the unfinished line", lambda: "[default0]:half [...]\n" in node.out())
        gate.touch()
        self.assertEqual(0, node.exit_code())
        self.assertEqual("[default0]:half [...]\n[default0]:[...]  and half\n", node.out())
        self.assertEqual("half and half\n", self.file("0/stdout.log"))

    def test_a_grandchild_with_the_file_delays_nothing(self):
        program = ("import os, sys\nif os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', ['sleep', '3600'])\n"
                   "print('the last words')")
        node = self.run_job(program, "--log-dir", str(self.logs), "-t", "1", nproc=1)
        self.assertEqual("[default0]:the last words\n", node.out())

    def test_a_failed_workers_output_precedes_the_report(self):
        program = "import sys\nfor i in range(5000): print('line', i, file=sys.stderr)\nsys.exit(3)"
        node = self.run_job(program, "--log-dir", str(self.logs), "-t", "2", nproc=1, code=3)
        self.assertIn("[default0]:line 4999\n", node.err())
        self.assertLess(node.err().index("[default0]:line 4999\n"), node.err().index("Root Cause"))


BAR = """
import sys, time
for i in range(0, 101, 5):
    sys.stderr.write(f"\\r{i}%|" + "#" * (i // 5))
    sys.stderr.flush()
    time.sleep(0.02)
sys.stderr.write("\\n")
"""


class ProgressBars(Logs):
    def test_off_a_terminal_few_states_are_shown(self):
        node = self.run_job(BAR, "--log-dir", str(self.logs), "-t", "3")
        for rank in "01":
            mine = [line for line in node.err().splitlines() if line.startswith(f"[default{rank}]:")]
            self.assertEqual([f"[default{rank}]:0%|", f"[default{rank}]:100%|" + "#" * 20], mine)
            path = next(self.logs.glob(f"*/attempt_0/{rank}/stderr.log"))
            self.assertEqual(21, path.read_bytes().count(b"\r"))
        self.assertNotIn("\r", node.err_path.read_bytes().decode())

    def test_on_a_terminal_each_rank_redraws_its_own_row(self):
        screen = Screen(lines=10, columns=60)
        self.addCleanup(screen.close)
        node = self.start(BAR, "--log-dir", str(self.logs), "-t", "3", terminal=screen.slave)
        self.assertEqual(0, node.exit_code())
        wait_until("the last line", lambda: "every worker exited 0" in screen.seen())
        finished = sorted(line for line in screen.rows() if line.startswith("[default"))
        self.assertEqual([f"[default{rank}]:100%|" + "#" * 20 for rank in "01"], finished)
        self.assertIn("%|", screen.seen())


# Goes on until the folder sys.argv[1] has a file "end". However slow the machine is, all ranks once write a line within a
# second: each waits for the others before.
CHORUS = """
import os, pathlib, sys, time
folder, rank, ranks = pathlib.Path(sys.argv[1]), os.environ["RANK"], int(os.environ["WORLD_SIZE"])
for number in range(1000):
    (folder / f"{number}.{rank}").touch()
    while len(list(folder.glob(f"{number}.*"))) < ranks and not (folder / "end").exists(): time.sleep(0.01)
    print(f"pid {os.getpid()} does {number}", flush=True)
    print(f"{number} of {rank}", flush=True)
    if (folder / "end").exists(): break
"""


class GroupedLines(Logs):
    def chorus(self, *options, **more):
        program = [sys.executable, "-S", "-E", "-c", CHORUS, str(self.folder)]
        return self.start(program, *options, nproc=4, **more)

    def end(self, node):
        (self.folder / "end").touch()
        self.assertEqual(0, node.exit_code(), node.err())

    def check_whole(self, text, prefix):
        """Each rank's lines, in their order."""
        for rank in range(4):
            numbers = [int(n) for n in re.findall(rf"^{prefix}{rank}\]:(\d+) of {rank}\r?$", text, re.M)]
            self.assertEqual(list(range(len(numbers))), numbers)
            self.assertGreater(len(numbers), 1)

    def test_a_line_of_all_ranks_is_shown_once(self):
        node = self.chorus("--group-lines", "on")
        wait_until("a line of all", lambda: re.search(r"^\[0-3\] pid \d+ does \d+$", node.out(), re.M))
        self.end(node)
        self.check_whole(node.out(), r"\[default")

    def test_on_a_terminal_that_is_the_rule_and_files_are_complete(self):
        screen = Screen(lines=24, columns=80)
        self.addCleanup(screen.close)
        node = self.chorus("--log-dir", str(self.logs), "-t", "1", terminal=screen.slave)
        wait_until("a line of all", lambda: re.search(r"^\[0-3\] pid \d+ does \d+\r$", screen.seen(), re.M))
        self.end(node)
        self.check_whole(screen.seen(), r"\[default")
        for rank in range(4):
            lines = self.file(f"{rank}/stdout.log").splitlines()
            self.assertEqual([f"{n} of {rank}" for n in range(len(lines) // 2)], lines[1::2], "files are complete")

    def test_a_failure_is_not_held_back(self):
        program = "import os\nprint('same')\nif os.environ['RANK'] == '1': raise ValueError('mine')\nimport time; time.sleep(600)"
        node = self.run_job(program, "--group-lines", "on", nproc=2, code=1)
        self.assertIn("[default1]:ValueError: mine\n", node.err())
        self.assertLess(node.err().index("[default1]:ValueError: mine\n"), node.err().index("exited with code 1"))


class Trouble(Logs):
    def test_a_file_as_the_folder_is_a_warning(self):
        self.logs.write_text("")
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-r", "1", "-t", "2")
        self.assertTrue(node.said("warning: the workers run without log files: .*" + re.escape(str(self.logs))))
        self.assert_lines(["out 0", "out 1"], node.out())
        self.assert_lines(["[default0]:err 0", "[default1]:err 1"], node.err())

    @unittest.skipUnless(os.getuid() == 0, "needs root: to mount a read-only folder")
    def test_a_read_only_folder_is_a_warning(self):
        self.mount("ro,size=1m")
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-t", "1")
        self.assertTrue(node.said("warning: the workers run without log files: .*Read-only"))
        self.assert_lines(["[default0]:out 0", "[default1]:out 1"], node.out())

    def mount(self, options):
        self.logs.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.logs)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest(f"no tmpfs can be mounted: {mounted.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.logs)], check=True)

    @unittest.skipUnless(os.getuid() == 0, "needs root: to mount a file system")
    def test_a_hung_file_system_is_one_warning(self):
        self.hang()
        program = SAYS + "sys.exit(3 if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and rank == '1' else 0)"
        node = self.run_job(program, "--log-dir", str(self.logs / "here"), "-r", "1", "-t", "2", "--max-restarts", "1",
                            environment=NO_LEAK_CHECK)
        self.assertEqual(1, len(node.said("warning: the workers run without log files: .*does not answer")))
        self.assertEqual(1, len(node.said(OF_OURS)))
        for rank in "01":
            self.assertIn(f"out {rank}\n", node.out())
            self.assertIn(f"[default{rank}]:err {rank}\n", node.err())
        self.assertTrue(node.said(", round 2, "))

    @unittest.skipUnless(os.getuid() == 0, "needs root: to mount a file system")
    def test_a_hung_report_file_delays_nothing(self):
        self.hang()
        node = self.run_job(SAYS, "--report", str(self.logs / "report.json"), environment=NO_LEAK_CHECK)
        self.assertTrue(node.said("warning: .*report.json was not written: its file system did not answer in time"))

    def test_a_removed_log_folder_costs_no_console_line(self):
        program = ("import os, shutil, sys\nattempt = os.environ['TORCHELASTIC_RESTART_COUNT']\nprint('before', attempt)\n"
                   "if attempt == '0': shutil.rmtree(sys.argv[1])\nprint('after', attempt)\nsys.exit(attempt == '0')")
        node = self.run_job([sys.executable, "-u", "-S", "-E", "-c", program, str(self.logs)], "--log-dir", str(self.logs),
                            "-t", "1", "--max-restarts", "1", nproc=1)
        self.assertEqual([f"[default0]:{when} {attempt}" for attempt in "01" for when in ("before", "after")],
                         node.out().splitlines())
        self.assertEqual("before 1\nafter 1\n", self.file("0/stdout.log", attempt=1))
        self.assertFalse(node.said(OF_OURS))

    @unittest.skipUnless(os.getuid() == 0, "needs root: to mount a small disk")
    def test_a_disk_full_from_the_start_is_a_warning(self):
        self.mount("size=1m")
        filler = os.open(self.logs / "filler", os.O_WRONLY | os.O_CREAT)
        self.addCleanup(os.close, filler)
        with self.assertRaises(OSError):
            while True:
                os.write(filler, b"x" * 4096)
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-t", "1")
        self.assertTrue(node.said("warning: the workers run without log files"))
        self.assert_lines(["[default0]:out 0", "[default1]:out 1"], node.out())

    def used(self):
        about = os.statvfs(self.logs)
        return (about.f_blocks - about.f_bfree) * about.f_frsize

    @unittest.skipUnless(os.getuid() == 0, "needs root: to mount a small disk")
    def test_a_small_disk_has_room_for_files_and_report(self):
        self.mount("size=1m")
        report = self.logs / "report.json"
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-t", "3", "--report", str(report))
        self.assertFalse(node.said(OF_OURS))
        for rank in "01":
            self.assertEqual(f"out {rank}\n", self.file(f"{rank}/stdout.log"))
            self.assertEqual(f"err {rank}\n", self.file(f"{rank}/stderr.log"))
        self.assertTrue(report.exists())
        self.assertLess(self.used(), MIB // 16)

    @unittest.skipUnless(os.getuid() == 0, "needs root: to mount a small disk")
    def test_files_that_are_not_used_take_no_space(self):
        self.mount("size=1m")
        report = self.logs / "report.json"
        (self.logs / "filler").write_bytes(b"x" * (MIB - 160 * 1024))  # leaves room for the reserve of two files
        before = self.used()
        node = self.run_job(SAYS, "--log-dir", str(self.logs), "-t", "3", "--report", str(report))
        self.assertTrue(node.said("warning: the workers run without log files: no space is left"))
        self.assert_lines(["[default0]:out 0", "[default1]:out 1"], node.out())
        self.assertTrue(report.exists())
        self.assertLess(self.used(), before + MIB // 64)

    @unittest.skipUnless(os.getuid() == 0, "needs root: to mount a small disk")
    def test_a_disk_that_gets_full_fails_no_worker(self):
        self.mount("size=8m")
        lines = 3000
        # This much at once fits into the reserve; the program continues once that much was shown.
        program = f"""
import os, sys
console = os.open(sys.argv[1], os.O_RDONLY)
for i in range({lines}):
    print(i, "x" * 10000)
    while i % 20 == 0 and f":{{i}} ".encode() not in os.pread(console, 1 << 20, max(0, os.fstat(console).st_size - 300000)):
        pass
"""
        console = self.folder / "console"
        with open(console, "wb") as out:
            node = self.run_job([sys.executable, "-u", "-S", "-E", "-c", program, str(console)], "--log-dir", str(self.logs),
                                "-t", "1", nproc=1, stdout=out)
        self.assertTrue(node.said("warning: no space is left for .*stdout.log"))
        numbers = [int(line.split(":")[1].split()[0]) for line in console.read_text().splitlines()]
        self.assertEqual(list(range(lines)), numbers)
        self.assertIn(f"\n{lines - 1} xxx", self.file("0/stdout.log"))

    def test_each_file_keeps_its_newest_bytes(self):
        lines = 10000
        program = ("import os, sys\nrank = int(os.environ['RANK'])\n"
                   f"for i in range(100 if rank == 2 else {lines}): sys.stdout.write(f'{{rank}} {{i}} ' + 'x' * 991 + '\\n')")
        node = self.start([sys.executable, "-u", "-S", "-E", "-c", program], "--log-dir", str(self.logs), "--log-max-size",
                          "2M", "-r", "1", nproc=3)
        self.assertEqual(0, node.exit_code())
        for rank in (0, 1):
            path = next(self.logs.glob(f"*/attempt_0/{rank}/stdout.log"))
            self.assertLess(path.stat().st_blocks * 512, 2 * MIB + MIB)
            self.assertTrue(path.read_bytes().endswith(f"\n{rank} {lines - 1} ".encode() + b"x" * 991 + b"\n"))
        self.assertEqual("".join(f"2 {i} {'x' * 991}\n" for i in range(100)), self.file("2/stdout.log"))

    def test_a_size_limit_costs_no_line_on_the_console(self):
        lines = 200000
        program = f"import sys\nsys.stdout.write(''.join('%06d {'x' * 60}\\n' % i for i in range({lines})))"
        console = self.folder / "console"
        with open(console, "wb") as out:
            node = self.run_job(program, "--log-dir", str(self.logs), "-t", "3", "--log-max-size", "1M", nproc=1, stdout=out)
        self.assertEqual("".join(f"[default0]:{i:06} {'x' * 60}\n" for i in range(lines)), console.read_text())
        self.assertFalse(node.said("were not shown"))
        self.assertLess(next(self.logs.glob("*/attempt_0/0/stdout.log")).stat().st_blocks * 512, MIB + MIB // 8)

    def test_a_size_limit_costs_no_line_of_a_stopped_reader(self):
        lines = 200000
        done = self.folder / "done"
        program = ("import sys\n"
                   f"for i in range({lines}): sys.stdout.write('%06d {'x' * 60}\\n' % i)\n"
                   "sys.stdout.flush()\nopen(sys.argv[1], 'w').close()")
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        node = self.start([sys.executable, "-S", "-E", "-c", program, str(done)], "--log-dir", str(self.logs), "-t", "1",
                          "--log-max-size", "1M", nproc=1, stdout=writing)
        os.close(writing)
        wait_until("the worker's end, though nobody reads", done.exists)
        self.assertEqual([f"[default0]:{i:06} {'x' * 60}" for i in range(lines)], read_all(reading).decode().splitlines())
        self.assertEqual(0, node.exit_code())
        self.assertFalse(node.said("were not shown"))

    def test_a_stopped_reader_costs_no_worker_and_no_line(self):
        lines = 200000
        done = self.folder / "done"
        program = f"import sys\nfor i in range({lines}): sys.stdout.write(f'{{i}}\\n')\nopen(sys.argv[1], 'w').close()"
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        node = self.start([sys.executable, "-S", "-E", "-c", program, str(done)], "--log-dir", str(self.logs), "-t", "3",
                          nproc=1, stdout=writing)
        os.close(writing)
        wait_until("the worker's end, though nobody reads", done.exists)
        self.assertEqual(b"".join(b"[default0]:%d\n" % i for i in range(lines)), read_all(reading))
        self.assertEqual(0, node.exit_code())

    def test_a_reader_that_pauses_gets_whole_lines(self):
        """Also of workers that have ended meanwhile: it is waited for longer than an unfinished line is."""
        lines = 30000
        program = (f"import os, sys\nfor i in range({lines}): sys.stdout.write(os.environ['RANK'] + f' {{i}} ' + 'z' * 80 + '\\n')")
        for options in (["-t", "3", "--log-dir", str(self.logs)], ["-t", "3", "--log-dir", "/dev/null"]):
            reading, writing = os.pipe()
            self.addCleanup(os.close, reading)
            node = self.start([sys.executable, "-S", "-E", "-c", program], *options, stdout=writing)
            wait_until("a full pipe", lambda: not select.select([], [writing], [], 0)[1])
            full_since = time.monotonic()
            wait_until("more than the 2 s for which an unfinished line and a stopped reader were once waited for",
                       lambda: time.monotonic() > full_since + 2.5)
            os.close(writing)
            shown = read_all(reading).decode().splitlines()
            for rank in range(2):
                self.assertEqual([f"[default{rank}]:{rank} {i} " + "z" * 80 for i in range(lines)],
                                 [line for line in shown if line.startswith(f"[default{rank}]")])
            self.assertEqual(0, node.exit_code())

    def test_a_lost_reader_does_not_delay_the_end(self):
        program = "import sys\nfor i in range(200000): sys.stdout.write(f'{i}\\n')"
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        node = self.run_job(program, "--log-dir", str(self.logs), "-t", "3", nproc=1, stdout=writing)
        os.close(writing)
        self.assertTrue(node.said(r"the last \d+ bytes of \S+/0/stdout\.log were not shown"))
        self.assertTrue(self.file("0/stdout.log").endswith("\n199999\n"))


@unittest.skipUnless(os.getuid() == 0, "needs root: to mount a file system")
class HangingFolders(Logs):
    def test_two_hung_folders_cost_no_lease(self):
        """The host waits for both folders before its next message to its agent."""
        self.hang()
        hung = {"TMPDIR": str(self.logs / "temporary"), **NO_LEAK_CHECK}
        job = self.cluster(2, options=["--lease", "4s", "--max-restarts", "0"], environment=hung)
        for place in (0, 1):
            job.start(place, ["--log-dir", str(self.logs / "here"), "-r", "3"])
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        for node in job.nodes.values():
            self.assertEqual(2, len(node.said("does not answer")), "of both folders")
            self.assertEqual([], node.said("silent|takes over"))


class HangingFoldersOfAContainer(InAContainer, HangingFolders):
    pass


class StoppedReader(Logs):
    """Two nodes under a short lease; the one at `place` writes to a full pipe without a reader."""

    def start_job(self, place, plan, *options, environment=None, filled=False):
        self.job = self.cluster(2, plan=plan, options=["--lease", f"{LEASE_S}s", "--max-restarts", "1", *options],
                                environment=environment or {})
        self.reading, self.writing = os.pipe()
        self.addCleanup(os.close, self.reading)
        size = fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, 4096)
        if filled:
            os.write(self.writing, b"x" * (size - 1) + b"\n")
        for each in (0, 1):
            given = {"stdout": self.writing, "stderr": self.writing} if each == place else {}
            self.job.start(each, ["--log-dir", str(self.logs / str(each))], **given)
        self.starts = self.job.wait_for_round(0)
        return self.job.nodes[place]

    def is_full(self):
        return not select.select([], [self.writing], [], 0)[1]

    def wait_for_leases(self, restart):
        """By their own clocks the workers run on for longer than a lease after the pipe is full."""
        wait_until("a full pipe", self.is_full)
        end = time.clock_gettime(time.CLOCK_BOOTTIME) + 1.5 * LEASE_S
        wait_until("beats of all workers for more than a lease", lambda: len(beats := self.job.last_beats(restart)) == 4 and
                   min(beats.values()) > end)

    def lose_a_worker(self, rank):
        kill(self.starts[rank]["pid"])
        self.starts = self.job.wait_for_round(1)

    def finish(self):
        """Everything from the pipe, read again up to the job's end."""
        os.close(self.writing)
        seen = []
        reader = threading.Thread(target=lambda: seen.append(read_all(self.reading)))
        reader.start()
        self.job.open_gate()
        self.assertEqual({0: 0, 1: 0}, self.job.exit_codes())
        reader.join(cluster.LIMIT_S)
        return seen[0].decode()

    def assert_all_lines_are_there(self, seen, place, rounds):
        """All lines of both streams of the node's two ranks in each round are whole and in order."""
        found = {}
        for line in seen.splitlines():
            if not line.startswith("[default"):
                self.assertRegex(line, "muster|^[ =-]|^$|^[A-Z]")  # our own log, and the report
                continue
            whole = re.fullmatch(r"\[default(\d)\]:(out|err) (\d) (\d) (\d+) x{80}", line)
            self.assertIsNotNone(whole, line)
            local, stream, _, restart, number = whole.groups()
            found.setdefault((int(local), stream, int(restart)), []).append(int(number))
        wanted = {(local, stream, restart) for local in (0, 1) for stream in ("out", "err") for restart in range(rounds)}
        self.assertEqual(wanted, set(found))
        for numbers in found.values():
            self.assertEqual(list(range(len(numbers))), numbers)
        for local, stream, restart in wanted:
            path = next(self.logs.glob(f"{place}/*/attempt_{restart}/{local}/std{stream}.log"))
            self.assertEqual(path.read_bytes().count(b"\n"), len(found[local, stream, restart]))

    def hold_out(self, place):
        node = self.start_job(place, [{"flood": 20}], "-t", "3")
        before = node.host(), node.agent()
        self.wait_for_leases(0)
        self.assertEqual(before, (node.host(), node.agent()))
        self.lose_a_worker(3 - 2 * place)  # of the other node: the group restarts without a reader
        self.wait_for_leases(1)
        seen = self.finish()
        self.assertEqual({0, 1}, {record["restart"] for record in self.job.records("start")})
        self.assert_all_lines_are_there(seen, place, rounds=2)

    def test_a_nodes_stopped_reader_stops_nothing(self):
        self.hold_out(place=1)

    def test_the_primarys_stopped_reader_stops_nothing(self):
        self.hold_out(place=0)

    def test_a_shared_stopped_reader_stops_no_lease(self):
        for place in (0, 1):
            with self.subTest(place=place):
                self.start_job(place, [], environment={"MUSTER_LOG_LEVEL": "debug"}, filled=True)
                self.wait_for_leases(0)
                self.lose_a_worker(3 - 2 * place)
                self.wait_for_leases(1)
                self.assertIn("every worker exited 0", self.finish())
                self.assertEqual({0, 1}, {record["restart"] for record in self.job.records("start")})


if __name__ == "__main__":
    cluster.main()

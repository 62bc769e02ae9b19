"""Errors on a command line exit with 64 and one line that names option and value; in a variable, with 65.

The options are the program's own list, from its help: one that is new must be given its wrong values here.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import cluster

# A line of the help: "  -r, --redirects STREAMS  To files ...".
OPTION = re.compile(r"^  (?:-(?P<letter>\w), )?--(?P<name>[a-z-]+)(?: (?P<value>\S+))?(?:  .*| \w.*)?$", re.MULTILINE)
MAX_SHOWN = 80  # characters of a value in a message

TIME = ("soon", "-1", "5y", "nan", "1e9h", "87601h")
COUNT = ("many", "-1", "1.5", "1000001", "99999999999999999999")
PORT = ("web", "-1", "0", "65536", "1x")
HOST = ("a b", "a/b", "a,b", "u@h", "[::1", "h:1")
STREAMS = ("4", "-1", "both", "0:4", "0:1,", "1024:1")
NONE = ()  # any line of text is valid

# Options of `muster run`: values of a wrong type, form or range.
WRONG = {
    "nnodes": ("two", "0", "3:2", "1:2:3", "-1", "1:", "100001"),
    "node-rank": COUNT,
    "master-addr": HOST,
    "master-port": tuple(value for value in PORT if value != "0"),
    "rdzv-endpoint": ("a b", "h:port", "h:65536", "[::1", "[::1]1", "[h]:1", ":1"),
    "coordinator": ("a b", "h:port", "h:65536", "h:0", "[::1", "[::1]1", "[h]:1", ":1"),
    "rdzv-id": NONE,
    "pools": ("some",),
    "instance-groups": NONE,
    "source": ("moon", "Vertex", "vertex,slurm"),
    "local-addr": HOST,
    "nproc-per-node": ("many", "0", "-1", "1.5", "1025", "GPU"),
    "host-socket": ("/" + "p" * 107,),
    "worker-port": (*PORT, "2:1", "1:65536", "1:2:3"),
    "stdin": ("some", "-1", "102400000"),
    "preload": ("torch,", "3d", "a-b", "torch nn", ".x", "x."),
    "debug": ("some", "-1", "102400000", "0:", "0:0", "0:65536", "0:web", ":5678", "0:1:2"),
    "role": NONE,
    "max-restarts": COUNT,
    "max-node-losses": (*COUNT, "3/", "3/soon", "3/0", "/1h", "3/1h/2"),
    "restart-window": TIME,
    "restart-delay": TIME,
    "progress-file": NONE,
    "max-membership-changes": COUNT,
    "exclude-after": COUNT,
    "exclude-for": TIME,
    "node-setup": NONE,
    "on-success": NONE,
    "on-failure": NONE,
    "hook-timeout": (*TIME, "0", "99ms"),
    "token-file": NONE,
    "tls-cert": NONE,
    "tls-key": NONE,
    "tls-ca": NONE,
    "tls-name": NONE,
    "preflight": NONE,
    "preflight-timeout": (*TIME, "0", "99ms"),
    "gpu-release-timeout": TIME,
    "join-settle": TIME,
    "scale-up": ("always", "Never"),
    "node-unit": (*COUNT, "0"),
    "join-timeout": (*TIME, "0", "99ms"),
    "last-call-timeout": TIME,
    "rejoin-timeout": TIME,
    "hang-timeout": (*TIME, "0", "4.9", "never"),
    "start-timeout": (*TIME, "0", "4.9"),
    "on-hang": ("ignore", "Stop"),
    "coordinator-timeout": TIME,
    "lease": (*TIME, "0", "0.999", "24.001h", "600h"),
    "heartbeat-interval": (*TIME, "0", "9ms", "2.6"),
    "reconnect-grace": (*TIME, "10"),
    "shutdown-timeout": TIME,
    "termination-grace": TIME,
    "retryable-exit-code": (*COUNT, "256"),
    "preemption-notice": ("on", "azure", "GCE", "file", "file:"),
    "stop-before": TIME,
    "deadline": ("tomorrow", "-1", "3600", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00",
                 "infinite-future", "99999999999999"),
    "python": NONE,
    "signals-to-handle": ("SIGKILL", "SIGTERM,SIGSTOP", "SIGCHLD", ","),
    "log-dir": NONE,
    "redirects": STREAMS,
    "tee": STREAMS,
    "local-ranks-filter": ("one", "-1", "1,,2", "1024"),
    "duplicate-stdout-filters": (",", " "),
    "duplicate-stderr-filters": (",", " "),
    "log-line-prefix-template": NONE,
    "log-max-size": ("big", "-1", "0", "63k", "1T", "1.5M", "99999999999G"),
    "log-format": ("JSON", "logfmt"),
    "report-on": ("primary", "none"),
    "log-streams": ("stdout", "2"),
    "group-lines": ("yes", "always"),
    "report": NONE,
    "events": NONE,
    "on-event": NONE,
    "on-event-filter": ("round_begins", "node_lost,", ","),
    "http": ("web", "-1", "65536", "127.0.0.1", "node0:9400", "[::1]", ":9400", "0.0.0.0:9400"),
    "http-token-file": NONE,
    "print-completion": ("tcsh",),
    "numa-binding": ("moon",),
    "rdzv-backend": ("zookeeper",),
    "rdzv-conf": ("join_timeout", "=5", "join_timeout=soon", "timeout=0", "last_call_timeout=-1", "is_host=perhaps"),
    "monitor-interval": ("often", "-1", "nan", "inf"),
    "start-method": ("teleport",),
    "event-log-handler": ("console",),
    "logs-specs": ("mine",),
    "pass-local-rank": ("a b", "--"),
    "hostfile": NONE,
    "include": NONE,
    "exclude": NONE,
}
TEXT = {name for name, values in WRONG.items() if values == NONE} | {
    "duplicate-stdout-filters", "duplicate-stderr-filters",
    "signals-to-handle"}  # an unknown signal name is a warning
# torchrun ignores an empty value of these.
EMPTY_IS_UNSAID = {"rdzv-endpoint", "rdzv-id", "rdzv-conf", "role", "log-dir", "local-addr", "local-ranks-filter",
                   "duplicate-stdout-filters", "duplicate-stderr-filters", "master-addr", "pass-local-rank"}
# torchrun has no such option, or reads no variable for it, so PET_ variables do not set them.
OURS_ALONE = {"coordinator", "host-socket", "restart-window", "restart-delay", "progress-file", "max-membership-changes",
              "exclude-after", "exclude-for", "preflight", "preflight-timeout", "gpu-release-timeout", "join-settle",
              "scale-up", "node-unit", "hang-timeout", "start-timeout", "on-hang", "pools", "instance-groups", "source", "hostfile", "include", "exclude",
              "worker-port", "stdin", "debug", "preload", "max-node-losses", "join-timeout",
              "last-call-timeout", "rejoin-timeout",
              "coordinator-timeout", "lease", "heartbeat-interval", "reconnect-grace", "termination-grace",
              "retryable-exit-code", "log-format", "log-streams", "group-lines",
              "preemption-notice", "stop-before", "deadline", "python", "node-setup", "on-success", "on-failure",
              "hook-timeout", "token-file", "tls-cert", "tls-key", "tls-ca", "tls-name",
              "numa-binding", "logs-specs", "print-completion", "hyperparameters-as-args", "pass-local-rank", "log-max-size", "report", "report-on", "events", "on-event", "on-event-filter", "http", "http-token-file"}

WRONG_FOR_DEEPSPEED = {
    "hostfile": (),
    "include": ("a:b:c", "a@"),
    "exclude": ("a:b:c", "a@"),
    "num-nodes": ("two", "0", "-2", "100001", ""),
    "node-rank": ("one", "-2", "100000", ""),
    "master-addr": HOST,
    "master-port": (*PORT, ""),
    "min-elastic-nodes": ("two", "0", "-2", ""),
    "max-elastic-nodes": ("two", "0", "-2", ""),
    "num-gpus": ("two", "0", "-2", "1025", ""),
    "num-accelerators": ("two", "0", "-2", "1025", ""),
    "enable-each-rank-log": ("", "a\nb"),
    "autotuning": ("tune", "x"),
    "launcher": ("",),
    "launcher-args": NONE,
    "ssh-port": (*PORT, ""),
    "venv-script": ("",),
    "bind-core-list": ("",),
    "log-level": ("loud", ""),
}


def ran(command, **environment):
    """Exit code and standard error. Words and values may be bytes."""
    plain = {os.fsencode(name): os.fsencode(value) for name, value in cluster.plain_environment().items()}
    plain |= {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    plain.pop(b"CUDA_VISIBLE_DEVICES", None) if "CUDA_VISIBLE_DEVICES" not in environment else None
    done = subprocess.run(command, env=plain, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=cluster.LIMIT_S, check=False)
    return done.returncode, done.stderr.decode(errors="surrogateescape")


def shown(value):
    """The form in a message: everything but printable ASCII escaped, cut to fit."""
    text, escapes = "", {0x09: r"\t", 0x0A: r"\n", 0x0D: r"\r"}
    for byte in os.fsencode(value):
        text += chr(byte) if 0x20 <= byte < 0x7F else escapes.get(byte, f"\\x{byte:02x}")
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN // 2]


def options_of(help_text):
    """By name: the letter or None, and the value's placeholder, None for a switch."""
    found = {match["name"]: (match["letter"], match["value"]) for match in OPTION.finditer(help_text)}
    found.pop("help", None)
    return found


def help_of(*command):
    return subprocess.run([*command, "--help"], env=cluster.plain_environment(), capture_output=True, text=True,
                          timeout=cluster.LIMIT_S, check=True).stdout


class CommandLineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.muster = str(cluster.BINARY)
        self.deepspeed = str(self.folder / "deepspeed")
        os.symlink(cluster.BINARY, self.deepspeed)

    def assert_refused(self, command, *words, code=64, **environment):
        """The exit code is `code`, and the only line contains all the words."""
        got, said = ran(command, **environment)
        context = f"{command} {environment}: {got}\n{said}"
        self.assertEqual(code, got, context)
        self.assertEqual(1, len(said.splitlines()), context)
        self.assertRegex(said, r"\Amuster: [ -~]*\n\Z", context)
        for word in words:
            self.assertIn(word, said, context)

    def wrong_values(self, name):
        """Wrong values of --name: from the table, not UTF-8, two lines, too long to show, empty."""
        long = () if name in TEXT else ("\x1b[31m" + "9" * 500,)
        empty = () if name in EMPTY_IS_UNSAID else ("",)
        return (*WRONG[name], *long, *empty, b"h\xff", "a\nb")


class RunTest(CommandLineTest):
    def setUp(self):
        super().setUp()
        options = options_of(help_of(self.muster, "run"))
        self.switches = {name for name, (_, value) in options.items() if value is None}
        self.valued = {name for name in options if name not in self.switches}
        self.letters = {name: letter for name, (letter, _) in options.items() if letter}

    def test_this_list_matches_the_programs(self):
        self.assertGreater(len(self.switches), 4)
        self.assertEqual(self.valued, set(WRONG))
        completion = subprocess.run([self.muster, "run", "--print-completion", "bash"], capture_output=True, text=True,
                                    timeout=cluster.LIMIT_S, check=True).stdout
        offered = re.search(r'run\) options="--help ([^"]*)"', completion)[1].split()
        self.assertEqual({f"--{name}" for name in self.valued | self.switches}, set(offered))

    def test_no_secret_in_a_wrong_value_is_echoed(self):
        for words in (["--rdzv-conf", "password=hunter2,x"], ["--rdzv-endpoint", "http://u:hunter2@h:5"],
                      ["--master-addr", "u:hunter2@h"], ["--nnodes", "u:hunter2@h"]):
            for command in ("run", "env"):
                with self.subTest(command=command, words=words):
                    got, said = ran([self.muster, command, *words, "--no-python", "true"])
                    self.assertEqual(64, got, said)
                    self.assertIn("********", said)
                    self.assertNotIn("hunter2", said)

    def test_a_wrong_value_of_each_option_is_named(self):
        for name in sorted(self.valued):
            for value in self.wrong_values(name):
                with self.subTest(option=name, value=value):
                    word = os.fsencode(f"--{name}=") + os.fsencode(value)
                    for command in ("run", "env"):
                        self.assert_refused([self.muster, command, word, "--no-python", "true"], f"--{name} ",
                                            shown(value))

    def test_muster_local_refuses_the_same_values(self):
        for name in sorted(self.valued - {"pass-local-rank"}):
            value = (*WRONG[name], b"h\xff")[0]
            with self.subTest(option=name, value=value):
                word = os.fsencode(f"--{name}=") + os.fsencode(value)
                self.assert_refused([self.muster, "local", "--nodes", "2", word, "--no-python", "true"], f"--{name} ",
                                    shown(value))

    def test_an_empty_value_is_ignored_as_in_torchrun(self):
        words = [f"--{name}=" for name in sorted(EMPTY_IS_UNSAID)]
        code, said = ran([self.muster, "run", *words, "--no-python", "true"])
        self.assertEqual(0, code, said)
        for name in ("master-addr", "rdzv-endpoint"):  # but if the address is needed, an empty one is an error
            self.assert_refused([self.muster, "run", f"--{name}=", "--nnodes=2", "--node-rank=1", "t.py"],
                                f"--{name} ''", "2 nodes")

    def test_a_wrong_variable_of_each_option_is_65(self):
        for name in sorted(self.valued | self.switches):
            values = ("perhaps", b"\xff") if name in self.switches else self.wrong_values(name)
            prefixes = ("MUSTER_",) if name in OURS_ALONE else ("MUSTER_", "PET_")
            for variable in (prefix + name.upper().replace("-", "_") for prefix in prefixes):
                for value in filter(None, values):
                    with self.subTest(variable=variable, value=value):
                        self.assert_refused([self.muster, "run", "t.py"], f"{variable} ", shown(value), code=65,
                                            **{variable: value})

    def test_an_empty_variable_counts_as_unset(self):
        names = [name.upper().replace("-", "_") for name in self.valued | self.switches]
        empty = {prefix + name: "" for prefix in ("MUSTER_", "PET_") for name in names}
        code, said = ran([self.muster, "run", "--no-python", "true"], **empty)
        self.assertEqual(0, code, said)

    def test_switches_take_no_value_options_need_one(self):
        for name in sorted(self.switches):
            self.assert_refused([self.muster, "run", f"--{name}=so", "t.py"], f"--{name}=so")
        for name in sorted(self.valued - {"pass-local-rank"}):
            for words in ([f"--{name}"], [f"--{name}", "--standalone", "t.py"]):
                self.assert_refused([self.muster, "run", *words], f"--{name}: needs a value")
        for name, letter in self.letters.items():
            if name in self.valued:
                self.assert_refused([self.muster, "run", f"-{letter}"], f"-{letter}: needs a value")

    def test_an_unknown_option_gets_a_suggestion(self):
        meant = {"--nnoodes": "--nnodes", "--mastr-addr=h": "--master-addr", "--maxrestarts": "--max-restarts"}
        for typed, name in meant.items():
            self.assert_refused([self.muster, "run", typed, "t.py"], typed.split("=", 1)[0] + ": no such option",
                                f"did you mean {name}?")
        for typed in ("-z", "--learning-rate", "--exit-barrier-timeout", b"--\xff\n"):
            self.assert_refused([self.muster, "run", typed, "t.py"], shown(typed), "no such option")
        self.assert_refused([self.muster, "run", "--no", "t.py"], "--no:", "--node-rank", "--no-python")

    def test_contradicting_options_are_both_named(self):
        nodes = ["--nnodes", "2", "--node-rank", "0"]
        cases = (
            (["-m", "--no-python"], "--no-python:", "--module"),
            (["--standalone", "--nnodes", "2"], "--nnodes 2:", "--standalone"),
            (["--rdzv-endpoint", "localhost:0", "--nnodes", "2"], "--nnodes 2:", "--rdzv-endpoint"),
            (["--nnodes", "2", "--node-rank", "2", "--master-addr", "h"], "--node-rank 2:", "nodes, 2"),
            (["--nnodes", "2"], "--nnodes 2:", "--master-addr"),
            (["--node-rank", "1"], "--node-rank 1:", "--nnodes"),
            (["--lease", "8", "--heartbeat-interval", "2.5"], "--heartbeat-interval 2.5:", "--lease 8s"),
            (["--lease", "8", "--reconnect-grace", "8"], "--reconnect-grace 8:", "--lease 8s"),
            (["--stop-before", "5m"], "--stop-before 5m:", "--deadline"),
            (["--debug", "0", "--stdin", "none"], "--stdin none:", "--debug"),
            (["--debug", "0:5678", "--no-python"], "--debug 0:5678:", "--no-python"),
            (["--debug", "0"], "--debug 0:", "needs a terminal", "--debug 0:PORT"),
            ([*nodes, "--master-port", "5000", "--worker-port", "5000"], "--worker-port 5000:", "primary"),
        )
        for words, *said in cases:
            with self.subTest(words):
                self.assert_refused([self.muster, "run", *words, "t.py"], *said)
        self.assert_refused([self.muster, "run", "--virtual-local-rank", "--nproc-per-node=2", "t.py"],
                            "--virtual-local-rank:", "CUDA_VISIBLE_DEVICES has 1", CUDA_VISIBLE_DEVICES="3")

    def test_an_unknown_rank_is_refused(self):
        two = ["--nproc-per-node", "2"]
        for words, said in (([*two, "--stdin", "2"], "the job has 2 workers"),
                            ([*two, "--debug", "2:5678"], "the job has 2 workers"),
                            ([*two, "--local-ranks-filter", "7"], "this node has 2 workers")):
            self.assert_refused([self.muster, "run", *words, "t.py"], " ".join(words[2:]) + ":", said)
            self.assert_refused([self.muster, "env", *words], " ".join(words[2:]) + ":", said)
        self.assert_refused([self.muster, "run", *two, "t.py"], "MUSTER_STDIN 2:", code=65, MUSTER_STDIN="2")
        self.assert_refused([self.muster, "local", "--nodes", "2", *two, "--stdin", "4", "t.py"], "--stdin 4:",
                            "the job has 4 workers")

    def test_no_script_is_64_and_a_missing_one_127(self):
        self.assert_refused([self.muster, "run", "--standalone"], "SCRIPT")
        for words, said in ((["no/such.py", "x"], "the script no/such.py does not exist"),
                            (["--no-python", "./nothing"], "the program ./nothing does not exist"),
                            (["--python", "/no/python", "t.py"], "/no/python"),
                            (["a\nb.py"], "the script a\\nb.py does not exist")):
            for command in (["run"], ["local", "--nodes", "2"]):
                self.assert_refused([self.muster, *command, *words], said, code=127)


class DeepspeedTest(CommandLineTest):
    def test_this_list_matches_the_programs(self):
        options = options_of(help_of(self.deepspeed))
        self.assertEqual({name for name, (_, value) in options.items() if value}, set(WRONG_FOR_DEEPSPEED))

    def test_a_wrong_value_of_each_option_is_named(self):
        (self.folder / "hosts").write_text("localhost slots=2\n")
        for name, values in sorted(WRONG_FOR_DEEPSPEED.items()):
            hosts = [] if name == "hostfile" else ["--hostfile", str(self.folder / "hosts")]
            for value in (*values, b"h\xff"):
                with self.subTest(option=name, value=value):
                    word = os.fsencode(f"--{name.replace('-', '_')}=") + os.fsencode(value)
                    quoted = shown(value).split("@", 1)[0]  # for a filter the message names the wrong part
                    self.assert_refused([self.deepspeed, *hosts, word, "t.py"], f"--{name} ", quoted)

    def test_a_wrong_hostfile_is_the_same_fault_as_for_muster_run(self):
        (self.folder / "wrong").write_text("a slots=many\n")
        for path in ("/nowhere/hostfile", str(self.folder), str(self.folder / "wrong")):
            lines = set()
            for command in ([self.deepspeed], [self.muster, "run"]):
                # Without a rank, deepspeed takes a missing file for a job of this machine alone.
                words = [*command, "--hostfile", path, "--node_rank=0", "t.py"]
                self.assert_refused(words, path, code=65)
                lines.add(ran(words)[1])
            self.assertEqual(1, len(lines), lines)

    def test_other_errors_are_named(self):
        for name, (_, value) in options_of(help_of(self.deepspeed)).items():
            words = [f"--{name}"] if value else [f"--{name}=so", "t.py"]
            self.assert_refused([self.deepspeed, *words], f"--{name}")
        hosts = self.folder / "hosts"
        hosts.write_text("localhost slots=2\n")
        cases = (
            (["--no_python", "--module", "t.py"], "--no-python:", "--module"),
            (["--num_gpu", "2", "--numgpus", "2", "t.py"], "--numgpus: no such option", "did you mean --num-gpus?"),
            (["-H", str(hosts), "-i", "localhost:0", "--num_gpus", "1", "t.py"], "--num-gpus 1:", "--include"),
            (["-H", str(hosts), "-i", "localhost:0", "-e", "localhost:1", "t.py"], "--include", "--exclude"),
            (["-H", str(hosts), "--num_nodes", "2", "t.py"], "--num-nodes 2:", "1 host"),
            (["--num_nodes", "2", "t.py"], "--num-nodes 2:", "--hostfile"),
            (["--num_nodes", "2", "--node_rank", "2", "--master_addr", "a", "t.py"], "--node-rank 2:"),
            (["--num_gpus", "2"], "SCRIPT"),
        )
        for words, *said in cases:
            with self.subTest(words):
                self.assert_refused([self.deepspeed, *words], *said)

    def test_its_own_defaults_are_accepted(self):
        words = ["--num_gpus=-1", "--num_nodes=-1", "--node_rank=-1", "--master_addr=", "--include=", "--exclude=",
                 "--launcher_args=", "--enable_each_rank_log=None", "--log_level=info", "-q", "--no_local_rank"]
        code, said = ran([self.deepspeed, *words, "--no_python", "true"])
        self.assertEqual(0, code, said)


class SubcommandsTest(CommandLineTest):
    def test_each_subcommand_names_its_errors(self):
        cases = (
            (["dance"], "dance"), ([b"d\xff\nx"], r"d\xff\nx"), (["rnu"], "did you mean muster run?"),
            (["version", "now"], "now"), (["--version", "now"], "now"), (["help", "rnu"], "rnu"),
            (["help", "run", "now"], "now"),
            (["agent"], "agent"), (["agent", "--fd"], "agent"), (["agent", "--fd", "3x"], "agent"),
            (["agent", "--fd", "-1"], "agent"), (["agent", "--fd", "3", "4"], "agent"),
            (["agent", "--df", "3"], "agent"), (["agent", "--fd", "0"], "agent"), (["agent", "--fd", "99"], "agent"), (["exec-stage"], "exec-stage"),
            (["exec-stage", "x", "1", "1", "--", "true", "true"], "exec-stage"),
            (["local-node"], "local-node"), (["local-node", "1"], "local-node"), (["local-node", "1", "x"], "local-node"),
            (["local", "t.py"], "--nodes"), (["local", "--nodes", "2"], "SCRIPT"),
            *((["local", "--nodes", value, "t.py"], "--nodes", shown(value)) for value in (
                "x", "0", "-1", "1000000", "", b"\xff", "1\n2")),
            (["local", "--nodes", "2", "--standalone", "t.py"], "--standalone: muster local sets this itself"),
            (["local", "--nodes", "2", "--node-rank", "1", "t.py"], "--node-rank 1: muster local sets this itself"),
            (["local", "--nodes", "2", "--nnodes", "1", "t.py"], "--nnodes 1:", "--nodes 2"),
            (["local", "--json", "--nodes", "2", "t.py"], "--json: no such option"),
            (["env", "--json=1"], "--json=1"), (["env", "--jsn"], "--jsn", "did you mean --json?"),
            (["env", "--nodes", "2"], "--nodes"),
            *((["coordinator", "--nnodes", "2", "--listen", value], f"--listen {value}:", "port from 0 to 65535")
              for value in ("foo", "node0", "29400x", "1.2.3")),
        )
        for words, *said in cases:
            with self.subTest(words):
                self.assert_refused([self.muster, *words], *said)

    def test_a_shell_is_answered_with_the_option_for_programs(self):
        (self.folder / "s.sh").write_text("echo x\n")
        self.assert_refused([self.muster, "run", "bash", "-c", "x y"], "type: muster run --no-python bash -c 'x y'")
        script = str(self.folder / "s.sh")
        self.assert_refused([self.muster, "run", script, "1"], f"--no-python bash {script} 1")

    def test_other_names_tell_the_version_too(self):
        for name in ("torchrun", "deepspeed"):
            link = str(self.folder / name)
            if not os.path.islink(link):
                os.symlink(cluster.BINARY, link)
            self.assertEqual(ran([self.muster, "--version"]), ran([link, "--version"]))

    def test_no_arguments_print_the_help(self):
        code, said = ran([self.muster])
        self.assertEqual(64, code)
        self.assertIn("Usage: muster COMMAND", said)

    def test_a_wrong_log_level_is_65(self):
        self.assert_refused([self.muster, "run", "--no-python", "true"], "MUSTER_LOG_LEVEL loud", code=65,
                            MUSTER_LOG_LEVEL="loud")

    def test_a_wrong_variable_of_torch_is_65(self):
        for name, value in (("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon"),
                            ("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", b"\xff")):
            self.assert_refused([self.muster, "run", "--no-python", "true"], f"{name} ", shown(value), code=65,
                                **{name: value})


if __name__ == "__main__":
    cluster.main()

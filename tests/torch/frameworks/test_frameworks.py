"""Real scripts start and finish under muster as under their own launcher, with the same numbers.

All on CPU, without downloads. Frameworks that are not installed are skipped (deploy/setup.sh --tests installs them).
"""
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import cluster

SCRIPTS = pathlib.Path(__file__).resolve().parent / "scripts"
HOOK = cluster.ROOT / "cli/launchers/python/__main__.py"
BIN = pathlib.Path(os.path.normpath(sys.executable)).parent
TORCHRUN = (str(BIN / "torchrun"), "--standalone", "--nproc-per-node=2")
MUSTER = (str(cluster.BINARY), "run", "--standalone", "--nproc-per-node=2")
DEEPSPEED = (str(BIN / "deepspeed"), "--num_gpus=2")
LIMIT_S = 300.0  # only a hang reaches it
OPTION = re.compile(r"^ +(-[a-zA-Z])(?=[ ,])|(?<![\w-])(--[a-z_-]+)", re.MULTILINE)  # options in a help text
RESULT = re.compile(r"result (rank=\d+ world=\d+ value=[\d.]+)")  # not by lines: two ranks may share one


def needs(*modules):
    missing = [module for module in modules if not importlib.util.find_spec(module)]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def environment_for(folder):
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith(("MUSTER_", "PET_", "TORCHELASTIC_"))}
    return inherited | {"PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
                        "TMPDIR": str(folder), "DS_ACCELERATOR": "cpu"}


def load_hook():
    spec = importlib.util.spec_from_file_location("muster_launcher", HOOK)
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook


class UnderLaunchers(unittest.TestCase):
    def run_under(self, launcher, script, *arguments, options=(), environment=()):
        """Exit code and output of one launcher with two workers of the script."""
        with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
            surroundings = environment_for(folder) | dict(environment)
            run = subprocess.run([*launcher, *options, str(SCRIPTS / script), *arguments], env=surroundings, cwd=folder,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, errors="replace", timeout=LIMIT_S, check=False)
        return run.returncode, run.stdout

    def results(self, launcher, script, *arguments, **more):
        code, output = self.run_under(launcher, script, *arguments, **more)
        self.assertEqual(code, 0, output)
        found = sorted(RESULT.findall(output))
        self.assertEqual(len(found), 2, f"not one result of each of two workers\n{output}")
        return found

    def assert_alike(self, script, *arguments, own=TORCHRUN, ours=MUSTER, own_options=()):
        self.assertEqual(self.results(own, script, *arguments, options=own_options),
                         self.results(ours, script, *arguments))


class FrameworksTest(UnderLaunchers):
    @needs("torch")
    def test_gloo_by_the_environment(self):
        self.assert_alike("env_init.py")

    @needs("torch")
    def test_gloo_by_the_scripts_own_tcp_store(self):
        self.assertEqual(self.results(TORCHRUN, "tcp_store.py", free_port()),
                         self.results(MUSTER, "tcp_store.py", free_port()))

    @needs("torch")
    def test_an_exception_under_record_is_in_the_report(self):
        for launcher in (TORCHRUN, MUSTER):
            code, output = self.run_under(launcher, "record_raises.py")
            self.assertEqual(code, 1, output)
            report = output[output.rfind("FAILED\n-"):]
            self.assertRegex(report, r"rank +: 1 \(local_rank: 1\)")
            self.assertRegex(report, "RuntimeError.* the loss is not a number")

    @needs("torch")
    def test_an_unexpired_timer_disturbs_nothing(self):
        timer_on = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}
        self.assertEqual(self.results(TORCHRUN, "file_timer.py", environment=timer_on),
                         self.results(MUSTER, "file_timer.py", environment=timer_on))

    @needs("torch")
    def test_an_expired_timer_restarts_the_group(self):
        timer_on = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}
        found = self.results(MUSTER, "file_timer.py", "late", options=("--max-restarts=1",), environment=timer_on)
        self.assertEqual(found, ["rank=0 world=2 value=0", "rank=1 world=2 value=0"])

    @needs("torch")
    def test_torchs_library_starts_its_own_workers(self):
        self.assert_alike("elastic_launch.py")

    @needs("torch")
    def test_a_torchrun_in_a_worker_has_its_own_job(self):
        inner = ("--no-python", "sh", "-c", f"exec {TORCHRUN[0]} --standalone --nproc-per-node=1 \"$$@\"", "sh")
        self.assert_alike("env_init.py", own=(*TORCHRUN, *inner), ours=(*MUSTER, *inner))

    @needs("torch", "accelerate")
    def test_accelerate(self):
        self.assert_alike("use_accelerate.py")

    @needs("torch", "transformers", "accelerate")
    def test_the_trainer_of_transformers(self):
        self.assert_alike("use_trainer.py", "out")

    @needs("torch", "lightning")
    def test_lightning(self):
        self.assert_alike("use_lightning.py")

    @needs("torch", "deepspeed")
    def test_deepspeeds_engine(self):
        self.assert_alike("use_deepspeed.py", own=DEEPSPEED, own_options=(f"--master_port={free_port()}",))

    def assert_preloads(self, modules, script, *arguments, left_out=()):
        """With --preload the numbers are the same, every module is preloaded but these, and a restart goes well."""
        ours = (*MUSTER, "--preload", ",".join([*modules, *left_out]))
        code, output = self.run_under(ours, script, *arguments)
        self.assertEqual(0, code, output)
        self.assertEqual(self.results(MUSTER, script, *arguments), sorted(RESULT.findall(output)), output)
        self.assertEqual([", ".join(modules)], re.findall(r"--preload: imported (.*) in \S+", output), output)
        self.assertEqual(list(left_out), re.findall(r"--preload: each worker imports (\S+) itself", output), output)

    @needs("torch")
    def test_preloaded_torch(self):
        self.assert_preloads(["torch", "torch.distributed"], "torch_state.py")

    @needs("torch", "transformers", "accelerate")
    def test_preloaded_transformers(self):
        self.assert_preloads(["torch", "transformers"], "use_trainer.py", "out")

    @needs("torch", "lightning")
    def test_preloaded_lightning(self):
        """It reads LOCAL_RANK at its import, so each worker imports it itself."""
        self.assert_preloads(["torch"], "use_lightning.py", left_out=["lightning"])

    @needs("torch", "deepspeed")
    def test_preloaded_deepspeed(self):
        self.assert_preloads(["torch", "deepspeed"], "use_deepspeed.py")

    @needs("torch", "lightning")
    def test_preloaded_by_what_was_learned(self):
        with tempfile.TemporaryDirectory(prefix="muster-test-") as cache:
            learns = {"environment": {"XDG_CACHE_HOME": cache}}
            first = self.results((*MUSTER, "--preload", "auto"), "use_lightning.py", **learns)
            self.assertEqual(first, self.results((*MUSTER, "--preload", "auto"), "use_lightning.py", **learns))

    @needs("torch", "deepspeed")
    def test_a_link_named_deepspeed_runs_its_lines(self):
        with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
            link = pathlib.Path(folder, "deepspeed")
            link.symlink_to(cluster.BINARY)
            code, output = self.run_under((str(link), "--num_gpus=2"), "use_deepspeed.py")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("passed=True"), 2, output)

    @needs("torch", "deepspeed")
    def test_every_deepspeed_option_is_known(self):
        with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
            link = pathlib.Path(folder, "deepspeed")
            link.symlink_to(cluster.BINARY)
            known = []
            for program in (DEEPSPEED[0], str(link)):
                text = subprocess.run([program, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=LIMIT_S, check=True).stdout
                known.append({(letter or name).replace("_", "-") for letter, name in OPTION.findall(text)})
        self.assertIn("--num-gpus", known[0])
        self.assertFalse(sorted(known[0] - known[1] - {"--help", "-h"}))


ACCELERATE = (str(BIN / "accelerate"), "launch", "--multi_gpu", "--mixed_precision=bf16")


@needs("torch", "accelerate")
class LaunchersTest(UnderLaunchers):
    """Launchers that call torch's run() from their own Python: muster takes its place."""

    def test_accelerate_launch(self):
        options = ("--num_processes=2", "--num_machines=1", "--dynamo_backend=no")
        self.assert_alike("use_accelerate.py", own=(*ACCELERATE, *options),
                          ours=(str(cluster.BINARY), "run", *ACCELERATE, *options))

    def test_accelerates_options_and_those_in_front_reach_muster(self):
        ours = (str(cluster.BINARY), "run", "--max-restarts=2", "--nproc-per-node=2", *ACCELERATE)
        options = ("--num_processes=4", "--max_restarts=1", "--role=trainer", "--tee=3")
        code, output = self.run_under(ours, "use_accelerate.py", options=options)
        self.assertEqual(0, code, output)
        self.assertEqual(2, len(RESULT.findall(output)), output)
        self.assertIn("[trainer0]:result rank=0", output)
        for option in ("nproc-per-node=2", "max-restarts=2"):
            self.assertRegex(output, f"--{option}, given in front, takes precedence over the launcher's --")

    def test_accelerate_on_two_machines(self):
        options = ("--num_machines=2", "--num_processes=2", "--main_process_ip=127.0.0.1",
                   f"--main_process_port={free_port()}", str(SCRIPTS / "use_accelerate.py"))
        with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
            nodes = []
            for rank in (1, 0):  # the second one must not take the port at which Accelerate's first one looks
                node = cluster.Node(f"node{rank}", [*ACCELERATE, f"--machine_rank={rank}", *options],
                                    environment_for(folder))
                self.addCleanup(node.process.wait)
                self.addCleanup(node.process.kill)
                nodes.insert(0, node)
                deadline = time.monotonic() + 60
                while not node.find(f"muster: .*(node {rank} of 2|still waiting)"):
                    self.assertIsNone(node.process.poll(), node.output())
                    self.assertLess(time.monotonic(), deadline, node.output())
                    time.sleep(cluster.POLL_S)
            for rank, node in enumerate(nodes):
                self.assertEqual(0, node.process.wait(LIMIT_S), node.output())
                self.assertEqual(1, len(node.find(f"result rank={rank} world=2")), node.output())

    def test_what_accelerate_sets_unasked_gives_way(self):
        """Where its port is taken it sets --standalone, with which each node of a platform would train alone."""
        from torch.distributed import run  # pylint: disable=import-outside-toplevel
        hook, parser = load_hook(), run.get_args_parser()
        for words, own_words, expected in (
                (["--standalone", "--master-port=29500"], ["launch", "x.py"], []),
                (["--standalone"], ["--standalone", "x.py"], ["--standalone"]),
                (["--master-port=29500"], ["--main_process_port=29500", "x.py"], ["--master-port=29500"]),
                (["--nnodes=2", "--node-rank=1", "--rdzv-endpoint=a:7"], [],
                 ["--nnodes=2", "--node-rank=1", "--master-addr=a", "--master-port=7"]),
                (["--nnodes=2", "--node-rank=1", "--rdzv-endpoint=a"], [],
                 ["--nnodes=2", "--node-rank=1", "--master-addr=a"])):
            args = parser.parse_args([*words, "x.py"])
            hook.settle(args, own_words)
            self.assertEqual(expected, hook.options_of(parser, args))

    def test_every_option_of_torchs_parser_survives(self):
        from torch.distributed import launch, run  # pylint: disable=import-outside-toplevel
        hook = load_hook()
        for parse, flags in ((run.parse_args, []), (launch.parse_args, []), (launch.parse_args, ["--use-env"])):
            parser = run.get_args_parser()
            line = list(flags)
            for action in parser._actions[1:]:
                if not action.option_strings:
                    continue
                sample = action.choices[-1] if action.choices else "7" if action.type in (int, float) else "a,,b,c"
                line += action.option_strings[:1] if action.nargs == 0 else [action.option_strings[0], sample]
            for words in (line, flags, [*flags, "--nnodes=1:4"]):
                args = parse([*words, "train.py", "--", "-x"])
                options = hook.options_of(parser, args)
                again = parse([*flags, *[word for word in options if word != "--pass-local-rank"], *["train.py", "-x"]])
                self.assertEqual(args, again, options)
                self.assertEqual(parse is launch.parse_args and not flags, "--pass-local-rank" in options)
            self.assertGreater(len(hook.options_of(parser, parse([*line, "train.py"]))), 20)

    def test_what_muster_has_no_part_in_is_said(self):
        with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
            alone, in_process = pathlib.Path(folder, "alone.py"), pathlib.Path(folder, "accelerate")
            alone.write_text("import os; print('token', os.environ.get('MUSTER_TOKEN'))")
            text = (SCRIPTS / "elastic_launch.py").read_text()
            in_process.write_text(f"#!{sys.executable}\n# accelerate.commands.accelerate_cli\n{text}")
            in_process.chmod(0o755)
            for line, said in (((*ACCELERATE[:2], "--num_processes=1", str(alone)),
                                "accelerate starts python itself, not by torchrun: muster has no part in this job. Accelerate "
                                "does so on CPU (type: ACCELERATE_USE_CPU=true muster run --nproc-per-node N SCRIPT)"),
                               ((str(in_process), "launch"), "accelerate starts its workers from within its own process")):
                run = subprocess.run([str(cluster.BINARY), "run", *line], env=environment_for(folder) | {"RANK": "0", "MUSTER_TOKEN": "secret"},
                                     cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                     timeout=LIMIT_S, check=False)
                self.assertEqual(0, run.returncode, run.stderr)
                self.assertIn(f"muster: {said}", run.stderr)
                self.assertNotIn("secret", run.stdout)


class StoppedTest(unittest.TestCase):
    """Trainings with two DataLoader workers save when they are stopped, as without a launcher."""

    def start(self, script, nproc=1):
        """muster with the script, which trains; it notes its steps in self.folder."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        options = ["--standalone", "--max-restarts=1", f"--nproc-per-node={nproc}"]
        self.node = cluster.Node(script, [*options, str(SCRIPTS / script), str(self.folder)], environment_for(self.folder))
        self.addCleanup(self.node.process.wait)
        self.addCleanup(self.node.process.kill)
        self.await_steps(1)

    def await_file(self, name):
        deadline = time.monotonic() + LIMIT_S
        while not (self.folder / name).exists():
            self.assertIsNone(self.node.process.poll(), self.node.output())
            self.assertLess(time.monotonic(), deadline, self.node.output())
            time.sleep(cluster.POLL_S)

    def await_steps(self, more):
        self.await_file("step")
        first = self.step()
        deadline = time.monotonic() + LIMIT_S
        while self.step() < first + more:
            self.assertLess(time.monotonic(), deadline, self.node.output())
            time.sleep(cluster.POLL_S)

    def step(self):
        return int((self.folder / "step").read_text())

    def assert_ends(self, code, checkpoint):
        self.assertEqual(code, self.node.process.wait(LIMIT_S), self.node.output())
        self.assertEqual(1, len(list(self.folder.glob(checkpoint))), self.node.output())

    def check(self, script, checkpoint):
        with self.subTest("asked to leave"):
            self.start(script)
            self.node.process.send_signal(signal.SIGTERM)
            self.assert_ends(75, checkpoint)
        with self.subTest("in a restart"):
            self.start(script, nproc=2)
            (self.folder / "fail").touch()
            self.assert_ends(0, checkpoint)

    @needs("torch", "transformers", "accelerate")
    def test_transformers_saves_when_it_is_stopped(self):
        self.check("stopped_trainer.py", "checkpoint-*/model.safetensors")

    @needs("torch", "lightning")
    def test_lightning_saves_when_it_is_stopped(self):
        self.check("stopped_lightning.py", "on_exception.ckpt")

    @needs("torch", "lightning")
    def test_lightning_saves_once_for_its_requeue(self):
        self.start("stopped_lightning.py")
        self.node.process.send_signal(signal.SIGUSR1)
        self.await_file("hpc_ckpt_1.ckpt")
        self.await_steps(100)
        self.node.process.send_signal(signal.SIGTERM)
        self.assert_ends(75, "hpc_ckpt_*.ckpt")
        self.assertEqual(1, len(self.node.find("Handling auto-requeue signal")), self.node.output())


if __name__ == "__main__":
    unittest.main()

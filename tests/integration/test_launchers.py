"""Another launcher in the place of the script: muster does its work, so that there is one job and not one in each worker.

Those that end in torch's run() from their own Python are in tests/torch/frameworks.
"""
import os
import pathlib
import sys
import tempfile
import unittest

import cluster

# One write for each line: workers share the output.
SAY = ("import os, sys; os.write(1, (' '.join([os.environ['RANK'], os.environ['WORLD_SIZE'], sys.executable, "
       "*sys.argv[1:]]) + '\\n').encode())")
LAUNCH = ("-m", "torch.distributed.launch")


class Launchers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.say = self.folder / "say.py"
        self.say.write_text(SAY)

    def start(self, *words, **environment):
        popen = {"cwd": environment.pop("folder")} if "folder" in environment else {}
        node = cluster.Node("node", [str(cluster.BINARY), *map(str, words)], cluster.plain_environment() | environment,
                            self.folder, **popen)
        self.addCleanup(node.exit_code)
        self.addCleanup(node.signal, cluster.signal.SIGTERM)  # before: clean-ups run backwards
        return node

    def workers(self, *words, **environment):
        """What each worker prints, in the order of ranks."""
        node = self.start(*words, **environment)
        self.assertEqual(0, node.exit_code(), node.err())
        return [line.split() for line in sorted(node.out().splitlines())]

    def test_each_way_to_start_torchs_starts_one_job(self):
        for launcher, argument in ((["torchrun"], ""), ([sys.executable, "-X", "dev", "-m", "torch.distributed.run"], ""),
                                   (["-m", "torch.distributed.run"], ""), (["--no-python", "torchrun"], ""),
                                   ([*LAUNCH, "--use-env"], ""), (LAUNCH, "--local-rank={}")):
            workers = self.workers("run", *launcher, "--nproc-per-node=2", self.say, "a")
            for rank, worker in enumerate(workers):
                self.assertEqual([str(rank), "2", *argument.format(rank).split(), "a"], worker[:2] + worker[3:], launcher)
            self.assertEqual(2, len(workers), launcher)

    def test_deepspeeds_starts_one_job(self):
        for launcher in (["deepspeed"], ["-m", "deepspeed.launcher.runner"]):
            workers = self.workers("run", *launcher, "--num_gpus=2", self.say)
            self.assertEqual([["0", "2", "--local_rank=0"], ["1", "2", "--local_rank=1"]],
                             [worker[:2] + worker[3:] for worker in workers], launcher)

    def test_deepspeeds_include_names_the_machines_devices(self):
        tool = self.folder / "nvidia-smi"
        tool.write_text("#!/bin/sh\n" + "".join(f"echo 'GPU {i}: Some (UUID: GPU-{i})'\n" for i in range(8)))
        tool.chmod(0o755)
        self.say.write_text("import os; os.write(1, (os.environ['RANK'] + ' ' + os.environ['CUDA_VISIBLE_DEVICES'] + '\\n').encode())")
        for hosts in ((), ("--hostfile=",), ("--hostfile=nowhere",)):
            workers = self.workers("run", "deepspeed", *hosts, "--include=localhost:4,5", self.say,
                                   PATH=f"{self.folder}:{os.environ['PATH']}", CUDA_VISIBLE_DEVICES="5,4")
            self.assertEqual([["0", "4,5"], ["1", "4,5"]], workers)

    def test_options_in_front_take_precedence(self):
        line = ["--nproc-per-node=2", "torchrun", "--nproc-per-node=1", self.say]
        said = "--nproc-per-node=2, given in front, takes precedence over the launcher's --nproc-per-node=1"
        node = self.start("run", *line)
        self.assertEqual(0, node.exit_code(), node.err())
        self.assertEqual(2, len(node.out().splitlines()))
        self.assertIn(said, node.err())
        shown = self.start("env", *line)
        self.assertEqual(0, shown.exit_code(), shown.err())
        self.assertIn("It starts 2 workers", shown.out())
        self.assertIn(said, shown.err())

    def test_workers_get_the_launchers_python(self):
        interpreter = self.folder / "venv/bin/python3.99"
        interpreter.parent.mkdir(parents=True)
        interpreter.symlink_to(os.path.realpath(sys.executable))
        program = self.folder / "torchrun"
        for first_line in (f"#!{interpreter}", "#!/usr/bin/env python3.99"):
            program.write_text(f"{first_line}\nfrom torch.distributed.run import main\n")
            program.chmod(0o755)
            path = f"{interpreter.parent}:{os.environ['PATH']}"
            for launcher in ([program], [interpreter, "-m", "torch.distributed.run"]):
                self.assertEqual(str(interpreter), self.workers("run", *launcher, self.say, PATH=path)[0][2])
            chosen = self.workers("run", program, self.say, PATH=path, PYTHON_EXEC=os.path.abspath(sys.executable))
            self.assertEqual(os.path.abspath(sys.executable), chosen[0][2])
            chosen = self.workers("run", program, self.say, PATH=path, MUSTER_PYTHON=os.path.abspath(sys.executable))
            self.assertEqual(os.path.abspath(sys.executable), chosen[0][2])

    def test_a_program_of_the_user_with_a_launchers_name_is_no_launcher(self):
        program = self.folder / "tune"
        program.write_text("#!/bin/sh\necho $RANK of $WORLD_SIZE $*\n")
        program.chmod(0o755)
        for options, words in ((["--no-python"], [program, "--lr", "3"]), ([], [self.folder / "torchrun", "--lr", "3"])):
            (self.folder / "torchrun").write_text("import os, sys; print(os.environ['RANK'], 'of 1', *sys.argv[1:])")
            self.assertEqual([["0", "of", "1", "--lr", "3"]], self.workers("run", *options, *words))

    def test_the_launchers_own_file_in_the_working_folder_is_the_launcher(self):
        (self.folder / "torchrun").write_text(f"#!{sys.executable}\nfrom torch.distributed.run import main\n")
        workers = self.workers("run", "torchrun", "--nproc-per-node=2", self.say, folder=self.folder)
        self.assertEqual([["0", "2"], ["1", "2"]], [worker[:2] for worker in workers])

    def test_a_folder_with_a_launchers_name_hides_none(self):
        for name in ("torchrun", "deepspeed"):
            (self.folder / name).mkdir()
        self.assertEqual("1", self.workers("run", "torchrun", self.say, folder=self.folder)[0][1])

    def test_what_cannot_be_started_is_named(self):
        wrapper = self.folder / "accelerate"
        wrapper.write_text("#!/bin/sh\nexec python -m accelerate.commands.launch\n")
        wrapper.chmod(0o755)
        for line, code, words in ((["run", "accelerate", "config"], 64, "accelerate config: muster starts only accelerate launch"),
                                  (["local", "--nodes=2", "torchrun", self.say], 64, "torchrun: only muster run can do its work"),
                                  (["env", "accelerate", "launch", self.say], 64, "only muster run can start it"),
                                  (["run", "./accelerate", "launch", self.say], 127, "./accelerate does not exist"),
                                  (["run", wrapper, "launch", self.say], 64, "its first line names no Python"),
                                  (["run", "--lease=so", "accelerate", "launch", self.say], 64, "--lease so"),
                                  (["run", *LAUNCH, "--no-python", "x"], 64, "--no-python needs --use-env"),
                                  (["run", "torchrun", "--nope", "x"], 64, "--nope: no such option")):
            node = self.start(*line)
            self.assertEqual(code, node.exit_code(), node.err())
            self.assertIn(words, node.err())


if __name__ == "__main__":
    unittest.main()

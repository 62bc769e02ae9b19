"""Each command line that the README and docs/ show runs here, or stands in the table of those that cannot.

Command lines are those of fenced blocks, unless a block names a language that is no shell (`text`, `yaml`), and lines
of muster with a script in backquotes. A new one that matches neither pattern nor table fails the test.
"""
import re
import shutil
import socket

import cluster
from cluster import ClusterTest, wait_until

# Without the help texts: test_documents.py compares them with the program.
PAGES = {cluster.ROOT / "README.md", *(cluster.ROOT / "docs").glob("*.md")} - {cluster.ROOT / "docs/reference.md"}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IN_BACKQUOTES = re.compile(r"`([^`]*\bmuster (?:run|local) [^`]*train\w*\.py[^`]*)`")
RUNS = re.compile(r"((\w+=\S+ )?muster (run|local|host)|python|ln -s muster) ")
NEEDS_A_JOB = re.compile(r"pkill ")  # the second test
CANNOT_RUN = {
    r"srun ": "Slurm: test_slurm.py",
    r"(MASTER_ADDR=node0 )?mpi(exec|run|run_rsh) |cp \$PBS_NODEFILE ": "MPI or PBS: test_mpi.py",
    r"muster run (accelerate launch|tune run) ": "Accelerate or torchtune: tests/torch/frameworks",
    r"muster run --coordinator HOST ": "several machines: test_coordinator.py",
    r"python3 -m venv env$|env/bin/(pip|muster) ": "the wheel: tests/deploy/test_package.py",
    r"bash (deploy/quickstart|tests/run)\.sh": "minutes",
    r"ENTRYPOINT |(docker|kubectl) exec ": "an image: tests/container",
    r"muster status": "test_status.py",
    r"\(umask 077; muster token|muster run --http 0\.0\.0\.0|curl ": "a token of its own, one after the other: test_http.py",
}
# In place of the reader's script. Each worker leaves a file, and waits while there is a gate.
TRAIN = """import os, pathlib, time
here = pathlib.Path(__file__).parent
defaults = {"TORCHELASTIC_RESTART_COUNT": "0", "WORLD_SIZE": "1", "RANK": "0"}
(here / " ".join(["ran", *(os.environ.get(*default) for default in defaults.items())])).touch()
while (here / "gate").exists():
    time.sleep(0.01)
"""


def command_lines(page):
    text = page.read_text()
    blocks = [block for language, block in BLOCK.findall(text) if language in ("", "sh", "bash")]
    lines = "".join(blocks).splitlines() + IN_BACKQUOTES.findall(BLOCK.sub("", text))
    lines = [re.sub(r"(^|\s+)#.*", "", " ".join(line.split())) for line in lines]
    return [line for line in lines if line]


def needed_together(line, lines):
    """The line, and what the page says to start with it."""
    if "--node-rank " in line:
        return tuple(re.sub(r"(--node-rank) \d", rf"\1 {rank}", line) for rank in (0, 1))
    return tuple(other for other in lines if "/tmp/host.sock" in other) if "/tmp/host.sock" in line else (line,)


class PageCommands(ClusterTest):
    def enter_folder(self):
        """A new folder with what the lines name; processes of the one before are ended with the test."""
        self.job = self.cluster(1)
        self.folder = self.job.folder
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "muster").symlink_to(cluster.BINARY)
        (programs / "python").symlink_to(shutil.which("python3"))
        (programs / "nvidia-smi").write_text("#!/bin/sh\nfor i in 0 1; do echo \"GPU $i: Some (UUID: GPU-$i)\"; done\n")
        (programs / "nvidia-smi").chmod(0o755)
        (self.folder / "deploy").symlink_to(cluster.ROOT / "deploy")
        (self.folder / "train.py").write_text(TRAIN)
        (self.folder / "hosts").write_text(f"{socket.gethostname()} slots=2\n")
        self.environment = {**cluster.plain_environment(), cluster.TOKEN: self.job.token}
        self.environment["PATH"] = f"{programs}:{self.environment['PATH']}"

    def start(self, line, **environment):
        """Runs the line with this machine's address and the test's folder in place of the reader's."""
        for there, here in (("node0", "127.0.0.1"), ("/usr/local/bin/", "bin/"), ("/tmp/", f"{self.folder}/")):
            line = line.replace(there, here)
        node = cluster.Node(f"line{len(self.job.all_nodes)}", ["bash", "-c", line], self.environment | environment,
                            self.folder, cwd=self.folder)
        self.job.all_nodes.append(node)
        return node

    def last_round(self):
        """The newest restart count, the world size, and whether all workers of that round have started."""
        started = [tuple(map(int, path.name.split()[1:])) for path in self.folder.glob("ran *")]
        restart, world, _ = max(started, default=(-1, 0, 0))
        return restart, world, {(restart, world, rank) for rank in range(world)} <= set(started)

    def run_lines(self, lines):
        self.enter_folder()
        port = {"MUSTER_MASTER_PORT": str(cluster.free_port("127.0.0.1"))} if len(lines) > 1 else {}
        nodes = [self.start(line, **port) for line in lines]
        self.assertEqual([0] * len(nodes), [node.exit_code() for node in nodes], self.job.output())
        if "train.py" in lines[0]:
            restart, world, is_whole = self.last_round()
            self.assertTrue(restart >= 0 and is_whole, self.job.output())

    def test_each_runs_or_is_known_not_to_run_here(self):
        done, unused = set(), set(CANNOT_RUN)
        for page in sorted(PAGES):
            lines = command_lines(page)
            for line in lines:
                reasons = {pattern for pattern in CANNOT_RUN if re.match(pattern, line)}
                unused -= reasons
                together = needed_together(line, lines)
                if reasons or NEEDS_A_JOB.match(line) or together in done:
                    continue
                with self.subTest(line, page=page.name):
                    self.assertRegex(line, RUNS, "neither run here nor in the table")
                    self.run_lines(together)
                done.add(together)
        self.assertEqual(set(), unused, "no page shows these any more")

    def test_those_for_a_running_job_do_what_the_page_says(self):
        lines = command_lines(cluster.ROOT / "docs/restarts.md")
        self.enter_folder()
        (self.folder / "gate").touch()
        job = next(line for line in lines if line.startswith("muster local "))
        job = self.start("exec " + job.replace("--nodes 5", "--nodes 4"))  # without a spare, which may be node 1
        restart = -1
        for line in [*filter(NEEDS_A_JOB.match, lines), ""]:
            def is_next_of_four(before=restart):
                newest, world, is_whole = self.last_round()
                return newest > before and world == 4 and is_whole
            wait_until("the next round of all nodes", is_next_of_four)
            restart = self.last_round()[0]
            killer = self.start(line.replace("PID", str(job.process.pid)))
            self.assertEqual(0, killer.exit_code(), killer.err())
        (self.folder / "gate").unlink()
        self.assertEqual(0, job.exit_code(), job.err())


if __name__ == "__main__":
    cluster.main()

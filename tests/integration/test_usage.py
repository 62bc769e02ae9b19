"""Messages and exit codes when muster cannot start."""
import json
import os
import re
import subprocess
import sys
import time
import unittest

import cluster
from cluster import ClusterTest, plain_environment, wait_until


def run(arguments, **environment):
    done = subprocess.run([str(cluster.BINARY), "run", *arguments], env={**cluster.plain_environment(), **environment},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=cluster.LIMIT_S)
    return done.returncode, done.stderr


class BadInput(unittest.TestCase):
    def spec(self, **changes):
        spec = {"cluster": {"workerpool0": ["127.0.0.1:2222"], "workerpool1": ["127.0.0.2:2222"]},
                "environment": "cloud", "task": {"type": "workerpool1", "index": 0}}
        spec.update(changes)
        return json.dumps(spec)

    def test_a_bad_cluster_spec_is_65_and_names_the_field(self):
        cases = {
            "CLUSTER_SPEC": "{",
            "cluster": self.spec(cluster=[]),
            "cluster.workerpool1": self.spec(cluster={"workerpool0": ["127.0.0.1:2222"], "workerpool1": "x"}),
            "task": self.spec(task=None),
            "task.type": self.spec(task={"type": "workerpool7", "index": 0}),
            "task.index": self.spec(task={"type": "workerpool1", "index": 4}),
            "cluster.workerpool0": self.spec(cluster={"workerpool0": ["127.0.0.1:1", "127.0.0.3:1"],
                                                      "workerpool1": ["127.0.0.2:1"]}),
        }
        for field, spec in cases.items():
            with self.subTest(field):
                code, said = run(["--no-python", "true"], CLUSTER_SPEC=spec)
                self.assertEqual(65, code, said)
                self.assertEqual(1, len(said.splitlines()), said)
                self.assertIn(field, said)

    def test_bad_usage_is_64_and_names_the_option(self):
        cases = {"--nnodes": ["--nnodes", "x", "true"], "--no-such-option": ["--no-such-option", "true"],
                 "--lease": ["--lease", "soon", "true"], "--max-restarts": ["--max-restarts", "-1", "true"],
                 "--nproc-per-node": ["--nproc-per-node", "many", "true"], "SCRIPT": ["--standalone"],
                 "--no-python": ["-m", "--no-python", "true"]}
        for name, arguments in cases.items():
            with self.subTest(name):
                code, said = run(arguments)
                self.assertEqual(64, code, said)
                self.assertIn(name, said)

    def test_a_bad_value_in_a_variable_is_65_and_names_it(self):
        for name in ("MUSTER_LEASE", "PET_NNODES"):
            with self.subTest(name):
                code, said = run(["--no-python", "true"], **{name: "x"})
                self.assertEqual(65, code, said)
                self.assertIn(name, said)

    def test_dashes_and_underscores_are_alike(self):
        self.assertEqual(0, run(["--standalone", "--nproc_per_node=1", "--max_restarts", "0", "--no_python", "true"])[0])


class Token(unittest.TestCase):
    def test_a_new_token_is_long_and_never_the_same(self):
        tokens = {subprocess.run([str(cluster.BINARY), "token"], env=plain_environment(), capture_output=True, text=True,
                                 check=True).stdout for _ in range(3)}
        self.assertEqual(3, len(tokens))
        self.assertTrue(all(re.fullmatch("[0-9a-f]{64}\n", token) for token in tokens), tokens)


class Install(ClusterTest):
    def install(self, *words):
        done = subprocess.run([str(cluster.BINARY), "install", *words], env=plain_environment(), capture_output=True,
                              text=True, timeout=cluster.LIMIT_S, check=False)
        return done.returncode, done.stdout or done.stderr

    def test_the_binary_copies_itself_to_a_path_or_into_a_folder(self):
        folder = self.cluster(1).folder
        for target, path in ((folder / "other", folder / "other"), (folder, folder / "muster")):
            self.assertEqual((0, f"{path}\n"), self.install(str(target)))
            self.assertEqual(cluster.BINARY.read_bytes(), path.read_bytes())
            self.assertEqual(0o755, path.stat().st_mode & 0o777)

    def test_only_a_regular_file_is_replaced(self):
        folder = self.cluster(1).folder
        pipe, link = folder / "pipe", folder / "link"
        os.mkfifo(pipe)
        link.symlink_to("elsewhere")
        for path, kind in ((pipe, "a device, a pipe or a socket"), (link, "a link")):
            self.assertEqual((65, f"muster: {path}: expected a folder, a regular file or a new name, and this is {kind}\n"),
                             self.install(str(path)))
        self.assertTrue(pipe.is_fifo() and link.is_symlink())

    def test_a_running_copy_is_replaced(self):
        path = self.cluster(1).folder / "muster"
        self.install(str(path))
        running = subprocess.Popen([str(path), "run", "--no-python", "sleep", "1000"], env=plain_environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.assertEqual((0, f"{path}\n"), self.install(str(path)))
        finally:
            running.terminate()
            running.wait(cluster.LIMIT_S)

    def test_a_path_that_cannot_be_written_is_named_and_nothing_is_left(self):
        folder = self.cluster(1).folder
        self.assertEqual((65, f"muster: cannot write {folder}/no/muster: No such file or directory\n"),
                         self.install(str(folder / "no/muster")))
        self.assertEqual(64, self.install()[0])
        self.assertEqual(64, self.install("a", "b")[0])
        left = [path.name for path in folder.iterdir() if "muster" in path.name]
        self.assertEqual([], left)


class Alone(ClusterTest):
    def test_an_unreachable_primary_is_named(self):
        job = self.cluster(2, options=["--join-timeout", "3s"])
        node = job.start(1)
        primary = f"{job.addresses[0]}:{job.ports[0]}"
        wait_until("a line with the reason for waiting", lambda: node.said(rf"waiting.*{primary}"))
        self.assertEqual(69, node.exit_code())
        self.assertRegex(node.err().splitlines()[-1], rf"exit code 69.*{primary}")

    def test_too_few_nodes_are_69_and_the_absent_named(self):
        job = self.cluster(4, options=["--join-timeout", "3s"])
        for place in (0, 2):
            job.start(place)
        for place in (0, 2):
            self.assertEqual(69, job.nodes[place].exit_code())
            last = job.nodes[place].err().splitlines()[-1]
            self.assertIn("exit code 69", last)
            for absent in (1, 3):
                self.assertIn(job.addresses[absent], last)
            self.assertNotIn(job.addresses[2], last)
        self.assertEqual([], job.records())

    def test_a_node_of_another_run_is_refused_with_77(self):
        job = self.cluster(2)
        job.start(0)
        other = job.start(1, options=["--rdzv-id", "another"])
        self.assertEqual(77, other.exit_code())
        self.assertIn("another", other.err())
        job.start(1)
        job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())

    def test_all_hear_of_a_node_that_cannot_start(self):
        job = self.cluster(2)
        job.start(0)
        job.program = ["/nowhere/at/all"]
        job.start(1)
        self.assertEqual({0: 127, 1: 127}, job.exit_codes())
        self.assertIn("/nowhere/at/all", job.nodes[0].err())

    def test_a_latecomer_gets_the_verdict_or_69(self):
        job = self.cluster(2, plan=[{"after": None}], options=["--join-timeout", "3s"])
        job.start_all()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        began = time.monotonic()
        self.assertIn(job.start(1).exit_code(), (0, 69))
        self.assertLess(time.monotonic() - began, cluster.LIMIT_S)


class OwnLines(cluster.ClusterTest):
    def test_on_vertex_ai_info_lines_go_to_standard_output(self):
        job = self.cluster(2, plan=[{"after": None, "exit": 3}], options=["--max-restarts", "0"],
                           environment={"MUSTER_LOG_STREAMS": ""})
        job.start_all()
        self.assertEqual({0: 3, 1: 3}, job.exit_codes())
        for node in job.all_nodes:
            self.assertRegex(node.out(), r"muster: \[host\] node \d of 2 \(vertex\)")
            self.assertRegex(node.err(), r"muster: \[host\] error: exit code 3")
            self.assertNotIn("(vertex)", node.err())
        self.assertRegex(job.nodes[0].out(), r"muster: \[coordinator\] starting 4 workers on 2 nodes, round 1", "the agent does so, too")

    def test_json_lines_name_place_and_time(self):
        job = self.cluster(2, plan=[{"after": None, "exit": 3}], options=["--max-restarts", "0", "--log-format", "json", "--report-on", "all"])
        job.start_all()
        self.assertEqual({0: 3, 1: 3}, job.exit_codes())
        for place, node in job.nodes.items():
            lines = [json.loads(line) for line in node.err().splitlines()]
            self.assertEqual({place}, {line["node"] for line in lines if "node" in line})
            last = lines[-1]
            self.assertEqual(("ERROR", 1, "job_ended"), (last["severity"], last["round"], last["event"]))
            self.assertRegex(last["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertTrue(any("Root Cause" in line["message"] for line in lines), "the report is one line")


class Env(unittest.TestCase):
    def test_json_lists_the_findings(self):
        job = cluster.Cluster(3, reduction_server=True)
        self.addCleanup(job.close)
        for place, role in ((0, "trainer"), (2, "trainer"), (3, "aux")):
            done = subprocess.run([str(cluster.BINARY), "env", "--json"], env=job.environment_of(place),
                                  capture_output=True, text=True, timeout=cluster.LIMIT_S, check=True)
            found = json.loads(done.stdout)
            self.assertEqual(role, found["role"])
            self.assertEqual(3, found["nnodes"])
            self.assertEqual(job.job_id, found["run_id"])
            self.assertEqual({"host": job.addresses[0], "port": job.ports[0]}, found["primary"])
            if role == "trainer":
                self.assertEqual(place, found["node_rank"])

    def check(self, job, place, **environment):
        done = subprocess.run([str(cluster.BINARY), "env", "--check", "--json"], capture_output=True, text=True,
                              env={**job.environment_of(place), **environment}, timeout=cluster.LIMIT_S, check=False)
        return done.returncode, {finding["name"]: finding for finding in json.loads(done.stdout)["checks"]}

    def test_a_check_names_a_shell_script_and_a_python_without_torch(self):
        job = cluster.Cluster(1)
        self.addCleanup(job.close)
        python = job.folder / "python"
        python.write_text(f'#!/bin/sh\necho as sitecustomize may\nexec {sys.executable} -I -S "$@"\n')
        python.chmod(0o755)
        for name in ("train.py", "train.sh"):
            (job.folder / name).touch()
        def said(name):
            done = subprocess.run([str(cluster.BINARY), "env", "--check", "--standalone", "--python", str(python), name],
                                  cwd=job.folder, env=plain_environment(), capture_output=True, text=True,
                                  timeout=cluster.LIMIT_S, check=False)
            return done.stdout
        self.assertRegex(said("train.py"), rf"note +python +{python}, no torch there\n")
        for text in ("no program\n", "#!/bin/cat\n", "#!/nowhere/python\n"):
            python.write_text(text)
            self.assertRegex(said("train.py"), rf"WRONG +python +{python} is no Python that runs\n")
        self.assertRegex(said("train.sh"), r"WRONG +program +train.sh: .* type: muster run .*--no-python bash train.sh\n")

    def test_a_check_leaves_no_folder_and_finds_a_torch_without_metadata(self):
        job = cluster.Cluster(1)
        self.addCleanup(job.close)
        (job.folder / "torch").mkdir()
        (job.folder / "torch/__init__.py").write_text("raise SystemExit('it was imported')\n")
        python = job.folder / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={job.folder} exec {sys.executable} -S "$@"\n')
        python.chmod(0o755)
        (job.folder / "train.py").touch()
        def said(folder):
            environment = plain_environment() | {"TMPDIR": str(job.folder / folder)}
            command = [str(cluster.BINARY), "env", "--check", "--standalone", "--python", str(python), "train.py"]
            return subprocess.run(command, cwd=job.folder, env=environment, capture_output=True, text=True,
                                  timeout=cluster.LIMIT_S, check=False).stdout
        text = said("a/b/c")
        self.assertRegex(text, r"ok +temporary files +can be made\n")
        self.assertRegex(text, rf"ok +python +{python}, torch of an unknown version\n")
        self.assertFalse((job.folder / "a").exists())
        self.assertRegex(said("train.py/a"),
                         rf"note +temporary files +can be made in /tmp, not in {job.folder}/train.py/a \(TMPDIR\)")

    def test_a_check_works_before_and_during_the_job(self):
        job = cluster.Cluster(2, environment={"MUSTER_TOKEN": "secret-of-twenty-two-chars"})
        self.addCleanup(job.close)
        _, found = self.check(job, 1)
        self.assertEqual("note", found["primary's port"]["kind"])
        _, found = self.check(job, 0)
        self.assertEqual("good", found["primary's port"]["kind"])
        node = job.start(0)
        cluster.wait_until("the primary listens", lambda: cluster.listens(job.addresses[0], job.ports[0]))
        _, found = self.check(job, 1)
        self.assertEqual("good", found["primary's port"]["kind"])
        self.assertRegex(found["clock"]["text"], r"^0\.\d s (ahead of|behind) the primary's$")
        code, found = self.check(job, 1, MUSTER_TOKEN="another-of-twenty-two-chars")
        self.assertEqual((69, "unreachable"), (code, found["credentials"]["kind"]))
        code, found = self.check(job, 1, MUSTER_TOKEN="")
        self.assertEqual((69, "unreachable"), (code, found["credentials"]["kind"]))
        self.assertIn("requires a token and this node sent none", found["credentials"]["text"])
        self.assertEqual("good", found["primary's port"]["kind"])
        _, found = self.check(job, 0)
        self.assertEqual("note", found["primary's port"]["kind"])
        self.assertEqual(("good", "token (MUSTER_TOKEN)"), (found["protection"]["kind"], found["protection"]["text"]))
        for token in ("another-of-twenty-two-chars", ""):  # it is this very job that refuses it
            code, found = self.check(job, 0, MUSTER_TOKEN=token)
            self.assertEqual((69, "unreachable"), (code, found["primary's port"]["kind"]))
            self.assertIn("a muster that refuses this node already listens", found["primary's port"]["text"])
            self.assertNotIn("stop", found["primary's port"]["advice"])
        self.assertFalse(node.has_ended())

    def test_a_check_of_an_unknown_name_is_69(self):
        job = cluster.Cluster(2, addresses=["no-such-name.invalid", "127.0.0.2"], ports=[1, 1])
        self.addCleanup(job.close)
        code, found = self.check(job, 1)
        self.assertEqual((69, "unreachable"), (code, found["primary's name"]["kind"]))

    def test_secrets_are_masked(self):
        environment = {**cluster.plain_environment(), "WANDB_API_KEY": "hush-hush", "CLUSTER_SPEC": ""}
        for arguments in (["env"], ["env", "--json"]):
            done = subprocess.run([str(cluster.BINARY), *arguments], env=environment, capture_output=True, text=True,
                                  timeout=cluster.LIMIT_S, check=True)
            self.assertNotIn("hush-hush", done.stdout + done.stderr)


if __name__ == "__main__":
    cluster.main()

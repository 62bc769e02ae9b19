"""Tokens and certificates: what a file must be like, and that it can be replaced while a job runs."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import authority
import cluster
from cluster import ClusterTest, kill, node_command, plain_environment, wait_until
from test_sidecar import Pods

OLD = "the-old-token-of-22-characters"
NEW = "the-new-token-of-22-characters"
LONG_LEASE = ["--lease", "10s"]
OTHER_USER = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"]
STAYS = "what was read before stays in use until it is corrected"


def write(path, text, mode=0o600):
    """In place, as an editor does it."""
    path.write_text(text)
    path.chmod(mode)


class Files(ClusterTest):
    """What is said of a file at the start."""

    def setUp(self):
        self.job = self.cluster(1)
        self.file = self.job.folder / "token"

    def start(self, *options, environment=None):
        command = node_command(["--standalone", *options], [sys.executable, "-c", "print('worker')"])
        done = subprocess.run(command, env={**plain_environment(), **(environment or {})}, capture_output=True, text=True,
                              timeout=cluster.LIMIT_S)
        return done.returncode, done.stderr

    def write(self, text, mode=0o600):
        write(self.file, text, mode)
        return ["--token-file", str(self.file)]

    def test_a_file_that_others_can_write_is_refused(self):
        for mode in (0o620, 0o602):
            code, said = self.start(*self.write(OLD, mode))
            self.assertEqual(65, code, said)
            self.assertRegex(said, rf"--token-file {self.file}: users other than its owner can write it "
                                   rf"\(mode {mode:04o}\): chmod 600 {self.file}")

    def test_a_file_that_all_can_read_is_a_warning(self):
        code, said = self.start(*self.write(OLD, 0o644))
        self.assertEqual(0, code, said)
        self.assertEqual(1, said.count("warning"), said)
        self.assertIn(f"every user of this machine can read it (mode 0644): chmod 600 {self.file}", said)
        self.assertEqual((0, ""), (self.start(*self.write(OLD, 0o640))[0], ""))

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_the_file_of_another_user_is_refused(self):
        options = self.write(OLD)
        os.chown(self.file, 12345, -1)
        code, said = self.start(*options)
        self.assertEqual(65, code, said)
        self.assertIn(f"it belongs to user 12345, and muster runs as user 0: chown 0 {self.file}", said)

    def test_three_tokens_are_too_many(self):
        code, said = self.start(*self.write(f"{NEW}\n{OLD}\n{OLD}\n"))
        self.assertEqual(65, code)
        self.assertIn("line 3 is one token too many", said)
        self.assertNotIn(OLD, said)

    def test_a_missing_file_and_a_wrong_one_end_alike(self):
        missing = self.job.folder / "missing"
        reads = rf"{missing}: the file cannot be read: No such file or directory"
        for options, expected in ((["--token-file", str(missing)], f"--token-file {reads}"),
                                  (["--tls-cert", str(missing), "--tls-key", "k", "--tls-ca", "a"], f"--tls-cert {reads}"),
                                  (self.write(""), f"--token-file {self.file}: the file is empty: write the job's token"),
                                  (["--tls-cert", str(self.file), "--tls-key", str(self.file), "--tls-ca", str(self.file)],
                                   f"--tls-cert {self.file}: expected a certificate in PEM form")):
            code, said = self.start(*options)
            self.assertEqual(65, code, said)
            self.assertIn(expected, said)

    def test_a_file_and_a_variable_are_a_warning(self):
        code, said = self.start(*self.write(OLD), environment={"MUSTER_TOKEN": NEW})
        self.assertEqual(0, code, said)
        self.assertIn(f"warning: MUSTER_TOKEN: has no effect, since --token-file {self.file} takes precedence", said)
        self.assertNotIn(NEW, said)

    def test_certificate_options_belong_together(self):
        for options, expected in ((["--tls-cert", "c"], "--tls-key is missing|--tls-ca is missing"),
                                  (["--tls-name", "n"], "--tls-cert is missing"),
                                  (["--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a", "--token-file", "t"],
                                   "--tls-cert c: cannot be used with --token-file: choose tokens or certificates")):
            code, said = self.start(*options)
            self.assertEqual(64, code, said)
            self.assertRegex(said, expected)
        code, said = self.start("--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a", environment={"MUSTER_TOKEN": OLD})
        self.assertEqual(64, code)
        self.assertIn("a token is set, too (MUSTER_TOKEN)", said)


class Renewal(ClusterTest):
    """A running job, `self.job`, whose nodes get other credentials."""
    def said(self, place, pattern, count=1):
        node = self.job.nodes[place]
        wait_until(f"node {place} says {pattern}", lambda: len(node.said(pattern)) >= count)

    def reconnect(self, place, count):
        kill(self.job.nodes[place].agent())
        self.said(place, "has reconnected to the coordinator", count)


class Tokens(Renewal):
    def write(self, place, text, mode=0o600):
        write(self.job.folder / f"token{place}", text, mode)

    def start(self, place):
        return self.job.start(place, options=["--token-file", os.path.relpath(self.job.folder / f"token{place}")])

    def test_tokens_change_node_by_node_while_a_job_runs(self):
        self.job = job = self.cluster(2, options=[*LONG_LEASE, "--max-node-losses", "2"])
        for place in (0, 1):
            self.write(place, OLD)
            self.start(place)
        starts = job.wait_for_round(0)

        # First the new one and the old one everywhere, in any order. Node 1 shows the new one, in vain, then the old one.
        self.write(1, f"{NEW}\n{OLD}\n")
        self.said(1, "the token file .*/token1: it has changed: new connections use both of its tokens")
        self.reconnect(1, 1)

        bad = {f"{NEW}\n{OLD}\n{OLD}\n": "line 3 is one token too many", "": "the file is empty",
               "short": "line 1: expected at least 22 characters, not 5"}
        for text, why in bad.items():
            self.write(0, text)
            self.said(0, f"the token file .*/token0: {why}.*{STAYS}")
        self.write(0, NEW, 0o666)
        self.said(0, f"users other than its owner can write it .mode 0666.*{STAYS}")
        (job.folder / "token0").unlink()
        self.said(0, f"the file cannot be read: No such file or directory; {STAYS}")
        self.reconnect(1, 2)

        # Then the new one alone. The first node's file is a link that is swapped, as Kubernetes does it.
        for name, text in (("both", f"{NEW}\n{OLD}\n"), ("new", NEW)):
            (job.folder / name).mkdir()
            (job.folder / name / "token").write_text(text)
            (job.folder / name / "token").chmod(0o600)
        (job.folder / "data").symlink_to("both")
        (job.folder / "token0").symlink_to("data/token")
        self.said(0, "token0: it has changed: new connections use both of its tokens")
        self.write(1, NEW)
        self.said(1, "token1: it has changed: new connections use its token")
        self.reconnect(1, 3)
        (job.folder / "data.new").symlink_to("new")
        os.replace(job.folder / "data.new", job.folder / "data")
        self.said(0, "token0: it has changed: new connections use its token")
        self.reconnect(1, 4)
        self.assertEqual(starts, job.wait_for_round(0), "the same workers, by pid")
        self.assertEqual({0}, {record["restart"] for record in job.records()})
        self.assertEqual([], job.records("signal"))
        self.assertFalse(job.nodes[0].said("refused (?!.*it shows its second one next)"), "a node of the job")

        # A new agent of the primary does not go back to the token with which its host began, which was revoked.
        (job.folder / "new" / "token").write_text("short")
        self.said(0, f"token0: line 1: expected at least 22 characters, not 5.*{STAYS}", 2)
        kill(job.nodes[0].agent())
        self.said(1, "has reconnected to the coordinator", 5)
        self.write(2, OLD)
        late = job.start(1, options=["--token-file", str(job.folder / "token2")])
        self.assertEqual(77, late.exit_code())
        self.assertTrue(late.said("the token is not this job's"))
        job.nodes[1] = next(node for node in job.all_nodes if node is not late and node is not job.nodes[0])
        kill(job.nodes[1].host())
        job.nodes[1].exit_code()
        self.start(1)
        job.wait_for_round(1)
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        for token in (OLD, NEW):
            self.assertNotIn(token, job.output())

    def test_a_new_agent_begins_with_the_newest_tokens(self):
        self.job = job = self.cluster(2, options=LONG_LEASE)
        for place in (0, 1):
            self.write(place, OLD)
            self.start(place)
        starts = job.wait_for_round(0)
        for place in (1, 0):
            self.write(place, NEW)
            self.said(place, "new connections use its token")
        kill(job.nodes[0].agent())  # with the coordinator
        self.said(1, "has reconnected to the coordinator")
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0))


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "only root becomes another user")
class Hidden(ClusterTest):
    """The workers' user is muster's own."""

    def setUp(self):
        self.python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")  # which every user may execute
        can = self.python and not subprocess.run([*OTHER_USER, "test", "-x", cluster.BINARY, "-a", "-r", cluster.WORKER]
                                                 ).returncode
        if not can:
            self.skipTest("another user cannot execute these files")

    def reads(self, pid, name):
        code = f"import sys\ntry:\n open('/proc/{pid}/{name}', 'rb')\nexcept PermissionError:\n sys.exit(1)"
        return subprocess.run([*OTHER_USER, self.python, "-c", code]).returncode == 0

    def test_workers_cannot_read_musters_memory(self):
        job = self.cluster(2, prefix=lambda place: OTHER_USER, environment={"MUSTER_TOKEN": OLD})
        job.program[0] = self.python
        subprocess.run(["chown", "-R", "12345:12345", str(job.folder)], check=True)
        job.start_all()
        starts = job.wait_for_round(0)
        for node in job.nodes.values():
            for pid in (node.process.pid, node.agent()):
                for name in ("mem", "environ", "maps"):
                    self.assertFalse(self.reads(pid, name), f"{cluster.arguments_of(pid)[:2]} {name}")
        for record in starts.values():
            self.assertTrue(self.reads(record["pid"], "environ"), "a worker is as usual")
        agent = job.nodes[1].agent()
        kill(agent)
        wait_until("another agent", lambda: job.nodes[1].said("has reconnected"))
        job.open_gate()
        self.assertEqual({0: 0, 1: 0}, job.exit_codes())


@unittest.skipUnless(authority.is_there(), "needs the openssl command")
class Certificates(Renewal):
    def setUp(self):
        self.job = self.cluster(2, options=LONG_LEASE)
        self.authority = authority.Authority(self.job.folder / "authority")

    def folder(self, place):
        return self.job.folder / f"node{place}"

    def start_all(self, **certificate):
        for place in (0, 1):
            self.job.start(place, options=self.authority.issue(self.folder(place), **certificate))
        return self.job.wait_for_round(0)

    def check_undisturbed(self, starts):
        self.job.open_gate()
        self.assertEqual({0: 0, 1: 0}, self.job.exit_codes())
        self.assertEqual(starts, self.job.wait_for_round(0), "the same workers, by pid")
        self.assertEqual({0}, {record["restart"] for record in self.job.records()})
        self.assertEqual([], self.job.records("signal"))

    def test_certificates_are_renewed_while_a_job_runs(self):
        starts = self.start_all()
        self.assertFalse(self.job.nodes[0].said("no token is set"))
        for place in (1, 0):
            self.authority.issue(self.folder(place))
            self.said(place, "it has changed: new connections use the certificate that is valid until")
        self.reconnect(1, 1)
        other = self.job.folder / "other"
        self.authority.issue(other)
        shutil.copy(other / "key.pem", self.folder(0) / "key.pem")
        self.said(0, f"--tls-key: it is not the key of the certificate in --tls-cert: replace both; {STAYS}")
        (self.folder(1) / "cert.pem").write_text("garbage")
        self.said(1, f"--tls-cert: expected a certificate in PEM form .BEGIN CERTIFICATE.; {STAYS}")
        self.authority.issue(self.folder(0))
        self.authority.issue(self.folder(1))
        for place in (0, 1):
            self.said(place, "it has changed: new connections use the certificate", 2)
        self.reconnect(1, 2)
        self.check_undisturbed(starts)

    def test_an_expired_certificate_disturbs_nobody(self):
        starts = self.start_all()
        self.authority.issue(self.folder(1), begins=-100, ends=25)  # a fifth of its life is 25 s
        self.said(1, "it has changed: new connections use the certificate that is valid until")
        self.said(1, "warning: .*the certificate is valid until .*: renew it before")
        self.said(1, "error: .*the certificate expired at .*: connections go on, but no new one is possible; renew it")
        self.assertEqual(starts, self.job.wait_for_round(0))
        self.authority.issue(self.folder(1))
        self.said(1, "it has changed: new connections use the certificate", 2)
        self.reconnect(1, 1)
        self.check_undisturbed(starts)

    def test_a_wholly_other_authority_is_a_warning(self):
        options = {place: self.authority.issue(self.folder(place)) for place in (0, 1)}
        own_ca = self.job.folder / "ca.pem"  # of node 1 alone
        shutil.copy(self.authority.cert, own_ca)
        self.job.start(0, options=options[0])
        self.job.start(1, options=[*options[1][:-1], str(own_ca)])
        starts = self.job.wait_for_round(0)
        other = authority.Authority(self.job.folder / "another-authority")
        own_ca.write_text(other.cert.read_text() + self.authority.cert.read_text())
        self.said(1, "it has changed: new connections use the certificate")
        other.issue(self.folder(1))
        self.said(1, "it has changed: new connections use the certificate", 2)
        self.assertFalse(self.job.nodes[1].said("no authority of before"))
        own_ca.write_text(other.cert.read_text())
        self.said(1, "it has changed: new connections use the certificate", 3)
        self.assertFalse(self.job.nodes[1].said("no authority of before"), "it was there before, beside the other one")
        (self.folder(1) / "key.pem").unlink()
        self.said(1, "the file cannot be read: No such file or directory")
        own_ca.write_text(self.authority.cert.read_text())
        self.authority.issue(self.folder(1))
        self.said(1, "warning: .*the file of --tls-ca has no authority of before: nodes whose files have only the old")
        self.check_undisturbed(starts)

    def test_strangers_are_refused_and_named(self):
        self.job.start(0, options=self.authority.issue(self.folder(0)))
        wait_until("the primary listens", lambda: cluster.listens(self.job.addresses[0], self.job.ports[0]))
        other = authority.Authority(self.job.folder / "another-authority")
        options = other.issue(self.job.folder / "stranger")
        (self.job.folder / "both.pem").write_text(other.cert.read_text() + self.authority.cert.read_text())
        stranger = self.job.start(1, options=[*options[:-1], str(self.job.folder / "both.pem")])
        self.assertEqual(77, stranger.exit_code())
        self.assertTrue(stranger.said("certificate is of an authority that the coordinator does not know"))
        self.said(0, r"refused a node at 127\.0\.0\.1: its certificate was issued by none of the authorities in --tls-ca")
        distrustful = self.job.start(1, options=options)
        self.assertEqual(77, distrustful.exit_code())
        self.assertTrue(distrustful.said("is not trusted by this node: the coordinator's certificate was issued by none of the "
                                         "authorities in --tls-ca"))
        without = self.job.start(1)
        self.assertEqual(77, without.exit_code())
        self.assertTrue(without.said("this job requires a certificate and this node has none: pass --tls-cert"))
        self.job.start(1, options=self.authority.issue(self.folder(1)))
        self.job.wait_for_round(0)
        self.job.open_gate()
        self.assertEqual({0: 0, 1: 0}, self.job.exit_codes())

    def test_a_spiffe_id_is_for_one_run_and_role(self):
        name = ["--tls-name", "spiffe://example.org"]
        def options(place, run, role):
            return [*name, *self.authority.issue(self.folder(place),
                                                 names=f"URI:spiffe://example.org/run/{run}/role/{role}")]
        self.job.start(0, options=options(0, self.job.job_id, "primary"))
        wait_until("the primary listens", lambda: cluster.listens(self.job.addresses[0], self.job.ports[0]))
        other_run = self.job.start(1, options=options(1, "another", "node"))
        self.assertEqual(65, other_run.exit_code(), "its own host finds out")
        self.job.start(1, options=options(1, self.job.job_id, "node"))
        self.job.wait_for_round(0)
        self.job.open_gate()
        self.assertEqual({0: 0, 1: 0}, self.job.exit_codes())

    def test_a_bad_set_is_refused_at_the_start(self):
        options = self.authority.issue(self.folder(0), begins=-7200, ends=-3600)
        node = self.job.start(0, options=options)
        self.assertEqual(65, node.exit_code())
        self.assertTrue(node.said("--tls-cert .*/cert.pem: the certificate has expired .it was valid until .*: renew it"))
        options = self.authority.issue(self.folder(0))
        (self.folder(0) / "key.pem").chmod(0o660)
        node = self.job.start(0, options=options)
        self.assertEqual(65, node.exit_code())
        self.assertTrue(node.said("--tls-key .*: users other than its owner can write it .mode 0660.: chmod 600"))

    def test_a_certificate_that_ends_soon_is_found_before_the_start(self):
        def check(**certificate):
            options = self.authority.issue(self.folder(0), **certificate)
            done = subprocess.run([str(cluster.BINARY), "env", "--check", "--json", *options],
                                  env={**plain_environment(), **self.job.environment_of(0)}, capture_output=True, text=True, timeout=cluster.LIMIT_S)
            return next(each for each in json.loads(done.stdout)["checks"] if each["name"] == "protection")
        self.assertEqual("good", check()["kind"])
        found = check(begins=-3600, ends=600)
        self.assertEqual("wrong", found["kind"], found)
        self.assertRegex(found["advice"], "the certificate is valid until .*: renew it before")


@unittest.skipUnless(authority.is_there(), "needs the openssl command")
class Mixtures(ClusterTest):
    """A node and a primary that are protected in different ways: both ends say which, and the node ends with 77."""

    def setUp(self):
        self.job = self.cluster(2, options=["--join-timeout", "60s"])
        write(self.job.folder / "token", OLD)
        self.ways = {"token": ["--token-file", str(self.job.folder / "token")],
                     "certificates": authority.Authority(self.job.folder / "authority").issue(self.job.folder / "node"),
                     "nothing": []}

    def check(self, primary_has, answers):
        primary = self.job.start(0, options=self.ways[primary_has])
        wait_until("the primary listens", lambda: cluster.listens(self.job.addresses[0], self.job.ports[0]))
        nodes = {has: self.job.start(1, options=self.ways[has]) for has in answers}
        for has, (answer, log) in answers.items():
            checked = subprocess.run([str(cluster.BINARY), "env", "--check", *self.ways[has]], capture_output=True,
                                     env=self.job.environment_of(1), text=True, timeout=cluster.LIMIT_S)
            self.assertEqual(69, checked.returncode, checked.stdout)
            self.assertRegex(checked.stdout, f"WRONG +credentials +{answer}")
            self.assertEqual(77, nodes[has].exit_code(), has)
            self.assertTrue(nodes[has].said(answer), has)
            self.assertTrue(primary.said(rf"refused a node at 127\.0\.0\.\d+: {log}"), has)

    def test_a_primary_with_certificates(self):
        self.check("certificates", {
            "token": ("this node has a token, and the coordinator uses certificates: give this node --tls-cert",
                      "it has a token, and this job uses certificates"),
            "nothing": ("this job requires a certificate and this node has none: pass --tls-cert",
                        "it has no certificate")})

    def test_a_primary_with_a_token(self):
        self.check("token", {
            "certificates": ("this node has a certificate, and the coordinator uses a token: give this node the token",
                             "it speaks TLS, but shows no token"),
            "nothing": ("this job requires a token and this node sent none", "it has no token")})

    def test_a_primary_with_neither(self):
        log = "it has a token or a certificate, and this job has neither"
        self.check("nothing", {
            "token": ("this node has a token, and the coordinator has neither token nor certificates", log),
            "certificates": ("this node has a certificate, and the coordinator has neither certificate nor token", log)})


@unittest.skipUnless(os.geteuid() == 0, "only root makes PID namespaces")
class TwoContainers(ClusterTest):
    """The sidecar has the files; a host with a token file demands a token of its sidecar, too."""

    def run_with(self, training, sidecar):
        job = self.cluster(2, kind=Pods, options=LONG_LEASE)
        for pod in job.pods:
            pod.start_training(options=training(job, pod.place))
            pod.start_sidecar(options=sidecar(job, pod.place))
        return job, job.wait_for_round(0)

    def replace_sidecar(self, pod, options):
        kill(pod.sidecar.process.pid)
        pod.sidecar.exit_code()
        pod.start_sidecar(options=options)
        wait_until("the new sidecar's agent", lambda: pod.sidecar.said("has reconnected to the coordinator"))

    def check_undisturbed(self, job, starts):
        job.open_gate()
        for pod in job.pods:
            self.assertEqual([0, 0], pod.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0), "the same workers, by pid")

    def test_tokens_change_under_a_running_job(self):
        def token(job, place):
            path = job.folder / f"token{place}"
            if not path.exists():
                write(path, OLD)
            return ["--token-file", str(path)]
        job, starts = self.run_with(token, token)
        for text, shown in ((f"{NEW}\n{OLD}\n", "both of its tokens"), (NEW, "its token")):
            for pod in job.pods:
                write(job.folder / f"token{pod.place}", text)
            for pod in job.pods:
                wait_until("the new tokens", lambda: pod.sidecar.said(f"it has changed: new connections use {shown}"))
        pod = job.pods[1]
        kill(pod.agent())
        wait_until("a new agent", lambda: pod.sidecar.said("has reconnected to the coordinator"))
        self.assertNotIn(b"MUSTER_TOKEN=", pathlib.Path(f"/proc/{pod.agent()}/environ").read_bytes())
        self.replace_sidecar(pod, token(job, 1))
        self.assertTrue(pod.training.said("the token file .*/token1 has changed"))
        self.check_undisturbed(job, starts)

    @unittest.skipUnless(authority.is_there(), "needs the openssl command")
    def test_certificates_are_the_sidecars_matter(self):
        made = {}
        def certificate(job, place):
            if not made:
                made[None] = authority.Authority(job.folder / "authority")
            return made[None].issue(job.folder / f"node{place}")
        job, starts = self.run_with(lambda job, place: [], certificate)
        self.assertFalse(job.pods[0].sidecar.said("no token is set"))
        self.replace_sidecar(job.pods[1], certificate(job, 1))
        self.check_undisturbed(job, starts)


if __name__ == "__main__":
    cluster.main()

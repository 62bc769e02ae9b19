"""Folders that others may write to: what another user has put at the names that muster uses is neither followed, nor
waited for, nor written to."""
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import tempfile
import unittest

import cluster
from cluster import wait_until

US, OTHER = 104_242, 104_243  # users that have no other processes here
SECRET = "secret-of-twenty-two-chars"


@unittest.skipUnless(os.geteuid() == 0, "only root acts as two users")
class PlantedFiles(unittest.TestCase):
    def setUp(self):
        self.names = itertools.count()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        self.binary = pathlib.Path(shutil.copy(cluster.BINARY, self.folder / "muster"))
        self.home = self.made("home", US, 0o700)
        self.shared = self.made("shared", 0, 0o1777)  # like /tmp
        self.precious = self.home / "precious"
        self.precious.write_text("ours")
        os.chown(self.precious, US, US)

    def made(self, name, owner, mode):
        path = self.folder / name
        path.mkdir()
        os.chown(path, owner, owner)
        path.chmod(mode)
        return path

    def planted_link(self, name, target, owner=OTHER):
        link = self.shared / name
        link.symlink_to(target)
        os.lchown(link, owner, owner)
        return link

    def planted(self, name, text=None):
        """A file of the other user's that everybody may write to, or a pipe."""
        path = self.shared / name
        if text is None:
            os.mkfifo(path)
        else:
            path.write_text(text)
        os.chown(path, OTHER, OTHER)
        path.chmod(0o666)
        return path

    def start(self, *arguments, user=US, **environment):
        environment = {**cluster.plain_environment(), "HOME": str(self.home), "TMPDIR": str(self.home), **environment}
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", str(self.binary), *arguments]
        node = cluster.Node(f"node-{next(self.names)}", command, environment, self.folder, cwd="/")
        self.addCleanup(self.end, node)
        return node

    @staticmethod
    def end(node):
        node.process.kill()
        node.exit_code()

    def run_job(self, *options, program=("true",), **environment):
        """The output of a job of one node that must end with 0, whatever becomes of its files."""
        job = self.start("run", "--standalone", "--no-python", *options, "--", *program, **environment)
        self.assertEqual(0, job.exit_code(), job.err())
        return job.err()

    def untouched(self, what=()):
        self.assertEqual("ours", self.precious.read_text())
        self.assertEqual(["precious", *what], sorted(path.name for path in self.home.iterdir()))

    # --report and its like.

    def test_a_report_does_not_follow_anothers_link(self):
        link = self.planted_link("r.json", self.precious)
        said = self.run_job("--report", str(link))
        self.untouched()
        self.assertRegex(said, rf"the report {link} was not written: {link} is a link that another user \(uid {OTHER}")

    def test_a_report_is_not_made_where_anothers_link_leads(self):
        self.run_job("--report", str(self.planted_link("r.json", self.home / "new")))
        self.untouched()

    def test_a_report_follows_our_own_link(self):
        link = self.planted_link("r.json", self.home / "new", owner=US)
        self.run_job("--report", str(link))
        self.assertEqual(0, json.loads((self.home / "new").read_text())["exit_code"])
        self.assertTrue(link.is_symlink())

    def test_a_report_is_not_written_into_anothers_pipe(self):
        pipe = self.planted("r.json")
        with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
            said = self.run_job("--report", str(pipe))
            self.assertEqual(b"", reader.read() or b"")
        self.assertIn(f"belongs to another user (uid {OTHER})", said)

    def test_a_report_does_not_replace_anothers_file(self):
        theirs = self.planted("r.json", "theirs")
        said = self.run_job("--report", str(theirs))
        self.assertEqual("theirs", theirs.read_text())
        self.assertIn(f"belongs to another user (uid {OTHER})", said)
        self.assertEqual([theirs], list(self.shared.iterdir()))

    def test_the_error_file_of_muster_is_no_way_either(self):
        link = self.planted_link("error.json", self.precious)
        job = self.start("run", "--standalone", "--no-python", "--", "false", TORCHELASTIC_ERROR_FILE=str(link))
        self.assertEqual(1, job.exit_code(), job.err())
        self.untouched()

    def test_sagemakers_failure_file_is_no_way_either(self):
        resource = self.shared / "resourceconfig.json"
        resource.write_text(json.dumps({"current_host": "algo-1", "hosts": ["algo-1"]}))
        link = self.planted_link("failure", self.home / "new")
        job = self.start("run", "--no-python", "--", "false", MUSTER_SAGEMAKER_CONFIG=str(resource),
                         MUSTER_SAGEMAKER_FAILURE=str(link))
        self.assertEqual(1, job.exit_code(), job.err())
        self.untouched()

    # --log-dir.

    def test_a_log_folder_does_not_follow_anothers_link(self):
        said = self.run_job("--log-dir", str(self.planted_link("logs", self.home)), "-r", "3")
        self.untouched()
        self.assertRegex(said, r"without log files: .*/logs is a link that another user")

    def test_a_log_folder_may_be_our_own_link(self):
        logs = self.made("logs-of-ours", US, 0o755)
        self.run_job("--log-dir", str(self.planted_link("logs", logs, owner=US)), "-r", "1",
                     program=("echo", "a line"))
        self.assertEqual(["a line\n"], [file.read_text() for file in logs.rglob("stdout.log")])

    def test_a_run_folder_that_is_exchanged_is_not_used_again(self):
        """In a folder without a sticky bit others may rename ours, and put a link of that name there."""
        self.shared.chmod(0o777)
        target = self.made("target", US, 0o755)
        again = self.folder / "again"
        program = ("sh", "-c", f"test $TORCHELASTIC_RESTART_COUNT = 1 || {{ touch {self.shared}/began; "
                               f"until test -e {again}; do sleep 0.05; done; exit 1; }}")
        job = self.start("run", "--standalone", "--no-python", "--max-restarts", "1", "--log-dir", str(self.shared),
                         "-r", "3", "--rdzv-id", "x", "--", *program)
        wait_until("the worker", (self.shared / "began").exists)
        folder, = self.shared.glob("x_*")
        folder.rename(self.shared / "away")
        self.planted_link(folder.name, target)
        again.touch()
        self.assertEqual(0, job.exit_code(), job.err())
        self.assertEqual([], list(target.iterdir()))

    # The socket of a host, and the file beside it.

    def sidecar(self, path, *options):
        return self.start("run", "--host-socket", str(path), *options)

    def test_a_sidecar_tells_anothers_host_nothing(self):
        token = self.home / "token"
        token.write_text(SECRET)
        token.chmod(0o600)
        os.chown(token, US, US)
        path = self.shared / "host.sock"
        with socket.socket(socket.AF_UNIX) as impostor:
            os.setegid(OTHER), os.seteuid(OTHER)  # a listening socket's owner is who calls listen()
            try:
                impostor.bind(str(path))
                impostor.listen()
            finally:
                os.seteuid(0), os.setegid(0)
            path.chmod(0o666)
            sidecar = self.sidecar(path, "--token-file", str(token))
            impostor.settimeout(cluster.LIMIT_S)
            connection, _ = impostor.accept()
            with connection:
                connection.settimeout(cluster.LIMIT_S)
                self.assertEqual(b"", connection.recv(65536))
            wait_until("the reason", lambda: sidecar.said(rf"another user \(uid {OTHER}\) listens at {path}"))

    def host(self, path):
        host = self.start("host", "--socket", str(path), "--", "true")
        wait_until("the host's socket", lambda: host.said("waiting for the sidecar"))
        return stat.S_IMODE(path.stat().st_mode)

    def test_the_socket_is_for_the_group_only_where_the_group_may_write(self):
        for name, owner, mode, wanted in (("sticky", 0, 0o1777, 0o600), ("private", US, 0o755, 0o600),
                                          ("pod", 0, 0o777, 0o660), ("project", US, 0o2775, 0o660)):
            with self.subTest(name):
                self.assertEqual(wanted, self.host(self.made(name, owner, mode) / "host.sock"))

    def test_a_sidecar_waits_for_no_pipe_beside_the_socket(self):
        path = self.shared / "host.sock"
        self.planted("host.sock.result")
        sidecar = self.sidecar(path)
        wait_until("it to wait for its host", lambda: sidecar.said("waiting for the training container"))
        sidecar.signal(signal.SIGTERM)
        self.assertEqual(75, sidecar.exit_code())

    # The rest.

    def test_install_does_not_follow_anothers_link(self):
        theirs = self.planted_link("bin", self.home)
        install = self.start("install", str(theirs))
        self.assertEqual(65, install.exit_code(), install.err())
        self.untouched()

    def test_a_timers_pipe_is_only_ours(self):
        pipe = self.planted("timer")
        said = self.run_job(TORCHELASTIC_ENABLE_FILE_TIMER="1", TORCHELASTIC_TIMER_FILE=str(pipe))
        self.assertIn("timer", said)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))


if __name__ == "__main__":
    cluster.main()

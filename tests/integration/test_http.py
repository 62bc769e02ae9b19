"""`--http`: the job as metrics, probes and a page, on the node whose coordinator decides."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import cluster
from cluster import ClusterTest, free_port, wait_until

BEGAN = "muster_coordinator_start_time_seconds"
WAITS = ["sh", "-c", "sleep 1000"]
FAILS_ONCE = ["sh", "-c", '[ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || [ "$RANK" != 1 ] || exit 7; sleep 1000']
# Where deploy/setup.sh --tests puts it.
PROMTOOL = pathlib.Path(sys.executable).parent / "promtool"


def get(port, path, headers={}, address="127.0.0.1"):
    """Status and text; None: nobody listens."""
    connection = http.client.HTTPConnection(address, port, timeout=cluster.LIMIT_S)
    try:
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()
    except ConnectionError:
        return None
    finally:
        connection.close()


def series(port):
    """The metrics: {'muster_round': 1.0, ...}."""
    reply = get(port, "/metrics")
    if not reply or reply[0] != 200:
        return {}
    lines = [line.rpartition(" ") for line in reply[1].splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


class Http(ClusterTest):
    def start(self, *options, program=WAITS, nodes=2):
        self.port = free_port("127.0.0.1")
        job = self.cluster(nodes, program=program, nproc=1, options=("--http", str(self.port), *options))
        return job.start_all()

    def await_series(self, **wanted):
        """The metrics, once each of these has its value."""
        def there():
            found = series(self.port)
            return found and all(found.get(name) == value for name, value in wanted.items()) and found
        return wait_until(f"{wanted}", there)

    def test_a_restart_shows_in_the_metrics(self):
        self.start("--max-restarts", "3", program=FAILS_ONCE)
        found = self.await_series(**{"muster_round": 2, 'muster_job_state{state="running"}': 1,
                                     'muster_workers{state="alive"}': 2})
        self.assertEqual(1, found['muster_restarts_total{cause="worker_failure"}'])
        self.assertEqual(2, found['muster_restart_budget_remaining{budget="max_restarts"}'])
        self.assertEqual(2, found["muster_world_size"])
        self.assertEqual(0, found["muster_job_attention"])
        self.assertEqual(1, found['muster_recovery_seconds_count{phase="drain"}'])
        self.assertEqual([200, 200], [get(self.port, path)[0] for path in ("/healthz", "/readyz")])
        said = json.loads(get(self.port, "/status.json")[1])
        self.assertEqual((2, "worker_failure"), (said["round"]["number"], said["ended"][0]["kind"]))

    @unittest.skipUnless(PROMTOOL.exists(), "no promtool: deploy/setup.sh --tests fetches it")
    def test_prometheus_finds_nothing_to_say_against_the_metrics(self):
        self.start("--hang-timeout", "10m", program=["sh", "-c", "echo step 1; echo step 2; sleep 1000"])
        self.await_series(**{'muster_job_state{state="running"}': 1, 'muster_step{stat="median"}': 2})
        checked = subprocess.run([str(PROMTOOL), "check", "metrics"], input=get(self.port, "/metrics")[1],
                                 capture_output=True, text=True)
        self.assertEqual((0, ""), (checked.returncode, checked.stdout + checked.stderr))

    def test_the_next_coordinator_serves_them_again(self):
        job = self.start()
        first = self.await_series(**{'muster_job_state{state="running"}': 1})
        os.kill(job.nodes[0].agent(), signal.SIGKILL)
        wait_until("the next one", lambda: (found := series(self.port)) and found['muster_job_state{state="running"}'] == 1
                   and found[BEGAN] > first[BEGAN])

    def test_before_a_round_runs_it_is_healthy_and_not_ready(self):
        self.port = free_port("127.0.0.1")
        self.cluster(2, program=WAITS, nproc=1, options=("--http", str(self.port))).start(0)
        self.await_series(**{'muster_job_state{state="gathering"}': 1, "muster_nodes_missing": 1,
                             "muster_job_attention": 1})
        self.assertEqual([200, 503], [get(self.port, path)[0] for path in ("/healthz", "/readyz")])

    def test_only_the_node_that_decides_listens(self):
        job = self.start()
        self.await_series(**{'muster_job_state{state="running"}': 1})
        self.assertEqual([1, 0], [len(node.said(f"http://127.0.0.1:{self.port}/ shows the job")) for node in job.all_nodes])

    def test_a_coordinator_by_itself_serves_them(self):
        port, self.port = free_port("127.0.0.1"), free_port("127.0.0.1")
        process = subprocess.Popen([str(cluster.BINARY), "coordinator", "--nnodes", "2", "--listen", f"127.0.0.1:{port}",
                                    "--http", str(self.port)], env=cluster.plain_environment(), stderr=subprocess.PIPE)
        for clean in (process.stderr.close, process.wait, process.kill):
            self.addCleanup(clean)
        self.await_series(muster_round=0)

    def test_other_machines_need_a_token(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        token = subprocess.run([str(cluster.BINARY), "token"], capture_output=True, text=True, check=True).stdout.strip()
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)
        self.port = free_port("127.0.0.1")
        everywhere = ("--http", f"0.0.0.0:{self.port}")
        refused = self.cluster(1, program=WAITS, nproc=1, options=everywhere).start(0)
        self.assertEqual(64, refused.exit_code())
        self.assertTrue(refused.said("other machines reach this address, so it needs --http-token-file"))
        self.cluster(1, program=WAITS, nproc=1,
                     options=(*everywhere, "--http-token-file", str(folder / "token"))).start(0)
        wait_until("a round", lambda: (get(self.port, "/readyz") or [0])[0] == 200)
        self.assertEqual(401, get(self.port, "/status.json")[0])
        self.assertEqual(401, get(self.port, "/status.json", {"Authorization": "Bearer " + token[:-1]})[0])
        self.assertEqual(200, get(self.port, "/status.json", {"Authorization": "Bearer " + token})[0])

    def test_silent_visitors_disturb_no_worker(self):
        job = self.start()
        self.await_series(**{'muster_job_state{state="running"}': 1})
        visitors = []
        for _ in range(200):
            visitor = socket.socket()
            self.addCleanup(visitor.close)
            visitor.setblocking(False)
            visitor.connect_ex(("127.0.0.1", self.port))
            visitors.append(visitor)
        agent = job.nodes[0].agent()
        held = wait_until("what it has", lambda: len(os.listdir(f"/proc/{agent}/fd")))
        self.assertLess(held, 200)
        for visitor in visitors:
            visitor.close()
        found = self.await_series(**{'muster_job_state{state="running"}': 1})
        self.assertEqual(1, found["muster_round"])


@unittest.skipUnless(shutil.which("chromium"), "no chromium: deploy/setup.sh --tests installs it")
class Page(ClusterTest):
    def show(self, url):
        """The page's text after its scripts have drawn it."""
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={home}",
                 "--virtual-time-budget=6000", "--dump-dom", url],
                capture_output=True, text=True, timeout=cluster.LIMIT_S, env={**os.environ, "HOME": home})
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def test_the_page_shows_the_job(self):
        port = free_port("127.0.0.1")
        job = self.cluster(2, program=FAILS_ONCE, nproc=1, options=("--http", str(port), "--max-restarts", "3"))
        job.start_all()
        wait_until("the second round", lambda: series(port).get("muster_round") == 2)
        page = self.show(f"http://127.0.0.1:{port}/")
        self.assertIn(f"job {job.job_id} running, 2 workers on 2 nodes, round 2", page)
        self.assertRegex(page, r"rank 1 .*exited with code 7")
        self.assertEqual(2, len(re.findall(r'aria-label="node \d, [^"]*: running"', page)))


if __name__ == "__main__":
    cluster.main()

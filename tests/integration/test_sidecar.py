"""A node in two containers: `muster host` has the workers, `muster run --host-socket` the agent and all options.

Each container is a PID and mount namespace of its own, as in a pod; they share a folder and the network.
"""
import os
import signal
import socket
import time
import unittest

import cluster
from cluster import (CONTAINER, BINARY, TOKEN, Cluster, ClusterTest, Node, arguments_of, descendants, is_alive, kill,
                     never, plain_environment, stop, wait_until)

RECONNECTED = r"agent \d+ has reconnected"
ONE_SIGNAL_S = 0.3  # longer than the time within which two signals are one
FAR = ("--lease", "600s")  # only a proof of a node's end can be faster than a test's limit


class Pod:
    """One node: its training container and its sidecar, each started by hand."""

    def __init__(self, job, place):
        self.job, self.place = job, place
        folder = job.folder / f"pod{place}"
        folder.mkdir()
        self.socket = folder / "host.sock"
        self.training = self.sidecar = None

    def start_training(self, container=CONTAINER, options=()):
        environment = {**plain_environment(), TOKEN: self.job.token, "TEST_PLACE": str(self.place)}
        command = [*container, str(BINARY), "host", "--socket", str(self.socket), *options, "--", *self.job.program]
        self.training = self.job.node(f"training{self.place}", command, environment)
        return self.training

    def start_sidecar(self, options=(), container=CONTAINER):
        command = [*container, str(BINARY), "run", "--host-socket", str(self.socket), "--nproc-per-node",
                   str(self.job.nproc), *self.job.options, *options]
        self.sidecar = self.job.node(f"sidecar{self.place}", command, self.job.environment_of(self.place))
        return self.sidecar

    def start(self):
        self.start_training()
        self.start_sidecar()
        return self

    def agent(self):
        found = [pid for pid in descendants(self.sidecar.process.pid)
                 if arguments_of(pid)[1:2] == ["agent"] and is_alive(pid)]
        return found[-1] if found else None

    def host(self):
        """The innermost `muster host`, below our process 1 if there is one."""
        found = [pid for pid in [self.training.process.pid, *descendants(self.training.process.pid)]
                 if arguments_of(pid)[1:2] == ["host"] and is_alive(pid)]
        return found[-1] if found else None

    def exit_codes(self):
        return [self.training.exit_code(), self.sidecar.exit_code()]


class Pods(Cluster):
    def __init__(self, nodes=2, **kwargs):
        super().__init__(nodes, **kwargs)
        self.pods = [Pod(self, place) for place in range(nodes)]

    def node(self, name, command, environment):
        node = Node(f"{name}-{next(self._names)}", command, environment, self.folder)
        self.all_nodes.append(node)
        return node

    def start_all(self):
        for pod in self.pods:
            pod.start()
        return self

    @staticmethod
    def _is_muster(pid):
        arguments = arguments_of(pid)
        return arguments[1:2] in (["run"], ["agent"], ["host"]) or arguments[:1] in (["unshare"], ["setpriv"])


@unittest.skipUnless(os.geteuid() == 0, "only root makes PID namespaces")
class Sidecar(ClusterTest):
    def pods(self, nodes=2, **kwargs):
        return self.cluster(nodes, kind=Pods, **kwargs)

    def running(self, nodes=2, options=(), plan=(), **kwargs):
        job = self.pods(nodes, options=options, plan=plan, **kwargs)
        job.start_all()
        return job, job.wait_for_round(0)

    def replaced(self, pod, old):
        return wait_until(f"a new agent of place {pod.place}", lambda: (now := pod.agent()) not in (None, old) and now)

    def check_undisturbed(self, job, starts):
        job.open_gate()
        for pod in job.pods:
            self.assertEqual([0, 0], pod.exit_codes())
        self.assertEqual(starts, job.wait_for_round(0), "the same workers, by pid")
        self.assertEqual({0}, {record["restart"] for record in job.records()})
        self.assertEqual([], job.records("signal"))
        self.assertEqual(len(starts), len(job.records("end")))

    # Starting and ending.

    def test_either_side_may_start_first(self):
        job = self.pods()
        first, second = job.pods
        first.start_sidecar()
        second.start_training()
        wait_until("the sidecar waits", lambda: first.sidecar.said("waiting for the training container"))
        wait_until("the host waits", lambda: second.training.said("waiting for the sidecar"))
        first.start_training()
        second.start_sidecar()
        starts = job.wait_for_round(0)
        self.assertEqual([0, 0, 1, 1], [starts[rank]["place"] for rank in range(4)])
        self.check_undisturbed(job, starts)

    def test_both_containers_end_with_the_workers_exit_code(self):
        job, _ = self.running(options=("--max-restarts", "0"), plan=[{"when": {"rank": 2}, "exit": 7}])
        job.open_gate()
        for pod in job.pods:
            self.assertEqual([7, 7], pod.exit_codes())
            self.assertEqual([f"{pod.socket.name}.result"], [path.name for path in pod.socket.parent.iterdir()])

    def test_the_sidecar_itself_tells_of_events(self):
        job = self.pods(1)
        pod, told = job.pods[0], job.folder / "told"
        pod.start_training()
        pod.start_sidecar(("--on-event", f"tr '\\0' '\\n' < /proc/$PPID/cmdline >> {told}",
                           "--on-event-filter", "verdict", *FAR))
        self.check_undisturbed(job, job.wait_for_round(0))
        self.assertIn("\nagent\n", told.read_text(), "it is the sidecar's agent, which the workers cannot change")

    def test_a_single_node_needs_no_network(self):
        job = self.pods(1)
        pod = job.pods[0]
        pod.start_training()
        pod.start_sidecar(container=(*CONTAINER, "--net"))
        self.check_undisturbed(job, job.wait_for_round(0))

    def test_the_sidecar_waits_for_the_last_command_and_ends_with_its_code(self):
        job = self.pods(1)
        wait = f'until test -e "{job.folder}/over"; do sleep 0.05; done; exit 3'
        pod = job.pods[0]
        pod.start_training()
        pod.start_sidecar(options=("--on-success", wait))
        job.wait_for_round(0)
        job.open_gate()
        wait_until("the command runs", lambda: pod.training.said("running --on-success"))
        never("an end of the sidecar", pod.sidecar.has_ended)
        job.open_gate("over")
        self.assertEqual([3, 3], pod.exit_codes())

    def test_no_host_is_shown_the_token(self):
        pod = self.pods(1).pods[0]
        token = pod.socket.parent / "token"
        token.write_text("secret-of-twenty-two-chars\n")
        with socket.socket(socket.AF_UNIX) as impostor:
            impostor.bind(str(pod.socket))
            impostor.listen()
            sidecar = pod.start_sidecar(options=("--token-file", str(token)))
            connection, _ = impostor.accept()
            with connection:
                hello = connection.recv(65536)
                # HostHello with a challenge: a nonce and a proof that is none.
                challenge = b"\x0a\x20" + b"n" * 32 + b"\x12\x20" + b"p" * 32
                message = b"\x32" + bytes([len(challenge)]) + challenge
                connection.sendall(len(message).to_bytes(4, "little") + message)
                answer = connection.recv(65536)
        self.assertIn(b"--token-file", hello)
        self.assertNotIn(b"secret", hello)
        self.assertEqual(bytes(4), answer, "an empty proof")
        sidecar.signal(signal.SIGTERM)
        self.assertEqual(75, sidecar.exit_code())

    def test_a_program_that_is_missing_is_reported_by_both(self):
        job = self.pods(1, program=["/missing/train"])
        self.assertEqual([127, 127], job.start_all().pods[0].exit_codes())
        self.assertIn("/missing/train", job.pods[0].sidecar.err())

    def test_wrong_options_are_reported_by_both(self):
        job = self.pods(1, options=("--nproc-per-node", "many"))
        self.assertEqual([64, 64], job.start_all().pods[0].exit_codes())

    # The sidecar's losses.

    def test_twenty_deaths_of_agents_disturb_no_worker(self):
        job, starts = self.running(options=("--lease", "60s"), plan=[{"term": "ignore"}])
        for i in range(20):
            pod = job.pods[i % 2]
            seen = len(pod.sidecar.said(RECONNECTED))
            kill(wait_until("an agent", pod.agent))
            wait_until(f"a new agent of place {pod.place}", lambda: len(pod.sidecar.said(RECONNECTED)) > seen)
        self.check_undisturbed(job, starts)

    def test_a_restarted_sidecar_finds_the_running_workers(self):
        job, starts = self.running(options=("--lease", "20s"), plan=[{"term": "ignore"}])
        for pod in (job.pods[1], job.pods[0]):
            kill(pod.sidecar.main())
            pod.sidecar.exit_code()
            taken = len(pod.training.said("takes over"))
            pod.start_sidecar()
            wait_until("the host has its next agent", lambda: len(pod.training.said("takes over")) > taken)
        self.check_undisturbed(job, starts)

    def test_a_frozen_agent_is_replaced(self):
        job, _ = self.running()
        pod = job.pods[1]
        frozen = pod.agent()
        stop(frozen)
        self.replaced(pod, frozen)
        self.assertTrue(pod.sidecar.said("the agent does not end: killing it"))
        job.open_gate()
        for each in job.pods:
            self.assertEqual([0, 0], each.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_another_configuration_is_refused_and_named(self):
        job, starts = self.running(options=("--lease", "20s"), plan=[{"term": "ignore"}])
        pod = job.pods[1]
        kill(pod.sidecar.main())
        pod.sidecar.exit_code()
        self.assertEqual(77, pod.start_sidecar(options=("--max-restarts", "9")).exit_code())
        self.assertRegex(pod.sidecar.err(), r"refused by the host at .*: its configuration is not that .*: the command "
                                            r"line had nothing and has --max-restarts 9; restart the training container")
        pod.start_sidecar()
        self.check_undisturbed(job, starts)

    def test_a_second_sidecar_supersedes_the_first(self):
        job, starts = self.running(plan=[{"term": "ignore"}])
        pod = job.pods[1]
        first = pod.sidecar
        pod.start_sidecar()
        self.assertEqual(77, first.exit_code())
        self.assertTrue(first.said("another sidecar has come to this host since"))
        self.check_undisturbed(job, starts)

    def test_an_agent_does_not_outlive_its_sidecar_outside_of_a_container(self):
        job = self.pods(1)
        pod = job.pods[0]
        pod.start_training()
        pod.start_sidecar(container=())
        starts = job.wait_for_round(0)
        agent = pod.agent()
        kill(pod.sidecar.process.pid)
        wait_until("the agent's end", lambda: not is_alive(agent))
        pod.start_sidecar()
        self.check_undisturbed(job, starts)

    # The training container's losses.

    def test_the_end_of_the_container_is_proved_at_once(self):
        job, _ = self.running(options=("--nnodes", "1:2", *FAR), plan=[{"when": {"restart": 0}, "spawn": ["setsid"]}])
        pod = job.pods[1]
        kill(pod.training.main())
        after = job.wait_for_round(1, workers=2)
        self.assertEqual({2}, {record["world"] for record in after.values()})
        self.assertEqual([], job.workers_of(1))
        self.assertTrue(pod.sidecar.said("every process of the training container has ended"))
        job.open_gate()
        self.assertEqual([0, 0], job.pods[0].exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_a_killed_host_ends_its_container(self):
        job, _ = self.running(options=("--nnodes", "1:2", *FAR))
        kill(job.pods[1].host())
        job.wait_for_round(1, workers=2)
        self.assertEqual([], job.workers_of(1))
        job.open_gate()
        self.assertEqual([0, 0], job.pods[0].exit_codes())

    def test_a_proof_that_comes_late_counts(self):
        """Process 1 waits for what the host has left, for two seconds."""
        job, _ = self.running(options=("--nnodes", "1:2", *FAR), plan=[{"when": {"restart": 0}, "spawn": ["setsid"]}])
        wait_until("processes that outlive the host", lambda: len(job.descendants_of("setsid", place=1)) == 2)
        kill(job.pods[1].host())
        job.wait_for_round(1, workers=2)
        self.assertEqual([], job.workers_of(1))
        job.open_gate()
        self.assertEqual([0, 0], job.pods[0].exit_codes())

    def test_a_restarted_container_joins_again(self):
        job, _ = self.running(options=FAR)
        pod = job.pods[1]
        kill(pod.training.main())
        pod.training.exit_code()
        pod.start_training()
        after = job.wait_for_round(1)
        self.assertEqual([0, 0, 1, 1], [after[rank]["place"] for rank in range(4)])
        job.open_gate()
        for each in job.pods:
            self.assertEqual([0, 0], each.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_the_primarys_container_may_be_restarted(self):
        job, _ = self.running(options=FAR)
        pod = job.pods[0]
        kill(pod.training.main())
        pod.training.exit_code()
        pod.start_training()
        job.wait_for_round(1)
        job.open_gate()
        for each in job.pods:
            self.assertEqual([0, 0], each.exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_without_a_proof_the_lease_decides(self):
        job = self.pods(options=("--nnodes", "1:2"))
        job.pods[0].start()
        job.pods[1].start_training(container=("sh", "-c", '"$@"; sleep 1000', "sh"))  # its process 1 lives on
        job.pods[1].start_sidecar()
        job.wait_for_round(0)
        kill(job.pods[1].host())
        job.wait_for_round(1, workers=2)
        self.assertEqual([], [pid for pid in job.workers_of(1) if arguments_of(pid)[:1] not in (["sh"], ["sleep"])])
        job.open_gate()
        self.assertEqual([0, 0], job.pods[0].exit_codes())
        self.assert_rounds_do_not_overlap(job)

    def test_nothing_survives_the_death_of_both(self):
        job, _ = self.running(options=("--nnodes", "1:2"), plan=[{"when": {"restart": 0}, "spawn": ["setsid"]}])
        pod = job.pods[1]
        agent = pod.agent()
        kill(pod.sidecar.main())
        kill(pod.host())
        wait_until("its workers are gone", lambda: not job.workers_of(1))
        self.assertFalse(is_alive(agent))
        job.wait_for_round(1, workers=2)
        job.open_gate()
        self.assertEqual([0, 0], job.pods[0].exit_codes())
        self.assert_rounds_do_not_overlap(job)

    # Signals.

    def test_an_eviction_drains_the_node(self):
        job, _ = self.running(options=("--nnodes", "1:2", *FAR), plan=[{"when": {"restart": 0}, "term": "exit"}])
        pod = job.pods[1]
        pod.training.signal(signal.SIGTERM)
        self.assertEqual([75, 75], pod.exit_codes())
        self.assertEqual(2, len(job.records("signal", place=1)))
        after = job.wait_for_round(1, workers=2)
        self.assertEqual({0}, {record["place"] for record in after.values()})
        job.open_gate()
        self.assertEqual([0, 0], job.pods[0].exit_codes())

    def test_a_signal_to_the_sidecar_alone_waits_for_the_host(self):
        job, starts = self.running()
        pod = job.pods[1]
        pod.sidecar.signal(signal.SIGTERM)
        wait_until("it says so", lambda: pod.sidecar.said("ends after the training container"))
        never("an end of the sidecar", pod.sidecar.has_ended)
        self.check_undisturbed(job, starts)

    def test_a_second_signal_to_the_sidecar_ends_it(self):
        job, _ = self.running(1)
        pod = job.pods[0]
        pod.sidecar.signal(signal.SIGTERM)
        wait_until("it says so", lambda: pod.sidecar.said("ends after the training container"))
        until = time.monotonic() + ONE_SIGNAL_S
        wait_until("a repetition is not the same request any more", lambda: time.monotonic() > until)
        pod.sidecar.signal(signal.SIGTERM)
        self.assertEqual(75, pod.sidecar.exit_code())

    def test_a_sidecar_without_a_host_ends_at_a_signal(self):
        pod = self.pods(1).pods[0]
        pod.start_sidecar()
        wait_until("it waits", lambda: pod.sidecar.said("waiting for the training container"))
        pod.sidecar.signal(signal.SIGTERM)
        self.assertEqual(75, pod.sidecar.exit_code())

    # Who may use the socket.

    def test_a_sidecar_of_another_user_needs_the_sockets_group(self):
        job = self.pods(1)
        pod = job.pods[0]
        job.folder.chmod(0o755)
        os.chown(pod.socket.parent, -1, 4242)
        pod.socket.parent.chmod(0o2775)  # as a kubelet does it for an fsGroup
        pod.start_training()
        wait_until("the socket", pod.socket.exists)
        stranger = pod.start_sidecar(container=(*CONTAINER, "setpriv", "--reuid", "4243", "--regid", "4243",
                                                "--clear-groups"))
        wait_until("it is kept out", lambda: stranger.said("Permission denied"))
        stranger.signal(signal.SIGTERM)
        self.assertEqual(75, stranger.exit_code())
        pod.start_sidecar(container=(*CONTAINER, "setpriv", "--reuid", "4243", "--regid", "4242", "--clear-groups"))
        self.check_undisturbed(job, job.wait_for_round(0))

    def test_a_host_with_a_token_serves_only_a_sidecar_that_has_it(self):
        job = self.pods(1)
        pod = job.pods[0]
        token = job.folder / "token"
        token.write_text("secret-of-twenty-two-chars\n")
        pod.start_training(options=("--token-file", str(token)))
        stranger = pod.start_sidecar()
        self.assertEqual(77, stranger.exit_code())
        self.assertTrue(stranger.said("it does not have the token of this host"))
        other = job.folder / "other"
        other.write_text("another-of-twenty-two-chars\n")
        self.assertEqual(77, pod.start_sidecar(options=("--token-file", str(other))).exit_code())
        pod.start_sidecar(options=("--token-file", str(token)))
        self.check_undisturbed(job, job.wait_for_round(0))
        self.assertNotIn("secret", pod.training.err() + pod.sidecar.err())

    def test_options_of_the_node_belong_to_the_sidecar(self):
        job = self.pods(1)
        training = job.pods[0].start_training(options=("--nproc-per-node", "2"))
        self.assertEqual(64, training.exit_code())
        self.assertTrue(training.said("--nproc-per-node: give it to muster run --host-socket, in the sidecar"))

    def test_a_second_host_does_not_take_the_socket(self):
        job, starts = self.running(1)
        pod = job.pods[0]
        first = pod.training
        self.assertEqual(65, pod.start_training().exit_code())
        self.assertTrue(pod.training.said("another muster host listens there"))
        self.assertFalse(first.said("a sidecar was refused"), "it only looked whether somebody listens")
        pod.training = first
        self.check_undisturbed(job, starts)


if __name__ == "__main__":
    cluster.main()

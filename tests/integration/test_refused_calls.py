"""System calls refused by an old kernel, a sandbox or a container's seccomp profile."""
import signal
import unittest

import refuse
from cluster import ClusterTest, InAContainer, main, wait_until


@unittest.skipUnless(refuse.AVAILABLE, "the numbers of this machine's system calls are not known here")
class RefusedCalls(ClusterTest):
    def start(self, call, error, first_argument=None, program=("true",)):
        prefix = refuse.command(call, error, first_argument)
        return self.cluster(1, nproc=1, program=list(program), prefix=lambda place: prefix).start(0)

    # Linux 5.3, gVisor.
    def test_pidfds_that_cannot_be_awaited_are_replaced(self):
        without = ("waitid", "EINVAL", refuse.P_PIDFD)
        self.assertEqual(0, self.start(*without).exit_code())
        node = self.start(*without, program=("sh", "-c", "trap 'exit 0' TERM; echo HERE; while :; do sleep 0.05; done"))
        wait_until("the worker", lambda: "HERE" in node.out())
        node.signal(signal.SIGTERM)
        self.assertEqual(75, node.exit_code())

    def test_a_refused_call_is_named_in_one_line(self):
        for call, error, argument, words in (
                ("clone3", "EPERM", None, r"an old seccomp profile refuses clone3 here"),
                ("pidfd_open", "ENOSYS", None, r"this kernel lacks what Linux has from 5\.3 on: pidfd_open"),
                ("prctl", "EINVAL", refuse.PR_SET_CHILD_SUBREAPER, r"PR_SET_CHILD_SUBREAPER\) is refused here"),
                ("timerfd_create", "EPERM", None, r"timerfd_create is refused here .*Operation not permitted")):
            with self.subTest(call):
                node = self.start(call, error, argument)
                self.assertEqual(70, node.exit_code())
                self.assertEqual(1, len(node.said(rf"(?m)\bmuster: .*{words}")), node.err())
                self.assertNotIn("internal error", node.err())


class RefusedCallsInAContainer(InAContainer, RefusedCalls):
    pass


if __name__ == "__main__":
    main()

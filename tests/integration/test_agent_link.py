"""An agent whose host sends garbage."""
import socket
import subprocess
import unittest

from cluster import BINARY, LIMIT_S, plain_environment

AGENT_FD = 3
NO_STATUS = b"\xff\xff\xff\xff"  # no protobuf message


class AgentLink(unittest.TestCase):
    def test_an_agent_that_cannot_read_its_host_ends(self):
        host, agent = socket.socketpair()
        with host, agent:
            # The shell moves the descriptor to the number that the agent expects.
            process = subprocess.Popen(
                ["sh", "-c", f'exec {AGENT_FD}<&0 </dev/null; exec "$0" agent --fd {AGENT_FD}', str(BINARY)],
                stdin=agent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=plain_environment())
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            host.sendall(len(NO_STATUS).to_bytes(4, "little") + NO_STATUS)
            self.assertEqual(70, process.wait(LIMIT_S))


if __name__ == "__main__":
    unittest.main()

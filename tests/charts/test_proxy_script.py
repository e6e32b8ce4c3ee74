"""The proxy's script decides when a listener closes: with real sockets of this machine's own loopback addresses."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from upgrader.config.charts import charts_folder

SCRIPT = charts_folder() / "kube-apiserver" / "files" / "proxy.sh"
NODE, PRIVATE = "127.77.0.1", "127.77.0.2"


class Node:
    """Sockets that listen on a stand-in for a node."""

    def __init__(self, held: ExitStack) -> None:
        self._held = held
        self.port = 0

    def listen(self, address: str) -> None:
        """One more listener at the address, on the one port of this node."""
        listener = self._held.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((address, self.port))
        listener.listen()
        self.port = listener.getsockname()[1]

    def lost(self, check: str, seconds: int = 0) -> bool:
        """Whether the script gives a listener up, when the last look ended so and nothing has changed for so long."""
        words = f'source "{SCRIPT}" true; CHECK={check} LASTS={seconds}; lost'
        environment = {"HOST_IP": NODE, "PRIVATE_ADDRESS": PRIVATE, "API_PORT": str(self.port), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(["bash", "-c", words], env=environment, capture_output=True, text=True, check=False)
        assert not done.stderr, done.stderr
        return done.returncode == 0


@pytest.fixture
def node() -> Iterator[Node]:
    """A node on which this pod's HAProxy listens."""
    with ExitStack() as held:
        made = Node(held)
        made.listen(NODE)
        yield made


def test_a_server_that_ended_gets_no_more_connections(node: Node) -> None:
    """Nothing is behind the listener: it closes at once, whatever was seen last."""
    assert node.lost("L7OK")


@pytest.mark.parametrize("check", ["L6TOUT", "L7TOUT", "L7STS"])
def test_a_slow_answer_beats_none(node: Node, check: str) -> None:
    """However long it has been slow or not ready: while nobody else listens on the node, the listener stays."""
    node.listen(PRIVATE)
    assert not node.lost(check, seconds=3600)


def test_another_instance_takes_over_from_one_that_is_not_ready(node: Node) -> None:
    """With another listener on the node, it closes after ten seconds; not before, as both may be short of CPU."""
    node.listen(PRIVATE)
    node.listen(NODE)
    assert not node.lost("L7TOUT", seconds=9)
    assert node.lost("L7TOUT", seconds=10)


def test_unknown_is_no_reason_to_close(node: Node) -> None:
    """A checker that doesn't answer says nothing about the server, also beside another instance."""
    node.listen(PRIVATE)
    node.listen(NODE)
    assert not node.lost("", seconds=3600)

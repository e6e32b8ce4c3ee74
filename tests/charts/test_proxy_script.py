"""The proxy's script that closes a listener, with real sockets on loopback addresses."""

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
    """Listening sockets on a loopback address in place of a node."""

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
        """Whether the script closes a listener, by the result of the last check and the seconds since it changed."""
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
    """A listener with no server behind it closes at once, whatever the last check found."""
    assert node.lost("L7OK")


@pytest.mark.parametrize("check", ["L6TOUT", "L7TOUT", "L7STS"])
def test_a_slow_answer_beats_none(node: Node, check: str) -> None:
    """The only listener on a node stays open, however long its server is slow or not ready."""
    node.listen(PRIVATE)
    assert not node.lost(check, seconds=3600)


def test_another_instance_takes_over_from_one_that_is_not_ready(node: Node) -> None:
    """With another listener on the node it closes after ten seconds, not earlier, as both may be short of CPU."""
    node.listen(PRIVATE)
    node.listen(NODE)
    assert not node.lost("L7TOUT", seconds=9)
    assert node.lost("L7TOUT", seconds=10)


def test_unknown_is_no_reason_to_close(node: Node) -> None:
    """A checker that doesn't answer closes no listener, even beside another instance."""
    node.listen(PRIVATE)
    node.listen(NODE)
    assert not node.lost("", seconds=3600)

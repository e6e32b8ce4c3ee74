"""Ports of servers that tests start: nothing else gets them before they do."""

from __future__ import annotations

import socket
from pathlib import Path

from testkit.ports import free_port


def test_port_is_none_that_the_kernel_gives_to_others() -> None:
    """It is below the range from which clients' ends of connections are taken, and a server can bind it."""
    beyond = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    port = free_port()
    assert 1024 < port < beyond
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_port_is_another_one_each_time() -> None:
    """Of twenty asked for at once, as by two processes, nearly all differ; the system's own are one after the other."""
    assert len({free_port() for _ in range(20)}) > 15

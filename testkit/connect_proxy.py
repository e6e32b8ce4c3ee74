"""A proxy on 127.0.0.1 through which the names of others' servers lead to servers of a test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from socketserver import StreamRequestHandler, ThreadingTCPServer

from testkit.waiting import stretched

__all__ = ["ConnectProxy", "connect_proxy"]


@dataclass
class ConnectProxy:
    """`ports`: host name → the port on this machine to which it leads; others are refused, unless it `passes` them on.

    It may be changed at any time. `asked` are the lines of requests, `headers` the lines below the last one.
    """

    url: str
    ports: dict[str, int]
    passes: bool = False
    asked: list[str] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)


@contextmanager
def connect_proxy(ports: dict[str, int], *, passes: bool = False) -> Iterator[ConnectProxy]:
    """Serve CONNECT while the context is open."""

    class Tunnel(StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode().strip()
            state.asked.append(line)
            state.headers = []
            while (text := self.rfile.readline()) not in (b"\r\n", b""):
                state.headers.append(text.decode().strip())
            name, _, port = line.split()[1].rpartition(":")
            target = ("127.0.0.1", state.ports[name]) if name in state.ports else (name, int(port))
            if name not in state.ports and not state.passes:
                self.wfile.write(b"HTTP/1.1 502 not in this test\r\n\r\n")
                return
            with socket.create_connection(target, timeout=stretched(60)) as beyond:
                beyond.settimeout(None)
                self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                back = threading.Thread(target=_copy, args=(beyond, self.connection), daemon=True)
                back.start()
                _copy(self.connection, beyond)
                back.join()

    with ThreadingTCPServer(("127.0.0.1", 0), Tunnel) as server:
        server.daemon_threads = True
        state = ConnectProxy(f"http://127.0.0.1:{server.server_address[1]}", ports, passes)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)

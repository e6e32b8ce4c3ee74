"""HAProxy as a process on this machine, from the lab's Debian, and the servers behind it."""

from __future__ import annotations

import csv
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3

from testkit.ending import ENDS_WITH_US
from testkit.lab_cluster import until
from testkit.ports import free_port
from upgrader.lab.debian import node_root
from upgrader.lab.progress_port import Silent

__all__ = ["HAProxyProcess", "Served", "haproxy_process", "haproxy_program"]

_HELD_SECONDS, _ASKED_SECONDS = 300, 400
"""No test holds a request for so long: what asks never gives up before what answers."""
_CONFIG = """global
    stats socket {socket} mode 600 level admin
defaults
    mode http
    timeout connect 2s
    timeout client 10m
    timeout server 10m
    timeout check 5s
frontend all
    bind 127.0.0.1:{port}
    default_backend ingress
backend ingress
    balance roundrobin
    option httpchk GET /healthz
    default-server check inter 200ms fall 2 rise 1
{servers}
backend unchecked
{unchecked}
"""


def haproxy_program() -> tuple[str, ...]:
    """The command that starts Debian's HAProxy out of the lab's machine, without installing it."""
    root = node_root(Silent())
    libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"
    return (f"{root}/lib64/ld-linux-x86-64.so.2", "--library-path", libraries, f"{root}/usr/sbin/haproxy")


class Served(ThreadingHTTPServer):
    """A node's server: answers with its name, `/slow` only when allowed, and `/healthz` by its health."""

    daemon_threads = True

    def __init__(self, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name, self.well = name, True
        self.may_answer = threading.Event()
        self.slow = 0
        """How many requests wait at `/slow`."""
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """HAProxy's checks disconnect once they have the status; other errors are logged."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def end(self) -> None:
        """Answer the waiting requests, and then no more."""
        self.may_answer.set()
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Served

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.server.slow += 1
            self.server.may_answer.wait(_HELD_SECONDS)
        text = self.server.name.encode()
        self.send_response(503 if self.path == "/healthz" and not self.server.well else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class HAProxyProcess:
    """Two backends with a server for each node: `ingress`, whose servers are checked, and `unchecked`."""

    def __init__(self, folder: Path, served: Sequence[Served]) -> None:
        self.socket, self.port = folder / "admin.sock", free_port()
        self.served = {each.name: each for each in served}
        servers = "\n".join(f"    server {each.name} 127.0.0.1:{each.server_port}" for each in served)
        text = _CONFIG.format(socket=self.socket, port=self.port, servers=servers, unchecked=servers)
        self._config = folder / "haproxy.cfg"
        self._config.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until both servers are up by a check."""
        with self._config.with_suffix(".log").open("a") as log:
            command = [*ENDS_WITH_US, *haproxy_program(), "-db", "-f", str(self._config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until("HAProxy to answer", lambda: self.get() != "", timeout_seconds=120, interval_seconds=0.1)

    def kill(self) -> None:
        """At once; its socket's file stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def command(self, text: str) -> str:
        """What its socket answers to an administrator."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(f"{text}\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def check(self, server: str) -> str:
        """The result of a server's last check in `ingress`, as HAProxy names it: L7OK, L7STS (the status is wrong)."""
        rows = csv.DictReader(self.command("show stat").removeprefix("# ").splitlines())
        return next(row["check_status"] for row in rows if (row["pxname"], row["svname"]) == ("ingress", server))

    def connections(self) -> int:
        """How many there were since its start, of clients and administrators; this one is among them."""
        return int(self.command("show info").partition("\nCumConns: ")[2].splitlines()[0])

    def get(self, path: str = "/") -> str:
        """The node that answers; "" if none does."""
        try:
            answer = urllib3.request(
                "GET", f"http://127.0.0.1:{self.port}{path}", retries=False, timeout=_ASKED_SECONDS
            )
        except urllib3.exceptions.HTTPError:
            return ""
        return answer.data.decode() if answer.status == 200 else ""

    def answering(self, requests: int = 12) -> set[str]:
        """The nodes that answer the requests."""
        return {self.get() for _ in range(requests)}


@contextmanager
def haproxy_process(*nodes: str) -> Iterator[HAProxyProcess]:
    """With servers behind it, until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="haproxy-"))  # short: a socket's path has 107 characters at most
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        served = [Served(name) for name in nodes]
        for each in served:
            stack.callback(each.end)
        process = HAProxyProcess(folder, served)
        stack.callback(process.kill)
        process.start()
        yield process

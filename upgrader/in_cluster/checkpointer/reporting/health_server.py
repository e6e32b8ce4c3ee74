"""/healthz, /readyz and /metrics.

The DaemonSet's pod and the static pod share the node's network, so each has a port of its own: on a shared port a
probe could be answered by the other one. Only one acts; the standby's readiness is that of the acting one, so that a
DaemonSet whose pod happens to be the standby is judged by the checkpoints all the same.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from upgrader.in_cluster.checkpointer.reporting.metrics import CONTENT_TYPE, render
from upgrader.in_cluster.checkpointer.reporting.pass_report import Board

Answer = tuple[int, str]
_OK, _NOT_OK = 200, 503
_PEER_TIMEOUT_SECONDS = 2.0
CONNECTIONS = 8
"""Connections at a time from the node itself, and as many from all other addresses: each is a thread under the pod's
memory limit, and no client of the port may block the kubelet's probes.
"""
CONNECTION_SECONDS = 5.0
"""Seconds for a whole connection: one that trickles in byte by byte would never hit a timeout of its socket."""


class Health:
    """The answers. `stale_after_seconds`: without a pass after which the loop counts as stuck. `peer`: see
    `ask_peer`.
    """

    def __init__(
        self, board: Board, clock: Callable[[], float], stale_after_seconds: float, peer: Callable[[], Answer]
    ) -> None:
        self._board, self._clock, self._stale_after_seconds, self._peer = board, clock, stale_after_seconds, peer

    def healthz(self) -> Answer:
        """Whether the loop is alive, acting or not."""
        report, _ = self._board.get()
        if report is None:
            return _NOT_OK, "no pass yet"
        age = self._clock() - report.at
        return (_OK, "ok") if age <= self._stale_after_seconds else (_NOT_OK, f"the last pass was {age:.0f} s ago")

    def readyz(self) -> Answer:
        """Whether every pod on this node that asks for a checkpoint has a current, verified one."""
        alive = self.healthz()
        report, _ = self._board.get()
        if alive[0] != _OK or report is None:
            return alive
        if not report.acting:
            status, text = self._peer()
            return status, f"standby; the acting instance reports: {text}"
        reasons = report.unready()
        return (
            (_NOT_OK, "\n".join(reasons))
            if reasons
            else (_OK, "ok: every pod with the annotation has a current checkpoint")
        )

    def is_standby(self) -> bool:
        """Whether another instance holds the lock, as far as is known."""
        report, _ = self._board.get()
        return report is not None and not report.acting

    def metrics(self) -> str:
        """Prometheus text."""
        report, counters = self._board.get()
        return render(report, counters, self._clock())


def ask_peer(host: str, port: int) -> Answer:
    """The other instance's readiness."""
    connection = http.client.HTTPConnection(host, port, timeout=_PEER_TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/readyz?peer")
        response = connection.getresponse()
        return response.status, response.read(4096).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return _NOT_OK, f"no answer on port {port}: {error or type(error).__name__}"
    finally:
        connection.close()


class Server(ThreadingTCPServer):
    """Answers a bounded number of connections, each for a bounded time; what is beyond is closed at once."""

    # Not http.server's own class: that one resolves its host name, which can take long on a node that is booting.
    allow_reuse_address = True
    daemon_threads = True

    def __init__(
        self, address: str, port: int, handler: type[BaseHTTPRequestHandler], clock: Callable[[], float]
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._clock = clock
        self._guard = threading.Lock()
        self._open: dict[socket.socket, tuple[bool, float]] = {}
        super().__init__((address, port), handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for this connection."""
        local = client_address[0] == self.server_address[0]
        with self._guard:
            if sum(here is local for here, _ in self._open.values()) >= CONNECTIONS:
                return False
            self._open[request] = (local, self._clock() + CONNECTION_SECONDS)
        return True

    def service_actions(self) -> None:
        """End what has had its time; called twice a second."""
        now = self._clock()
        with self._guard:
            late = [request for request, (_, until) in self._open.items() if now >= until]
        for request in late:
            with contextlib.suppress(OSError):  # it has just ended by itself
                request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and free its place."""
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, or was cut off, is not worth a traceback."""


def serve(address: str, port: int, health: Health, clock: Callable[[], float] = time.monotonic) -> Server:
    """Start answering in the background. Raises OSError when the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = CONNECTION_SECONDS

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/healthz":
                self._answer(*health.healthz())
            elif path == "/readyz" and query == "peer" and health.is_standby():
                # Two standby instances would query each other in an endless loop.
                self._answer(_NOT_OK, "standby, too")
            elif path == "/readyz":
                self._answer(*health.readyz())
            elif path == "/metrics":
                self._answer(_OK, health.metrics(), CONTENT_TYPE)
            else:
                self._answer(404, "not found: use /healthz, /readyz or /metrics")

        def log_message(self, *_: object) -> None:
            """Probes come every few seconds: not worth a line each."""

        def _answer(self, status: int, text: str, content_type: str = "text/plain; charset=utf-8") -> None:
            body = text.rstrip("\n").encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = Server(address, port, Handler, clock)
    threading.Thread(target=server.serve_forever, name="endpoints", daemon=True).start()
    return server

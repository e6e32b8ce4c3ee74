"""An HTTP server on 127.0.0.1 that behaves as a test says: slow, refusing, redirecting, endless."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Handler", "HttpServer", "http_server"]


class Handler(BaseHTTPRequestHandler):
    """One request; `body` is what came with it."""

    body = b""

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answers it."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests print nothing."""


@dataclass
class HttpServer:
    """The server; `answer` may be replaced at any time, `requests` are `METHOD PATH`, `headers` those of the last."""

    url: str
    answer: Callable[[Handler], None]
    over: threading.Event
    """Set at the test's end: an `answer` that never comes waits for this, not for a time."""
    requests: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def http_server(answer: Callable[[Handler], None], tls: ssl.SSLContext | None = None) -> Iterator[HttpServer]:
    """Serve while the context is open; with `tls`, over https."""

    class Answering(Handler):
        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:
                self.close_connection = True  # the client has given up

        def _any(self) -> None:
            self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.requests.append(f"{self.command} {self.path}")
            state.bodies.append(self.body)
            state.headers = dict(self.headers)
            state.answer(self)

        do_GET = do_PUT = do_POST = _any  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    state = HttpServer(url, answer, threading.Event())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.over.set()
        server.shutdown()
        server.server_close()
        thread.join()

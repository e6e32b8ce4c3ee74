"""What listens in all pods of a test: one HTTP server on loopback, which tells them apart by Host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from testkit.waiting import stretched

__all__ = ["PodService", "pod_service"]


class PodService:
    """What pods were told. They answer a POST with 200, or what `answers` has for a pod's name; `bodies` has with what
    text.
    """

    def __init__(self) -> None:
        self.port = 0
        self.told: list[tuple[str, str, str]] = []
        """(method, Host, path) of each request, as it arrived."""
        self.answers: dict[str, int] = {}
        self.answers_to_delete: dict[str, int] = {}
        """The same for a DELETE."""
        self.bodies: dict[str, bytes] = {}
        self.free = threading.Event()
        """Not set: pods don't answer a POST before it is."""
        self.free.set()

    def pods(self, method: str) -> set[str]:
        """The names of those that got such a request."""
        return {host.partition(".")[0] for how, host, _ in list(self.told) if how == method}


@contextmanager
def pod_service() -> Iterator[PodService]:
    """Until the end of the block."""
    service = PodService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer("POST")

        def do_DELETE(self) -> None:
            self._answer("DELETE")

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, method: str) -> None:
            host = self.headers["Host"]
            service.told.append((method, host, self.path))
            if method == "POST":
                service.free.wait(stretched(60))
            pod = host.partition(".")[0]
            body = service.bodies.get(pod, b"") if method == "POST" else b""
            answers = service.answers if method == "POST" else service.answers_to_delete
            self.send_response(answers.get(pod, 200))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield service
    finally:
        service.free.set()
        server.shutdown()
        thread.join()
        server.server_close()

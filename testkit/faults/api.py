"""A small API server with TLS: objects by path, and a list of the writes that it executed."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from testkit.certificates import Authority
from testkit.faults.proxy import Upstream

__all__ = ["SmallApi"]


class SmallApi:
    """Enough of an API to read, list and write objects of any kind."""

    def __init__(self, folder: Path) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        """Path → object, or a list's own `items`."""
        self.writes: list[tuple[str, str]] = []
        """Method and path of each executed write."""
        Authority(folder / "ca").issue(folder / "server", "api")
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                if path == "/readyz":
                    self._answer(200, b"ok")
                elif path in api.objects:
                    self._answer(200, json.dumps(api.objects[path]).encode())
                else:
                    self._answer(404, json.dumps({"kind": "Status", "message": "not found"}).encode())

            def do_POST(self) -> None:
                path = urlsplit(self.path).path
                # Like Kubernetes, which names the kind in each answer, whether the request named it or not.
                made = {"kind": "Object"} | json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                api.writes.append((self.command, path))
                api.objects[f"{path}/{made['metadata']['name']}"] = made
                self._answer(201, json.dumps(made).encode())

            def _answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """No log."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        trusting = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        self.upstream = Upstream(f"https://127.0.0.1:{self._http.server_port}", trusting)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

"""Answers admission webhooks: it allows everything, and counts what it is asked, by the path of the request.

It runs on the controllers of a lab that is like another cluster, so it needs Python's standard library alone.
"""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["WebhookStub"]


class WebhookStub(ThreadingHTTPServer):
    """At an address of this machine, with a certificate and its key (paths of PEM files).

    POST of an AdmissionReview (v1 or v1beta1) answers it; GET answers the counts: path → number of requests so far.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, port: int, certificate: str, key: str) -> None:
        super().__init__((address, port), _Answers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # Each connection shakes hands in its own thread: one that is slow holds up no other.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self._counts = Counter[str]()
        self._lock = threading.Lock()

    def asked(self, path: str) -> None:
        """Count a request."""
        with self._lock:
            self._counts[path] += 1

    def counts(self) -> dict[str, int]:
        """Path → how often it was asked."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error of this server."""


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # kube-apiserver keeps its connections
    timeout = 300
    disable_nagle_algorithm = True
    server: WebhookStub

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked(self.path.partition("?")[0].strip("/"))
        response = {"uid": review["request"]["uid"], "allowed": True}
        self._send({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})

    def do_GET(self) -> None:
        self._send(self.server.counts())

    def _send(self, answer: dict[str, Any]) -> None:
        content = json.dumps(answer).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing: what is asked has the objects of the cluster."""


if __name__ == "__main__":
    ADDRESS, PORT, CERTIFICATE, KEY = sys.argv[1:]
    WebhookStub(ADDRESS, int(PORT), CERTIFICATE, KEY).serve_forever()

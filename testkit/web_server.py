"""The stand-in for nginx in a lab's image: answers with its node's name; several may share the port of a node.

Once it listens, it creates the file /tmp/listening. After SIGTERM it stops listening, and answers the accepted
requests.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_PORT = 8080
_LISTENING = Path("/tmp/listening")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """The node's name, and the version of this program."""
        text = f"{socket.gethostname()} {os.environ.get('VERSION', '')}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        """Beside others that already listen on the port."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


def main() -> None:
    """Until SIGTERM."""
    server = _Server(("", _PORT), _Handler)
    _LISTENING.touch()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ended.wait()
    server.shutdown()


if __name__ == "__main__":
    main()

"""A node's credential files, and API servers for them that answer over real sockets."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from testkit.certificates import Authority
from upgrader.in_cluster.checkpointer.observation.api_client import Api

Answer = tuple[int, bytes]


class Server:
    """An API server of one page for every path, over TLS with client certificates."""

    def __init__(
        self,
        folder: Path,
        authority: Authority,
        answer: Callable[[str, str, bytes], Answer],
        at: tuple[str, int] = ("127.0.0.1", 0),
    ) -> None:
        authority.issue(folder / "server", "127.0.0.1", addresses=[at[0]])
        self.clients: list[str] = []
        self.types: list[str | None] = []
        self.connections: list[socket.socket] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                outer.connections.append(self.connection)

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.types.append(self.headers.get("Content-Type"))
                certificate = self.request.getpeercert()
                outer.clients.append(certificate["subject"][0][0][1])
                status, content = answer(self.command, self.path, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_PATCH = do_GET  # noqa: N815  # http.server's name

            def log_message(self, *_: object) -> None:
                """Tests' output stays clean."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        context.load_verify_locations(folder / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        self._server = ThreadingHTTPServer(at, Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that hang up are meant to
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        """Stop, closing kept connections too."""
        self._server.shutdown()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join()


class Node:
    """A node's credential files, and servers to talk to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "ca")
        self.authority.issue(folder / "client", "system:node:controller-1")
        self.servers: list[Server] = []
        self.answer: Answer = (200, b'{"items": []}')

    def serve(self, authority: Authority | None = None, at: tuple[str, int] = ("127.0.0.1", 0)) -> Server:
        """Start a server that gives `answer`."""
        server = Server(self.folder, authority or self.authority, lambda *_: self.answer, at)
        self.servers.append(server)
        return server

    def kubeconfig(self, server: str, inline: bool = False, **cluster: object) -> Path:
        """Write the kubelet's kubeconfig."""

        def data(name: str) -> str:
            return base64.b64encode((self.folder / name).read_bytes()).decode()

        user: dict[str, str] = {"client-certificate": "client.pem", "client-key": "client.key"}
        if inline:
            user = {"client-certificate-data": data("client.pem"), "client-key-data": data("client.key")}
        path = self.folder / "kubelet.conf"
        config = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": server, "certificate-authority-data": data("ca.pem"), **cluster}}
            ],
            "users": [{"name": "u", "user": user}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def api(self, server: Server, inline: bool = False) -> Api:
        """A client of the server."""
        return Api(self.kubeconfig(f"https://127.0.0.1:{server.port}", inline), "controller-1", 10)

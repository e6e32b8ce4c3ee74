"""An HTTP server that answers by script, and a kubeconfig that leads to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml


@dataclass
class ScriptedServer:
    """Answers request after request from `script`, the last one again and again; `asked` remembers them."""

    url: str = ""
    script: list[tuple[int, dict[str, str], bytes] | None] = field(default_factory=list)
    """Status, headers and body; None breaks the connection without an answer."""
    asked: list[tuple[str, str, bytes]] = field(default_factory=list)
    """Method, path with query, body."""
    headers: list[dict[str, str]] = field(default_factory=list)

    def answers(self, *script: tuple[int, dict[str, str], bytes] | int | None) -> None:
        """Set the script; a bare status has an empty list for a body."""
        self.script = [(item, {}, b'{"kind": "List"}') if isinstance(item, int) else item for item in script]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server on a free port of this machine."""
    scripted = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            scripted.asked.append((self.command, self.path, body))
            scripted.headers.append(dict(self.headers))
            answer = scripted.script.pop(0) if len(scripted.script) > 1 else scripted.script[0]
            if answer is None:
                self.close_connection = True
                return
            status, headers, content = answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815 - as above

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scripted.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield scripted
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def kubeconfig(tmp_path: Path, server: ScriptedServer) -> Path:
    """A kubeconfig with a token for that server."""
    return write_kubeconfig(tmp_path, {"server": server.url})


def write_kubeconfig(folder: Path, cluster: dict[str, object], user: dict[str, object] | None = None) -> Path:
    """A kubeconfig of one context, `lab`; its user has a token, unless another `user` is given."""
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "me", "user": user or {"token": "s3cret-token"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path

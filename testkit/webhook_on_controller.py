"""A webhook that a controller serves, for conversions, admission and logins, and an aggregated API without resources:
the source is sent there, so only the standard library, and Python from 3.9 on.
"""

import http.server
import json
import os
import ssl
import sys
import threading
import time
from pathlib import Path
from typing import Any


def answer(path: str, review: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The review with its response: `/convert` changes only the version, `/admit` allows after a delay, and
    `/login/TOKEN` accepts that token, as an administrator's.
    """
    if path.startswith("/login/"):
        accepted = review["spec"]["token"] == path.rpartition("/")[2]
        user = {"username": "ann", "groups": ["system:masters"]}
        return {**review, "status": {"authenticated": True, "user": user} if accepted else {"authenticated": False}}
    request = review["request"]
    response: dict[str, Any] = {"allowed": True}
    if path == "/convert":
        version = request["desiredAPIVersion"]
        objects = [{**item, "apiVersion": version} for item in request["objects"]]
        response = {"convertedObjects": objects, "result": {"status": "Success"}}
    else:
        time.sleep(seconds)
    return {**review, "request": None, "response": {"uid": request["uid"], **response}}


def discovery(path: str) -> dict[str, Any] | None:
    """What a client asks an aggregated API first: `/apis/GROUP/VERSION`; it serves nothing else."""
    words = path.strip("/").split("/")
    if len(words) != 3 or words[0] != "apis":
        return None
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "/".join(words[1:]), "resources": []}


def ends_with(name: str) -> None:
    """End this process when the newest process of that name ends."""
    found = [path for path in Path("/proc").glob("[0-9]*/comm") if path.read_text().strip() == name[:15]]
    newest = max(found, key=lambda path: int(path.parts[2]))
    while newest.exists():
        time.sleep(0.2)
    os._exit(0)


class _Handler(http.server.BaseHTTPRequestHandler):
    seconds = 0.0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._say(answer(self.path.partition("?")[0], json.loads(body), self.seconds))

    def do_GET(self) -> None:
        self._say(discovery(self.path.partition("?")[0]))

    def _say(self, document: dict[str, Any] | None) -> None:
        said = json.dumps(document).encode()
        self.send_response(404 if document is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


def main(certificate: str, port: str, seconds: str, process: str) -> None:
    """Serve as long as a process runs; "": until killed."""
    _Handler.seconds = float(seconds)
    if process:
        threading.Thread(target=ends_with, args=[process], daemon=True).start()
    server = http.server.ThreadingHTTPServer(("0.0.0.0", int(port)), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Checks of what kube-apiserver calls, asked with the program that is sent to controllers."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from pathlib import Path

import pytest
import yaml

from testkit.etcd_members import NAMES, new_members
from upgrader.preflight.audit_webhook import check_audit_webhook


class _Takes(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("hangs", [True, False])
def test_audit_webhook(tmp_path: Path, *, hangs: bool) -> None:
    """One that takes the connection and never answers is a finding; one that answers is none."""
    controller = new_members(tmp_path, tmp_path)
    (tmp_path / NAMES[0]).mkdir()
    with socket.create_server(("127.0.0.1", 0)) as silent, http.server.HTTPServer(("127.0.0.1", 0), _Takes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = silent.getsockname()[1] if hangs else server.server_port
        file = tmp_path / "audit.conf"
        file.write_text(json.dumps({"clusters": [{"cluster": {"server": f"http://127.0.0.1:{port}/"}}]}))
        flags = [f"--audit-webhook-config-file={file}", "--audit-webhook-mode=blocking-strict"]
        item = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kube-apiserver", "namespace": "kube-system"},
            "spec": {
                "template": {
                    "spec": {"containers": [{"name": "kube-apiserver", "command": ["kube-apiserver", *flags]}]}
                }
            },
        }
        found = controller.ids(check_audit_webhook, NAMES[0], manifest=yaml.safe_dump(item))
        server.shutdown()
    assert found == (["audit-webhook.unanswered"] if hangs else [])

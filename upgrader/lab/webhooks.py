"""A lab like another cluster: its webhooks, which a program on each controller answers. Pure.

The webhooks have all that the copied cluster's have but the server: a kube-apiserver asks its own controller, which
answers without the pod network, and before the API serves.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upgrader.lab import webhook_stub

__all__ = ["CERTIFICATE", "KEY", "STUB_URL", "answered", "has_webhooks", "stub_files"]

CERTIFICATE, KEY = "webhooks.crt", "webhooks.key"
"""The names of the files among the lab's keys; the certificate is its own authority."""

_ADDRESS, _PORT = "127.0.0.1", 61443
"""A port above those of NodePorts and of outgoing connections."""
STUB_URL = f"https://{_ADDRESS}:{_PORT}"
"""On each controller; a GET answers how often each webhook was asked there."""
_FOLDER = "/etc/lab/webhooks"
_PROGRAM = "/usr/local/lib/lab-webhooks.py"
_UNIT = f"""[Unit]
Description=Answers the webhooks of the cluster that this lab is like: it allows everything
After=network.target

[Service]
ExecStart=/usr/bin/python3 -I {_PROGRAM} {_ADDRESS} {_PORT} {_FOLDER}/{CERTIFICATE} {_FOLDER}/{KEY}
Restart=always
RestartSec=1
"""
_AT_BOOT = "[Unit]\nWants=lab-webhooks.service\n"


def has_webhooks(item: Mapping[str, Any]) -> bool:
    """Whether an object configures webhooks."""
    return item["kind"] in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")


def answered(item: Mapping[str, Any], certificate: str) -> dict[str, Any]:
    """A copied configuration of webhooks, with the controllers' program as their server; `certificate`: its PEM."""
    authority = base64.b64encode(certificate.encode()).decode()
    place = f"{STUB_URL}/{item['kind']}/{item['metadata']['name']}"
    webhooks = [
        {**each, "clientConfig": {"url": f"{place}/{each.get('name', '')}", "caBundle": authority}}
        for each in item.get("webhooks") or ()
    ]
    return {**item, "webhooks": webhooks}


def stub_files(keys: Path) -> dict[str, tuple[str, int]]:
    """Files of each controller, path → (text, mode), with which the program starts at its boots."""
    return {
        _PROGRAM: (Path(webhook_stub.__file__).read_text(encoding="utf-8"), 0o644),
        f"{_FOLDER}/{CERTIFICATE}": ((keys / CERTIFICATE).read_text(), 0o644),
        f"{_FOLDER}/{KEY}": ((keys / KEY).read_text(), 0o600),
        "/etc/systemd/system/lab-webhooks.service": (_UNIT, 0o644),
        "/etc/systemd/system/multi-user.target.d/lab-webhooks.conf": (_AT_BOOT, 0o644),
    }

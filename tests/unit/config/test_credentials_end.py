"""When a kubeconfig's own credentials end."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testkit.certificates import Authority
from tests.unit.config.test_kubeconfig import kubeconfig
from upgrader.config.credentials_end import credentials_end

END = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def token(claims: object) -> str:
    """An unsigned JWT."""
    parts = ({"alg": "none"}, claims)
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), ""])


@pytest.mark.parametrize(
    ("user", "end"),
    [
        ({"token": token({"exp": END.timestamp()})}, END),
        ({"token": token({"sub": "me"})}, None),
        ({"token": token({"exp": "tomorrow"})}, None),
        ({"token": token({"exp": 1e30})}, None),
        ({"token": token([])}, None),
        ({"token": "a.b.c"}, None),
        ({"token": "31ada4fd-adec-460c-809a-9e56ceb75269"}, None),
        ({"token": token({"exp": END.timestamp()}), "tokenFile": "/var/run/token"}, None),
        ({"client-certificate": "/var/run/tls.crt", "client-key": "/var/run/tls.key"}, None),
        ({"client-certificate-data": "bm90IG9uZQ=="}, None),
        ({}, None),
    ],
)
def test_a_token_says_when_it_ends(tmp_path: Path, user: dict[str, Any], end: datetime | None) -> None:
    """If it is a JWT, and nothing replaces it; anything else is unknown."""
    assert credentials_end(kubeconfig(tmp_path, user)) == end


def test_a_certificate_counts_before_a_token(tmp_path: Path) -> None:
    """As for the API server, which asks for the first."""
    Authority(tmp_path / "ca").issue(tmp_path / "me", "me", hours=(-1, 2))
    data = base64.b64encode((tmp_path / "me.pem").read_bytes()).decode()
    user = {"client-certificate-data": data, "token": token({"exp": END.timestamp()})}
    found = credentials_end(kubeconfig(tmp_path, user))
    assert found is not None and timedelta(hours=1) < found - datetime.now(UTC) < timedelta(hours=2, minutes=1)


def test_no_plugin_is_run_for_it(tmp_path: Path) -> None:
    """It may open a browser, and its credentials are renewed."""
    plugin = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./missing"}}
    assert credentials_end(kubeconfig(tmp_path, plugin)) is None

"""Kubeconfigs that can't be probed with say why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.gates.availability.server import TOKEN, ApiServer
from upgrader.errors import ConfigError
from upgrader.gates.availability.api_endpoint import read_endpoint


def changed(api: ApiServer, section: str, kind: str, **keys: Any) -> None:
    """Change keys of the kubeconfig's cluster or user; None takes one out."""
    config = json.loads(api.kubeconfig.read_text())
    target = config[section][0][kind]
    target.update(keys)
    config[section][0][kind] = {key: value for key, value in target.items() if value is not None}
    api.kubeconfig.write_text(json.dumps(config))


def test_a_kubeconfig_is_read(api: ApiServer) -> None:
    """Address, token and the path of a proxied server arrive; secrets are not in the repr."""
    changed(api, "clusters", "cluster", server="https://127.0.0.1/clusters/a/")
    endpoint = read_endpoint(api.kubeconfig)
    assert (endpoint.host, endpoint.port, endpoint.path) == ("127.0.0.1", 443, "/clusters/a")
    assert endpoint.headers == {"Authorization": f"Bearer {TOKEN}"}
    assert TOKEN not in repr(endpoint)


def test_a_token_file_is_read(api: ApiServer) -> None:
    """A token may be in a file beside the kubeconfig."""
    (api.kubeconfig.parent / "token").write_text(f"{TOKEN}\n")
    changed(api, "users", "user", token=None, tokenFile="token")
    assert read_endpoint(api.kubeconfig).headers == {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("section", "kind", "keys", "message"),
    [
        ("clusters", "cluster", {"server": "http://127.0.0.1"}, "is not an https:// address"),
        ("clusters", "cluster", {"insecure-skip-tls-verify": True}, "could pose as the API server"),
        ("clusters", "cluster", {"certificate-authority": "nope"}, "can't be used"),
        ("clusters", "cluster", {"certificate-authority-data": "nope"}, "can't be used"),
        ("users", "user", {"token": None}, "neither a client certificate nor a token"),
        ("contexts", "context", {"user": "nobody"}, "there is no user named 'nobody'"),
    ],
)
def test_what_can_not_be_used_is_refused(
    api: ApiServer, section: str, kind: str, keys: dict[str, Any], message: str
) -> None:
    """Each kind of unusable kubeconfig is a ConfigError that says what is wrong."""
    changed(api, section, kind, **keys)
    with pytest.raises(ConfigError, match=message):
        read_endpoint(api.kubeconfig)

"""The proxy to an API server is chosen as kubectl and Helm choose it."""

from __future__ import annotations

import pytest

from upgrader.config.proxy import Proxy, proxy_for
from upgrader.errors import ConfigError

SERVER = "https://10.0.0.1:6443"


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        (SERVER, {}, None),
        (SERVER, {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        (SERVER, {"https_proxy": "p"}, "http://p:80"),
        (SERVER, {"HTTP_PROXY": "http://p:3128"}, None),
        (SERVER, {"HTTPS_PROXY": "http://[fd00::1]:3128"}, "http://[fd00::1]:3128"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "p"}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": "p"}, None),
    ],
)
def test_the_environment(server: str, environ: dict[str, str], expected: str | None) -> None:
    """HTTPS_PROXY counts, in capitals or not; this machine itself needs none."""
    found = proxy_for(server, "", environ)
    assert (found.url if found else None) == expected


@pytest.mark.parametrize(
    ("server", "exempt", "direct"),
    [
        (SERVER, "*", True),
        (SERVER, "10.0.0.1", True),
        (SERVER, "192.168.0.0/16, 10.0.0.0/8", True),
        (SERVER, "10.1.0.0/16", False),
        (SERVER, "10.0.0.1:6443", True),
        (SERVER, "10.0.0.1:443", False),
        (SERVER, "nonsense/8", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "fd00::2", False),
        ("https://api.example.com", "example.com", True),
        ("https://api.example.com", ".example.com", True),
        ("https://api.example.com", "*.example.com", True),
        ("https://example.com", ".example.com", False),
        ("https://badexample.com", "example.com", False),
        ("https://api.example.com", "api.example.com:443", True),
    ],
)
def test_exceptions(server: str, exempt: str, direct: bool) -> None:
    """NO_PROXY names hosts, domains, addresses and networks, with a port or without."""
    assert (proxy_for(server, "", {"HTTPS_PROXY": "p", "NO_PROXY": exempt}) is None) == direct


def test_the_kubeconfigs_proxy_wins() -> None:
    """`proxy-url` is for this cluster: NO_PROXY has no say, and its login is not in the repr."""
    found = proxy_for(SERVER, "http://me:p%40ss@proxy:8080", {"NO_PROXY": "*", "HTTPS_PROXY": "other"})
    assert found == Proxy("proxy", 8080, "Basic bWU6cEBzcw==")
    assert "bWU6" not in repr(found)


@pytest.mark.parametrize("url", ["socks5://p:1080", "https://p", "http://:3128", "http://p:port"])
def test_other_kinds_are_refused_without_their_password(url: str) -> None:
    """A proxy that can't be used is an error, not a connection that passes it by."""
    with pytest.raises(ConfigError, match="the kubeconfig's proxy-url") as caught:
        proxy_for(SERVER, url.replace("//", "//me:secret@"), {})
    assert "secret" not in caught.value.message + caught.value.remedy

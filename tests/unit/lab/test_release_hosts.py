"""Whether Kubernetes' own hosts can be reached: asked at once, and never for long."""

from __future__ import annotations

import base64
import socket
import threading

import pytest

from testkit.connect_proxy import connect_proxy
from testkit.http_server import http_server
from testkit.ports import free_port
from upgrader.lab.release_hosts import asked


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_hosts_that_can_be_reached() -> None:
    """Each accepts connections; what it would answer is of no interest yet."""
    with http_server(lambda request: request.reply(500)) as one, http_server(lambda request: None) as other:
        assert asked([one.url.partition("//")[2], other.url.partition("//")[2]], 60)() == ""


def test_host_that_refuses() -> None:
    """It is named with the reason, beside one that accepts."""
    port = free_port()
    with http_server(lambda request: None) as there:
        why = asked([there.url.partition("//")[2], f"127.0.0.1:{port}"], 60)()
    assert why == f"127.0.0.1:{port} can't be reached: Connection refused"


def test_name_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the words of the resolver."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert asked(["dl.k8s.io"], 60)() == "dl.k8s.io can't be reached: Name or service not known"


def test_names_that_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that doesn't answer costs no more than the deadline, for all hosts together."""
    over = threading.Event()

    def hang(*_: object, **__: object) -> None:
        over.wait()
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        why = asked(["dl.k8s.io", "registry.k8s.io"], 0.05)()
    finally:
        over.set()
    assert why == "dl.k8s.io can't be reached: no answer within 0.05 s"


def test_host_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a firewall that drops packets."""

    def silent(*_: object, **__: object) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", silent)
    assert asked(["dl.k8s.io"], 3)() == "dl.k8s.io can't be reached: no answer within 3 s"


def test_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the way to the hosts is a proxy, it is asked for them, with the login in its URL; its refusal is the
    reason."""
    with http_server(lambda request: None) as server, connect_proxy({}) as proxy:
        proxy.ports["dl.k8s.io"] = int(server.url.rpartition(":")[2])
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//anna:p%40ss@"))
        assert asked(["dl.k8s.io"], 60)() == ""
        assert proxy.asked[0].startswith("CONNECT dl.k8s.io:443 ")
        assert "Proxy-Authorization: Basic YW5uYTpwQHNz" in proxy.headers
        why = asked(["registry.k8s.io"], 60)()
    assert why == "registry.k8s.io can't be reached: Tunnel connection failed: 502 not in this test"


@pytest.mark.parametrize("url", ["http://anna:secret@127.0.0.1:none", "http://anna:secret"])
def test_proxy_that_can_not_be_read(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """A wrong address of a proxy is a reason, too, and its login isn't in it."""
    monkeypatch.setenv("HTTPS_PROXY", url)
    why = asked(["dl.k8s.io"], 60)()
    assert why.startswith("dl.k8s.io can't be reached: ") and "secret" not in why


@pytest.mark.parametrize("password", ["1234/secret", "secret/1234", "secret#1234", "secret?1234", "p@1234/secret"])
def test_password_that_is_not_encoded(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    """A proxy's password with a character that separates parts of a URL works, as for the download behind it, and no
    part of it is told.
    """
    with connect_proxy({}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", f"//anna:{password}@"))
        why = asked(["dl.k8s.io"], 60)()
        login = base64.b64encode(f"anna:{password}".encode()).decode()
        assert f"Proxy-Authorization: Basic {login}" in proxy.headers
    assert why == "dl.k8s.io can't be reached: Tunnel connection failed: 502 not in this test"

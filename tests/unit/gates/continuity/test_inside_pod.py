"""What the test pod finds out about the API, as its readiness probe says it."""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

import pytest

from tests.unit.gates.builders import NAMESPACE
from upgrader.gates.continuity import inside_pod
from upgrader.gates.continuity.new_objects import deployment

ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class _TrustedFile:
    """A TLS context that is its CA's file, and trusts that CA by itself."""

    verify_flags = ssl.VerifyFlags(0)

    def __init__(self, cafile: str) -> None:
        self._file = cafile

    def __eq__(self, other: object) -> bool:
        return other == self._file and bool(self.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN)

    __hash__ = None  # type: ignore[assignment]


def found(monkeypatch: pytest.MonkeyPatch, addresses: list[str] | OSError, status: int | OSError) -> str:
    """What the check says when DNS and the API answer so."""

    def resolve(name: str, port: int, **_: Any) -> list[Any]:
        if isinstance(addresses, OSError):
            raise addresses
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    def get(host: str, port: int, account: str) -> int:
        if isinstance(status, OSError):
            raise status
        return status

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(inside_pod, "get", get)
    monkeypatch.setattr(inside_pod, "untrusted", lambda host, port, account: "")
    return inside_pod.check(ENVIRONMENT, "/nowhere")


@pytest.mark.parametrize(
    ("addresses", "status", "words"),
    [
        (["10.96.0.1"], 200, ""),
        (OSError("Name or service not known"), 200, "does not resolve"),
        (["10.97.0.1"], 200, "instead of 10.96.0.1"),
        (["10.96.0.1"], OSError("timed out"), "is unreachable"),
        (["10.96.0.1"], 401, "HTTP 401"),
    ],
)
def test_check(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str] | OSError, status: int | OSError, words: str
) -> None:
    """DNS, the ClusterIP and the pod's own token must work; what doesn't is said in one line."""
    said = found(monkeypatch, addresses, status)
    assert words in said and bool(said) == bool(words)


@pytest.mark.parametrize(
    ("names", "by_name", "words"),
    [
        ({"kubernetes.default.svc"}, None, ""),
        ({"kubernetes.default.svc"}, ssl.SSLCertVerificationError(), inside_pod.NOT_TRUSTED),
        ({"kubernetes.default.svc"}, OSError("timed out"), "is unreachable"),
        ({"api.example.org"}, ssl.SSLCertVerificationError(), ""),
    ],
)
def test_certificate_for_the_name(
    monkeypatch: pytest.MonkeyPatch, names: set[str], by_name: OSError | None, words: str
) -> None:
    """Clients that use the API's name must trust what it shows them, if its own certificate is for that name at all."""

    def shown(host: str, port: int, trust: object, name: str) -> set[str]:
        if name != host and by_name is not None:
            by_name.verify_message = "self-signed certificate"  # type: ignore[attr-defined]
            raise by_name
        return names

    monkeypatch.setattr(ssl, "create_default_context", _TrustedFile)
    monkeypatch.setattr(inside_pod, "shown", shown)
    said = inside_pod.untrusted("10.96.0.1", 443, "/nowhere")
    assert words in said and bool(said) == bool(words)


def test_certificate_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name goes to the server, which chooses the certificate by it; the names in that one are returned."""
    asked: list[Any] = []

    class Connection:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            asked.append("closed")

        def wrap_socket(self, plain: object, server_hostname: str) -> Connection:
            asked.append(server_hostname)
            return self

        def getpeercert(self) -> dict[str, Any]:
            return {"subjectAltName": (("DNS", "kubernetes"), ("IP Address", "10.96.0.1"))}

    monkeypatch.setattr(socket, "create_connection", lambda address, timeout: Connection())
    found = inside_pod.shown("10.96.0.1", 443, Connection(), "kubernetes")  # type: ignore[arg-type]
    assert found == {"kubernetes", "10.96.0.1"} and asked == ["kubernetes", "closed", "closed"]


@pytest.mark.parametrize(("said", "code"), [("", 0), ("no DNS", "no DNS")])
def test_exit_code(monkeypatch: pytest.MonkeyPatch, said: str, code: str | int) -> None:
    """A check that finds nothing succeeds: the empty text would be exit code 1."""
    monkeypatch.setattr(inside_pod, "check", lambda environment, account: said)
    assert inside_pod.main("check") == code


def test_source_is_complete() -> None:
    """The source runs by itself, as an argument of another Python."""
    command = deployment("x", {"spec": {"template": {"spec": {"containers": [{"image": "i"}]}}}})
    probe = command["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["exec"]["command"]
    done = subprocess.run(
        [sys.executable, *probe[1:]],
        env={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "kubernetes.default.svc" in done.stderr


def test_wait_ends_at_once() -> None:
    """The first process of a container ends at SIGTERM."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        # Another thread of this process would take a signal that this one blocks.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        assert inside_pod.main("wait") == 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_pod_inherits_where_it_may_run() -> None:
    """Image, pull secrets, node selector and tolerations are the pod-checkpointer's; its rights are not."""
    like = {
        "containers": [{"image": "registry/checkpointer:1", "securityContext": {"runAsUser": 0}}],
        "imagePullSecrets": [{"name": "login"}],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
    }
    made = deployment("x", {"spec": {"template": {"spec": like}}})
    assert made["metadata"]["namespace"] == NAMESPACE
    pod = made["spec"]["template"]["spec"]
    assert {key: pod[key] for key in ("imagePullSecrets", "nodeSelector", "tolerations")} == {
        key: like[key] for key in ("imagePullSecrets", "nodeSelector", "tolerations")
    }
    assert "hostNetwork" not in pod and "priorityClassName" not in pod
    assert pod["securityContext"]["runAsNonRoot"] and pod["containers"][0]["image"] == "registry/checkpointer:1"


def test_get_sends_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request carries the pod's own token, and trusts the cluster's CA alone."""
    asked: list[Any] = []

    class Connection:
        status = 200

        def __init__(self, host: str, port: int, timeout: float, context: Any) -> None:
            asked.append((host, port, context))

        def request(self, method: str, path: str, headers: dict[str, str]) -> None:
            asked.append((method, path, headers["Authorization"]))

        def getresponse(self) -> Any:
            return self

        def close(self) -> None:
            asked.append("closed")

    (tmp_path / "token").write_text("t0ken\n")
    monkeypatch.setattr(ssl, "create_default_context", _TrustedFile)
    monkeypatch.setattr(http.client, "HTTPSConnection", Connection)
    assert inside_pod.get("10.96.0.1", 443, str(tmp_path)) == 200
    assert asked == [("10.96.0.1", 443, f"{tmp_path}/ca.crt"), ("GET", "/api", "Bearer t0ken"), "closed"]

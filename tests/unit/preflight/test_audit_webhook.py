"""Whether anybody takes the audit events of the planned kube-apiserver."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from tests.unit.preflight.conftest import World, workload
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import audit_webhook
from upgrader.ports import CommandResult
from upgrader.preflight.audit_webhook import check_audit_webhook

SILENT: dict[str, Any] = {"found": True, "answer": {"unknown": "10.0.0.9:443: no answer within 4 s"}}


def plan(world: World, mode: str, answer: dict[str, Any]) -> None:
    """A kube-apiserver with such a webhook is to be installed, of which the controller says this."""
    flags = ["--audit-webhook-config-file=/audit.conf", f"--audit-webhook-mode={mode}"]
    world.manifests["kube-apiserver"] = workload({"name": "kube-apiserver", "command": ["kube-apiserver", *flags]})
    world.hosts.commands["python3"] = CommandResult(0, json.dumps(answer), "")


@pytest.mark.parametrize(
    ("mode", "severity"), [("blocking-strict", "error"), ("blocking", "error"), ("batch", "warning")]
)
def test_webhook_that_does_not_answer(world: World, mode: str, severity: str) -> None:
    """Where each request waits for it, none is answered; where not, events are lost."""
    plan(world, mode, SILENT)
    found = world.find(check_audit_webhook)["audit-webhook.unanswered"]
    assert found.severity == severity
    assert "no answer within 4 s" in found.title and "/audit.conf" in found.diagnosis


@pytest.mark.parametrize("answer", [{"found": True, "answer": ""}, {"found": False}])
def test_webhook_that_answers(world: World, answer: dict[str, Any]) -> None:
    """No finding; nor of a file that no controller has, as its volume may be no hostPath."""
    plan(world, "blocking", answer)
    assert world.find(check_audit_webhook) == {}
    world.hosts.ran.clear()
    world.facts.clear()
    assert world.find(check_audit_webhook) == {} and not world.hosts.ran, "that it isn't examined is another finding"


def test_nothing_is_asked_without_a_webhook(world: World) -> None:
    """Nobody's time is spent where no flag names one."""
    command = {"name": "kube-apiserver", "command": ["kube-apiserver", "--v=1"]}
    world.manifests["kube-apiserver"] = workload(command)
    assert world.find(check_audit_webhook) == {} and not world.hosts.ran


@pytest.mark.parametrize(
    ("server", "asked"),
    [
        ("http://127.0.0.1:9880/events", ("plain", "127.0.0.1", 9880, "/events")),
        ("http://audit.example", ("plain", "audit.example", 80, "/")),
        ("https://audit.example", ("get", "audit.example", 443, "/")),
        ("https://[fd00::1]:8443/a", ("get", "fd00::1", 8443, "/a")),
    ],
)
@pytest.mark.parametrize("form", ["server: {}\n", '{{"cluster": {{"server": "{}"}}}}', "server: '{}'\n"])
def test_server_is_read_from_yaml_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, asked: tuple[Any, ...], form: str
) -> None:
    """It gets no events at all, and no credentials; whatever it says is an answer."""
    seen: list[tuple[Any, ...]] = []

    def plain(host: str, port: int, path: str, body: str) -> tuple[int, str]:
        seen.append(("plain", host, port, path))
        assert json.loads(body)["items"] == []
        return 403, "no"

    def get(_: ssl.SSLContext, host: str, port: int, name: str, path: str, body: str) -> tuple[int, str]:
        seen.append(("get", host, port, path))
        assert name == host and json.loads(body)["items"] == []
        return 401, "who?"

    monkeypatch.setattr(audit_webhook, "plain", plain)
    monkeypatch.setattr(audit_webhook, "get", get)
    (tmp_path / "audit.conf").write_text(form.format(server))
    assert audit_webhook.ask(str(tmp_path), "/audit.conf") == ""
    assert seen == [asked]


@pytest.mark.parametrize("text", ["clusters: []\n", "server: https://one\nserver: https://two\n", "server: unix:/x\n"])
def test_server_that_is_not_known_is_not_asked(tmp_path: Path, text: str) -> None:
    """None, several, or another scheme."""
    (tmp_path / "audit.conf").write_text(text)
    assert audit_webhook.ask(str(tmp_path), "/audit.conf") == ""


def test_one_that_wants_a_certificate_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses the handshake with an alert, as nobody shows it the client's certificate; silence is no answer."""
    (tmp_path / "audit.conf").write_text("server: https://audit.example\n")
    said = "audit.example:443: tlsv13 alert certificate required"

    def get(*_: object) -> tuple[int, str]:
        raise Failed(said)

    monkeypatch.setattr(audit_webhook, "get", get)
    assert audit_webhook.ask(str(tmp_path), "/audit.conf") == ""
    said = "audit.example:443: no answer within 4 s"
    with pytest.raises(Failed, match="no answer"):
        audit_webhook.ask(str(tmp_path), "/audit.conf")


def test_which_authority_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubeconfig's own, in it or beside it; else the machine's; none where it says so."""
    trusted: list[str] = []

    def context(pem: str) -> ssl.SSLContext:
        trusted.append(pem)
        return ssl.create_default_context()

    monkeypatch.setattr(audit_webhook, "context", context)
    (tmp_path / "ca.crt").write_text("PEM")
    for text in ("certificate-authority-data: UEVN\n", "certificate-authority: /ca.crt\n"):
        audit_webhook._trust(str(tmp_path), text)
    assert trusted == ["PEM", "PEM"]
    assert audit_webhook._trust("", "").verify_mode is ssl.CERT_REQUIRED
    assert audit_webhook._trust("", "insecure-skip-tls-verify: true").verify_mode is ssl.CERT_NONE

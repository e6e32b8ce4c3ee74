"""The audit webhook of the planned kube-apiserver answers each controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from upgrader.model.finding import Finding
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.preflight.context import PreflightContext
from upgrader.steps.release.planned_commands import PlannedCommand, planned_commands

__all__ = ["check_audit_webhook"]

_SECONDS = 25.0
_WEBHOOK = SentProgram(
    "audit_webhook",
    "facts",
    "its audit webhook",
    "Run the command again. If it fails again, report this message as a bug.",
)
_WAITS = ("blocking", "blocking-strict")
"""Modes in which a request waits until its event is taken."""


def check_audit_webhook(context: PreflightContext) -> Iterator[Finding]:
    """Asked over SSH. A kube-apiserver that waits for it is Ready, as health checks mostly aren't audited, and answers
    no request: not one of a rollback either.
    """
    for command in planned_commands(context.changing, context.target):
        path = command.value("audit-webhook-config-file") if command.component == "kube-apiserver" else None
        for host in context.cluster.controllers if path else ():
            if host.name in context.facts:  # why a controller can't be examined is another finding
                answer = _WEBHOOK.read(context.hosts, host, _problem, str(path), seconds=_SECONDS)
                if answer:
                    yield _unanswered(host.name, command, str(path), answer)


def _problem(found: dict[str, Any]) -> str:
    if not found["found"]:
        return ""  # a file that a chart brings itself is on no controller
    answer = found["answer"]
    return str(answer["unknown"]) if isinstance(answer, dict) else ""


def _unanswered(host: str, command: PlannedCommand, path: str, why: str) -> Finding:
    waits = command.value("audit-webhook-mode") in _WAITS
    effect = (
        "Every audited request waits for this webhook. kube-apiserver would answer none of them, and a rollback would "
        "also fail."
        if waits
        else "Its events are lost once kube-apiserver's buffer is full."
    )
    return Finding(
        "audit-webhook.unanswered",
        "error" if waits else "warning",
        f"{host}: the audit webhook of the planned kube-apiserver doesn't answer: {why}",
        f"Its URL is in {path}. {effect}",
        f"Correct that file, or audit-webhook-config-file in the values of release {command.release.name}.",
    )

"""From facts to what is wrong, in plain words, the cause first; and to what a recovery may do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.recover.facts import Examined, Generation, HostFacts

__all__ = ["ApiSeen", "Controller", "Diagnosis", "diagnose"]


@dataclass(frozen=True)
class ApiSeen:
    """Whether the API answered us, from outside; `said`: its words, or why it didn't."""

    answers: bool
    said: str = ""


@dataclass(frozen=True)
class Controller:
    """One controller's part.

    `serves`: whether its kube-apiserver answers there, None when unknown. `start`: units to be started, in this order.
    `active`: the generation of kube-apiserver that is in place already. `restore`: the one that would be put in place;
    None when there is nothing to put, or no need. `blocked`: why a recovery must not touch this controller; a person
    has to. Empty when it may.
    """

    host: Host
    facts: HostFacts | None
    findings: tuple[Finding, ...]
    serves: bool | None = None
    start: tuple[str, ...] = ()
    active: int | None = None
    restore: Generation | None = None
    blocked: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All of it. `findings`: every controller's, the cause first."""

    api: ApiSeen
    controllers: tuple[Controller, ...]
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing has to be done: the API answers, and no finding is an error."""
        return self.api.answers and not any(f.severity == "error" for f in self.findings)

    @property
    def blocked(self) -> str:
        """Why nobody but a person can help; empty while one controller may be recovered."""
        reasons = [c.blocked for c in self.controllers]
        return reasons[0] if reasons and all(reasons) else ""


def diagnose(examined: Sequence[Examined], api: ApiSeen) -> Diagnosis:
    """Pure: the same facts give the same words."""
    controllers = tuple(_controller(e) for e in examined)
    return Diagnosis(api, controllers, tuple(f for c in controllers for f in c.findings))


def _controller(examined: Examined) -> Controller:
    if examined.facts is None:
        finding = Finding("host.unreachable", "error", examined.error)
        return Controller(examined.host, None, (finding,), blocked=examined.error)
    return Controller(examined.host, examined.facts, ())

"""What the audit log of a kube-apiserver says of the clients of APIs that Kubernetes has deprecated or removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from upgrader.model.api_lifecycle import ApiLifecycle, known_apis

__all__ = ["AuditLog", "Requests", "ending_apis", "plural"]


@dataclass(frozen=True)
class Requests:
    """All requests of one client for one resource in one version."""

    user: str
    """`rancher, as jane` where it impersonates another one."""
    agent: str
    """The User-Agent; "" for none."""
    api_version: str
    """`policy/v1beta1`"""
    resource: str
    """`poddisruptionbudgets`"""
    verbs: tuple[str, ...]
    """In alphabetical order."""
    count: int
    last: str
    """When the last one was received, as the log has it (RFC 3339)."""


@dataclass(frozen=True)
class AuditLog:
    """One or more files of it."""

    events: int
    """All of them, whatever they are about; a request may have several."""
    answered: int
    """The lines that tell how a request was answered: without any, nothing is known of clients."""
    first: str
    last: str
    """When the first and the last request were received (RFC 3339); "" for none."""
    requests: tuple[Requests, ...]
    """Those for APIs that end, and that the API server has served: neither refused (401, 403), nor for a path that it
    doesn't know (404 without a reason).
    """
    nodes: frozenset[str] = frozenset()
    """The nodes whose kubelets have sent requests."""
    damaged_lines: int = 0
    """How many lines are no event. A last line that isn't complete yet is none of them."""
    damaged: tuple[str, ...] = ()
    """The first of them: `logs/audit.log:17`."""


@cache
def ending_apis() -> Mapping[tuple[str, str], ApiLifecycle]:
    """The kinds that Kubernetes deprecates or removes in any version, by apiVersion and resource."""
    return {(api.api_version, plural(api.kind)): api for api in known_apis().values() if api.deprecated or api.removed}


def plural(kind: str) -> str:
    """The resource of one of Kubernetes' own kinds: `networkpolicies` of NetworkPolicy."""
    name = kind.lower()
    if name == "endpoints" or name.endswith("parameters"):
        return name
    if name.endswith(("s", "x", "ch")):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") and name[-2] not in "aeiou" else f"{name}s"

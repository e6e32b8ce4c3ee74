"""The clients of deprecated or removed APIs, as the audit log of a kube-apiserver shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from upgrader.model.api_lifecycle import ApiLifecycle, known_apis
from upgrader.model.redaction.printable import mask_secrets

__all__ = ["AS", "AuditLog", "Requests", "ending_apis", "one_line", "plural"]

_LONGEST_NAME = 80
AS = ", as "
"""Between the name of a user and that of the one whom it impersonates."""


@dataclass(frozen=True)
class Requests:
    """All requests of one client for one resource in one version."""

    user: str
    """`rancher, as jane` if it impersonates another user."""
    agent: str
    """The User-Agent; "" if it has none."""
    api_version: str
    """`policy/v1beta1`"""
    resource: str
    """`poddisruptionbudgets`"""
    verbs: tuple[str, ...]
    """In alphabetical order."""
    count: int
    last: str
    """When the last one was received, as the log writes it (RFC 3339)."""
    groups: tuple[str, ...] = ()
    """Of the user whom it acts as, by its last request."""
    namespaces: tuple[str, ...] = ()
    """Some of those in which it sent them; "" for none."""

    @property
    def acting(self) -> str:
        """The user whose permissions it has: `jane`, where `rancher` impersonates her."""
        return self.user.rpartition(AS)[2]

    @property
    def client(self) -> str:
        """`helm-operator/1.2 (user system:serviceaccount:apps:operator)`"""
        return f"{one_line(self.agent) or 'no user agent'} (user {one_line(self.user) or 'unknown'})"


@dataclass(frozen=True)
class AuditLog:
    """The result of reading one or more files of the log."""

    events: int
    """All events, of requests to any API; a request may have several."""
    answered: int
    """The events of completed requests. Without any, nothing is known of clients but those that watch."""
    first: str
    last: str
    """When the first and the last request were received (RFC 3339); "" if there is none."""
    requests: tuple[Requests, ...]
    """Requests for APIs that end, or for all, that the API server served: not those that were refused (401, 403), nor
    those for an unknown path (404 without a reason).
    """
    nodes: frozenset[str] = frozenset()
    """The nodes whose kubelets have sent requests."""
    damaged_lines: int = 0
    """How many lines aren't events. A last line that isn't complete yet doesn't count."""
    damaged: tuple[str, ...] = ()
    """The first of these lines: `logs/audit.log:17`."""


def one_line(text: str) -> str:
    """A client chooses it: it is one line, not too long, and no command for the CI job that shows it."""
    line = " ".join(mask_secrets(text).split()).replace("::", ": :").replace("##[", "# #[")
    return line if len(line) <= _LONGEST_NAME else f"{line[:_LONGEST_NAME]}…"


@cache
def ending_apis() -> Mapping[tuple[str, str], ApiLifecycle]:
    """The kinds that Kubernetes deprecates or removes in any version, by apiVersion and resource."""
    return {(api.api_version, plural(api.kind)): api for api in known_apis().values() if api.deprecated or api.removed}


def plural(kind: str) -> str:
    """The resource of one of Kubernetes' own kinds: `networkpolicies` for NetworkPolicy."""
    name = kind.lower()
    if name == "endpoints" or name.endswith("parameters"):
        return name
    if name.endswith(("s", "x", "ch")):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") and name[-2] not in "aeiou" else f"{name}s"

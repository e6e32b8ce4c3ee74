"""Which of guard's webhooks the API servers call for evictions. `upgrader guard off` leaves a configuration in place,
and gives its webhooks an objectSelector that matches nothing; and PodProtectors may limit deletions alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer
from upgrader.in_cluster.guard.core.workloads import Pod
from upgrader.in_cluster.guard.roles.other_budgets import Ask
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["OwnWebhooks"]


class OwnWebhooks:
    """By the informers of their configurations; none: nothing is known."""

    def __init__(self, informers: Sequence[Informer[Object]]) -> None:
        self._informers = informers

    def while_called(self, path: str, ask: Ask, *, unknown: bool) -> Ask:
        """The same as `ask` while the API servers call a webhook of this path for evictions, None otherwise: another
        webhook may ask by it only what the user has switched on. `unknown`: whether it is asked if that isn't known.
        """

        async def asked(request: AdmissionRequest, pod: Pod) -> Answer | None:
            called = self._is_called(path) if self._informers else unknown
            return await ask(request, pod) if called else None

        return asked

    def _is_called(self, path: str) -> bool:
        return any(
            _path(webhook["clientConfig"]) == path
            and any(map(_has_evictions, webhook.get("rules") or ()))
            and not _matches_nothing(webhook.get("objectSelector") or {})
            for informer in self._informers
            for configuration in informer.objects.values()
            for webhook in configuration.get("webhooks") or ()
        )


def _path(client: Mapping[str, Any]) -> str:
    return (client.get("service") or {}).get("path") or urlsplit(client.get("url") or "").path


def _has_evictions(rule: Mapping[str, Any]) -> bool:
    return (
        not {"", "*"}.isdisjoint(rule.get("apiGroups") or ())
        and not {"CREATE", "*"}.isdisjoint(rule.get("operations") or ())
        and not {"pods/eviction", "pods/*", "*/eviction", "*/*"}.isdisjoint(rule.get("resources") or ())
    )


def _matches_nothing(selector: Mapping[str, Any]) -> bool:
    """Whether a label has to be there, and not to be there."""
    keys: dict[str, set[str]] = {"Exists": set(), "DoesNotExist": set()}
    for each in selector.get("matchExpressions") or ():
        keys.setdefault(each["operator"], set()).add(each["key"])
    return bool(keys["Exists"] & keys["DoesNotExist"])

"""Which of guard's webhooks the API servers call for a request. `upgrader guard off` leaves a configuration in place,
and gives its webhooks an objectSelector that matches nothing; and PodProtectors may limit deletions alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer
from upgrader.in_cluster.guard.core.selectors import InvalidSelector, Selector
from upgrader.in_cluster.guard.core.workloads import Pod
from upgrader.in_cluster.guard.roles.other_budgets import Ask
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["OwnWebhooks"]

_NAME = "kubernetes.io/metadata.name"
"""A label of each namespace, by the API server."""


class OwnWebhooks:
    """By the informers of their configurations; none: nothing is known."""

    def __init__(self, informers: Sequence[Informer[Object]]) -> None:
        self._informers = informers

    def while_called(self, path: str, ask: Ask, *, unknown: bool) -> Ask:
        """The same as `ask` while the API servers call a webhook of this path for an eviction, None otherwise: another
        webhook may ask by it only what the user has switched on. `unknown`: whether it is asked if that isn't known.
        """

        async def asked(request: AdmissionRequest, pod: Pod) -> Answer | None:
            return await ask(request, pod) if self.calls(path, request, unknown=unknown) else None

        return asked

    def calls(self, path: str, request: AdmissionRequest, *, unknown: bool) -> bool:
        """Whether the API servers call a webhook of this path for this request too; `unknown` if that isn't known."""
        if not self._informers:
            return unknown
        return any(
            _path(webhook["clientConfig"]) == path
            and any(_covers(rule, request) for rule in webhook.get("rules") or ())
            and _may_match(_by_name(webhook.get("namespaceSelector") or {}), [{_NAME: request.namespace}])
            and _may_match(webhook.get("objectSelector") or {}, [_labels(request.object), _labels(request.old_object)])
            for informer in self._informers
            for configuration in informer.objects.values()
            for webhook in configuration.get("webhooks") or ()
        )


def _path(client: Mapping[str, Any]) -> str:
    return (client.get("service") or {}).get("path") or urlsplit(client.get("url") or "").path


def _covers(rule: Mapping[str, Any], request: AdmissionRequest) -> bool:
    resources = {request.resource, "*"}
    if request.subresource:
        whole, part = request.resource, request.subresource
        resources = {f"{whole}/{part}", f"{whole}/*", f"*/{part}", "*/*"}
    return (
        not {request.group, "*"}.isdisjoint(rule.get("apiGroups") or ())
        and not {request.operation, "*"}.isdisjoint(rule.get("operations") or ())
        and not {*resources, "*/*"}.isdisjoint(rule.get("resources") or ())
    )


def _by_name(selector: Mapping[str, Any]) -> Mapping[str, Any]:
    """What it requires of a namespace's name: its other labels aren't known."""
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    return {
        "matchLabels": {key: value for key, value in labels.items() if key == _NAME},
        "matchExpressions": [each for each in expressions if each["key"] == _NAME],
    }


def _may_match(selector: Mapping[str, Any], all_labels: Sequence[Mapping[str, str]]) -> bool:
    """Whether it selects an object with one of these labels, as far as guard can read it."""
    try:
        found = Selector.of(selector)
    except InvalidSelector:
        return True
    return any(map(found.matches, all_labels))


def _labels(content: Mapping[str, Any] | None) -> Mapping[str, str]:
    metadata = (content or {}).get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return {key: text for key, text in labels.items() if isinstance(text, str)} if isinstance(labels, dict) else {}

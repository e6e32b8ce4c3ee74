"""guard's webhooks as the API has them: which are off, and what they selected before.

A webhook that is off has an objectSelector that no object can match. What it had before is in an annotation of its
configuration, so that any machine can put it back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upgrader.errors import ApiError, UsageError
from upgrader.model.first_few import first_few
from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["KINDS", "LABEL", "NOTE", "NOTHING", "Former", "Webhook", "chosen", "read_webhooks", "written"]

KINDS: Mapping[str, Kind] = {
    "ValidatingWebhookConfiguration": Kind(
        "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False
    ),
    "MutatingWebhookConfiguration": Kind(
        "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", namespaced=False
    ),
}
NOTE = "guard.upgrader.io/switched-off"
NOTHING: KubeObject = {
    "matchExpressions": [{"key": NOTE, "operator": "Exists"}, {"key": NOTE, "operator": "DoesNotExist"}]
}
LABEL = "grafana.com/inject-rollout-operator-ca=true"
_WRITES = 5
"""Others write these objects seldom: guard its authority, Helm with a release."""


@dataclass(frozen=True)
class Former:
    """What a webhook that is off selected before (None: it had no objectSelector), and when it was switched off."""

    selector: KubeObject | None
    order: str
    """Sorts as the switching was done."""


@dataclass(frozen=True)
class Webhook:
    """One webhook of a configuration."""

    kind: str
    configuration: str
    name: str
    content: KubeObject
    former: Former | None
    """None where nothing remembers what it had."""

    @property
    def is_off(self) -> bool:
        """Whether no object reaches it."""
        return self.content.get("objectSelector") == NOTHING

    def __str__(self) -> str:
        return f"{self.name} of {self.kind} {self.configuration}"


def read_webhooks(kube: Kube, labels: str = LABEL) -> tuple[Webhook, ...]:
    """All webhooks of guard, sorted: those of the configurations with these labels, into which guard injects its CA."""
    found = []
    for kind, resource in KINDS.items():
        for item in kube.list(resource, labels=labels):
            formers = _formers(item)
            for content in item.get("webhooks") or ():
                name = content["name"]
                found.append(Webhook(kind, item["metadata"]["name"], name, content, formers.get(name)))
    return tuple(sorted(found, key=lambda each: (each.kind, each.configuration, each.name)))


def chosen(webhooks: Sequence[Webhook], names: Sequence[str]) -> tuple[Webhook, ...]:
    """Those with these names, of their own or of their configuration; all where none is given.

    Raises UsageError for a name that none has.
    """
    known = {name for each in webhooks for name in (each.name, each.configuration)}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"guard has no webhook {first_few(unknown)}; nothing was changed",
            remedy=f"Name one of these: {', '.join(sorted(known))}."
            if known
            else f"Check guard's webhook configurations: no configuration has the label {LABEL}.",
        )
    return tuple(each for each in webhooks if not names or each.name in names or each.configuration in names)


def written(kube: Kube, webhook: Webhook, former: Former | None) -> None:
    """Write one webhook: off where it had a `former` selector, which is noted, and on for None, as the note says.

    A configuration that somebody else writes at the same time is read again. Raises ApiError.
    """
    resource = KINDS[webhook.kind]
    for left in reversed(range(_WRITES)):
        item: Any = kube.get(resource, webhook.configuration)
        if item is None:
            return  # it is gone, and so is what it stood in the way of
        try:
            kube.patch(resource, webhook.configuration, _changes(item, webhook.name, former))
            return
        except ApiError as error:
            if error.status != 409 or not left:
                raise


def _changes(item: KubeObject, name: str, former: Former | None) -> KubeObject:
    formers, webhooks = _formers(item), []
    for content in item.get("webhooks") or ():
        content = dict(content)
        if content["name"] == name:
            if former is not None:
                formers[name] = former
                content["objectSelector"] = NOTHING
            elif before := formers.pop(name, None):
                content["objectSelector"] = before.selector or {}
        webhooks.append(content)
    note = {key: {"order": each.order, "objectSelector": each.selector} for key, each in formers.items()}
    metadata = {
        "resourceVersion": item["metadata"]["resourceVersion"],
        "annotations": {NOTE: json.dumps(note, sort_keys=True) if note else None},
    }
    return {"metadata": metadata, "webhooks": webhooks}


def _formers(item: KubeObject) -> dict[str, Former]:
    """The webhooks that are still off: one that Helm has restored since is on, whatever the note says."""
    text = (item["metadata"].get("annotations") or {}).get(NOTE)
    off = {c["name"] for c in item.get("webhooks") or () if c.get("objectSelector") == NOTHING}
    try:
        noted = json.loads(text) if text else {}
        return {name: Former(each["objectSelector"], str(each["order"])) for name, each in noted.items() if name in off}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}  # not ours: what a webhook had before is unknown then, and that is said where it matters

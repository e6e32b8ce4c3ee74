"""Which of guard's webhooks the API servers call: `upgrader guard off` leaves a configuration in place, and gives its
webhooks an objectSelector that matches nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Object

__all__ = ["OwnWebhooks"]

Ask = Callable[[AdmissionRequest], Awaitable[Answer | None]]


class OwnWebhooks:
    """By the informers of their configurations; none: nothing is known, and all are taken for called."""

    def __init__(self, informers: Sequence[Informer[Object]]) -> None:
        self._informers = informers

    def while_called(self, path: str, ask: Ask) -> Ask:
        """The same as `ask` while the API servers call a webhook of this path, None otherwise: another webhook may ask
        by it only what the user hasn't switched off.
        """

        async def asked(request: AdmissionRequest) -> Answer | None:
            return await ask(request) if self._is_called(path) else None

        return asked

    def _is_called(self, path: str) -> bool:
        return not self._informers or any(
            _path(webhook["clientConfig"]) == path and not _matches_nothing(webhook.get("objectSelector") or {})
            for informer in self._informers
            for configuration in informer.objects.values()
            for webhook in configuration.get("webhooks") or ()
        )


def _path(client: Mapping[str, Any]) -> str:
    return (client.get("service") or {}).get("path") or urlsplit(client.get("url") or "").path


def _matches_nothing(selector: Mapping[str, Any]) -> bool:
    """Whether a label has to be there, and not to be there."""
    keys: dict[str, set[str]] = {"Exists": set(), "DoesNotExist": set()}
    for each in selector.get("matchExpressions") or ():
        keys.setdefault(each["operator"], set()).add(each["key"])
    return bool(keys["Exists"] & keys["DoesNotExist"])

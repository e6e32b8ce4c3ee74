"""How long ago Helm last wrote its record of a revision."""

from __future__ import annotations

from datetime import datetime

from upgrader.errors import ApiError
from upgrader.ports import Kind, Kube

__all__ = ["RecordAge"]

_SECRETS = Kind("v1", "secrets")


class RecordAge:
    """By the clock of the API server alone, which says what time it is, and dates each write.

    The dates in Helm's history are by the clock of the machine that Helm runs on. Beside that of another machine, a
    active Helm looks an hour old where these differ by an hour; and `uninstalling` has the date of the last upgrade.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def __call__(self, release: str, namespace: str, revision: int) -> float | None:
        """In seconds; None if no Secret is such a record, as HELM_DRIVER may have it elsewhere. Raises ApiError."""
        labels = f"owner=helm,name={release},version={revision}"
        for record in self._kube.each(_SECRETS, namespace, labels=labels, metadata_only=True):
            meta = record["metadata"]
            times = (meta.get("creationTimestamp"), *(each.get("time") for each in meta.get("managedFields") or ()))
            try:
                written = max(datetime.fromisoformat(time) for time in times if time)
            except (ValueError, TypeError) as error:
                raise ApiError(f"Secret {namespace}/{meta.get('name')} has no readable date: {error}") from error
            return max(0.0, (self._kube.server_time() - written).total_seconds())
        return None

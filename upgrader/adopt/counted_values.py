"""What the values files say of the number of controllers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["counted"]

Values = Mapping[str, Any]


def counted(values: Mapping[str, Values], addresses: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Release → what of its values must change for controllers with these addresses; only what differs.

    One controller has the endpoint that the chart keeps; several register themselves.
    """
    number = len(addresses)
    api, kubernetes = values["kube-apiserver"], values["kubernetes"]
    changes: dict[str, dict[str, Any]] = {"kube-apiserver": {}, "kubernetes": {}}
    if api.get("replicas", 1) != number:
        changes["kube-apiserver"]["replicas"] = number
    fixed = list(addresses) if number == 1 else []
    if list((api.get("endpoints") or {}).get("addresses") or ()) != fixed:
        changes["kube-apiserver"]["endpoints"] = {"addresses": fixed}
    for part in ("controllerManager", "scheduler"):
        if (kubernetes.get(part) or {}).get("replicas", 1) != number:
            changes["kubernetes"][part] = {"replicas": number}
    return {release: found for release, found in changes.items() if found}

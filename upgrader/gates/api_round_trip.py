"""Writes, watches, reads and deletes an object: what every client of the API relies on."""

from __future__ import annotations

import uuid

from upgrader.gates.kubernetes_kinds import CONFIG_MAPS
from upgrader.gates.written_objects import PROBE_LABEL, PROBE_NAMESPACE, round_trip_object
from upgrader.ports import Kube

__all__ = ["round_trip"]

_WATCH_SECONDS = 2


def round_trip(kube: Kube) -> str:
    """Try it with a ConfigMap of its own; returns "", or what failed. Raises ApiUnavailable or ApiError.

    A check removes what an earlier one left behind when it raised.
    """
    _clean_up(kube)
    name, token = f"upgrader-probe-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    kube.create(CONFIG_MAPS, round_trip_object(name, token), PROBE_NAMESPACE)
    seen: list[str] = []
    deleted = False
    for event in kube.watch(CONFIG_MAPS, PROBE_NAMESPACE, name, timeout_seconds=_WATCH_SECONDS):
        seen.append(event["type"])
        if event["type"] == "DELETED":
            break
        if deleted or (event["object"].get("data") or {}).get("token") != token:
            continue
        found = kube.get(CONFIG_MAPS, name, PROBE_NAMESPACE)
        if found is None or found["data"]["token"] != token:
            return f"ConfigMap {name} can't be read after it was written"
        # Only a live watch delivers the deletion: the first event may come from the list before it.
        kube.delete(CONFIG_MAPS, name, PROBE_NAMESPACE)
        deleted = True
    if not deleted:
        kube.delete(CONFIG_MAPS, name, PROBE_NAMESPACE)
        return f"a watch did not show ConfigMap {name} within {_WATCH_SECONDS} s of its creation"
    if seen[-1] != "DELETED":
        return f"a watch did not show the deletion of ConfigMap {name} within {_WATCH_SECONDS} s"
    return ""


def _clean_up(kube: Kube) -> None:
    """Remove what an interrupted check left; the run's lock rules out another run's."""
    for item in kube.list(CONFIG_MAPS, PROBE_NAMESPACE, labels=PROBE_LABEL):
        kube.delete(CONFIG_MAPS, item["metadata"]["name"], PROBE_NAMESPACE)

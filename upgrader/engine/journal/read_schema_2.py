"""Reads lines of schema 2, whose events had other names, and which encoded the kind of a run in its target."""

from __future__ import annotations

from typing import Any

from upgrader.model.run_kind import RunKind

__all__ = ["SCHEMA", "upgraded"]

SCHEMA = 2

_NAMES = {"StepSettled": "StepInspected", "RollbackAsked": "RollbackRequested", "GateLooked": "GateChecked"}
_FIELDS = {
    "StepStarted": {"way_back": "restore_point"},
    "GatePassed": {"looks": "checks"},
    "RunStarted": {"came_from": "current"},
}
_OTHER_KINDS = {kind.value for kind in RunKind} - {RunKind.UPGRADE.value}


def upgraded(name: str, data: Any) -> tuple[str, Any]:
    """The name and the data that the event has in schema 3. What isn't an object is left for the decoder to refuse."""
    if isinstance(data, dict):
        fields = _FIELDS.get(name, {})
        data = {fields.get(key, key): value for key, value in data.items()}
        if name == "RunStarted":
            data |= _kind_and_versions(data)
    return _NAMES.get(name, name), data


def _kind_and_versions(data: dict[str, Any]) -> dict[str, Any]:
    """A target was a version or, for every run that was not an upgrade, the name of its command."""
    target = data.get("target")
    if isinstance(target, str) and target in _OTHER_KINDS:
        return {"kind": target, "target": None, "current": None}
    return {"kind": RunKind.UPGRADE.value, "current": data.get("current") or None}

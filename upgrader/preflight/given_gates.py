"""The feature gates that a planned component is given."""

from __future__ import annotations

from upgrader.model.config_text import read_config
from upgrader.model.manifest import objects_in
from upgrader.steps.release.planned_commands import PlannedCommand

__all__ = ["given_gates"]

_SETS_MANY = ("AllAlpha", "AllBeta")
"""Gates that every component knows, and that stand for others."""
_PROXY = "kube-proxy"
_PROXY_CONFIGURATION = "KubeProxyConfiguration"


def given_gates(command: PlannedCommand) -> dict[str, str]:
    """Each gate that a component is given, and its value as a text.

    kube-proxy reads its configuration instead of the flag if it has both; which file that is, only the pod knows, so
    the release's ConfigMaps are searched.
    """
    configured = command.component == _PROXY and command.value("config")
    gates = _configured(command) if configured else _in_flags(command)
    return {gate: value for gate, value in gates.items() if gate not in _SETS_MANY}


def _in_flags(command: PlannedCommand) -> dict[str, str]:
    found: dict[str, str] = {}
    for given in command.flags or ():
        for entry in (given.value or "").split(",") if given.name == "feature-gates" else ():
            name, equals, value = entry.strip().partition("=")
            instance, colon, own = name.rpartition(":")
            # `other:Gate` is a gate of another API server; `$(NAME)` is a variable, which isn't looked up.
            if equals and "$(" not in entry and (instance == "kube" or not colon):
                found[own.strip()] = value.strip()
    return found


def _configured(command: PlannedCommand) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in objects_in(command.release.after).values():
        data = item.get("data") if item.get("kind") == "ConfigMap" else None
        for text in data.values() if isinstance(data, dict) else ():
            gates = _in_configuration(text) if isinstance(text, str) and _PROXY_CONFIGURATION in text else None
            for gate, value in gates.items() if isinstance(gates, dict) else ():
                found[str(gate)] = str(value).lower()
    return found


def _in_configuration(text: str) -> object:
    try:
        read = read_config(text)
    except ValueError:
        return None  # kube-proxy will say so
    return read.get("featureGates") if read.get("kind") == _PROXY_CONFIGURATION else None

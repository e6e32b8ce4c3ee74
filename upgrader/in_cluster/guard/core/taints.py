"""Which taints of a node pods tolerate, as the scheduler and DaemonSets' controller see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Taint", "taints_of", "tolerated"]


@dataclass(frozen=True)
class Taint:
    """One of a Node's."""

    key: str
    value: str
    effect: str


def taints_of(node: Mapping[str, Any]) -> tuple[Taint, ...]:
    """From the API's Node."""
    found = (node.get("spec") or {}).get("taints") or ()
    return tuple(Taint(str(t.get("key", "")), str(t.get("value") or ""), str(t.get("effect", ""))) for t in found)


def tolerated(taints: Iterable[Taint], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether each of the taints is."""
    given = list(tolerations)
    return all(any(_tolerates(each, taint) for each in given) for taint in taints)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if (toleration.get("effect") or taint.effect) != taint.effect:
        return False
    if (toleration.get("key") or taint.key) != taint.key:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return operator == "Equal" and bool(toleration.get("key")) and (toleration.get("value") or "") == taint.value

"""The names of steps in journals of earlier versions."""

from __future__ import annotations

from typing import Any

from upgrader.model.own_steps import RENAMED

__all__ = ["with_new_names"]


def with_new_names(data: Any) -> Any:
    """An event's data: steps of a run's own were called otherwise. What isn't an object is left for the decoder."""
    if not isinstance(data, dict):
        return data
    new = {"step": _renamed(data["step"])} if "step" in data else {}
    steps = data.get("steps")
    return {**data, **new, **({"steps": [*map(_renamed, steps)]} if isinstance(steps, list) else {})}


def _renamed(step: Any) -> Any:
    return RENAMED.get(step, step) if isinstance(step, str) else step

"""A controller's facts as JSON: a healthy one's, with changes by path (`etcd.server.healthy`).

`{"unknown": why}` is a fact that could not be had; `{"now": seconds}` is a time, relative to that of the facts.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tests.unit.recover.controllers import NOW
from upgrader.onhost.sending.host_facts import HostFacts, Unknown

__all__ = ["host_facts"]

HEALTHY = Path(__file__).parent / "healthy_controller.json"


def host_facts(changes: Mapping[str, Any]) -> HostFacts:
    """The facts of a healthy controller, changed."""
    raw = json.loads(HEALTHY.read_text())
    for path, value in changes.items():
        *parents, name = path.split(".")
        place = raw
        for parent in parents:
            place = place[parent]
        place[name] = value
    built: HostFacts = _build(HostFacts, raw)
    return built


def _build(kind: Any, value: Any) -> Any:
    """A value of this type, from JSON."""
    if isinstance(value, dict) and value.keys() == {"unknown"}:
        return Unknown(value["unknown"])
    if isinstance(value, dict) and value.keys() == {"now"}:
        return NOW + value["now"]
    if get_origin(kind) in (Union, types.UnionType):
        rest = [k for k in get_args(kind) if k not in (Unknown, type(None))]
        return None if value is None else _build(rest[0], value)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _build(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        return tuple(_build(get_args(kind)[0], item) for item in value)
    assert get_origin(kind) in (None, Literal, Mapping), kind
    return value

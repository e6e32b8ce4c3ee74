"""Decodes a record's JSON into its event, checked field by field.

The shapes are those of the event classes themselves, so that a new event needs no change here.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from upgrader.errors import UsageError
from upgrader.model.event import Event
from upgrader.model.version import KubernetesVersion

__all__ = ["EVENTS", "UnknownEvent", "event_from"]

EVENTS: Mapping[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
"""Every type of event, by the name that it has in a journal."""

_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}


@dataclass(frozen=True)
class UnknownEvent:
    """An event of a type that this version has no class for: a newer version of upgrader wrote it."""

    type: str


def event_from(name: str, data: Any) -> Event | UnknownEvent:
    """The event of that type with this data.

    Unknown fields are ignored: newer versions add some, always with a default for journals that don't have them.
    Raises ValueError that names the field, what it should be and what it is.
    """
    kind = EVENTS.get(name)
    return UnknownEvent(name) if kind is None else _object(kind, data, "data")


def _object(kind: type[Any], data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise _wrong(where, "an object", data)
    hints = get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            values[field.name] = _value(hints[field.name], data[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}.{field.name} is missing")
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, where)
    if origin is Literal:
        if value not in arguments:
            raise _wrong(where, f"one of {', '.join(arguments)}", value)
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        return tuple(_value(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if isinstance(hint, type) and issubclass(hint, Enum):
        if value not in [member.value for member in hint]:
            raise _wrong(where, f"one of {', '.join(str(member.value) for member in hint)}", value)
        return hint(value)
    if hint is KubernetesVersion:
        return _version(value, where)
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return _object(hint, value, where)
    # JSON has one type of number; in Python, bool is a subclass of int.
    fits = type(value) in ((int, float) if hint is float else (hint,))
    if not fits:
        raise _wrong(where, _TYPE_NAMES[hint], value)
    return float(value) if hint is float else value


def _version(value: Any, where: str) -> KubernetesVersion:
    try:
        return KubernetesVersion.parse(value if isinstance(value, str) else "")
    except UsageError:
        raise _wrong(where, "a Kubernetes version", value) from None


def _one_of(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    """The first that fits; where none does, the error of the first one (the others are None here)."""
    problems = []
    for hint in hints:
        try:
            return _value(hint, value, where)
        except ValueError as error:
            problems.append(error)
    raise problems[0]


def _wrong(where: str, wanted: str, found: Any) -> ValueError:
    return ValueError(f"{where} should be {wanted}, and is {str(found)[:60]!r}")

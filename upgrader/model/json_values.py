"""Frozen values as the values of JSON, and back."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from dataclasses import MISSING
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion
from upgrader.redaction.printable import mask_secrets

__all__ = ["from_json", "to_json"]

_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}


def to_json(value: Any, *, mask: bool = True) -> Any:
    """A dataclass, or a part of one, as JSON values; what is secret in its texts is masked.

    Without `mask` for names and digests alone, which a program compares.
    """
    if isinstance(value, KubernetesVersion):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name), mask=mask) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_json(item, mask=mask) for key, item in value.items()}
    if isinstance(value, tuple):
        return [to_json(item, mask=mask) for item in value]
    return mask_secrets(value) if mask and isinstance(value, str) else value


def from_json(kind: type[Any], data: Any, where: str) -> Any:
    """The dataclass `kind` from JSON values, checked field by field; `where` names `data` in errors.

    Unknown fields are ignored, and missing ones have their default. Raises ValueError that names the field, what it
    should be and what it is.
    """
    if not isinstance(data, dict):
        raise _wrong(where, "an object", data)
    hints = _hints(kind)  # type: ignore[arg-type]  # mypy takes no class for hashable here
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            values[field.name] = _value(hints[field.name], data[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}.{field.name} is missing")
    return kind(**values)


@cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    """They are evaluated from text, which would take most of the time that a long journal is read for."""
    return get_type_hints(kind)


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
        return from_json(hint, value, where)
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

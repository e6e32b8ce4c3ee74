"""Frozen values as the values of JSON, and back."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from enum import Enum
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from upgrader.errors import UsageError
from upgrader.model.redaction.printable import mask_secrets
from upgrader.model.version import KubernetesVersion

__all__ = ["NOT_IN_JSON", "from_json", "masked_copy", "to_json"]

NOT_IN_JSON: Mapping[str, bool] = {"json": False}
"""The metadata of a field that only people need."""

_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}


def to_json(value: Any, *, mask: bool = True) -> Any:
    """A dataclass, or a part of one, as JSON values; secrets in its texts are masked.

    Use `mask=False` only for names and digests, which programs compare.
    """
    if isinstance(value, KubernetesVersion):
        return str(value)
    if dataclasses.is_dataclass(value):
        fields = (each.name for each in dataclasses.fields(value) if each.metadata.get("json", True))
        return {name: to_json(getattr(value, name), mask=mask) for name in fields}
    if isinstance(value, Mapping):
        return {key: to_json(item, mask=mask) for key, item in value.items()}
    if isinstance(value, tuple):
        return [to_json(item, mask=mask) for item in value]
    return mask_secrets(value) if mask and isinstance(value, str) else value


def masked_copy(value: Any) -> Any:
    """The same dataclass, or part of one, with secrets in its texts masked as they are known now."""
    if isinstance(value, KubernetesVersion):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value) if each.init]
        return dataclasses.replace(value, **{name: masked_copy(getattr(value, name)) for name in names})
    if isinstance(value, Mapping):
        return {key: masked_copy(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(masked_copy, value))
    return mask_secrets(value) if isinstance(value, str) else value


def from_json(kind: type[Any], data: Any, where: str) -> Any:
    """The dataclass `kind` from JSON values, checked field by field; `where` names `data` in errors.

    Unknown fields are ignored, and missing ones get their default. Raises ValueError that names the field, the expected
    type and the value.
    """
    try:
        return _reader(kind)(data)  # type: ignore[arg-type]  # mypy takes no class for hashable here
    except _Misfit as misfit:
        raise ValueError(f"{where}{misfit.path}{misfit.text}") from None


_Reader = Callable[[Any], Any]
"""Makes a value of one type from a JSON value. Raises _Misfit."""


class _Misfit(ValueError):
    """A value of the wrong type. Its path is built only when this is raised, from the inside out."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.text, self.path = text, path

    def within(self, part: str) -> _Misfit:
        return _Misfit(self.text, part + self.path)


@cache
def _reader(hint: Any) -> _Reader:
    """Made once for each type: inspecting type hints is slow, and a long journal has a hundred thousand values."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _one_of(tuple(map(_reader, arguments)), nullable=type(None) in arguments)
    if origin is Literal:
        return _member(dict.fromkeys(arguments), f"one of {', '.join(arguments)}")
    if origin is tuple:
        return _items(_reader(arguments[0]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        values = {member.value: member for member in hint}
        return _member(values, f"one of {', '.join(map(str, values))}", convert=values.__getitem__)
    if hint is KubernetesVersion:
        return _version
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return _object(hint)
    return _number if hint is float else _scalar(hint)


def _object(kind: type[Any]) -> _Reader:
    hints = get_type_hints(kind)
    fields = [(field.name, _reader(hints[field.name])) for field in dataclasses.fields(kind)]
    required = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    }

    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _wrong("an object", data)
        values = {}
        for name, reader in fields:
            if name in data:
                try:
                    values[name] = reader(data[name])
                except _Misfit as misfit:
                    raise misfit.within(f".{name}") from None
            elif name in required:
                raise _Misfit(" is missing", f".{name}")
        return kind(**values)

    return read


def _items(reader: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise _wrong("a list", value)
        items = []
        for index, item in enumerate(value):
            try:
                items.append(reader(item))
            except _Misfit as misfit:
                raise misfit.within(f"[{index}]") from None
        return tuple(items)

    return read


def _one_of(readers: tuple[_Reader, ...], *, nullable: bool) -> _Reader:
    """The first type that fits; if none does, the error of the first one (the others are None here)."""

    def read(value: Any) -> Any:
        if value is None and nullable:
            return None
        problems = []
        for reader in readers:
            try:
                return reader(value)
            except _Misfit as misfit:
                problems.append(misfit)
        raise problems[0]

    return read


def _member(values: Mapping[Any, Any], wanted: str, convert: _Reader = lambda value: value) -> _Reader:
    def read(value: Any) -> Any:
        # A list or an object is no key, and can't be looked up.
        if not isinstance(value, (str, int, float, type(None))) or value not in values:
            raise _wrong(wanted, value)
        return convert(value)

    return read


def _scalar(kind: type[Any]) -> _Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:  # in Python, bool is a subclass of int
            raise _wrong(_TYPE_NAMES[kind], value)
        return value

    return read


def _number(value: Any) -> float:
    if type(value) not in (int, float):  # JSON has one type of number
        raise _wrong(_TYPE_NAMES[float], value)
    return float(value)


def _version(value: Any) -> KubernetesVersion:
    try:
        return KubernetesVersion.parse(value if isinstance(value, str) else "")
    except UsageError:
        raise _wrong("a Kubernetes version", value) from None


def _wrong(wanted: str, found: Any) -> _Misfit:
    return _Misfit(f" should be {wanted}, but is {str(found)[:60]!r}")

"""The JSON Schema of a journal's lines; `make docs` writes it to `docs/reference/journal.schema.json`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import types
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from upgrader.engine.journal.decode import EVENTS
from upgrader.engine.journal.record import SCHEMA
from upgrader.model.version import KubernetesVersion

__all__ = ["render"]

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def render() -> str:
    """The schema (JSON Schema 2020-12) as text."""
    return json.dumps(_schema(), indent=2, ensure_ascii=False) + "\n"


def _schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of an upgrader journal",
        "description": "Made from upgrader/model/event.py. Within one schema number, types and fields may be added.",
        "type": "object",
        "properties": {
            "schema": {"const": SCHEMA},
            "seq": {"type": "integer", "minimum": 0, "description": "Counts the lines from 0, without gaps."},
            "time": {"type": "string", "format": "date-time", "description": "When it was written, in UTC."},
            "type": {"enum": list(EVENTS)},
            "data": {"type": "object"},
            "checksum": {
                "type": "string",
                "pattern": "^[0-9a-f]{64}$",
                "description": "SHA-256 of the checksum of the line before (nothing for the first) and of this line's "
                'bytes with ,"checksum":"…" cut out.',
            },
        },
        "required": ["schema", "seq", "time", "type", "data", "checksum"],
        "additionalProperties": False,
        "oneOf": [{"properties": {"type": {"const": name}, "data": _of(kind)}} for name, kind in EVENTS.items()],
    }


def _of(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(argument) for argument in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": _of(arguments[0])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if hint is KubernetesVersion:
        return {"type": "string", "pattern": r"^v\d+\.\d+\.\d+$"}
    if not dataclasses.is_dataclass(hint):
        return {"type": _TYPES[hint]}
    hints = get_type_hints(hint)
    names = [field.name for field in dataclasses.fields(hint)]
    return {
        "description": inspect.cleandoc(hint.__doc__ or ""),
        "type": "object",
        "properties": {name: _of(hints[name]) for name in names},
        "required": names,
    }


if __name__ == "__main__":
    sys.stdout.write(render())

"""The JSON Schema of frozen values as programs read them: a journal's events, a plan."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from upgrader.model.version import KubernetesVersion

__all__ = ["schema_of"]

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(hint: Any) -> dict[str, Any]:
    """The schema of a type; a dataclass is an object with all of its fields, described by its docstring."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(argument) for argument in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if hint is KubernetesVersion:
        return {"type": "string", "pattern": r"^v\d+\.\d+\.\d+$"}
    if hint is object:
        return {}
    if not dataclasses.is_dataclass(hint):
        return {"type": _TYPES[hint]}
    hints = get_type_hints(hint)
    names = [field.name for field in dataclasses.fields(hint) if field.metadata.get("json", True)]
    return {
        "description": inspect.cleandoc(hint.__doc__ or ""),
        "type": "object",
        "properties": {name: schema_of(hints[name]) for name in names},
        "required": names,
    }

"""The reference manual of `upgrader.yaml`; `make docs` writes it to `docs/reference/upgrader-yaml.md`."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from upgrader.config.duration import parse_duration
from upgrader.config.upgrader_yaml import UpgraderYaml

__all__ = ["render"]

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_HEAD = """\
# upgrader.yaml

`make docs` generates this page from `upgrader/config/upgrader_yaml.py`.

Durations are written like `90s`, `5m` or `1h30m`. An unknown key is an error.
The environment variables `UPGRADER_KUBECONFIG` and `UPGRADER_CONTEXT` override `cluster.kubeconfig` and
`cluster.context`; the options `--kubeconfig` and `--context` override both. If none of them is set, see
[Which kubeconfig](../ssh.md#which-kubeconfig).
"""


def render() -> str:
    """The manual as Markdown."""
    return "\n".join(
        [_HEAD, *(text for path, model in _sections(UpgraderYaml, "", []) for text in _section(model, path))]
    )


_Sections = list[tuple[str, type[BaseModel]]]


def _sections(model: type[BaseModel], path: str, found: _Sections) -> _Sections:
    """Each model once, with the path where it is used first, in reading order."""
    if all(model is not known for _, known in found):
        found.append((path, model))
        for name, field in model.model_fields.items():
            models, many = _models(field.annotation)
            for inner in models:
                _sections(inner, ".".join(filter(None, [path, field.alias or name])) + ("[]" if many else ""), found)
    return found


def _section(model: type[BaseModel], path: str) -> Iterator[str]:
    name = _CAPITAL.sub(" ", model.__name__.removesuffix("Section")).lower()
    title = f"`{path}`: {name}" if path.endswith("[]") else f"`{path}`" if path else "The file"
    yield f"## {title}\n\n{(model.__doc__ or '').strip()}\n\n| key | type | default | |\n|---|---|---|---|"
    for name, field in model.model_fields.items():
        key = field.alias or name
        models, many = _models(field.annotation)
        description = field.description or (models[0].__doc__ or "").split("\n")[0]
        yield f"| `{key}` | {_type(field, models, many)} | {_default(field, models)} | {description} |"
    yield ""


def _models(annotation: Any) -> tuple[list[type[BaseModel]], bool]:
    """The models in a type, in their order, and whether they are a list's items."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation], False
    found: list[type[BaseModel]] = []
    many = get_origin(annotation) is list
    for part in get_args(annotation):
        inner, inner_many = _models(part)
        found += inner
        many = many or inner_many
    return found, many and bool(found)


def _type(field: FieldInfo, models: list[type[BaseModel]], many: bool) -> str:
    if models:
        return "list" if many else "mapping"
    if any("parse_duration" in repr(part) for part in (*field.metadata, field.annotation)):
        return "duration"
    plain = [part for part in _union(field.annotation) if part is not types.NoneType]
    if get_origin(plain[0]) in (list, tuple):
        plain, listed = list(get_args(plain[0])), "list of "
    else:
        listed = ""
    if get_origin(plain[0]) is typing.Literal:
        return listed + ", ".join(f"`{choice}`" for choice in get_args(plain[0]))
    return listed + {dict: "mapping", int: "whole number", float: "number", bool: "true or false"}.get(
        get_origin(plain[0]) or plain[0], "text"
    )


def _union(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (types.UnionType, typing.Union) else (annotation,)


def _default(field: FieldInfo, models: list[type[BaseModel]]) -> str:
    if field.is_required():
        return f"*required*, such as `{field.examples[0]}`" if field.examples else "*required*"
    if models or field.default in (None, ""):
        return ""
    if field.examples and parse_duration(field.examples[0]) == field.default:
        return f"`{field.examples[0]}`"
    return f"`{field.default:g}`" if isinstance(field.default, float) else f"`{_yaml(field.default)}`"


def _yaml(value: Any) -> str:
    """As it is written in the file."""
    if not isinstance(value, bool | list | dict):
        return str(value)
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()


if __name__ == "__main__":
    print(render(), end="")

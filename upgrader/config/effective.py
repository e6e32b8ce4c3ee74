"""Every effective setting, and its origin: a line of `upgrader.yaml`, the environment, or a default."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from upgrader.config.duration import parse_duration
from upgrader.config.load import load_settings
from upgrader.config.upgrader_yaml import ReleaseSection, UpgraderYaml
from upgrader.config.yaml_document import Document, KeyPath, read_mapping, shown
from upgrader.model.settings import BUILT_IN_CHARTS

__all__ = ["EffectiveSetting", "effective_settings"]

_DEFAULT = "default"
_OVERRIDES: Mapping[KeyPath, str] = {
    ("cluster", "kubeconfig"): "UPGRADER_KUBECONFIG",
    ("cluster", "context"): "UPGRADER_CONTEXT",
}


@dataclass(frozen=True)
class EffectiveSetting:
    """`key` as `gates.deadline` or `pipeline[0].release`; the value as it is written in the file, or would be."""

    key: str
    value: Any
    source: str
    """`upgrader.yaml:LINE`, the name of a variable, or `default`."""


def effective_settings(folder: Path, environ: Mapping[str, str]) -> tuple[EffectiveSetting, ...]:
    """In the order of the reference. Raises ConfigError, with all that is wrong with the folder."""
    settings = load_settings(folder, environ)
    document = read_mapping(settings.folder / "upgrader.yaml")
    file = UpgraderYaml.model_validate(document.data)
    return tuple(
        _overridden(each, where, environ, settings.kubeconfig)
        for where, each in _section(file, (), document)
        if not _left_out(where, each)
    )


def _left_out(where: KeyPath, each: EffectiveSetting) -> bool:
    """Origin of a step's unset value: the section for all steps, or none."""
    return where[0] == "pipeline" and each.source == _DEFAULT and where[-1] not in ("release", "playbook")


def _overridden(
    known: EffectiveSetting, where: KeyPath, environ: Mapping[str, str], kubeconfig: Path
) -> EffectiveSetting:
    variable = _OVERRIDES.get(where)
    if variable and environ.get(variable):
        return EffectiveSetting(known.key, environ[variable], f"{variable}, or the option")
    listed = environ.get("KUBECONFIG", "")
    if where == ("cluster", "kubeconfig") and known.source == _DEFAULT and listed and not kubeconfig.is_file():
        return EffectiveSetting(known.key, listed.replace(os.pathsep, ", "), "KUBECONFIG")
    return known


def _section(model: BaseModel, where: KeyPath, document: Document) -> Iterator[tuple[KeyPath, EffectiveSetting]]:
    for name, field in type(model).model_fields.items():
        here = (*where, field.alias or name)
        value = getattr(model, name)
        if here == ("pipeline",) and value is None:
            value = [ReleaseSection(release=release) for release in BUILT_IN_CHARTS]
        yield from _value(value, here, document, field)


def _value(
    value: Any, where: KeyPath, document: Document, field: FieldInfo
) -> Iterator[tuple[KeyPath, EffectiveSetting]]:
    if isinstance(value, BaseModel):
        yield from _section(value, where, document)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _value(item, (*where, index), document, field)
    elif isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _value(item, (*where, key), document, field)
    else:
        line = document.lines.get(where)
        source = _DEFAULT if line is None else f"{shown(document.path)}:{line}"
        plain = _default(value, field) if line is None else _written(document, where)
        yield where, EffectiveSetting(_key(where), plain, source)


def _written(document: Document, where: KeyPath) -> Any:
    found: Any = document.data
    for part in where:
        found = found[part]
    return found


def _default(value: Any, field: FieldInfo) -> Any:
    if isinstance(value, float) and _is_duration(field):
        return f"{value:g}s"
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else str(value)


def _is_duration(field: FieldInfo) -> bool:
    """Also of `Duration | None`, whose validator is that of one alternative."""
    inner = (each for alternative in get_args(field.annotation) for each in get_args(alternative))
    return any(isinstance(each, BeforeValidator) and each.func is parse_duration for each in (*field.metadata, *inner))


def _key(where: KeyPath) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)
    return text.removeprefix(".")

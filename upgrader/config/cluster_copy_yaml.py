"""The file of a copy of a cluster, as `upgrader rehearse copy` writes it, and people read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from upgrader.config.plain_file import MOST_BYTES
from upgrader.config.yaml_document import read_mapping
from upgrader.model.cluster_copy.copy import ClusterCopy, DamagedCopy, described
from upgrader.model.limited_yaml import DEEPEST, DUMPER, MOST_VALUES, check_limits, weight

__all__ = ["copy_text", "fitting", "read_copy"]

_HEAD = """\
# A copy of a cluster for a lab like it (`upgrader lab up --like FILE`), made by `upgrader rehearse copy`.
# It has names, labels, selectors, counts, schemas and policies. Read it before you use or share it.
# `notCopied` names what was left out.
"""


_AROUND = 2
"""Levels around an object: the file's mapping, and its list of objects."""
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def copy_text(copied: ClusterCopy) -> str:
    """The file's text. Raises yaml.YAMLError for a copy that is too large to be read again."""
    text = _HEAD + _dumped(copied.plain())
    if (size := len(text.encode())) > MOST_BYTES:
        raise yaml.YAMLError(f"it has {size:,} bytes; at most {MOST_BYTES:,} are accepted")
    check_limits(text)
    return text


def fitting(copied: ClusterCopy) -> ClusterCopy:
    """The copy without the schemas with which it could not be read again: those that are nested too deeply, and the
    largest ones until the rest fits. Each is named; of its objects, any content is accepted then.
    """
    objects = list(copied.objects)
    schemas = [index for index, item in enumerate(objects) if item["kind"] == "CustomResourceDefinition"]
    left_out = list[str]()

    def leave_out(index: int, why: str) -> None:
        left_out.append(f"{described(objects[index])}: its schemas are {why} for a file")
        objects[index] = _without_schemas(objects[index])

    for index in schemas:
        if _depth(objects[index]) + _AROUND > DEEPEST:
            leave_out(index, "nested too deeply")
    values, size = _measured(replace(copied, objects=tuple(objects)).plain())
    size += len(_HEAD)
    sizes = {index: _measured([objects[index]]) for index in schemas} if _too_large(values, size) else {}
    for index, before in sorted(sizes.items(), key=lambda each: each[1][1], reverse=True):
        if not _too_large(values, size):
            break
        leave_out(index, "too large")
        after, line = _measured([objects[index]]), _measured([left_out[-1]])
        values, size = (
            total - old + new + more for total, old, new, more in zip((values, size), before, after, line, strict=True)
        )
    return replace(copied, objects=tuple(objects), not_copied=(*copied.not_copied, *left_out))


def _too_large(values: int, size: int) -> bool:
    return values > MOST_VALUES or size > MOST_BYTES


def _measured(part: Any) -> tuple[int, int]:
    """How many values it has, as they are counted when it is read, and how many bytes."""
    return sum(map(weight, _scalars(part))), len(_dumped(part).encode())


def _scalars(part: Any) -> Iterator[str]:
    """Its keys and values as texts; "" for each mapping and list."""
    if isinstance(part, Mapping | list | tuple):
        yield ""
        for item in part.items() if isinstance(part, Mapping) else ((each,) for each in part):
            for each in item:
                yield from _scalars(each)
    else:
        yield str(part)


def _depth(part: Any) -> int:
    """How many mappings and lists are in each other."""
    if not isinstance(part, Mapping | list | tuple):
        return 0
    return 1 + max(map(_depth, part.values() if isinstance(part, Mapping) else part), default=0)


def _without_schemas(item: Mapping[str, Any]) -> dict[str, Any]:
    versions = [
        {
            **{key: part for key, part in version.items() if key != "selectableFields"},
            "schema": {"openAPIV3Schema": _ANY},
        }
        for version in item["spec"]["versions"]
    ]
    return {**item, "spec": {**item["spec"], "versions": versions}}


def _dumped(part: Any) -> str:
    return str(yaml.dump(part, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True))


def read_copy(path: Path) -> ClusterCopy:
    """Read it. Raises ConfigError, with the line, for a file that is none, or that has anything that no copy has: it
    may come from others, and a lab's nodes run as root of this machine.
    """
    document = read_mapping(path)
    try:
        return ClusterCopy.parse(document.data)
    except DamagedCopy as error:
        named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.where).lstrip(".")
        raise document.error(
            error.where,
            f"{named}: {error.why}",
            remedy="Create the file again, with this version: upgrader rehearse copy --out FILE",
        ) from error


class _Dumper(DUMPER):  # type: ignore[misc]  # one of two, chosen when it is imported
    """Without anchors: equal parts are written out, for people."""

    def ignore_aliases(self, data: object) -> bool:  # PyYAML's
        return True

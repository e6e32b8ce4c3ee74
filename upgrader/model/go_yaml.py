"""YAML as Helm and the kubelet read it: their library follows another version of YAML's rules than PyYAML does.

`n` is false, `1e1` and `0o644` are numbers, and `1:30`, a time and `=` are strings. They read only the first document
of a file, but all of a chart's manifests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from upgrader.model.limited_yaml import LOADER, check_limits

__all__ = ["GoDumper", "GoLoader", "documents", "first_document"]

_TAG = "tag:yaml.org,2002:"
_OTHERWISE = frozenset(f"{_TAG}{kind}" for kind in ("bool", "int", "float", "timestamp", "value"))
_RULES = (
    ("bool", r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("int", r"[-+]?(?:0b[01][01_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0[oO]?[0-7_]*|[1-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
)


def _resolvers(found: dict[str, list[tuple[str, re.Pattern[str]]]]) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """By the first letter of a text; these are tried before the others."""
    kept = {first: list(rules) for first, rules in found.items()}
    for kind, pattern, letters in reversed(_RULES):
        for letter in letters:
            kept.setdefault(letter, []).insert(0, (f"{_TAG}{kind}", re.compile(rf"(?:{pattern})\Z")))
    return kept


class GoLoader(LOADER):  # type: ignore[misc]  # one of two, chosen when it is imported
    """Reads a text as they do."""

    yaml_implicit_resolvers = _resolvers(
        {
            first: [rule for rule in rules if rule[0] not in _OTHERWISE]
            for first, rules in LOADER.yaml_implicit_resolvers.items()
        }
    )
    bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}  # noqa: RUF012  # PyYAML's name for it


class GoDumper(yaml.SafeDumper):
    """Quotes a text that they, or PyYAML, would read as another type."""

    yaml_implicit_resolvers = _resolvers(yaml.SafeDumper.yaml_implicit_resolvers)


def documents(content: str | bytes) -> Iterator[Any]:
    """Each document; None for an empty one. Raises yaml.YAMLError or ValueError."""
    check_limits(content)
    yield from yaml.load_all(content, Loader=GoLoader)  # a safe loader


def first_document(content: str | bytes) -> Any:
    """The first document; None if there is none. Raises yaml.YAMLError or ValueError."""
    return next(documents(content), None)

"""The feature gates of Kubernetes' sources, and their stages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from scripts.go_sources import without_comments

__all__ = ["Listed", "client_gates_in", "gates_in"]

_NAME = re.compile(r'^\t(\w+)\s+Feature = "(\w+)"', re.MULTILINE)
_SPECS = re.compile(r"^\t(\w+):\s+\{(?:\n(.*?)^\t\}|([^\n]*)\}),$", re.MULTILINE | re.DOTALL)
_SPEC = re.compile(r'(?:MustParse\("([\d.]+)"\)[^{}]*)?Default:\s*(\w+)[^{}]*PreRelease:\s*(?:\w+\.)?(\w+)([^{}\n]*)')

Listed = Sequence[dict[str, Any]]
"""Gates as Kubernetes' own `versioned_feature_list.yaml` has them."""


def gates_in(listed: Listed, minor: int) -> dict[str, str]:
    """Each gate's stage at a minor, and what it is locked to: `Beta`, `GA true`.

    An entry without a version has always been so.
    """
    found = {}
    for gate in listed:
        specs = [spec for spec in gate["versionedSpecs"] if _number(spec["version"]) <= (1, minor)]
        newest = max(specs or gate["versionedSpecs"][:1], key=lambda spec: _number(spec["version"]))
        locked = f" {newest['default']}".lower() if newest["lockToDefault"] else ""
        found[gate["name"]] = newest["preRelease"] + locked
    return found


def client_gates_in(text: str) -> Listed:
    """The gates of client-go's `known_features.go`, which the list lacks. Raises ValueError if one can't be read."""
    text = without_comments(text)
    names = dict(_NAME.findall(text))
    found = []
    for constant, several, single in _SPECS.findall(text):
        specs = [
            {"version": version, "default": default == "true", "preRelease": stage, "lockToDefault": "true" in more}
            for version, default, stage, more in _SPEC.findall(several or single)
        ]
        found.append({"name": names.pop(constant), "versionedSpecs": specs})
    if names:
        raise ValueError(f"client-go's gates {', '.join(names)} can't be read")
    return found


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part)

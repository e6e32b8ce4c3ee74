"""In which minors Kubernetes' components know a flag or a feature gate, from the tables beside this file.

`scripts/flag_lifecycle.py` makes them (`make flags`). They begin with v1.32: names that no minor since then had aren't
in them, and they don't cover other minors. Only deprecations that a component itself warns of are included, not those
that only a flag's description mentions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from upgrader.model.api_lifecycle import Minor, parse_minor
from upgrader.model.version import KubernetesVersion

__all__ = [
    "FlagLifecycle",
    "GateLifecycle",
    "GateStage",
    "fate",
    "judged_by",
    "known_flags",
    "known_gates",
    "known_versions",
]


@dataclass(frozen=True)
class FlagLifecycle:
    """One flag of one component; None for a minor that isn't known."""

    component: str
    name: str
    """Without dashes before it."""
    introduced: Minor | None = None
    deprecated: Minor | None = None
    removed: Minor | None = None
    message: str = ""
    """The component's deprecation message."""

    def known_by(self, version: KubernetesVersion) -> bool:
        """Whether a component of that version has it."""
        return _within(self.introduced, version, self.removed)

    def deprecated_by(self, version: KubernetesVersion) -> bool:
        """Whether a component of that version warns of it."""
        return self.known_by(version) and self.deprecated is not None and self.deprecated <= _minor_of(version)


@dataclass(frozen=True)
class GateStage:
    """How a feature gate is from one minor on."""

    since: Minor
    name: str
    """`Alpha`, `Beta`, `GA` or `Deprecated`."""
    locked: bool | None = None
    """The only value that it may be set to; None while it may have both."""


@dataclass(frozen=True)
class GateLifecycle:
    """One feature gate, the same for all components."""

    name: str
    stages: tuple[GateStage, ...]
    """Oldest first."""
    introduced: Minor | None = None
    removed: Minor | None = None

    def known_by(self, version: KubernetesVersion) -> bool:
        """Whether components of that version know it."""
        return _within(self.introduced, version, self.removed)

    def stage_at(self, version: KubernetesVersion) -> GateStage | None:
        """Its state in components of that version; None if they don't have it."""
        begun = [stage for stage in self.stages if stage.since <= _minor_of(version)]
        return begun[-1] if begun and self.known_by(version) else None


@cache
def known_flags() -> Mapping[tuple[str, str], FlagLifecycle]:
    """Every flag in the table, by component and name."""
    rows = map(_flag, _tables()["flags"])
    return {(row.component, row.name): row for row in rows}


@cache
def known_gates() -> Mapping[str, GateLifecycle]:
    """Every feature gate in the table, by name."""
    rows = map(_gate, _tables()["gates"])
    return {row.name: row for row in rows}


@cache
def known_versions() -> Mapping[Minor, KubernetesVersion]:
    """What the tables were made of, one version of each minor, oldest first; of other minors they say nothing."""
    versions = map(KubernetesVersion.parse, _tables()["versions"])
    return {_minor_of(version): version for version in versions}


def judged_by(version: KubernetesVersion) -> KubernetesVersion | None:
    """The version of the same minor that the tables were made of; None where there is none."""
    return known_versions().get(_minor_of(version))


def fate(known: FlagLifecycle | GateLifecycle | None, version: KubernetesVersion) -> str:
    """Why a component of that version doesn't know it, for a sentence."""
    if known is None:
        return f"no version from {_text(min(known_versions()))} to {_text(max(known_versions()))} has it"
    if known.removed and known.removed <= _minor_of(version):
        return f"removed in {_text(known.removed)}"
    return f"introduced in {_text(known.introduced)}"


def _within(introduced: Minor | None, version: KubernetesVersion, removed: Minor | None) -> bool:
    minor = _minor_of(version)
    return (introduced is None or introduced <= minor) and (removed is None or minor < removed)


def _minor_of(version: KubernetesVersion) -> Minor:
    return version.major, version.minor


def _flag(row: Mapping[str, str]) -> FlagLifecycle:
    introduced, deprecated, removed = (parse_minor(row.get(key, "")) for key in ("introduced", "deprecated", "removed"))
    return FlagLifecycle(row["component"], row["flag"], introduced, deprecated, removed, row.get("message", ""))


def _gate(row: Mapping[str, Any]) -> GateLifecycle:
    stages = tuple(_stage(minor, text) for minor, text in row["stages"].items())
    return GateLifecycle(
        row["gate"], stages, parse_minor(row.get("introduced", "")), parse_minor(row.get("removed", ""))
    )


def _stage(since: str, text: str) -> GateStage:
    """From `Beta`, or `GA true` for one that is locked."""
    name, _, locked = text.partition(" ")
    return GateStage(parse_minor(since) or (0, 0), name, locked == "true" if locked else None)


def _text(minor: Minor | None) -> str:
    return "v" + ".".join(map(str, minor or ()))


@cache
def _tables() -> Mapping[str, Any]:
    tables: Mapping[str, Any] = json.loads((files(__package__) / "flag_lifecycle.json").read_text())
    return tables

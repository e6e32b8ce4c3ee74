"""What upstream requires before etcd's next minor, from the table beside this file; each row has its source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from upgrader.model.etcd_version import EtcdVersion
from upgrader.model.finding import Severity

__all__ = ["Precondition", "RemovedFlag", "preconditions_of", "removed_on_the_way", "unknown_to"]


@dataclass(frozen=True)
class Precondition:
    """Members of the minor before `to` must have at least this patch."""

    least: EtcdVersion
    severity: Severity
    why: str
    source: str


@dataclass(frozen=True)
class RemovedFlag:
    """A flag that prevents the new minor from starting. `successor`: without dashes; "" if there is none."""

    name: str
    minor: str
    successor: str
    source: str

    def __str__(self) -> str:
        return f"--{self.name}" + (f" (now --{self.successor})" if self.successor else " (without a successor)")


def preconditions_of(runs: EtcdVersion, planned: EtcdVersion) -> Iterator[Precondition]:
    """The requirements for an upgrade to the next minor that a member of this version doesn't meet yet."""
    for row in _table()["preconditions"]:
        least = EtcdVersion.parse(row["least"])
        if planned >= _minor(row["to"]) and planned.minors_after(runs) == 1 and runs < least:
            yield Precondition(least, row["severity"], row["why"], row["source"])


def removed_on_the_way(flags: Mapping[str, str], runs: EtcdVersion, planned: EtcdVersion) -> Iterator[RemovedFlag]:
    """The flags of a member that a minor up to the planned one removed."""
    for row in _table()["removed"]:
        if runs < _minor(row["in"]) <= planned:
            for name, successor in row["flags"].items():
                if name in flags:
                    yield RemovedFlag(name, row["in"], successor, row["source"])


def unknown_to(version: EtcdVersion, flags: Iterable[str]) -> tuple[str, ...]:
    """The flags of a manifest that prevent an older etcd from starting: they were added a minor before the flags that
    they replace were removed.
    """
    named = set(flags)
    return tuple(
        sorted(
            successor
            for row in _table()["removed"]
            for successor in {text.partition("=")[0] for text in row["flags"].values()} & named
            if version.minors_after(_minor(row["in"])) < -1
        )
    )


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = json.loads((files("upgrader.model") / "etcd_upgrades.json").read_text())
    return table


def _minor(text: str) -> EtcdVersion:
    return EtcdVersion.parse(f"{text}.0")

"""Which specs are run, and which are left out, each by its name and with a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

__all__ = [
    "Chosen",
    "Spec",
    "choose",
    "conformance_specs",
    "focus_of",
    "left_out",
    "remember_images",
    "upgrade_tests_to_run",
]

_NOT_DURING = ("[Serial]", "[Disruptive]")
_MINIMUM = re.compile(r"\[MinimumKubeletVersion:([\d.]+)\]")
_FILE = Path(__file__).with_name("left_out.json")


@dataclass(frozen=True)
class Spec:
    """A spec of upstream's conformance suite, and since which version it belongs to it (`v1.37`)."""

    name: str
    since: str


@dataclass(frozen=True)
class Chosen:
    """The names to run; those that are left out, with the reason; and how many weren't asked for."""

    run: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    not_asked_for: int = 0


def conformance_specs(text: str) -> tuple[Spec, ...]:
    """Those that `e2e.test --list-conformance-tests` printed, as YAML."""
    return tuple(Spec(str(item["codename"]), _first_minor(str(item["release"]))) for item in yaml.safe_load(text))


def left_out() -> Mapping[str, Mapping[str, str]]:
    """What the lab can't run: `images` (spec → the image that it needs), `specs` and `upgrade_tests` (→ the reason).

    `remarks` (spec → the cause) is what was found out about failures; they count as failures all the same.
    """
    known: dict[str, dict[str, str]] = json.loads(_FILE.read_text())
    return known


def remember_images(found: Mapping[str, str], file: Path = _FILE) -> None:
    """Write what a run has found to the file of `left_out`: spec → image."""
    known = json.loads(file.read_text())
    known["images"] = dict(sorted({**known["images"], **found}.items()))
    file.write_text(json.dumps(known, indent=1) + "\n")


def upgrade_tests_to_run(names: Sequence[str], reasons: Mapping[str, str], focus: str = "") -> Chosen:
    """Upstream's upgrade tests, without those for which there is a reason."""
    asked = [name for name in names if re.search(focus, name)]
    left = {name: why for name in asked for test, why in reasons.items() if f" {test} " in name}
    return Chosen(tuple(name for name in asked if name not in left), left, len(names) - len(asked))


def choose(
    specs: Sequence[Spec],
    needs: Mapping[str, str],
    *,
    kubelet: str,
    reasons: Mapping[str, str] = MappingProxyType({}),
    focus: str = "",
    during: bool = False,
    oldest: str = "",
) -> Chosen:
    """What to run of the specs whose name has a match of `focus`, on nodes whose oldest kubelet is that one.

    Left out are those in `needs` (spec → the image that the lab lacks) and in `reasons` (spec → what else it lacks).
    With `during`, while the control plane is changed from a version `oldest` on: without specs that must have the
    cluster for themselves, or disturb it, and without those of a younger minor than that.
    """
    asked = [spec for spec in specs if re.search(focus, spec.name)]
    left: dict[str, str] = {}
    for spec in asked:
        mark = next((mark for mark in _NOT_DURING if mark in spec.name), "")
        if spec.name in needs:
            left[spec.name] = f"the lab doesn't have the image {needs[spec.name]}"
        elif spec.name in reasons:
            left[spec.name] = reasons[spec.name]
        elif (minimum := _MINIMUM.search(spec.name)) and _number(minimum[1]) > _number(kubelet):
            left[spec.name] = f"kubelets of v{minimum[1]} are needed, and `upgrader run` has left these at {kubelet}"
        elif during and mark:
            left[spec.name] = f"{mark} specs can't run while something else changes the cluster"
        elif during and oldest and _number(spec.since) > _number(oldest):
            left[spec.name] = f"part of conformance only since {spec.since}, and the run begins at {oldest}"
    run = tuple(spec.name for spec in asked if spec.name not in left)
    return Chosen(run, left, len(specs) - len(asked))


def focus_of(names: Sequence[str]) -> str:
    """A regular expression, for Go, that these specs match and no other."""
    return "(?:" + "|".join(re.escape(name) for name in names) + ")$"


def _first_minor(release: str) -> str:
    """`v1.9` of `v1.9, v1.18`: since when it is there, however often it changed."""
    return min((part.strip() for part in release.split(",")), key=_number)


def _number(version: str) -> tuple[Any, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])

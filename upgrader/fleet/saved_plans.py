"""Writes a fleet's plan to a file, and reads one: what `upgrader fleet run --plan` begins a campaign with, or refuses.

The file's digest finds what was damaged or edited by mistake. It is no signature: what protects a fleet is that a
campaign compares its files, its folders and each cluster's changes with those in the plan.
"""

from __future__ import annotations

import hmac
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from upgrader.app.plan_files import PlanFiles, expiry, refuse_irregular, write_plan_file
from upgrader.app.saved_plans import VALID
from upgrader.errors import Blocked, UsageError
from upgrader.fleet.events import ClusterInputs, Pins
from upgrader.fleet.inputs import pins_differ
from upgrader.fleet.model import Fleet
from upgrader.fleet.plans import NOTHING, FleetPlan
from upgrader.model.first_few import first_few
from upgrader.model.json_values import from_json, to_json
from upgrader.model.redaction.markdown import one_line
from upgrader.model.saved_plan import BoundInput

__all__ = ["FleetBinding", "SavedFleetPlan", "read_fleet_plan", "refuse_plan_file", "save_fleet_plan"]

_FORMAT = "1.0"
_FILES = PlanFiles("a saved plan of a fleet", _FORMAT, 64, "upgrader fleet plan --out FILE")
_CHANGES = re.compile(f"[0-9a-f]{{64}}|{NOTHING}")
_SHOWN = 300
"""Characters of a difference, which quotes the file."""


@dataclass(frozen=True)
class FleetBinding:
    """What a fleet was planned from, and what the plans change."""

    pins: Pins
    files: tuple[BoundInput, ...]
    """fleet.yaml and fleet-inventory.yaml, each with its SHA-256."""
    clusters: tuple[ClusterInputs, ...]

    @classmethod
    def of(cls, pins: Pins, files: Mapping[str, bytes], clusters: Iterable[ClusterInputs]) -> FleetBinding:
        """`files` is as of `fleet_files`."""
        bound = (BoundInput(name, sha256(content).hexdigest()) for name, content in files.items())
        return cls(pins, tuple(bound), tuple(clusters))

    def differences(self, now: FleetBinding) -> Iterator[str]:
        """What has changed since, each in a few words."""
        if other := pins_differ(self.pins, now.pins, "the plan was saved"):
            yield other
        yield from (f"{each.name} has changed" for each in self.files if each not in now.files)
        before, after = ({each.cluster: each.digest for each in binding.clusters} for binding in (self, now))
        if changed := [name for name in before if name in after and after[name] != before[name]]:
            yield f"the folder, kubeconfig or place of {first_few(changed)} has changed"
        if unplanned := [name for name in after if name not in before]:
            yield f"not in the plan: {first_few(unplanned)}"
        if gone := [name for name in before if name not in after]:
            yield f"only in the plan: {first_few(gone)}"


@dataclass(frozen=True)
class SavedFleetPlan:
    """A saved plan of a fleet, as it was read."""

    path: Path
    binding: FleetBinding
    expires: datetime
    digest: str

    @property
    def _anew(self) -> str:
        return f"Make a new plan, and have it approved again: upgrader fleet plan --out {shlex.quote(str(self.path))}"

    @property
    def changes(self) -> Mapping[str, str]:
        """What was approved of each cluster, by its name."""
        return {each.cluster: each.changes for each in self.binding.clusters}

    def refuse_expired(self, now: datetime) -> None:
        """Raise Blocked for one that has expired: no campaign begins with it any more."""
        if now >= self.expires:
            raise Blocked(
                f"the saved plan {self.path} expired at {self.expires.isoformat()}; nothing was started",
                remedy=self._anew,
            )

    def refuse_changes(self, now: FleetBinding) -> None:
        """Raise Blocked, naming each thing that differs, unless a campaign would begin with what was saved."""
        if differences := [one_line(each)[:_SHOWN] for each in self.binding.differences(now)]:
            lines = ["the saved plan is out of date; nothing was started:", *differences]
            raise Blocked("\n".join(lines), remedy=self._anew)


def save_fleet_plan(
    path: Path, fleet: Fleet, planned: FleetPlan, pins: Pins, files: Mapping[str, bytes], now: datetime
) -> SavedFleetPlan:
    """Write a fleet's plan (mode 0600): what it is bound to, and the classes for those who approve it, secrets masked.

    Raises Blocked, and writes nothing, where a cluster can't be planned: nothing could be approved of it. Raises
    UsageError where the file can't be written, or is in the folder of a cluster, whose files its plan is bound to.
    """
    if planned.unplanned:
        raise Blocked(
            f"no plan was saved: {first_few(planned.unplanned)} can't be planned",
            remedy="Fix what is shown above, or name them in `exclude`.",
        )
    refuse_plan_file(path, fleet)
    clusters = (ClusterInputs(name, str(each.inputs), each.changes) for name, each in planned.clusters.items())
    binding = FleetBinding.of(pins, files, clusters)
    content = {
        "format_version": _FORMAT,
        "created": now.isoformat(),
        "expires": (now + VALID).isoformat(),
        "goal": str(fleet.goal),
        "binding": to_json(binding, mask=False),
        "classes": to_json(planned.classes),
        "new": to_json(planned.new),
        "unrehearsed": list(planned.unrehearsed),
    }
    content["digest"] = _digest(content)
    write_plan_file(path, content)
    return SavedFleetPlan(path, binding, now + VALID, content["digest"])


def refuse_plan_file(path: Path, fleet: Fleet) -> None:
    """Raise UsageError where a plan of this fleet can't be written to a file, would replace anything but a plan, such
    as fleet.yaml, or would change what it is bound to. All clusters are planned only afterwards.
    """
    why = f"the plan can't be written to {path}"
    if not path.parent.is_dir():
        raise UsageError(f"{why}: there is no folder {path.parent}")
    refuse_irregular(path)
    if path.exists() and path.stat().st_size:
        try:
            read_fleet_plan(path)
        except UsageError as error:
            raise UsageError(
                f"{why}: the file exists, and is not a saved plan of a fleet",
                remedy="Use another name.",
            ) from error
    place = path.parent.resolve() / path.name  # a link is replaced, and not what it leads to
    for cluster in fleet.clusters:
        if place.is_relative_to(cluster.folder.resolve()):
            raise UsageError(
                f"the plan can't be written to {path}: that would change the folder of cluster {cluster.name}",
                remedy="Write it to another folder.",
            )


def _digest(content: Mapping[str, Any]) -> str:
    """Of all but the digest itself."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    return sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read_fleet_plan(path: Path) -> SavedFleetPlan:
    """Read what a saved plan of a fleet is bound to. Raises UsageError for a file that is none, was edited, or has
    another format.
    """

    def parse(content: dict[str, Any]) -> SavedFleetPlan:
        if not hmac.compare_digest(str(content.get("digest")).encode(), _digest(content).encode()):
            raise ValueError("it was changed after it was saved: its digest doesn't match")
        binding: FleetBinding = from_json(FleetBinding, content["binding"], "binding")
        for each in binding.clusters:
            if not _CHANGES.fullmatch(each.changes):
                raise ValueError(f"binding.clusters {each.cluster!r}: `changes` is not a digest")
        return SavedFleetPlan(path, binding, expiry(content), content["digest"])

    return _FILES.read(path, parse)

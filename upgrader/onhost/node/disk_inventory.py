"""All checkpoints on a node: every workload, each of its generations verified, and the active one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.onhost.node import generation
from upgrader.onhost.node.disk_layout import Layout
from upgrader.onhost.node.generation import MANIFEST, Record, StoredGeneration
from upgrader.onhost.node.generation_choice import Generation, WorkloadInventory
from upgrader.onhost.node.workload_policy import Policy, Workload


@dataclass(frozen=True)
class StoredWorkload:
    """One workload on disk. `generations` by number, oldest first; `failed`: number → why its standby pod counts as
    failed; `marks_unknown`: why that can't be read. `active`, `active_number`: as in `WorkloadInventory`;
    `active_containers`: names in the active manifest. `trouble`: why nothing is known, as its folder can't be read.
    """

    generations: Mapping[int, StoredGeneration] = field(default_factory=dict)
    active: bool = False
    active_number: int | None = None
    failed: Mapping[int, str] = field(default_factory=dict)
    marks_unknown: str = ""
    active_containers: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def records(self) -> dict[int, Record]:
        """The records of the intact ones, by number."""
        return {n: g.record for n, g in self.generations.items() if g.record is not None and not g.damage}

    @property
    def damaged(self) -> dict[int, str]:
        """What is wrong with the others, by number."""
        return {n: g.damage for n, g in self.generations.items() if g.damage}

    @property
    def images(self) -> frozenset[str]:
        """All images that any intact one names."""
        return frozenset(image for g in self.generations.values() if not g.damage for image in g.images.values())

    @property
    def newest(self) -> Record | None:
        """The record of the last-known-good."""
        last = self.inventory({}).last_good
        return self.records[last.number] if last else None

    def inventory(self, present: Mapping[str, bool]) -> WorkloadInventory:
        """What a decision needs to know. `present`: image → whether the node has it; may lack some."""
        records = self.records
        found = [
            Generation(n, records[n].digest, True, _all(g, present), n in self.failed)
            if n in records
            else Generation(n, "", intact=False)
            for n, g in self.generations.items()
        ]
        policy = records[max(records)].policy if records else Policy.API_AWAY
        return WorkloadInventory(policy, tuple(found), self.active, self.active_number)


def _all(stored: StoredGeneration, present: Mapping[str, bool]) -> bool | None:
    found = [present.get(image) for image in stored.images.values()]
    return False if False in found else None if None in found or not found else True


def _containers(manifest: bytes) -> tuple[str, ...]:
    try:
        return tuple(c["name"] for c in json.loads(manifest)["spec"]["containers"])
    except (ValueError, KeyError, TypeError):
        return ()


@dataclass(frozen=True)
class Inventory(Layout):
    """Reads a node's disk; what was verified once is read again only after it was touched."""

    _verified: dict[Path, tuple[object, StoredGeneration]] = field(default_factory=dict, compare=False, repr=False)

    def read(self) -> dict[Workload, StoredWorkload]:
        """All workloads. One whose folder can't be read carries the reason. Raises OSError when not even their names
        can be read.
        """
        return {workload: self._read(workload) for workload in self.workloads()}

    def _read(self, workload: Workload) -> StoredWorkload:
        path = self.manifest_path(workload)
        try:
            found = {number: self._generation(self.generation(workload, number)) for number in self.numbers(workload)}
            failed, marks_unknown = self.read_failed(workload)
            if not path.exists():
                return StoredWorkload(found, failed=failed, marks_unknown=marks_unknown)
            content = path.read_bytes()
            number = next((n for n in reversed(list(found)) if self.manifest(workload, n) == content), None)
            names = () if number is None else _containers(content)
            return StoredWorkload(found, True, number, failed, marks_unknown, names)
        except OSError as error:
            trouble = f"{self.workload_folder(workload)} can't be read: {error}"
            return StoredWorkload(active=path.exists(), trouble=trouble)

    def read_failed(self, workload: Workload) -> tuple[dict[int, str], str]:
        """(generation → why it is marked as failed, why the marks can't be read).

        Unreadable marks count as none. They only order the choice: a generation that is started in vain costs the time
        until the next one is tried; one that is skipped because of a damaged file might cost the API.
        """
        try:
            found = json.loads(self.failed_path(workload).read_bytes())
            return {int(number): str(reason) for number, reason in found.items()}, ""
        except FileNotFoundError:
            return {}, ""
        except (OSError, ValueError, AttributeError) as error:
            return {}, f"{self.failed_path(workload)} can't be parsed: {error}"

    def _generation(self, folder: Path) -> StoredGeneration:
        try:
            stamp = generation.stamp(folder)
            known = self._verified.get(folder)
            if known is None or known[0] != stamp:
                known = self._verified[folder] = (stamp, generation.read(folder))
        except OSError as error:
            return StoredGeneration(None, f"can't be read: {error}")
        return known[1]

    def manifest(self, workload: Workload, number: int) -> bytes | None:
        """A generation's manifest, byte for byte, even if its other files are damaged; None if there is none."""
        try:
            return (self.generation(workload, number) / MANIFEST).read_bytes()
        except OSError:
            return None

"""Reads a fleet folder: what `fleet.yaml` and `fleet-inventory.yaml` say, and whether that fits together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from upgrader.config.fleet_files import read_fleet_inventory, read_fleet_yaml
from upgrader.config.fleet_yaml import (
    ClusterEntry,
    ExclusionSection,
    FleetSpec,
    JobsSection,
    SelectorSection,
    StageSection,
    WindowSection,
)
from upgrader.config.yaml_document import Document, KeyPath, all_in_one, shown, typed
from upgrader.errors import ConfigError
from upgrader.fleet.cron import YEARS, Cron
from upgrader.fleet.model import Domains, Fleet, FleetCluster, JobSettings, MaxFailures, OnUnreachable, Stage
from upgrader.fleet.selectors import Requirement, Selector
from upgrader.fleet.windows import Exclusion, Window, next_opening
from upgrader.model.first_few import first_few
from upgrader.model.health_before import NONE
from upgrader.model.run_kind import RunKind

__all__ = ["read_fleet"]

_SPEC = "spec"


def read_fleet(folder: Path, now: datetime, *, begun: Path | None = None) -> Fleet:
    """The fleet of a folder; `now` tells which windows are still to open.

    `begun` has copies of both files, of a campaign that was begun with them: they are read instead, and what was right
    then is not checked again, as what has become of one cluster's folder ends no campaign.

    Raises UsageError for a folder that is none, and ConfigError with all that is wrong, each with file and line.
    """
    inventory = _Inventory(folder, *_entries(begun or folder), begun is not None)
    inventory.read()
    campaign, file = read_fleet_yaml(begun or folder)
    reader = _Reader(campaign, file.spec, now, begun is not None, inventory.clusters, list(inventory.problems))
    fleet = reader.read()
    if reader.problems:
        raise all_in_one(reader.problems)
    home, jobs = folder.absolute(), file.spec.jobs
    return replace(fleet, observability=file.spec.observability.at(home), jobs=_jobs(home, jobs) if jobs else None)


def _jobs(folder: Path, jobs: JobsSection) -> JobSettings:
    return JobSettings(folder / jobs.kubeconfig, jobs.image, jobs.namespace_prefix, jobs.queue, int(jobs.grace))


def _entries(folder: Path) -> tuple[Document, tuple[ClusterEntry, ...]]:
    document, file = read_fleet_inventory(folder)
    return document, tuple(file.clusters)


@dataclass
class _Inventory:
    """The clusters, as they are read; `problems` has what is wrong with them."""

    folder: Path
    document: Document
    entries: tuple[ClusterEntry, ...]
    begun: bool
    clusters: dict[str, FleetCluster] = field(default_factory=dict)
    problems: list[ConfigError] = field(default_factory=list)

    def read(self) -> None:
        first: dict[tuple[str, str], int] = {}
        for index, entry in enumerate(self.entries):
            folder = (self.folder / (entry.folder or f"clusters/{entry.name}")).absolute()
            place = f"{shown(self.document.path)}:{self.document.line(('clusters', index, 'uid'))}: "
            cluster = FleetCluster(entry.name, folder, entry.uid, dict(entry.labels), place)
            self._unique(first, index, "name", entry.name, entry.name)
            self._unique(first, index, "uid", entry.uid, entry.uid)
            if not self.begun:
                self._unique(first, index, "folder", os.path.realpath(folder), shown(folder))
            if not self.begun and not os.path.isfile(folder / "upgrader.yaml"):
                self.problems.append(
                    self.document.error(
                        ("clusters", index, "folder"),
                        f"{shown(folder)}, the folder of cluster {entry.name}, is not a cluster folder: it has no "
                        "upgrader.yaml",
                        remedy=f"Write it: upgrader -C {typed(folder)} init",
                    )
                )
            self.clusters.setdefault(entry.name, cluster)

    def _unique(self, first: dict[tuple[str, str], int], index: int, key: str, value: str, said: str) -> None:
        before = first.setdefault((key, value), index)
        if before != index:
            line = self.document.line(("clusters", before, key))
            self.problems.append(
                self.document.error(("clusters", index, key), f"two clusters have the {key} {said}; see line {line}")
            )


@dataclass
class _Reader:
    """fleet.yaml, as it is read."""

    document: Document
    spec: FleetSpec
    now: datetime
    begun: bool
    clusters: Mapping[str, FleetCluster]
    problems: list[ConfigError]

    def read(self) -> Fleet:
        spec = self.spec
        self._excluded()
        taking_part = tuple(each for name, each in self.clusters.items() if name not in spec.exclude)
        stages = tuple(self._stages(taking_part))
        domains = self._domains(taking_part)
        exclusions = tuple(self._exclusions())
        windows = tuple(self._windows(exclusions))
        return Fleet(
            target=spec.target,
            stages=stages,
            clusters=taking_part,
            excluded=tuple(spec.exclude),
            domains=domains,
            windows=windows,
            exclusions=exclusions,
            expected_seconds=spec.expected_run,
            commands=frozenset(spec.kubeconfig_exec),
            action=RunKind.FINALIZE if spec.action == "finalize" else RunKind.UPGRADE,
        )

    def _wrong(self, where: KeyPath, text: str, remedy: str = "") -> None:
        self.problems.append(self.document.error((_SPEC, *where), text, remedy=remedy))

    def _excluded(self) -> None:
        for index, name in enumerate(self.spec.exclude):
            if name not in self.clusters:
                self._wrong(("exclude", index), f"the inventory has no cluster {name}")

    def _stages(self, clusters: tuple[FleetCluster, ...]) -> Iterator[Stage]:
        taken: dict[str, str] = {}
        names: set[str] = set()
        for index, section in enumerate(self.spec.stages):
            where = ("stages", index)
            if section.name in names:
                self._wrong((*where, "name"), f"two stages have the name {section.name}")
            names.add(section.name)
            stage = self._stage(where, section)
            mine = [each.name for each in clusters if stage.selector.selects(each.labels)]
            if not mine:
                self._wrong((*where, "selector"), f"stage {stage.name} selects no cluster of the inventory")
            if both := [name for name in mine if name in taken]:
                others = ", ".join(dict.fromkeys(taken[name] for name in both))
                self._wrong((*where, "selector"), f"{first_few(both)} would be in stage {stage.name} and in {others}")
            taken |= {name: stage.name for name in mine if name not in taken}
            yield stage
        if left := [each.name for each in clusters if each.name not in taken]:
            self._wrong(
                ("stages",),
                f"no stage selects {first_few(left)}",
                "Change a selector, or add them to `exclude`.",
            )

    def _stage(self, where: KeyPath, section: StageSection) -> Stage:
        if section.max_concurrency == NONE:
            self._wrong((*where, "maxConcurrency"), "0 clusters at the same time: none would be upgraded")
        failures = section.max_failures
        return Stage(
            name=section.name,
            selector=self._selector((*where, "selector"), section.selector),
            max_concurrency=section.max_concurrency,
            max_failures=MaxFailures(
                blocked=failures.blocked or NONE,
                rolled_back=failures.rolled_back or NONE,
                broken=failures.broken or NONE,
                interrupted=failures.interrupted or NONE,
                same_cause=failures.same_cause,
            ),
            on_unreachable=OnUnreachable(section.on_unreachable.wait, section.on_unreachable.then),
            approval=bool(section.before),
            soak_seconds=section.soak.duration if section.soak else 0.0,
            soak_requests=section.soak.min_requests if section.soak else 0,
            soak_gates=tuple(dict.fromkeys(section.soak.gates)) if section.soak else (),
            soak_restart=section.soak.restart if section.soak else False,
        )

    def _selector(self, where: KeyPath, section: SelectorSection) -> Selector:
        found = [Requirement(key, "In", (value,)) for key, value in section.match_labels.items()]
        for index, each in enumerate(section.match_expressions):
            here = (*where, "matchExpressions", index)
            if (each.operator in ("In", "NotIn")) != bool(each.values):
                needs = "needs" if each.operator in ("In", "NotIn") else "takes no"
                self._wrong(here, f"operator {each.operator} {needs} values")
            found.append(Requirement(each.key, each.operator, tuple(each.values)))
        return Selector(tuple(found))

    def _domains(self, clusters: tuple[FleetCluster, ...]) -> Domains | None:
        section = self.spec.domains
        if section is None:
            return None
        if without := [each.name for each in clusters if section.label not in each.labels]:
            self._wrong(
                ("domains", "label"), f"{first_few(without)}: no label {section.label}, so the domain is unknown"
            )
        return Domains(section.label, section.one_at_a_time)

    def _exclusions(self) -> Iterator[Exclusion]:
        for index, section in enumerate(self.spec.exclusions):
            where = ("exclusions", index)
            zone = self._zone(where, section)
            selector = self._selector((*where, "selector"), section.selector)
            self._selects(where, selector, "exclusion")
            if section.last < section.first:
                self._wrong((*where, "to"), f"the exclusion ends on {section.last}, before it begins")
            elif zone is not None:
                yield Exclusion(selector, section.first, section.last, zone)

    def _windows(self, exclusions: tuple[Exclusion, ...]) -> Iterator[Window]:
        for index, section in enumerate(self.spec.windows):
            where = ("windows", index)
            zone = self._zone(where, section)
            selector = self._selector((*where, "selector"), section.selector)
            self._selects(where, selector, "window")
            try:
                cron = Cron.parse(section.cron)
            except ValueError as error:
                self._wrong((*where, "cron"), str(error))
                continue
            if zone is None:
                continue
            window = Window(selector, cron, section.duration, zone)
            if not self.begun:
                self._opens(where, window, exclusions)
            yield window

    def _opens(self, where: KeyPath, window: Window, exclusions: tuple[Exclusion, ...]) -> None:
        if next(window.openings(self.now), None) is None:
            self._wrong((*where, "cron"), f"the window never opens: no day of the next {YEARS} years matches")
            return
        needed = 2 * self.spec.expected_run
        if window.seconds < needed:
            self._wrong(
                (*where, "duration"),
                f"the window is too short: a run and its rollback need {needed / 60:.0f} min",
                "Make it longer, or `expectedRun` shorter.",
            )
            return
        for cluster in self.clusters.values():
            if not window.selector.selects(cluster.labels):
                continue
            opening = next_opening(cluster.labels, (window,), exclusions, self.now, needed)
            if opening is None or opening.begins > self.now + timedelta(days=366 * YEARS):
                self._wrong((*where, "cron"), f"the window never opens for {cluster.name}: exclusions cover it")
                return

    def _selects(self, where: KeyPath, selector: Selector, what: str) -> None:
        if not any(selector.selects(each.labels) for each in self.clusters.values()):
            self._wrong((*where, "selector"), f"the {what} selects no cluster of the inventory")

    def _zone(self, where: KeyPath, section: WindowSection | ExclusionSection) -> ZoneInfo | None:
        try:
            return ZoneInfo(section.time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones, a path out of it
            self._wrong((*where, "timeZone"), f"'{section.time_zone}' is not an IANA time zone such as Europe/Berlin")
            return None

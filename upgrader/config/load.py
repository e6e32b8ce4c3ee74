"""Loads settings: `upgrader.yaml`, then the environment, then flags; later ones win."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upgrader.config.copied_folder import copied, not_copied
from upgrader.config.etcd_yaml import EtcdSection
from upgrader.config.missing_files import no_cluster_folder
from upgrader.config.nodes_section import nodes_settings
from upgrader.config.nodes_yaml import NodesSection
from upgrader.config.observability_yaml import observability_settings
from upgrader.config.partial_validation import validate
from upgrader.config.section import StepAvailabilitySection
from upgrader.config.severity_policy import severity_problems
from upgrader.config.step_gates import StepGates
from upgrader.config.surge_playbooks import surge_problems
from upgrader.config.untrusted_folder import NotOpened, UntrustedFolder
from upgrader.config.upgrader_yaml import PlaybookSection, ReleaseSection
from upgrader.config.values_file import load_values
from upgrader.config.yaml_document import Document, KeyPath, all_in_one, read_mapping, shown
from upgrader.errors import ConfigError
from upgrader.model.availability import Limits
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.image_settings import ImageSettings
from upgrader.model.node_settings import NodesSettings
from upgrader.model.own_steps import ETCD, OWN_STEPS
from upgrader.model.settings import (
    BUILT_IN_CHARTS,
    AvailabilitySettings,
    BackupSettings,
    PlaybookSettings,
    RecoverySettings,
    RehearsalSettings,
    ReleaseSettings,
    Settings,
    StepSettings,
)
from upgrader.model.version import KubernetesVersion

__all__ = ["Overrides", "Reading", "RemoteChart", "load_settings", "read_folder"]

_EXAMPLE = "Write at least the line `kubernetesVersion: v1.36.3`."


class RemoteChart(ConfigError):
    """A chart that would have to be downloaded, so it can't be checked."""

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            remedy="Charts aren't downloaded: put the chart into the folder (helm pull), and set `chart` to its path.",
        )


@dataclass(frozen=True)
class Overrides:
    """Values from flags; None keeps the file's value."""

    target: KubernetesVersion | None = None
    kubeconfig: Path | None = None
    context: str | None = None


@dataclass(frozen=True)
class _Defaults:
    """The defaults of every step."""

    gates: StepGates
    limits: Limits


@dataclass(frozen=True)
class Reading:
    """The content of a cluster folder's files, and their problems."""

    settings: Settings | None
    """The valid part, with a pipeline without invalid steps; None if the rest is required."""
    problems: tuple[ConfigError, ...]
    inventory_named: bool
    """Whether the inventory of `settings` is the one that is meant."""


def load_settings(folder: Path, environ: Mapping[str, str], overrides: Overrides = Overrides()) -> Settings:
    """Read the cluster folder's `upgrader.yaml`, the values files that it names, and the environment.

    `UPGRADER_KUBECONFIG` and `UPGRADER_CONTEXT` override the file; a relative kubeconfig from there is relative to the
    current folder, as one from a flag. `copied` says where inputs are read instead. Raises ConfigError, with all
    that is wrong.
    """
    reading = read_folder(folder, environ, overrides)
    if reading.settings is None or reading.problems:
        raise all_in_one(reading.problems)
    return reading.settings


def read_folder(
    folder: Path, environ: Mapping[str, str], overrides: Overrides = Overrides(), guard: UntrustedFolder | None = None
) -> Reading:
    """The same, but all problems are collected. With a `guard`, only the files that it allows are opened."""
    home = folder.absolute()
    copy = copied(home, environ)
    folder = copy or home
    try:
        document = _read(folder, environ, guard)
    except ConfigError as error:
        return Reading(None, (error,), inventory_named=False)
    valid = validate(document, overrides.target)
    if valid.file is None:
        return Reading(None, valid.problems, inventory_named=False)
    file = valid.file
    kubeconfig = overrides.kubeconfig or Path(environ.get("UPGRADER_KUBECONFIG") or home / file.cluster.kubeconfig)
    named = bool(overrides.kubeconfig or environ.get("UPGRADER_KUBECONFIG")) or (
        "kubeconfig" in file.cluster.model_fields_set
    )
    chosen = overrides.context or environ.get("UPGRADER_CONTEXT")
    policy = GatePolicy(file.gates.consecutive, file.gates.interval, file.gates.deadline)
    limits = Limits(file.availability.max_failed, file.availability.max_gap)
    nodes, unread = _nodes(file.nodes, home, folder, document, guard)
    gates = StepGates(document, policy, file.gates.metrics, prometheus=file.observability.prometheus is not None)
    pipeline = _Pipeline(folder, document, _Defaults(gates, limits), guard)
    pools = nodes.pools if nodes else ()
    own = {*OWN_STEPS, *(name for pool in pools for name in pool.steps), *((ETCD,) if file.etcd else ())}
    pipeline.read(valid.steps, own)
    refused = tuple(severity_problems(document, file.checks.severities))
    settings = Settings(
        folder=home,
        copy=copy,
        target=overrides.target or file.kubernetes_version,
        kubeconfig=kubeconfig.absolute(),
        context=chosen or file.cluster.context,
        context_chosen=bool(chosen),
        kubeconfig_named=named,
        inventory=folder / file.cluster.inventory,
        dynamic_inventory=file.cluster.dynamic_inventory,
        helm_timeout_seconds=file.helm.timeout,
        on_failure=file.policy.on_failure,
        emulation=file.policy.emulation,
        degraded=file.policy.degraded,
        bake_seconds=file.policy.bake or 0.0,
        keep_runs=file.policy.keep_runs,
        through=tuple(file.through),
        recovery=RecoverySettings(file.policy.recovery.enabled, file.policy.recovery.after),
        rehearsal=RehearsalSettings(file.policy.rehearsal.mode, file.policy.rehearsal.max_age),
        gates=policy,
        metric_gates=gates.of_every_step,
        unhealthy_workers=file.gates.unhealthy_workers,
        availability=AvailabilitySettings(
            file.availability.requests_per_second, tuple(file.availability.addresses), limits
        ),
        images=ImageSettings(
            file.images.pull,
            file.images.deadline,
            file.images.parallel,
            not_copied(home, folder, file.images.bundle) if file.images.bundle else None,
        ),
        backup=BackupSettings(
            tuple(file.backup.recipients), home / file.backup.folder, file.backup.keep, file.backup.max_age
        ),
        observability=observability_settings(file.observability, home),
        # With one that is refused, none counts: it may be that of the refusal itself.
        severities={} if refused else dict(file.checks.severities),
        pipeline=tuple(pipeline.steps),
        nodes=nodes,
        etcd=_etcd(file.etcd) if file.etcd else None,
    )
    return Reading(
        settings, (*valid.problems, *refused, *unread, *gates.problems, *pipeline.problems), valid.cluster_valid
    )


def _etcd(section: EtcdSection) -> EtcdSettings:
    own = section.availability
    return EtcdSettings(section.image, section.known_version, section.ready_deadline, own.max_failed, own.max_gap)


def _nodes(
    section: NodesSection | None, home: Path, folder: Path, document: Document, guard: UntrustedFolder | None
) -> tuple[NodesSettings | None, tuple[ConfigError, ...]]:
    """The settings of nodes, or the problems of the files that they name."""
    where: KeyPath = ("nodes", "containerRuntime", "config")

    def read(path: Path) -> bytes:
        try:
            if guard:
                guard.check(path)
            if not path.is_file():
                raise document.error(where, f"there is no file {shown(path)}")
            return path.read_bytes()
        except NotOpened as error:
            raise error.named_in(f"{shown(document.path)}:{document.line(where)}") from error
        except OSError as error:
            raise document.error(where, f"{shown(path)} can't be read: {error.strerror}") from error

    def place(index: int) -> str:
        # Without the folder: a saved plan has digests of the settings, which must not depend on who reads them where.
        return f"{document.path.name}:{document.line(('nodes', 'leftAlone', index))}"

    problems = tuple(surge_problems(section, folder, document, guard)) if section else ()
    try:
        settings = nodes_settings(section, home, folder, read, place) if section else None
    except ConfigError as error:
        return None, (error, *problems)
    return None if problems else settings, problems


def _read(folder: Path, environ: Mapping[str, str], guard: UntrustedFolder | None) -> Document:
    path = folder / "upgrader.yaml"
    if guard:
        guard.check(path)
    if not path.is_file():
        raise no_cluster_folder(folder, environ)
    document = read_mapping(path)
    if not document.data:
        raise document.error((), "the file is empty", remedy=_EXAMPLE)
    return document


@dataclass(frozen=True)
class _Pipeline:
    """The steps as they are read, one after the other; one that is wrong doesn't hide the next one's problems."""

    folder: Path
    document: Document
    defaults: _Defaults
    guard: UntrustedFolder | None
    steps: list[StepSettings] = field(default_factory=list)
    problems: list[ConfigError] = field(default_factory=list)

    def read(self, sections: Mapping[KeyPath, ReleaseSection | PlaybookSection], taken: Collection[str]) -> None:
        """The steps, by where the file has them; `taken` are the names of steps that a run has beside them."""
        for where, item in sections.items():
            known = len(self.problems)
            step = self._release(where, item) if isinstance(item, ReleaseSection) else self._playbook(where, item)
            if any(step.name == other.name for other in self.steps):
                self.problems.append(self.document.error(where, f"the pipeline has two steps named '{step.name}'"))
            elif step.name in taken:
                text = f"'{step.name}' is the name of a built-in step"
                self.problems.append(self.document.error(where, text, remedy="Rename the release or the file."))
            if len(self.problems) == known:
                self.steps.append(step)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Records a problem, and continues."""
        try:
            yield
        except ConfigError as error:
            self.problems.append(error)

    def _release(self, where: KeyPath, item: ReleaseSection) -> ReleaseSettings:
        built_in = item.release in BUILT_IN_CHARTS
        values_file = self.folder / (item.values or f"values/{item.release}.yaml")
        values: Mapping[str, Any] = {}
        with self._noting():
            self._check_chart(where, item)
        with self._noting():
            self._check(where, "values", values_file)
            if item.values and not values_file.exists():
                raise self.document.error((*where, "values"), f"there is no values file {shown(values_file)}")
            values = load_values(values_file)
        return ReleaseSettings(
            name=item.release,
            namespace=item.namespace or ("kube-system" if built_in else "default"),
            chart=self.folder / item.chart if item.chart else None,
            values=values,
            values_file=values_file,
            gates=self.defaults.gates.of_step(where, item.gates),
            limits=_limits(item.availability, self.defaults.limits),
            approval_seconds=item.approval.deadline if item.approval else None,
        )

    def _check_chart(self, where: KeyPath, item: ReleaseSection) -> None:
        if not item.chart:
            if item.release not in BUILT_IN_CHARTS:
                raise self.document.error(
                    where,
                    f"release '{item.release}' needs a key 'chart'",
                    remedy=f"Set it: only {', '.join(BUILT_IN_CHARTS)} have a built-in chart.",
                )
            return
        if "://" in item.chart:
            line = self.document.line((*where, "chart"))
            raise RemoteChart(f"{shown(self.document.path)}:{line}: chart {item.chart} is not in the folder")
        chart = self.folder / item.chart
        self._check(where, "chart", chart)
        if not chart.exists():
            raise self.document.error((*where, "chart"), f"there is no chart {shown(chart)}")

    def _playbook(self, where: KeyPath, item: PlaybookSection) -> PlaybookSettings:
        playbook, undo = self.folder / item.playbook, self.folder / item.undo if item.undo else None
        for key, path in (("playbook", playbook), ("undo", undo)):
            with self._noting():
                if path is not None:
                    self._check(where, key, path)
                    if not path.is_file():
                        raise self.document.error((*where, key), f"there is no playbook {shown(path)}")
        gates = self.defaults.gates.of_step(where, item.gates)
        limits = _limits(item.availability, self.defaults.limits)
        return PlaybookSettings(
            name=playbook.stem,
            playbook=playbook,
            undo=undo,
            gates=gates,
            limits=limits,
            approval_seconds=item.approval.deadline if item.approval else None,
        )

    def _check(self, where: KeyPath, key: str, path: Path) -> None:
        """Raises NotOpened, with the place that names the path, if the guard refuses it."""
        try:
            if self.guard:
                self.guard.check(path)
        except NotOpened as error:
            raise error.named_in(f"{shown(self.document.path)}:{self.document.line((*where, key))}") from error


def _limits(section: StepAvailabilitySection, defaults: Limits) -> Limits:
    failed, gap = section.max_failed, section.max_gap
    return Limits(defaults.max_failed if failed is None else failed, gap or defaults.max_gap_seconds)

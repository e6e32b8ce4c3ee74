"""Loads settings: `upgrader.yaml`, then the environment, then flags; later ones win."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from upgrader.config.upgrader_yaml import (
    GateSection,
    PlaybookSection,
    ReleaseSection,
    StepAvailabilitySection,
    UpgraderYaml,
)
from upgrader.config.validation_errors import explain
from upgrader.config.values_file import load_values
from upgrader.config.yaml_document import Document, KeyPath, read_mapping, shown
from upgrader.errors import ConfigError
from upgrader.model.availability import Limits
from upgrader.model.settings import (
    BUILT_IN_CHARTS,
    AvailabilitySettings,
    GatePolicy,
    PlaybookSettings,
    RecoverySettings,
    ReleaseSettings,
    Settings,
    StepSettings,
    WorkloadGate,
)
from upgrader.model.version import KubernetesVersion

__all__ = ["Overrides", "load_settings"]

_EXAMPLE = "Write at least the line `kubernetesVersion: v1.36.3`."


@dataclass(frozen=True)
class Overrides:
    """What flags override; None keeps the file's value."""

    target: KubernetesVersion | None = None
    kubeconfig: Path | None = None
    context: str | None = None


@dataclass(frozen=True)
class _Defaults:
    """The policy and limits of every step that has none of its own."""

    policy: GatePolicy
    limits: Limits


def load_settings(folder: Path, environ: Mapping[str, str], overrides: Overrides = Overrides()) -> Settings:
    """Read the cluster folder's `upgrader.yaml`, the values files that it names, and the environment.

    `UPGRADER_KUBECONFIG` and `UPGRADER_CONTEXT` override the file; a relative kubeconfig from there is relative to the
    current folder, as one from a flag. Raises ConfigError.
    """
    folder = folder.absolute()
    document = _read(folder)
    try:
        file = UpgraderYaml.model_validate(document.data)
    except ValidationError as error:
        raise explain(document, error) from None
    kubeconfig = overrides.kubeconfig or Path(environ.get("UPGRADER_KUBECONFIG") or folder / file.cluster.kubeconfig)
    policy = GatePolicy(file.gates.consecutive, file.gates.interval, file.gates.deadline)
    limits = Limits(file.availability.max_failed, file.availability.max_gap)
    return Settings(
        folder=folder,
        target=overrides.target or file.kubernetes_version,
        kubeconfig=kubeconfig.absolute(),
        context=overrides.context or environ.get("UPGRADER_CONTEXT") or file.cluster.context,
        inventory=folder / file.cluster.inventory,
        dynamic_inventory=file.cluster.dynamic_inventory,
        helm_timeout_seconds=file.helm.timeout,
        on_failure=file.policy.on_failure,
        keep_runs=file.policy.keep_runs,
        recovery=RecoverySettings(file.policy.recovery.enabled, file.policy.recovery.after),
        gates=policy,
        unhealthy_workers=file.gates.unhealthy_workers,
        availability=AvailabilitySettings(
            file.availability.requests_per_second, tuple(file.availability.addresses), limits
        ),
        pipeline=_pipeline(folder, document, file, _Defaults(policy, limits)),
    )


def _read(folder: Path) -> Document:
    path = folder / "upgrader.yaml"
    if not path.is_file():
        raise ConfigError(
            f"{shown(path)}: no such file",
            remedy="Give the cluster's folder with `-C DIR` (a lab's is .lab/NAME). " + _EXAMPLE,
        )
    document = read_mapping(path)
    if not document.data:
        raise document.error((), "the file is empty", remedy=_EXAMPLE)
    return document


def _pipeline(folder: Path, document: Document, file: UpgraderYaml, defaults: _Defaults) -> tuple[StepSettings, ...]:
    if file.pipeline is None:
        releases = (
            ReleaseSection(release=name, namespace="", chart="", values="", gates=[]) for name in BUILT_IN_CHARTS
        )
        return tuple(_release(folder, document, ("pipeline",), release, defaults) for release in releases)
    steps: list[StepSettings] = []
    for index, item in enumerate(file.pipeline):
        where: KeyPath = ("pipeline", index)
        step = (
            _release(folder, document, where, item, defaults)
            if isinstance(item, ReleaseSection)
            else _playbook(folder, document, where, item, defaults)
        )
        if any(step.name == other.name for other in steps):
            raise document.error(where, f"the pipeline has two steps named '{step.name}'")
        steps.append(step)
    return tuple(steps)


def _release(
    folder: Path, document: Document, where: KeyPath, item: ReleaseSection, defaults: _Defaults
) -> ReleaseSettings:
    built_in = item.release in BUILT_IN_CHARTS
    chart = folder / item.chart if item.chart else None
    if chart is None and not built_in:
        raise document.error(
            where,
            f"release '{item.release}' needs a key 'chart'",
            remedy=f"Only {', '.join(BUILT_IN_CHARTS)} have a chart built in.",
        )
    if chart is not None and not chart.exists():
        raise document.error((*where, "chart"), f"there is no chart {shown(chart)}")
    values_file = folder / (item.values or f"values/{item.release}.yaml")
    if item.values and not values_file.exists():
        raise document.error((*where, "values"), f"there is no values file {shown(values_file)}")
    return ReleaseSettings(
        name=item.release,
        namespace=item.namespace or ("kube-system" if built_in else "default"),
        chart=chart,
        values=load_values(values_file),
        values_file=values_file,
        gates=_gates(item.gates, defaults),
        limits=_limits(item.availability, defaults),
    )


def _playbook(
    folder: Path, document: Document, where: KeyPath, item: PlaybookSection, defaults: _Defaults
) -> PlaybookSettings:
    path = folder / item.playbook
    if not path.is_file():
        raise document.error((*where, "playbook"), f"there is no playbook {shown(path)}")
    undo = folder / item.undo if item.undo else None
    if undo is not None and not undo.is_file():
        raise document.error((*where, "undo"), f"there is no playbook {shown(undo)}")
    gates, limits = _gates(item.gates, defaults), _limits(item.availability, defaults)
    return PlaybookSettings(name=path.stem, playbook=path, undo=undo, gates=gates, limits=limits)


def _gates(items: list[GateSection], defaults: _Defaults) -> tuple[WorkloadGate, ...]:
    gates = []
    for item in items:
        namespace, name = (item.daemonset or item.deployment or "").split("/")
        policy = GatePolicy(
            item.consecutive or defaults.policy.consecutive,
            item.interval or defaults.policy.interval_seconds,
            item.deadline or defaults.policy.deadline_seconds,
        )
        gates.append(WorkloadGate("daemonset" if item.daemonset else "deployment", namespace, name, policy))
    return tuple(gates)


def _limits(section: StepAvailabilitySection, defaults: _Defaults) -> Limits:
    failed, gap = section.max_failed, section.max_gap
    return Limits(defaults.limits.max_failed if failed is None else failed, gap or defaults.limits.max_gap_seconds)

"""What upgrader.yaml has a run bring about at its target: the pipeline, and what it plans. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from upgrader.errors import UsageError
from upgrader.model.api_lifecycle import Minor
from upgrader.model.emulation import minor_of, minor_text
from upgrader.model.observed import Observed
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import PlaybookSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.release.plan import VERSIONED_RELEASES, IntendedRelease, short_images

__all__ = ["IntendedStep", "emulation_after", "left_behind", "plan_run", "wanted_steps"]

_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")

IntendedStep = IntendedRelease | PlannedPlaybook


def emulation_after(settings: Settings, observed: Observed, *, last: bool = True) -> Minor | None:
    """The minor that the components emulate after a run to the settings' target; None: their own.

    Of several hops only the last one can emulate: the next would need a finalize first. A cluster that emulates does
    so until `upgrader finalize`, whatever the settings say by then.
    """
    wanted = (settings.emulation and last) or observed.emulated is not None
    return observed.minor if wanted and observed.minor < minor_of(settings.target) else None


def wanted_steps(
    settings: Settings, charts: Path, emulated: Minor | None = None
) -> Iterator[ReleaseSpec | PlannedPlaybook]:
    """The intended pipeline at the target version; `charts` is the folder of the built-in charts.

    `emulated` is the minor that the components emulate; None: their own.
    """
    for item in settings.pipeline:
        if isinstance(item, PlaybookSettings):
            yield PlannedPlaybook(item.playbook, item.undo)
            continue
        values: dict[str, Any] = dict(item.values)
        if item.chart is None and item.name in VERSIONED_RELEASES:
            values["kubernetesVersion"] = str(settings.target)
            values.pop("emulatedVersion", None)  # whatever the file says: only `upgrader finalize` ends an emulation
            if emulated is not None:
                values["emulatedVersion"] = minor_text(emulated)
        yield ReleaseSpec(item.name, item.namespace, item.chart or charts / item.name, values)


def plan_run(
    intended: Sequence[IntendedStep], observed: Observed, target: KubernetesVersion, emulated: Minor | None = None
) -> Plan:
    """What the pipeline changes, in its order. `emulated` is the minor that the components emulate in `intended`."""
    return Plan(observed.server, target, tuple(item.planned(observed) for item in intended), emulated)


def left_behind(observed: Observed, intended: Callable[[], Sequence[IntendedStep]]) -> bool:
    """Whether an upgrade to the API server's own minor has not been completed: a component of the control plane is
    installed with an older one, and `intended`, the pipeline at the API server's version, has it with that one.
    """
    server = (observed.server.major, observed.server.minor)
    older = {
        (name, container)
        for name, release in observed.releases.items()
        for container, minor in _minors(release.manifest).items()
        if minor < server
    }
    return bool(older) and any(
        (item.spec.name, container) in older and minor == server
        for item in intended()
        if isinstance(item, IntendedRelease)
        for container, minor in _minors(item.manifest).items()
    )


def _minors(manifest: str) -> Mapping[tuple[str, str], tuple[int, int]]:
    """The minor of each container whose image is named as a component of Kubernetes, with its version as the tag."""
    minors = {}
    for container, image in short_images(manifest).items():
        name, _, tag = image.partition("@")[0].partition(":")
        if name in _COMPONENTS:
            with suppress(UsageError):
                version = KubernetesVersion.parse(tag)
                minors[container] = (version.major, version.minor)
    return minors

"""Makes a plan from the observed and the intended state. Pure: no I/O; the same input gives the same plan."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from upgrader.errors import UsageError
from upgrader.model.api_lifecycle import Minor
from upgrader.model.emulation import minor_of, minor_text
from upgrader.model.etcd_plan import PlannedEtcd
from upgrader.model.images import images_in
from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.masked_manifest import masked
from upgrader.model.observed import Observed, ObservedRelease
from upgrader.model.plan import (
    Action,
    ObjectChange,
    Plan,
    PlannedKubeadmConfig,
    PlannedKubeletConfig,
    PlannedNodes,
    PlannedPlaybook,
    PlannedRelease,
    PlannedStep,
    PlannedSurge,
)
from upgrader.model.redaction.patterns import mask_patterns
from upgrader.model.release import ReleaseSpec, Revision, last_good
from upgrader.model.settings import PlaybookSettings, Settings
from upgrader.model.version import KubernetesVersion

__all__ = [
    "IntendedRelease",
    "IntendedStep",
    "emulation_after",
    "left_behind",
    "object_changes",
    "observed_after",
    "plan_kubeadm_config",
    "plan_kubelet_config",
    "plan_run",
    "wanted_steps",
]

VERSIONED_RELEASES = ("kube-apiserver", "kubernetes")
"""The built-in charts whose `kubernetesVersion` value a run sets to its target."""
_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")


@dataclass(frozen=True)
class IntendedRelease:
    """The intended release, with its rendered manifest."""

    spec: ReleaseSpec
    manifest: str


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
    """Compare each release's rendered manifest with its last good one, in the pipeline's order.

    `emulated` is the minor that the components emulate in `intended`.
    """
    steps: list[PlannedStep] = []
    for item in intended:
        if isinstance(item, PlannedPlaybook):
            steps.append(item)
        else:
            steps.append(_plan_release(item, observed.releases[item.spec.name]))
    return Plan(observed.server, target, tuple(steps), emulated)


def plan_kubeadm_config(plan: Plan, observed: Observed) -> tuple[PlannedKubeadmConfig, ...]:
    """A step that tells kubeadm which version runs, where the plan decides that, and kubeadm made the cluster.

    () where what is written there can't be changed, too: a check says so.
    """
    decides = any(step.name in VERSIONED_RELEASES for step in plan.steps if isinstance(step, PlannedRelease))
    if observed.kubeadm is None or not decides:
        return ()
    try:
        observed.kubeadm.at(plan.target)
        return (PlannedKubeadmConfig(observed.kubeadm.version, plan.target),)
    except ValueError:
        return ()


def plan_kubelet_config(fields: Mapping[str, Any], observed: Observed) -> tuple[PlannedKubeletConfig, ...]:
    """A step that has nodes which join later get these fields; () where kubeadm didn't make the cluster.

    () where what is written there can't be changed, too: a check says so.
    """
    if observed.kubelet is None or not fields:
        return ()
    try:
        observed.kubelet.having(fields)
        return (PlannedKubeletConfig(fields, observed.kubelet.lacks(fields)),)
    except ValueError:
        return ()


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
    for container, image in _images(manifest).items():
        name, _, tag = image.partition("@")[0].partition(":")
        if name in _COMPONENTS:
            with suppress(UsageError):
                version = KubernetesVersion.parse(tag)
                minors[container] = (version.major, version.minor)
    return minors


def observed_after(plan: Plan, before: Observed) -> Observed:
    """What would be observed once the plan was run."""
    releases, kubelets, kubeadm = dict(before.releases), dict(before.kubelets), before.kubeadm
    kubelet, etcd = before.kubelet, dict(before.etcd)
    for step in plan.steps:
        if isinstance(step, PlannedNodes):
            kubelets |= {node.node: node.after for node in step.nodes}
        elif isinstance(step, PlannedKubeadmConfig):
            kubeadm = kubeadm.at(step.after) if kubeadm else None
        elif isinstance(step, PlannedKubeletConfig):
            kubelet = kubelet.having(step.fields) if kubelet else None
        elif isinstance(step, PlannedEtcd):
            etcd |= {member.node: step.settings.image for member in step.members}
        elif isinstance(step, PlannedRelease) and step.action != "unchanged":
            history = before.releases[step.name].history
            newest = history[-1].number if history else 0
            # A pending one is rolled back first, which is a revision of its own.
            deployed = Revision(newest + (2 if step.pending else 1), "deployed")
            releases[step.name] = ObservedRelease((*history, deployed), step.after)
    removed = {name for step in plan.steps if isinstance(step, PlannedSurge) and step.end for name in step.there}
    kubelets = {name: version for name, version in kubelets.items() if name not in removed}
    nodes = {name: replace(node, mark=None) for name, node in before.nodes.items() if name not in removed}
    for step in plan.steps:
        if isinstance(step, PlannedNodes) and step.configuration.fingerprint:
            got = step.configuration.fingerprint
            nodes |= {node.node: replace(nodes[node.node], configured=got) for node in step.nodes}
    return Observed(plan.target, kubelets, releases, plan.emulated, nodes, kubeadm, kubelet, etcd)


def _plan_release(item: IntendedRelease, now: ObservedRelease) -> PlannedRelease:
    changes = object_changes(now.manifest, item.manifest)
    action: Action = "upgrade"
    if not now.manifest:
        action = "install"
    elif not changes and now.settled:
        action = "unchanged"
    summary = _summary(action, now.manifest, item.manifest, changes)
    good = last_good(now.history)
    revision = good.number if good else None
    return PlannedRelease(item.spec, action, summary, now.manifest, item.manifest, changes, now.pending, revision)


def object_changes(before: str, after: str) -> tuple[ObjectChange, ...]:
    """The objects that differ between two manifests, in the order of the new one, the removed last."""
    old, new = objects_in(before), objects_in(after)
    changes = []
    for key, manifest in new.items():
        if key not in old:
            changes.append(_change(key, "added", {}, manifest))
        elif old[key] != manifest:
            changes.append(_change(key, "changed", old[key], manifest))
    changes += [_change(key, "removed", manifest, {}) for key, manifest in old.items() if key not in new]
    return tuple(changes)


def _change(key: str, change: Literal["added", "changed", "removed"], old: Manifest, new: Manifest) -> ObjectChange:
    lines = difflib.unified_diff(_lines(old, {}), _lines(new, old), "now", "planned", lineterm="", n=2)
    # Once more, as the form of a text may have hidden something; line by line, so that none hides the lines after it.
    return ObjectChange(key, change, "\n".join(map(mask_patterns, lines)))


def _lines(manifest: Manifest, other: Manifest) -> list[str]:
    if not manifest:
        return []
    return yaml.safe_dump(masked(manifest, other), sort_keys=False, width=1000).splitlines()


def _summary(action: Action, before: str, after: str, changes: tuple[ObjectChange, ...]) -> str:
    if action == "unchanged":
        return "nothing to change"
    if action == "install":
        return f"install ({len(changes)} objects)"
    if not changes:
        return "apply again (the last attempt was not completed)"
    moved = _moved(_images(before), _images(after))
    counted = f"{len(changes)} object{'s' if len(changes) > 1 else ''}"
    return f"{'; '.join(moved)} ({counted})" if moved else f"change {counted}: {_named(changes)}"


def _moved(old: Mapping[tuple[str, str], str], new: Mapping[tuple[str, str], str]) -> list[str]:
    """`kube-proxy, kube-scheduler: v1.36.3 → v1.37.1`: the images that change, by what their tags change to."""
    moves: dict[str, dict[str, None]] = {}
    for container, image in new.items():
        before = old.get(container, image)
        if before != image:
            (name, _, tag), (old_name, _, old_tag) = image.partition(":"), before.partition(":")
            step = f"{old_tag} → {tag}" if name == old_name else f"{before} → {image}"
            moves.setdefault(step, {})[name] = None
    return [f"{', '.join(names)}: {step}" for step, names in moves.items()]


def _named(changes: Iterable[ObjectChange]) -> str:
    return ", ".join(change.object for change in changes)


def _images(manifest: str) -> dict[tuple[str, str], str]:
    """Each container's image, shortened to name:tag, by workload and container."""
    return {key: image.rpartition("/")[2] for key, image in images_in(manifest).items()}

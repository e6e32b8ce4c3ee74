"""No group of StatefulSets is in the middle of a rollout, and the pods of each planned workload get replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upgrader.gates.kubernetes_kinds import STATEFUL_SETS, WORKLOADS
from upgrader.gates.manifest_workloads import on_delete_in, stateful_sets_in, workloads_in
from upgrader.gates.rollout_group_gate import is_paused
from upgrader.gates.stateful_rollout import stale_pods
from upgrader.gates.workload_diagnosis import diagnose_reading
from upgrader.gates.workload_reading import read_found
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.outcome import VerdictKind
from upgrader.model.workload import ROLLOUT_GROUP, Workload, WorkloadRef
from upgrader.ports import Kube, KubeObject
from upgrader.preflight.context import PreflightContext
from upgrader.steps.plan import planned_of
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["check_rollouts"]

_AT_ONCE = 200
_HALF = "guard starts no rollouts while a run replaces the control plane: these groups would stay half-updated."
_WAITS = (
    "Their update strategy is OnDelete. The gate of their release's step waits until every pod is updated, even if the "
    "run doesn't change the release; if an old pod remains, the step fails."
)
_SEE = f"kubectl get statefulsets -A -l {ROLLOUT_GROUP} -L {ROLLOUT_GROUP}"


@dataclass(frozen=True)
class _Group:
    """A rollout group, and the first thing of each kind that is found of it; "" for none."""

    name: str
    under_way: str = ""
    """Why its rollout isn't complete."""
    not_ready: str = ""
    """The problem of its pods, all of which are new."""
    paused: str = ""
    """A set whose rollout people have stopped."""


def check_rollouts(context: PreflightContext) -> Iterator[Finding]:
    """Each group of the cluster, by its sets' own counts; only where these aren't complete, pods are read."""
    groups = list(_groups(context.kube))
    yield from _incomplete(groups)
    yield from _by_hand(context)
    yield from _awaited(context)


def _incomplete(groups: list[_Group]) -> Iterator[Finding]:
    if rolling := [group for group in groups if group.under_way]:
        yield Finding(
            "rollouts.under-way",
            "error",
            f"rollout groups are in the middle of a rollout: {_named(rolling)}",
            "\n".join([_HALF, *(group.under_way for group in rolling)]),
            f"Wait until it completes, or revert their templates: {_SEE}. To override: `--skip rollouts`.",
        )
    if short := [group for group in groups if group.not_ready and not group.under_way]:
        yield Finding(
            "rollouts.not-ready",
            "warning",
            f"not all pods of rollout groups are Ready: {_named(short)}",
            "\n".join(
                ["No other zone of these groups is updated until they are Ready.", *(each.not_ready for each in short)]
            ),
            f"Repair them: {_SEE}",
        )
    if paused := [group for group in groups if group.paused]:
        yield Finding(
            "rollouts.paused",
            "warning",
            f"rollout groups are paused: {_named(paused)}",
            "A step that changes one of them waits until its deadline, and is then rolled back: "
            f"{first_few([group.paused for group in paused])}.",
            "Remove the annotation grafana.com/rollout-paused from their StatefulSets.",
        )


def _by_hand(context: PreflightContext) -> Iterator[Finding]:
    changed = [item for item in _of_nobody(context) if item.changes]
    if names := [f"{item.ref} (release {item.release})" for item in changed]:
        yield Finding(
            "rollouts.by-hand",
            "warning",
            f"it is unknown what replaces the pods of {first_few(names)}",
            "Their update strategy is OnDelete, and their pod template changes. The step and its gate wait until "
            "every pod is updated; if this takes longer than the gate's deadline, the step is rolled back.",
            f"Give StatefulSets the label {ROLLOUT_GROUP} so that guard replaces their pods, or delete the pods "
            "yourself during the run.",
        )
    left = {item.ref: _stale(context.kube, item.ref) for item in _of_nobody(context) if not item.changes}
    if behind := {ref: pods for ref, pods in left.items() if pods}:
        yield Finding(
            "rollouts.left-behind",
            "error",
            f"pods of an older revision have not been replaced: {first_few(list(map(str, behind)))}",
            "\n".join(
                (
                    _WAITS,
                    *(f"{ref}: {first_few(pods)}" for ref, pods in behind.items()),
                )
            ),
            "Delete these pods one at a time, in the order that their workload requires. To start the run first, and "
            "delete them during the run: `--skip rollouts`.",
        )


@dataclass(frozen=True)
class _OfNobody:
    """A planned workload whose pods its controller doesn't replace, and guard neither."""

    release: str
    ref: WorkloadRef
    changes: bool
    """Whether the run changes its pods' template."""


def _of_nobody(context: PreflightContext) -> Iterator[_OfNobody]:
    for release in planned_of(context.plan, PlannedRelease):
        before, after = objects_in(release.before), objects_in(release.after)
        sets = stateful_sets_in(release.after, release.spec.namespace)
        on_delete = on_delete_in(release.after, release.spec.namespace)
        for ref in workloads_in(release.after, release.spec.namespace):
            if ref not in on_delete or (ref in sets and sets[ref].group):
                continue
            place = f"{ref.namespace}/" if f"{ref.kind} {ref.namespace}/{ref.name}" in after else ""
            key = f"{ref.kind} {place}{ref.name}"
            changes = (
                release.action != "unchanged" and key in before and _template(before[key]) != _template(after[key])
            )
            yield _OfNobody(release.name, ref, changes)


def _stale(kube: Kube, ref: WorkloadRef) -> list[str]:
    """The pods of a workload that are of an older revision. Raises ApiError."""
    found = kube.get(WORKLOADS[ref.kind], ref.name, ref.namespace)
    if found is None:
        return []
    workload = Workload.parse(ref.kind, found)
    if workload.observed and workload.updated == workload.total:
        return []
    return [pod.name for pod in stale_pods(read_found(kube, workload, found))]


def _awaited(context: PreflightContext) -> Iterator[Finding]:
    names = {
        f"{ref.namespace}/{item.group}"
        for release in context.changing
        for ref, item in stateful_sets_in(release.after, release.spec.namespace).items()
        if item.group
    }
    names |= {f"{gate.namespace}/{gate.name}" for gate in context.workload_gates if gate.kind == "rolloutGroup"}
    if names:
        yield Finding(
            "rollouts.awaited",
            "info",
            f"the run waits for rollout groups: {first_few(sorted(names))}",
            "After each step that changes them or has gates for them, the run waits until every pod is updated and "
            "Ready.",
        )


def _template(item: Manifest) -> object:
    return (item.get("spec") or {}).get("template")


def _named(groups: list[_Group]) -> str:
    return first_few([group.name for group in groups])


def _groups(kube: Kube) -> Iterator[_Group]:
    """Raises ApiError."""
    groups: dict[str, _Group] = {}
    for found in kube.each(STATEFUL_SETS, labels=ROLLOUT_GROUP, at_once=_AT_ONCE):
        meta = found["metadata"]
        name = f"{meta['namespace']}/{meta['labels'][ROLLOUT_GROUP]}"
        known = groups.get(name, _Group(name))
        under_way, not_ready = _looked_at(kube, found)
        paused = f"StatefulSet {meta['namespace']}/{meta['name']}" if is_paused(found) else ""
        groups[name] = _Group(name, known.under_way or under_way, known.not_ready or not_ready, known.paused or paused)
    yield from groups.values()


def _looked_at(kube: Kube, found: KubeObject) -> tuple[str, str]:
    """Why a set is in the middle of a rollout, and other problems of its pods; "" each for none."""
    workload = Workload.parse("StatefulSet", found)
    counts = {workload.desired, workload.total, workload.updated, workload.ready}
    if workload.observed and len(counts) == 1:
        return "", ""
    reading = read_found(kube, workload, found)
    verdict = diagnose_reading(kube, reading)
    if verdict.kind is VerdictKind.HOLDS:
        return "", ""
    if not workload.observed or stale_pods(reading):
        return verdict.reason, ""
    return "", verdict.reason

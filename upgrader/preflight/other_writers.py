"""No GitOps controller manages the workloads that the run changes, because it would revert the changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.gates.manifest_workloads import workloads_in
from upgrader.gates.remedies import pause_writer
from upgrader.model.field_owners import declaring_writers
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.workload import WorkloadKind, WorkloadRef
from upgrader.ports import Kube, KubeObject
from upgrader.preflight.context import PreflightContext

__all__ = ["check_other_writers"]

_SINGLE_READS = 5
"""Above so many of a kind in a namespace, one list is cheaper than a read of each."""
_AT_ONCE = 500


def check_other_writers(context: PreflightContext) -> Iterator[Finding]:
    """No GitOps controller declares the workloads that the run changes, by their managed fields.

    They don't show whether it is paused: a run that meets an active one is rolled back, and names it.
    """
    changing = [(each, workloads_in(each.after, each.spec.namespace)) for each in context.changing]
    live = _read(context.kube, {ref for _, refs in changing for ref in refs})
    for release, refs in changing:
        found: dict[str, list[str]] = {}
        for ref in refs:
            for manager in declaring_writers(live.get(ref, {})):
                found.setdefault(manager, []).append(str(ref))
        for manager, names in found.items():
            yield Finding(
                "releases.other-writer",
                "warning",
                f"release {release.name}: field manager {manager} also declares {first_few(names)}",
                "Unless you pause this manager, it reverts the run's changes, and the run fails and is rolled back.",
                pause_writer(next(ref for ref in refs if str(ref) == names[0]), manager),
            )


def _read(kube: Kube, refs: Collection[WorkloadRef]) -> dict[WorkloadRef, KubeObject]:
    """Those that exist, with their metadata at least. Raises ApiError."""
    places: dict[tuple[WorkloadKind, str], set[str]] = {}
    for ref in refs:
        places.setdefault((ref.kind, ref.namespace), set()).add(ref.name)
    found = dict[WorkloadRef, KubeObject]()
    for (kind, namespace), names in places.items():
        if len(names) > _SINGLE_READS:
            items = kube.each(WORKLOADS[kind], namespace, at_once=_AT_ONCE, metadata_only=True)
            listed = {item["metadata"]["name"]: item for item in items if item["metadata"]["name"] in names}
        else:
            listed = {name: item for name in names if (item := kube.get(WORKLOADS[kind], name, namespace)) is not None}
        found |= {WorkloadRef(kind, namespace, name): item for name, item in listed.items()}
    return found

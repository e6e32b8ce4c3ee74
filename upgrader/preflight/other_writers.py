"""No GitOps controller declares the workloads that the run changes: it would change them back."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.gates.manifest_workloads import workloads_in
from upgrader.gates.remedies import pause_writer
from upgrader.model.field_owners import declaring_writers
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.preflight.context import PreflightContext

__all__ = ["check_other_writers"]


def check_other_writers(context: PreflightContext) -> Iterator[Finding]:
    """No GitOps controller declares the workloads that the run changes, by their managed fields.

    Whether it is paused can't be told from them: a run that meets one that isn't goes back, and names it.
    """
    for release in context.changing:
        found: dict[str, list[str]] = {}
        refs = workloads_in(release.after, release.spec.namespace)
        for ref in refs:
            live = context.kube.get(WORKLOADS[ref.kind], ref.name, ref.namespace)
            for manager in declaring_writers(live) if live is not None else ():
                found.setdefault(manager, []).append(str(ref))
        for manager, names in found.items():
            yield Finding(
                "releases.other-writer",
                "warning",
                f"release {release.name}: field manager {manager} declares {first_few(names)} as well",
                "Unless it is paused, it changes back what the run applies, and the run goes back then.",
                pause_writer(next(ref for ref in refs if str(ref) == names[0]), manager),
            )

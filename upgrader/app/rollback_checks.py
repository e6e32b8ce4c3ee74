"""What forbids a rollback: changes that were made since the run, which it would revert or that it can't live with."""

from __future__ import annotations

from collections.abc import Iterable

from upgrader.app.observe_cluster import kubelet_versions
from upgrader.engine.state.run_state import StepState
from upgrader.errors import Blocked, ChangedMeanwhile
from upgrader.model.release import without_revision
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Helm, Kube

__all__ = ["check_kubelets", "check_unchanged"]

_API_SERVER = "kube-apiserver"


def check_unchanged(helm: Helm, steps: Iterable[StepState]) -> None:
    """Raise ChangedMeanwhile where a release is neither as the run left it nor at its restore point."""
    for step in steps:
        point = step.restore_point
        history = helm.history(point.release, point.namespace) if point and point.release else ()
        if point is None or not history or not step.revision or history[-1].number == step.revision:
            continue
        newest = history[-1].number
        wanted = [step.revision] if point.revision is None else [step.revision, point.revision]
        now, *known = (
            without_revision(helm.manifest(point.release, point.namespace, number)) for number in (newest, *wanted)
        )
        if now not in known:
            raise ChangedMeanwhile(
                f"release {point.release}: revision {newest} is newer than the revision of this run, {step.revision}; "
                "a rollback would revert it too",
                remedy=f"Check it: helm history {point.release} -n {point.namespace}. If it isn't needed, return to "
                f"the run's revision (helm rollback {point.release} {step.revision} -n {point.namespace} "
                "--wait), then roll back.",
            )


def check_kubelets(
    kube: Kube, current: KubernetesVersion | None, target: KubernetesVersion | None, steps: Iterable[StepState]
) -> None:
    """Raise Blocked where kube-apiserver would return from `target` to the minor of `current`, and a kubelet is newer.

    The kubelets that the run has upgraded return before it does.
    """
    points = [step.restore_point for step in steps if step.restore_point]
    if current is None or not any(point.release == _API_SERVER for point in points):
        return
    if target is not None and target.minors_after(current) == 0:
        return  # what is newer is newer than both, as after a restore
    returning = {item.node: item.version for point in points for item in point.nodes}
    kubelets = {**kubelet_versions(kube), **returning}
    newer = {name: kubelet for name, kubelet in kubelets.items() if current.minors_after(kubelet) < 0}
    if newer:
        named = ", ".join(f"{name} ({kubelet})" for name, kubelet in sorted(newer.items()))
        raise Blocked(
            f"kube-apiserver would return to {current}, and these kubelets are newer: {named}; Kubernetes "
            "doesn't support a kubelet that is newer than the API server",
            remedy=f"Downgrade these kubelets to v{current.major}.{current.minor} first; or keep kube-apiserver: "
            "upgrader rollback --to kube-apiserver",
        )

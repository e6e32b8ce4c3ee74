"""Static pods that can't start: the charts' pods, with the same flags and files, couldn't start either.

Adoption would replace kube-apiserver first, find it out at the others, and be rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable

from upgrader.adopt.facts import MANIFESTS, ControllerFacts
from upgrader.errors import Blocked
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.workload_diagnosis import explain_pod
from upgrader.model.outcome import VerdictKind
from upgrader.model.workload import Pod
from upgrader.ports import Kube

__all__ = ["check_started"]

_SYSTEM = "kube-system"


def check_started(kube: Kube, controllers: Iterable[ControllerFacts]) -> None:
    """Of each controller whose static pods run, by their mirror pods. Raises Blocked for one for which waiting won't
    help, or ApiError.
    """
    for controller in controllers:
        host = controller.host.name
        for component in controller.active:
            found = kube.get(PODS, f"{component}-{host}", _SYSTEM)
            verdict = explain_pod(kube, f"{component}'s static pod on {host}", Pod.parse(found)) if found else None
            if verdict and verdict.kind is VerdictKind.BROKEN:
                reason, *details = verdict.lines()
                raise Blocked(
                    "\n".join((f"{reason}; the chart's pod would have the same flags; nothing was changed", *details)),
                    remedy=f"Correct {MANIFESTS}/{component}.yaml there; the kubelet then restarts the pod. "
                    f"{verdict.remedy}",
                )

"""The flags with which a part of the control plane runs, static pod or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from upgrader.contract.flags import command_line, last_values
from upgrader.model.workload import Pod
from upgrader.ports import KubeObject
from upgrader.preflight.context import SYSTEM, PreflightContext

__all__ = ["component_flags"]


def component_flags(context: PreflightContext, component: str) -> Mapping[str, str] | None:
    """Flag → value, as one of its pods on the controllers has them; None where there is no such pod.

    The pods of controllers are read for other checks anyway. Raises ApiError.
    """
    for host in context.cluster.controllers:
        for found in context.pods_on(host.name):
            container = _container(found, component)
            if container is not None:
                return last_values(command_line(container))
    return None


def _container(found: KubeObject, component: str) -> KubeObject | None:
    """The component's own container; None where the pod isn't one of its, or ends."""
    pod = Pod.parse(found)
    if pod.namespace != SYSTEM or pod.finished or pod.deleting:
        return None
    containers: Sequence[KubeObject] = found["spec"].get("containers") or ()
    return next((item for item in containers if item["name"] == component), None)

"""The flags with which a part of the control plane runs, static pod or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from upgrader.model.workload import Pod
from upgrader.ports import KubeObject
from upgrader.preflight.context import SYSTEM, PreflightContext

__all__ = ["component_flags", "parse_flags"]


def component_flags(context: PreflightContext, component: str) -> Mapping[str, str] | None:
    """Flag → value, as one of its pods on the controllers has them; None where there is no such pod.

    The pods of controllers are read for other checks anyway. Raises ApiError.
    """
    for host in context.cluster.controllers:
        for found in context.pods_on(host.name):
            container = _container(found, component)
            if container is not None:
                return parse_flags([*(container.get("command") or ()), *(container.get("args") or ())])
    return None


def parse_flags(arguments: Sequence[str]) -> dict[str, str]:
    """From `--name=value`, `--name value` and `--name`, which means true; the last one of a name counts."""
    flags: dict[str, str] = {}
    for index, argument in enumerate(arguments):
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            following = arguments[index + 1] if index + 1 < len(arguments) else "--"
            flags[name.replace("_", "-")] = value if equals else "true" if following.startswith("-") else following
    return flags


def _container(found: KubeObject, component: str) -> KubeObject | None:
    """The component's own container; None where the pod isn't one of its, or ends."""
    pod = Pod.parse(found)
    if pod.namespace != SYSTEM or pod.finished or pod.deleting:
        return None
    containers: Sequence[KubeObject] = found["spec"].get("containers") or ()
    return next((item for item in containers if item["name"] == component), None)

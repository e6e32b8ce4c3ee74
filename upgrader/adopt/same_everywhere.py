"""One release serves all controllers, so what kubeadm gave them must agree. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from upgrader.adopt.facts import COMPONENTS, KubeadmFacts, StaticPod
from upgrader.adopt.graceful_end import termination_grace
from upgrader.adopt.pod_metadata import metadata_of
from upgrader.adopt.volumes import missing_mounts
from upgrader.errors import Blocked

__all__ = ["check_same_everywhere"]


_OWN = frozenset({"advertise-address", "bind-address"})
"""Addresses of each controller's own, which the charts' pods replace."""


def check_same_everywhere(facts: KubeadmFacts) -> None:
    """But for their own addresses. Raises Blocked."""
    for component in COMPONENTS:
        first = facts.component(component)
        for controller in facts.controllers:
            other = controller.known(component)
            differing = {
                name
                for name in {*first.flags, *(other.flags if other else ())} - _OWN
                if other and first.flags.get(name) != other.flags.get(name)
            }
            if differing:
                raise Blocked(
                    f"{component} on {controller.host.name} differs from {facts.controllers[0].host.name} in "
                    f"{', '.join(f'--{name}' for name in sorted(differing))}",
                    remedy=_same_flags(differing),
                )
            parts = [name for name, part in _PARTS.items() if other and part(first) != part(other)]
            if parts:
                raise Blocked(
                    f"{component} on {controller.host.name} differs from {facts.controllers[0].host.name} in its "
                    f"{' and its '.join(parts)}",
                    remedy="One release serves all controllers: first make their static pods identical.",
                )


def _same_flags(names: set[str]) -> str:
    same = "Set the same flags in the static pods of all controllers first."
    if names <= {"etcd-certfile", "etcd-keyfile"}:
        same += (
            " If each controller has its own certificate file, such as Kubespray's node-NAME.pem, copy it to the same "
            "path on every controller, and use that path in the flags."
        )
    return same


_PARTS: Mapping[str, Callable[[StaticPod], Any]] = {
    "image": lambda pod: pod.image,
    "volumes": lambda pod: sorted(str(each) for each in missing_mounts(pod, {"containers": []}, "")),
    "variables": lambda pod: sorted((each["name"], each.get("value")) for each in pod.container.get("env") or ()),
    "labels": lambda pod: metadata_of(pod)["labels"],
    "annotations": lambda pod: metadata_of(pod)["annotations"],
    "resources": lambda pod: pod.container.get("resources") or {},
    "terminationGracePeriodSeconds": termination_grace,
}

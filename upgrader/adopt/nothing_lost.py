"""A rendered chart has all that the static pods have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.adopt.facts import KubeadmFacts, StaticPod
from upgrader.adopt.pod_metadata import Metadata, differing
from upgrader.adopt.values import missing_flags
from upgrader.adopt.volumes import missing_mounts, mounts_of, writable
from upgrader.errors import Blocked

__all__ = ["check_flags", "check_metadata", "check_volumes"]

Flags = Mapping[str, tuple[str, ...]]


def check_flags(facts: KubeadmFacts, component: str, rendered: Flags, chosen: Mapping[str, Any]) -> None:
    """All flags of a component but those that its release's own values set. Raises Blocked."""
    static = facts.component(component)
    lost = {name for name in missing_flags(static, rendered) if name not in chosen.get("extraArgs", {})}
    if lost:
        flags = ", ".join(f"--{name}={','.join(static.flags[name])}" for name in sorted(lost))
        raise Blocked(
            f"{component}'s static pod has flags that the chart can't take over: {flags}",
            remedy="Remove them from the static pod, or set them in the release's `extraArgs`.",
        )


def check_metadata(facts: KubeadmFacts, component: str, rendered: Metadata, chosen: Mapping[str, Any]) -> None:
    """All labels and annotations of a component but those that its release's own values set. Raises Blocked."""
    for controller in facts.controllers:
        if static := controller.active.get(component):
            for each in differing(static, rendered, chosen):
                raise Blocked(
                    f"{component}'s static pod on {controller.host.name} has {each}, and the chart's pod has "
                    f"{each.chart or 'none'} there",
                    remedy="Use another name in the static pod, and wherever something selects by it.",
                )


def check_volumes(facts: KubeadmFacts, component: str, rendered: Mapping[str, Any], pki: str) -> None:
    """All mounts of a component, in its rendered pod; the folder `pki` is mounted file by file. Raises Blocked."""
    for controller in facts.controllers:
        # Of a pod that was retired before, the operator's values are the newer word.
        if static := controller.active.get(component):
            if lost := missing_mounts(static, rendered, pki):
                raise Blocked(
                    f"{component}'s static pod on {controller.host.name} has volumes that the chart's pod would lack: "
                    f"{', '.join(map(str, lost))}",
                    remedy="Add them to the release's `extraVolumes` and `extraVolumeMounts`. Where the chart mounts "
                    "something of its own at the same path, mount yours elsewhere in the static pod first.",
                )
            _verify_pki(controller.host.name, static, pki)
            _verify_written(controller.host.name, static, rendered)


def _verify_pki(host: str, static: StaticPod, pki: str) -> None:
    """kube-apiserver's chart mounts single files of `pki`: something else at a folder above them would hide them."""
    for mount in mounts_of(static) if static.component == "kube-apiserver" else ():
        if pki.startswith(f"{mount.path}/") and mount.source.get("hostPath") != mount.path:
            raise Blocked(
                f"{static.component}'s static pod on {host} mounts {mount}, above its certificates in {pki}, which the "
                "chart's pod would not find there",
                remedy="Mount it in a folder of its own, such as /etc/kubernetes/admission-controls, and name that in "
                "the flags and files that lead there.",
            )


def _verify_written(host: str, static: StaticPod, rendered: Mapping[str, Any]) -> None:
    """The audit log is the one file that a component writes."""
    for path in static.flags.get("audit-log-path", ()):
        if path not in ("-", "") and not writable(static.component, rendered, path):
            raise Blocked(
                f"{static.component} on {host} writes its audit log to {path}, which is in no volume that it may write "
                "to: the chart's container has a read-only file system",
                remedy="Mount the log's folder, as a hostPath volume that isn't readOnly, in the static pod first. "
                "Below the folder of certificates nothing can be written.",
            )

"""A rendered chart has all that the static pods have. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from upgrader.adopt.facts import ControllerFacts, KubeadmFacts, StaticPod, flags_of
from upgrader.adopt.pod_metadata import Metadata, differing, metadata_of
from upgrader.adopt.values import etcd_servers, missing_flags
from upgrader.adopt.volumes import above_certificates, missing_files, missing_mounts, mounts_of, writable
from upgrader.contract.variables import seen_variables
from upgrader.errors import Blocked

__all__ = ["check_etcd", "check_flags", "check_metadata", "check_variables", "check_volumes"]

Flags = Mapping[str, tuple[str, ...]]


def check_etcd(controllers: Iterable[ControllerFacts], chosen: Mapping[str, Any]) -> None:
    """That the chart's kube-apiserver can be given the addresses of etcd, if the operator's own values of its release
    (`chosen`) don't give it others. Raises Blocked.
    """
    for controller in controllers if not (chosen.get("etcd") or {}).get("servers") else ():
        static = controller.active.get("kube-apiserver")
        if static and (odd := etcd_servers(static, odd=True)):
            raise Blocked(
                f"kube-apiserver's static pod on {controller.host.name} has --etcd-servers with {', '.join(odd)}: the "
                "chart accepts only addresses that begin with http:// or https://; nothing was changed",
                remedy="Write such addresses into the static pod on every controller, not a socket or a variable. Or "
                "set `etcd.servers` in values/kube-apiserver.yaml.",
            )


def check_flags(facts: KubeadmFacts, component: str, rendered: Flags, chosen: Collection[str]) -> None:
    """All flags of a component but those (`chosen`) that its release's own values set. Raises Blocked."""
    static = facts.component(component)
    lost = {name: given for name, given in missing_flags(static, rendered).items() if name not in chosen}
    if lost:
        flags = ", ".join(f"--{name}={','.join(given)}" for name, given in sorted(lost.items()))
        raise Blocked(
            f"{component}'s static pod has flags that the chart doesn't support: {flags}",
            remedy="Remove them from the static pod, or set them in the release's `extraArgs`.",
        )


def check_metadata(facts: KubeadmFacts, component: str, rendered: Metadata, chosen: Mapping[str, Any]) -> None:
    """All labels and annotations of a component but those that its release's own values set. Raises Blocked."""
    for controller in facts.controllers:
        if static := controller.active.get(component):
            for each in differing(metadata_of(static), rendered, chosen):
                raise Blocked(
                    f"{component}'s static pod on {controller.host.name} has {each}, but the chart's pod has "
                    f"{each.chart or 'none'}",
                    remedy="Use another key in the static pod, and in everything that selects by it.",
                )


def check_variables(facts: KubeadmFacts, component: str, rendered: Mapping[str, Any]) -> None:
    """No variable of a component is one that its rendered pod has by itself. Raises Blocked."""
    names = [
        entry["name"] for each in rendered["containers"] if each["name"] == component for entry in each.get("env", ())
    ]
    for controller in facts.controllers:
        if static := controller.active.get(component):
            for name in seen_variables(static.container):
                if names.count(name) > 1:
                    raise Blocked(
                        f"{component}'s static pod on {controller.host.name} has the environment variable {name}, "
                        "which the chart itself sets to another value",
                        remedy="Use another name for the variable in the static pod, on every controller.",
                    )


def check_volumes(facts: KubeadmFacts, component: str, rendered: Mapping[str, Any], pki: str) -> None:
    """All mounts of a component, in its rendered pod, which has single files of the folder `pki` and of some others.
    Raises Blocked.
    """
    for controller in facts.controllers:
        # Of a pod that was retired before, the operator's values are the newer word.
        if static := controller.active.get(component):
            if lost := missing_mounts(static, rendered, pki, facts.by_file):
                raise Blocked(
                    f"{component}'s static pod on {controller.host.name} has volumes that the chart's pod would lack: "
                    f"{', '.join(map(str, lost))}",
                    remedy="Add them to the release's `extraVolumes` and `extraVolumeMounts`. If the chart already "
                    "mounts something at the same path, mount yours elsewhere in the static pod first.",
                )
            files = facts.single_files if component == "kube-apiserver" else {}
            if absent := missing_files(component, rendered, files):
                raise Blocked(
                    f"{component}'s static pod on {controller.host.name} uses files that the chart's pod would lack: "
                    f"{', '.join(absent)}",
                    remedy="Add them to the release's `extraVolumes` and `extraVolumeMounts`. These replace those that "
                    "`adopt` would write: to let `adopt` write them, remove both keys from the values.",
                )
            _verify_pki(controller.host.name, static, rendered, pki)
            _verify_written(controller.host.name, static, rendered)


def _verify_pki(host: str, static: StaticPod, rendered: Mapping[str, Any], pki: str) -> None:
    """kube-apiserver's chart mounts single files of `pki`: something else at a folder above them would hide them."""
    containers = [each for each in rendered["containers"] if each["name"] == static.component]
    mounted = {str(each["mountPath"]).rstrip("/") for one in containers for each in one.get("volumeMounts") or ()}
    for mount in mounts_of(static) if static.component == "kube-apiserver" else ():
        if above_certificates(mount, pki) and mount.path in mounted:
            raise Blocked(
                f"{static.component}'s static pod on {host} mounts {mount}, which would hide the certificates in {pki} "
                "from the chart's pod",
                remedy="Mount it in a separate folder, such as /etc/kubernetes/admission-controls, and change the "
                "flags and files that refer to it. If a flag names files there that don't exist, it is enough to "
                "create them.",
            )


def _verify_written(host: str, static: StaticPod, rendered: Mapping[str, Any]) -> None:
    """A component writes the audit log, and a certificate that it makes for itself."""
    for path in static.flags.get("audit-log-path", ()):
        if path not in ("-", "") and not writable(static.component, rendered, path):
            raise Blocked(
                f"{static.component} on {host} writes its audit log to {path}, which is in no writable volume: the "
                "chart's container has a read-only root file system",
                remedy="Mount the log's folder in the static pod first, as a writable hostPath volume. The folder of "
                "certificates is read-only.",
            )
    (flags,) = (flags_of(each) for each in rendered["containers"] if each["name"] == static.component)
    folder = flags.get("cert-dir", ("",))[-1]
    own = static.component != "kube-apiserver" and "tls-cert-file" not in flags
    if own and folder and not writable(static.component, rendered, folder):
        raise Blocked(
            f"{static.component} on {host} writes its own certificate to {folder} (--cert-dir), which is in no "
            "writable volume: the chart's container has a read-only root file system",
            remedy='Remove --cert-dir from the static pod, on every controller, or set `cert-dir: ""` in `extraArgs`: '
            "without it, the certificate is kept in memory. Or mount that folder first, as a writable hostPath volume.",
        )

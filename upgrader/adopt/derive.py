"""Derives values for the charts from kubeadm's facts, and verifies by rendering that every flag stays the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.adopt.facts import COMPONENTS, KubeadmFacts, StaticPod
from upgrader.adopt.static_pod_parts import check_static_pods
from upgrader.adopt.values import base_values, extra_args, merged, missing_flags, rendered_flags, rendered_pod
from upgrader.adopt.volumes import extra_volumes, missing_mounts, writable
from upgrader.errors import Inhibited
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Helm

__all__ = ["Derived", "FlagChange", "about_source_addresses", "derive_values"]

Values = dict[str, Any]
Flags = Mapping[str, tuple[str, ...]]

_RELEASES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "kube-apiserver": {"kube-apiserver": ()},
    "kubernetes": {"kube-controller-manager": ("controllerManager",), "kube-scheduler": ("scheduler",)},
}
"""Release → its components, and where in its values each one's `extraArgs` are."""


@dataclass(frozen=True)
class FlagChange:
    """A flag that the chart's pod adds to those of the static pod, or changes, to make the hand-over work."""

    component: str
    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    def __str__(self) -> str:
        after = ",".join(self.after)
        return f"--{self.name}={after}" + (f" (was {','.join(self.before)})" if self.before else "")


@dataclass(frozen=True)
class Derived:
    """Release → complete values, and the flags that still differ."""

    values: Mapping[str, Values]
    changes: tuple[FlagChange, ...]


def derive_values(
    facts: KubeadmFacts, addresses: tuple[str, ...], own: Mapping[str, Mapping[str, Any]], helm: Helm, charts: Path
) -> Derived:
    """The operator's own values (`own`, by release) win; the rest is kubeadm's.

    Raises Inhibited when a flag, a volume or another part of a static pod would be lost or would change, or differs
    between controllers, or when an address that clients use would not be served.
    """
    check_static_pods(facts)
    _same_everywhere(facts)
    values = {name: merged(base, own.get(name, {})) for name, base in base_values(facts, addresses, {}).items()}
    _serve_all_clients(facts, values["kube-apiserver"])
    pki = str(values["kube-apiserver"]["pki"]["hostPath"])
    changes: list[FlagChange] = []

    def rendered_offline(release: str) -> str:
        target = KubernetesVersion.parse(str(facts.configuration["kubernetesVersion"]))
        return helm.render(
            ReleaseSpec(release, "kube-system", charts / release, values[release]), target=target, offline=True
        )

    for release, components in _RELEASES.items():
        bare = rendered_offline(release)
        for component, path in components.items():
            lost = missing_flags(facts.component(component), rendered_flags(bare, component))
            part = _at(values[release], path)
            # The operator's own extraArgs win over the static pod.
            args = {**extra_args(lost), **part.get("extraArgs", {})}
            if args:
                part["extraArgs"] = args
            if "extraVolumes" not in _at(own.get(release, {}), path):
                part |= extra_volumes(facts.component(component), rendered_pod(bare, component), pki)
        full = rendered_offline(release)
        for component, path in components.items():
            rendered = rendered_flags(full, component)
            _verify(facts, component, rendered, _at(own.get(release, {}), path))
            _verify_volumes(facts, component, rendered_pod(full, component), pki)
            changes += _changes(component, facts.component(component).flags, rendered)
    return Derived(values, tuple(changes))


def about_source_addresses(facts: KubeadmFacts) -> str:
    """What becomes of clients' addresses in the audit log; "" once no static kube-apiserver is active any more."""
    if not any("kube-apiserver" in controller.active for controller in facts.controllers):
        return ""
    flags = facts.component("kube-apiserver").flags
    audit = sorted(name for name in flags if name in ("audit-log-path", "audit-webhook-config-file"))
    known = f"It writes an audit log (--{', --'.join(audit)}). " if audit else ""
    return (
        "kube-apiserver will see every client at a loopback address, as HAProxy is in front of it. "
        f"{known}Audit events then have 127.x.y.z as their `sourceIPs`; users and user agents stay as they are."
    )


def _serve_all_clients(facts: KubeadmFacts, values: Values) -> None:
    left = set(facts.client_addresses) - set(values.get("extraAddresses", ()))
    if left and not values.get("exposeOnAllInterfaces"):
        raise Inhibited(
            f"clients use the API at {', '.join(sorted(left))}, where it would not be served any more",
            remedy="Add that to `extraAddresses` in values/kube-apiserver.yaml.",
        )


def _at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        values = values.get(key, {})
    return values


def _changes(component: str, before: Flags, after: Flags) -> Iterator[FlagChange]:
    for name in sorted(after):
        # The node's own address is known only when the pod runs.
        if name != "advertise-address" and before.get(name, ()) != after[name]:
            yield FlagChange(component, name, before.get(name, ()), after[name])


def _verify(facts: KubeadmFacts, component: str, rendered: Flags, chosen: Mapping[str, Any]) -> None:
    static = facts.component(component)
    lost = {name for name in missing_flags(static, rendered) if name not in chosen.get("extraArgs", {})}
    if lost:
        flags = ", ".join(f"--{name}={','.join(static.flags[name])}" for name in sorted(lost))
        raise Inhibited(
            f"{component}'s static pod has flags that the chart can't take over: {flags}",
            remedy="Remove them from the static pod, or set them in the release's `extraArgs`.",
        )


def _verify_volumes(facts: KubeadmFacts, component: str, rendered: Mapping[str, Any], pki: str) -> None:
    for controller in facts.controllers:
        # Of a pod that was retired before, the operator's values are the newer word.
        if static := controller.active.get(component):
            if lost := missing_mounts(static, rendered, pki):
                raise Inhibited(
                    f"{component}'s static pod on {controller.host.name} has volumes that the chart's pod would lack: "
                    f"{', '.join(map(str, lost))}",
                    remedy="Add them to the release's `extraVolumes` and `extraVolumeMounts`. Where the chart mounts "
                    "something of its own at the same path, mount yours elsewhere in the static pod first.",
                )
            _verify_written(controller.host.name, static, rendered)


def _verify_written(host: str, static: StaticPod, rendered: Mapping[str, Any]) -> None:
    """The audit log is the one file that a component writes."""
    for path in static.flags.get("audit-log-path", ()):
        if path not in ("-", "") and not writable(static.component, rendered, path):
            raise Inhibited(
                f"{static.component} on {host} writes its audit log to {path}, which is in no volume that it may write "
                "to: the chart's container has a read-only file system",
                remedy="Mount the log's folder, as a hostPath volume that isn't readOnly, in the static pod first. "
                "Below the folder of certificates nothing can be written.",
            )


def _same_everywhere(facts: KubeadmFacts) -> None:
    """One chart serves all controllers, so their flags must agree (other than their own addresses)."""
    for component in COMPONENTS:
        first = facts.component(component)
        for controller in facts.controllers:
            other = controller.known(component)
            differing = {
                name
                for name in {*first.flags, *(other.flags if other else ())} - {"advertise-address"}
                if other and first.flags.get(name) != other.flags.get(name)
            }
            if differing:
                raise Inhibited(
                    f"{component} on {controller.host.name} differs from {facts.controllers[0].host.name} in "
                    f"{', '.join(f'--{name}' for name in sorted(differing))}",
                    remedy=_same_flags(differing),
                )
            parts = [name for name, part in _PARTS.items() if other and part(first) != part(other)]
            if parts:
                raise Inhibited(
                    f"{component} on {controller.host.name} differs from {facts.controllers[0].host.name} in its "
                    f"{' and its '.join(parts)}",
                    remedy="One release serves all controllers: give their static pods the same first.",
                )


def _same_flags(names: set[str]) -> str:
    same = "Give the static pods of all controllers the same flags first."
    if names <= {"etcd-certfile", "etcd-keyfile"}:
        same += (
            " Of certificates that are each controller's own, such as Kubespray's node-NAME.pem: copy them to the same "
            "path on every controller, and name that in the flags."
        )
    return same


_PARTS: Mapping[str, Callable[[StaticPod], Any]] = {
    "image": lambda pod: pod.image,
    "volumes": lambda pod: sorted(str(each) for each in missing_mounts(pod, {"containers": []}, "")),
    "variables": lambda pod: sorted((each["name"], each.get("value")) for each in pod.container.get("env") or ()),
    "resources": lambda pod: pod.container.get("resources") or {},
}

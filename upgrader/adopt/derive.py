"""Derives values for the charts from kubeadm's facts, and verifies by rendering that every flag stays the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.adopt.addon_parts import SECTIONS, check_addon
from upgrader.adopt.addon_rights import check_rights
from upgrader.adopt.dns_probes import check_dns_probes
from upgrader.adopt.dns_service import check_service
from upgrader.adopt.facts import KubeadmFacts
from upgrader.adopt.health_requests import check_anonymous
from upgrader.adopt.nothing_lost import check_etcd, check_flags, check_metadata, check_variables, check_volumes
from upgrader.adopt.pod_metadata import addon_metadata, extra_metadata, metadata_of, rendered_metadata
from upgrader.adopt.schema_values import check_addons_images
from upgrader.adopt.values import HANDED_OVER, base_values, extra_args, missing_flags, rendered_flags
from upgrader.adopt.volumes import extra_volumes, with_files
from upgrader.errors import Blocked
from upgrader.gates.manifest_workloads import pod_spec
from upgrader.model.components import RELEASE_AND_SECTION
from upgrader.model.release import ReleaseSpec, merged
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Helm

__all__ = ["Derived", "FlagChange", "about_restored_servers", "about_source_addresses", "derive_values", "flag_changes"]

_PASSED_ON = "127.0.0.2"
"""Where the chart's HAProxy reaches a static kube-apiserver that is restored beside it (files/front.cfg)."""

Values = dict[str, Any]
Flags = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class FlagChange:
    """A flag that the chart's pod adds to those of the static pod, changes, or lacks, to make the hand-over work."""

    component: str
    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    def __str__(self) -> str:
        if not self.after:
            return f"no --{self.name} (was {','.join(self.before)})"
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
    """The operator's own values (`own`, by release) win; the rest is kubeadm's, the same on all controllers.

    Raises Blocked when a flag, a volume, a label or another part of a static pod would be lost or would change, or when
    an address that clients use would not be served.
    """
    check_anonymous(facts.controllers, own.get("kube-apiserver", {}))
    check_etcd(facts.controllers, own.get("kube-apiserver", {}))
    check_addons_images(facts, own.get("kubernetes", {}))
    kubeadms = base_values(facts, addresses, {})
    values = {name: merged(base, own.get(name, {})) for name, base in kubeadms.items()}
    _serve_all_clients(facts, values["kube-apiserver"])
    pki = str(values["kube-apiserver"]["pki"]["hostPath"])
    changes: list[FlagChange] = []

    def rendered_offline(release: str, these: Values) -> str:
        target = KubernetesVersion.parse(facts.version)
        return helm.render(ReleaseSpec(release, "kube-system", charts / release, these), target=target, offline=True)

    for release in ("kube-apiserver", "kubernetes"):
        components = {name: section for name, (its, section) in RELEASE_AND_SECTION.items() if its == release}
        bare = rendered_offline(release, values[release])
        mine = own.get(release, {})
        # Of kubeadm's addons, a chart may have only what the operator's own values put right; they set no flag.
        addons = {section: values[release][section] for section in SECTIONS.values() if section in values[release]}
        plain = rendered_offline(release, kubeadms[release] | addons) if mine else bare
        decided = {name: _decided(name, plain, bare, mine) for name in components}
        for component, path in components.items():
            missing = missing_flags(facts.component(component), rendered_flags(bare, component))
            lost = {name: given for name, given in missing.items() if name not in decided[component]}
            part = _at(values[release], path)
            # The operator's own extraArgs win over the static pod.
            args = {**extra_args(lost), **part.get("extraArgs", {})}
            if args:
                part["extraArgs"] = args
            if "extraVolumes" not in _at(mine, path):
                extra = extra_volumes(facts.component(component), pod_spec(bare, component), pki, facts.by_file)
                part |= with_files(extra, facts.single_files if component == "kube-apiserver" else {})
            if static := facts.running(component):
                _keep(part, extra_metadata(metadata_of(static), rendered_metadata(bare, component)))
        for name, addon in facts.addons.items() if release == "kubernetes" else ():
            metadata = extra_metadata(addon_metadata(addon), rendered_metadata(bare, name))
            _keep(values[release][SECTIONS[name]], metadata)
        full = rendered_offline(release, values[release])
        for component, path in components.items():
            rendered = rendered_flags(full, component)
            chosen = _at(mine, path)
            check_flags(facts, component, rendered, {*chosen.get("extraArgs", {}), *decided[component]})
            check_metadata(facts, component, rendered_metadata(full, component), chosen)
            check_variables(facts, component, pod_spec(full, component))
            check_volumes(facts, component, pod_spec(full, component), pki)
            changes += flag_changes(component, facts.component(component).flags, rendered)
        if release == "kubernetes":
            for name, addon in facts.addons.items():
                check_addon(addon, full, _at(mine, (SECTIONS[name],)), facts.dns_keys)
            check_rights(facts.dns_role, full)
            check_service(facts.dns_service, facts.dns_deployment, full)
            check_dns_probes(facts.dns_deployment, full)
    return Derived(values, tuple(changes))


def about_source_addresses(facts: KubeadmFacts) -> str:
    """What becomes of clients' addresses in the audit log; "" once no static kube-apiserver is active any more."""
    if not any("kube-apiserver" in controller.active for controller in facts.controllers):
        return ""
    flags = facts.component("kube-apiserver").flags
    audit = sorted(name for name in flags if name in ("audit-log-path", "audit-webhook-config-file"))
    known = f"It writes an audit log (--{', --'.join(audit)}). " if audit else ""
    return (
        f"kube-apiserver will see a loopback address for every client, because HAProxy is in front of it. {known}Audit "
        "events then have 127.x.y.z as their `sourceIPs`; users and user agents stay as they are."
    )


def about_restored_servers(facts: KubeadmFacts, values: Values) -> str:
    """What blocks a static kube-apiserver that is restored beside the chart's, with `values`; "" for nothing."""
    where = (
        "with `exposeOnAllInterfaces`"
        if values.get("exposeOnAllInterfaces")
        else f"at {_PASSED_ON}"
        if _PASSED_ON in values.get("extraAddresses", ())
        else ""
    )
    if not (facts.without_ipv6_loopback and where):
        return ""
    return (
        f"On {', '.join(facts.without_ipv6_loopback)}, the loopback interface has no ::1, so kubeadm's kube-apiserver "
        f"connects to itself at 127.0.0.1. If `adopt --undo` or a rollback restores it, the chart's HAProxy ({where}) "
        "receives these connections: kubeadm's kube-apiserver can't complete its start until "
        "HAProxy has ended, and clients may get HTTP 403 for a minute. To prevent that, give the loopback interface "
        "its ::1: `sysctl -w net.ipv6.conf.lo.disable_ipv6=0`, and the same in /etc/sysctl.d (a kernel with "
        "`ipv6.disable=1` needs that parameter removed)."
    )


def _serve_all_clients(facts: KubeadmFacts, values: Values) -> None:
    left = set(facts.client_addresses) - set(values.get("extraAddresses", ()))
    if left and not values.get("exposeOnAllInterfaces"):
        raise Blocked(
            f"clients reach the API at {', '.join(sorted(left))}; after adoption, the API would no longer be served "
            "there",
            remedy="Add these addresses to `extraAddresses` in values/kube-apiserver.yaml.",
        )


def _decided(component: str, plain: str, bare: str, own: Mapping[str, Any]) -> frozenset[str]:
    """Flags that are otherwise than with kubeadm's values alone (`plain`): the operator's own decide on them."""
    before, after = rendered_flags(plain, component), rendered_flags(bare, component)
    # One that the chart can't have is left out of kubeadm's values.
    etcd = {"etcd-servers"} if component == "kube-apiserver" and (own.get("etcd") or {}).get("servers") else set()
    return frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)) | etcd


def _keep(part: Values, metadata: Mapping[str, Mapping[str, str]]) -> None:
    """What the values say already counts."""
    for key, entries in metadata.items():
        part[key] = {**entries, **(part.get(key) or {})}


def _at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        values = values.get(key, {})
    return values


def flag_changes(component: str, before: Flags, after: Flags) -> Iterator[FlagChange]:
    """Of a static pod's flags to those of the chart's pod."""
    for name in sorted(after.keys() | before.keys() & HANDED_OVER):
        # The node's own address is known only when the pod runs.
        if name != "advertise-address" and before.get(name) != after.get(name):
            yield FlagChange(component, name, before.get(name, ()), after.get(name, ()))

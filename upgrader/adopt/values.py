"""Makes the charts' values from kubeadm's facts. Pure.

Each chart has its own values for what a cluster must configure; every other flag of a static pod goes to `extraArgs`,
so that nothing an operator configured is lost. Rendering the chart without them shows which flags those are
(`missing_flags`); a list would go stale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from upgrader.adopt.addon_parts import addon_values
from upgrader.adopt.client_addresses import secure_port
from upgrader.adopt.dns_service import traffic_distribution
from upgrader.adopt.facts import KubeadmFacts, StaticPod, flags_of
from upgrader.adopt.graceful_end import SHUTDOWN_DELAY, graceful_shutdown
from upgrader.adopt.proxy_kubeconfig import proxy_server
from upgrader.adopt.variables import as_written, variables_of
from upgrader.gates.manifest_workloads import pod_spec
from upgrader.model.go_yaml import first_document
from upgrader.model.version import KUBELET_MINORS, KubernetesVersion

__all__ = [
    "CA_FOR_ALL",
    "HANDED_OVER",
    "base_values",
    "container_image",
    "defaults_kept",
    "etcd_servers",
    "extra_args",
    "image_values",
    "missing_flags",
    "rendered_flags",
]

HANDED_OVER = frozenset(
    {
        "bind-address",
        "advertise-address",
        "secure-port",
        "permit-port-sharing",
        "endpoint-reconciler-type",
        SHUTDOWN_DELAY,
    }
)
"""Flags that the charts set differently on purpose, so that one pod can take over from another."""

_CA_FOLDERS = (
    "/etc/ssl/certs",
    "/etc/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
)
"""As the charts have them by default."""

_TOKENS = "token-auth-file"
_SERVICES = "service-cluster-ip-range"
CA_FOR_ALL = ("cluster-signing-cert-file", "cluster-signing-key-file")

Values = dict[str, Any]

_VERSION = re.compile(r"v\d+\.\d+\.\d+")

_KUBEADMS_RESOURCES: Mapping[str, Mapping[str, Any]] = {
    "kube-apiserver": {"requests": {"cpu": "250m"}},
    "kube-controller-manager": {"requests": {"cpu": "200m"}},
    "kube-scheduler": {"requests": {"cpu": "100m"}},
}
"""No one has chosen these: the charts' defaults are better."""


def base_values(facts: KubeadmFacts, addresses: tuple[str, ...], checkpointer: Mapping[str, Any]) -> dict[str, Values]:
    """Release → values, without any `extraArgs` yet. `addresses` are the controllers', in order."""
    api = facts.component("kube-apiserver")
    version = facts.version
    return {
        "pod-checkpointer": dict(checkpointer),
        "kube-apiserver": _api_server(facts, api, version, addresses),
        "kubernetes": _kubernetes(facts, version, len(addresses)),
    }


def _api_server(facts: KubeadmFacts, api: StaticPod, version: str, addresses: tuple[str, ...]) -> Values:
    values: Values = {
        "kubernetesVersion": version,
        "replicas": len(addresses),
        "image": image_values(api.image, version),
        "port": secure_port(api.flags),
        "extraAddresses": list(facts.client_addresses),
        **({"etcd": {"servers": servers}} if (servers := etcd_servers(api)) else {}),
        "network": {"serviceSubnet": _services(api)},
        "serviceAccount": {"issuer": api.flags["service-account-issuer"][0]},
        "pki": {"hostPath": facts.certificates},
        **_ca_folders(api),
        **_extras(api),
    }
    if _flag(api, _TOKENS, ""):
        # kube-apiserver reads one such file only: the operator's stays, and HAProxy's check is anonymous.
        values["health"] = {"token": False}
    if graceful := graceful_shutdown(api):
        values["gracefulShutdown"] = graceful
    if len(addresses) == 1:
        values["endpoints"] = {"addresses": list(addresses)}
    return values


def _kubernetes(facts: KubeadmFacts, version: str, controllers: int) -> Values:
    manager, scheduler = facts.component("kube-controller-manager"), facts.component("kube-scheduler")
    return {
        "kubernetesVersion": version,
        "network": {
            "podSubnet": _flag(manager, "cluster-cidr", ""),
            "serviceSubnet": _flag(manager, _SERVICES, "") or _services(facts.component("kube-apiserver")),
            "clusterName": _flag(manager, "cluster-name", "") or "kubernetes",
        },
        "pki": {"hostPath": facts.certificates},
        **_ca_folders(manager),
        "controllerManager": _leader(manager, version, controllers),
        "scheduler": _leader(scheduler, version, controllers),
        "kubeProxy": _kube_proxy(facts, version),
        "coredns": _coredns(facts),
    }


def _kube_proxy(facts: KubeadmFacts, version: str) -> Values:
    daemonset = facts.proxy_daemonset
    if daemonset is None:
        return {"enabled": False}
    return {
        "image": image_values(container_image(daemonset), version),
        "server": proxy_server(facts.proxy_kubeconfig),
        "config": first_document(facts.proxy_config),
        **addon_values(daemonset),
    }


def _coredns(facts: KubeadmFacts) -> Values:
    deployment = facts.dns_deployment
    if deployment is None:
        return {"enabled": False}
    return {
        "image": image_values(container_image(deployment), ""),
        "replicas": deployment["spec"]["replicas"],
        "clusterIP": facts.dns_address,
        **({"trafficDistribution": spread} if (spread := traffic_distribution(facts.dns_service)) else {}),
        "corefile": facts.corefile,
        **addon_values(deployment),
    }


def _leader(pod: StaticPod, version: str, controllers: int) -> Values:
    values: Values = {"replicas": controllers, "image": image_values(pod.image, version), **_extras(pod)}
    if "kubeconfig" in pod.flags:
        values["kubeconfig"] = pod.flags["kubeconfig"][-1]
    return values


def etcd_servers(api: StaticPod, *, odd: bool = False) -> list[str]:
    """The addresses of etcd that the chart can have; or those that it can't (`odd`)."""
    given = _flag(api, "etcd-servers", "https://127.0.0.1:2379").split(",")
    return [each for each in given if each and each.startswith(("http://", "https://")) is not odd]


def image_values(reference: str, version: str) -> Values:
    """`repository` and what else is needed. `version` "": the image has versions of its own."""
    name, _, digest = reference.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        # The kubelet's default, which isn't the charts'.
        repository, tag = name, "" if digest else "latest"
    image: Values = {"repository": repository}
    # A version of Kubernetes is never written here: it would keep the image at that version in the next upgrade.
    if not (version and _of_kubernetes(tag, KubernetesVersion.parse(version))):
        image["tag"] = tag
    if digest:
        image["digest"] = digest
    return image


def _of_kubernetes(tag: str, version: KubernetesVersion) -> bool:
    """Whether a tag is a version of Kubernetes, beside a kube-apiserver of this one. Others number their own builds, as
    those of a scheduler with plugins.
    """
    return bool(_VERSION.fullmatch(tag)) and abs(version.minors_after(KubernetesVersion.parse(tag))) <= KUBELET_MINORS


def container_image(workload: Mapping[str, Any]) -> str:
    """That of a workload's first container."""
    return str(workload["spec"]["template"]["spec"]["containers"][0]["image"])


def _ca_folders(pod: StaticPod) -> Values:
    """Those that kubeadm found on the node: another one may be where nothing can be made, as in a read-only /usr."""
    volumes = pod.pod["spec"].get("volumes") or ()
    there = {str((volume.get("hostPath") or {}).get("path")) for volume in volumes}
    found = [folder for folder in _CA_FOLDERS if folder in there]
    return {"caFolders": found} if found and tuple(found) != _CA_FOLDERS else {}


def _extras(pod: StaticPod) -> Values:
    """Environment and resources that kubeadm doesn't set by itself."""
    resources = {key: value for key, value in (pod.container.get("resources") or {}).items() if value}
    found = {
        "extraEnv": variables_of(pod.container),
        "resources": {} if resources == _KUBEADMS_RESOURCES.get(pod.component) else _with_requests(resources),
    }
    return {key: value for key, value in found.items() if value}


def _with_requests(resources: Mapping[str, Any]) -> Values:
    """A limit is the request, too, where there is none: the chart's default would take its place, and may exceed it."""
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**resources, "requests": requests} if requests else {**resources}


def _services(api: StaticPod) -> str:
    """The range of Services; without the flag, or with an empty one, kube-apiserver's own."""
    return _flag(api, _SERVICES, "") or "10.0.0.0/24"


def _flag(pod: StaticPod, name: str, default: str) -> str:
    return pod.flags[name][-1] if name in pod.flags else default


def rendered_flags(manifest: str, deployment: str) -> Mapping[str, tuple[str, ...]]:
    """The flags that a Deployment's container of the same name has, in a rendered chart."""
    for container in pod_spec(manifest, deployment).get("containers", ()):
        if container["name"] == deployment:
            return flags_of(container)
    return {}


def missing_flags(pod: StaticPod, rendered: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """The static pod's flags that the chart would not set, or would set to something else."""
    wanted = {**_without_a_ca_for_all(pod), **defaults_kept(pod), **pod.flags}
    if not _flag(pod, _TOKENS, ""):  # an empty one is none: the chart has its own
        wanted.pop(_TOKENS, None)
    if "kubeconfig" in wanted:  # a value of the chart's own, as the last one given
        wanted["kubeconfig"] = wanted["kubeconfig"][-1:]
    return {name: values for name, values in wanted.items() if name not in HANDED_OVER and rendered.get(name) != values}


def defaults_kept(pod: StaticPod) -> Mapping[str, tuple[str, ...]]:
    """Kubernetes' own defaults of flags that a static pod hasn't, and that the chart sets to something else: clients
    would lose their rights, and nodes would get ranges of pods beside those of their network plugin.
    """
    if pod.component == "kube-apiserver" and not pod.flags.keys() & {"authorization-mode", "authorization-config"}:
        return {"authorization-mode": ("AlwaysAllow",)}
    if _flag(pod, "cluster-cidr", "") and "allocate-node-cidrs" not in pod.flags:
        return {"allocate-node-cidrs": ("false",)}
    return {}


def _without_a_ca_for_all(pod: StaticPod) -> Mapping[str, tuple[str, ...]]:
    """kube-controller-manager starts with one CA for all signers (as the chart has it), or with one for each: empty
    flags for all, where a static pod has only those.
    """
    signs = any(name.startswith("cluster-signing-") and name.endswith("-file") for name in pod.flags)
    return dict.fromkeys(CA_FOR_ALL, ("",)) if signs else {}


def extra_args(flags: Mapping[str, tuple[str, ...]]) -> dict[str, str | list[str]]:
    """Flags in the form of the charts' `extraArgs`."""
    written = {name: [as_written(value) for value in values] for name, values in flags.items()}
    return {name: values[0] if len(values) == 1 else values for name, values in written.items()}

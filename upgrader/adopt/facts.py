"""The state of a kubeadm cluster before its adoption: its static pods, and how kubeadm configured it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from upgrader.adopt.addon_rights import COREDNS_ROLE
from upgrader.adopt.client_addresses import ApiPod, client_addresses, without_ipv6_loopback
from upgrader.adopt.manifest_fields import lacking
from upgrader.contract.flags import command_line, values
from upgrader.errors import Blocked
from upgrader.model.cluster import Cluster, Host
from upgrader.model.config_text import read_config, read_first
from upgrader.model.go_yaml import first_document
from upgrader.model.kubeadm_config import certificates_folder
from upgrader.model.version import KubernetesVersion, too_old
from upgrader.ports import Hosts, Kind, Kube, KubeObject

__all__ = [
    "ADOPTED",
    "COMPONENTS",
    "MANIFESTS",
    "ControllerFacts",
    "KubeadmFacts",
    "StaticPod",
    "at_version",
    "flags_of",
    "read_controllers",
    "read_facts",
]

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
MANIFESTS = "/etc/kubernetes/manifests"
ADOPTED = "/etc/kubernetes/upgrader/adopted"
"""Where adoption keeps the manifests that it moved out of the kubelet's folder."""

_YAML = {"ClusterConfiguration": read_config, "config.conf": read_first, "kubeconfig.conf": read_first}
"""Keys of kubeadm's ConfigMaps, and how they are read."""
_CONFIG_MAPS = Kind("v1", "configmaps")
_SERVICES = Kind("v1", "services")
_CLUSTER_ROLES = Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False)
_SYSTEM = "kube-system"


@dataclass(frozen=True)
class StaticPod:
    """One of kubeadm's manifests: `flags` by name without dashes, in the order of repetition."""

    component: str
    manifest: bytes
    flags: Mapping[str, tuple[str, ...]]
    image: str

    @property
    def pod(self) -> dict[str, Any]:
        """The manifest as an object."""
        loaded: dict[str, Any] = first_document(self.manifest)
        return loaded

    @property
    def container(self) -> dict[str, Any]:
        """The component's own container."""
        return _own(self.pod, self.component)


@dataclass(frozen=True)
class ControllerFacts:
    """One controller's static pods: `active` ones run, `adopted` ones were retired by an earlier adoption."""

    host: Host
    active: Mapping[str, StaticPod]
    adopted: Mapping[str, StaticPod]

    def known(self, component: str) -> StaticPod | None:
        """A component's manifest, wherever it is."""
        return self.active.get(component) or self.adopted.get(component)


@dataclass(frozen=True)
class KubeadmFacts:
    """kubeadm's ClusterConfiguration, the add-ons as they run, and every controller.

    An add-on that the operator's values leave alone is None, and what belongs to it is empty.
    """

    configuration: Mapping[str, Any]
    proxy_config: str
    """KubeProxyConfiguration as YAML."""
    proxy_kubeconfig: str
    corefile: str
    dns_address: str
    dns_deployment: KubeObject | None
    proxy_daemonset: KubeObject | None
    controllers: tuple[ControllerFacts, ...]
    dns_keys: tuple[str, ...] = ()
    """The keys of ConfigMap coredns; others than the Corefile stay in it."""
    dns_role: KubeObject | None = None
    """CoreDNS's ClusterRole."""
    dns_service: KubeObject | None = None
    """Service kube-dns."""
    client_addresses: tuple[str, ...] = ()
    """Where clients use the API, other than at the controllers' own addresses."""
    without_ipv6_loopback: tuple[str, ...] = ()
    """Names of the controllers on which kube-apiserver connects to itself at 127.0.0.1."""
    by_file: tuple[str, ...] = ()
    """Folders of kube-apiserver's static pod, as paths in its container, of which the chart mounts single files."""
    single_files: Mapping[str, str] = field(default_factory=dict)
    """Those files, and what others name in the folder of certificates: path in the container → on the controller."""

    @property
    def certificates(self) -> str:
        """kubeadm's folder of certificates. Raises Blocked."""
        folder = certificates_folder(self.configuration)
        if not folder.startswith("/"):
            raise Blocked(
                f"ConfigMap {_SYSTEM}/kubeadm-config: certificatesDir: '{folder}' is not an absolute path; nothing was "
                "changed",
                remedy=f"Correct it: kubectl -n {_SYSTEM} edit configmap kubeadm-config",
            )
        return folder

    @property
    def version(self) -> str:
        """kubeadm's version of the control plane, such as `v1.36.3`, with a vendor's suffix. Raises Blocked."""
        text = str(self.configuration.get("kubernetesVersion") or "")
        version = KubernetesVersion.known(text)
        why = too_old(version) if version else "is not a Kubernetes version"
        if why:
            raise Blocked(
                f"ConfigMap {_SYSTEM}/kubeadm-config: kubernetesVersion: {version or repr(text)} {why}; nothing was "
                "changed",
                remedy="Set it to the running version, such as v1.36.3, because kubeadm reads it there: kubectl -n "
                f"{_SYSTEM} edit configmap kubeadm-config",
            )
        return f"v{text.removeprefix('v')}"

    @property
    def addons(self) -> Mapping[str, KubeObject]:
        """kube-proxy's DaemonSet and CoreDNS's Deployment by name, those that aren't left alone."""
        found = {"kube-proxy": self.proxy_daemonset, "coredns": self.dns_deployment}
        return {name: workload for name, workload in found.items() if workload is not None}

    def component(self, name: str) -> StaticPod:
        """The first controller's manifest of a component; raises Blocked when there is none anywhere."""
        for controller in self.controllers:
            found = controller.known(name)
            if found is not None:
                return found
        raise Blocked(
            f"{name} has no static pod manifest on any controller ({MANIFESTS})",
            remedy="Only kubeadm control planes can be adopted.",
        )

    def running(self, name: str) -> StaticPod | None:
        """The first manifest of a component that runs; None once all were retired."""
        found = (controller.active.get(name) for controller in self.controllers)
        return next(filter(None, found), None)


def read_facts(
    kube: Kube,
    hosts: Hosts,
    controllers: tuple[ControllerFacts, ...],
    servers: Iterable[str],
    left_alone: Collection[str] = (),
) -> KubeadmFacts:
    """Read the cluster, and where the controllers' clients use the API. `servers` are the hosts that the operator's
    kubeconfig leads to; `left_alone` those of `kubeProxy` and `coredns` that the values don't have managed.

    Raises ApiError, HostError, or Blocked where kubeadm was not used.
    """
    pods = [ApiPod(each.host, pod.flags) for each in controllers if (pod := each.known("kube-apiserver"))]
    configuration = _config_map(kube, "kubeadm-config")["ClusterConfiguration"]
    proxy = {} if "kubeProxy" in left_alone else _config_map(kube, "kube-proxy", "kubeProxy")
    dns = {} if "coredns" in left_alone else _config_map(kube, "coredns", "coredns")
    service = _existing(kube, _SERVICES, "kube-dns", "coredns") if dns else None
    return KubeadmFacts(
        configuration=read_config(configuration),
        proxy_config=proxy.get("config.conf", ""),
        proxy_kubeconfig=proxy.get("kubeconfig.conf", ""),
        corefile=dns.get("Corefile", ""),
        dns_keys=_keys(kube, "coredns") if dns else (),
        dns_address=service["spec"]["clusterIP"] if service else "",
        dns_deployment=_existing(kube, Kind("apps/v1", "deployments"), "coredns", "coredns") if dns else None,
        proxy_daemonset=_existing(kube, Kind("apps/v1", "daemonsets"), "kube-proxy", "kubeProxy") if proxy else None,
        controllers=controllers,
        dns_role=kube.get(_CLUSTER_ROLES, COREDNS_ROLE) if dns else None,
        dns_service=service,
        client_addresses=client_addresses(kube, hosts, pods, servers),
        without_ipv6_loopback=without_ipv6_loopback(hosts, pods),
    )


def _config_map(kube: Kube, name: str, section: str = "") -> Mapping[str, str]:
    data: Mapping[str, str] = _existing(kube, _CONFIG_MAPS, name, section).get("data") or {}
    key = {"kubeadm-config": "ClusterConfiguration", "kube-proxy": "config.conf", "coredns": "Corefile"}[name]
    if key not in data:
        raise Blocked(f"ConfigMap {_SYSTEM}/{name} has no {key}; nothing was changed", remedy=_not_kubeadms(section))
    for key in _YAML.keys() & data.keys():
        try:
            _YAML[key](data[key])  # whoever writes ConfigMaps there may have put anything into it
        except ValueError as error:
            raise Blocked(
                f"ConfigMap {_SYSTEM}/{name}: {key}: {error}; nothing was changed",
                remedy=f"Correct it: kubectl -n {_SYSTEM} edit configmap {name}",
            ) from error
    return data


def _keys(kube: Kube, config_map: str) -> tuple[str, ...]:
    found = kube.get(_CONFIG_MAPS, config_map, _SYSTEM) or {}
    return tuple(sorted({*(found.get("data") or {}), *(found.get("binaryData") or {})}))


def _existing(kube: Kube, kind: Kind, name: str, section: str = "") -> KubeObject:
    found = kube.get(kind, name, _SYSTEM)
    if found is None:
        raise Blocked(
            f"{kind.plural} {_SYSTEM}/{name} does not exist; nothing was changed", remedy=_not_kubeadms(section)
        )
    return found


def _not_kubeadms(section: str) -> str:
    if not section:
        return "Only kubeadm clusters can be adopted."
    what = "CoreDNS" if section == "coredns" else "kube-proxy"
    return (
        f"If {what} isn't kubeadm's (Kubespray has its own CoreDNS, Cilium may replace kube-proxy), set "
        f"`{section}.enabled: false` in values/kubernetes.yaml: adoption and upgrades then leave its replacement "
        "unchanged."
    )


def read_controllers(hosts: Hosts, cluster: Cluster) -> tuple[ControllerFacts, ...]:
    """The static pods of each controller. Raises HostError, and Blocked for a file that is none."""
    return tuple(_controller(hosts, host) for host in cluster.controllers)


def _controller(hosts: Hosts, host: Host) -> ControllerFacts:
    return ControllerFacts(host, _static_pods(hosts, host, MANIFESTS), _static_pods(hosts, host, ADOPTED))


def _static_pods(hosts: Hosts, host: Host, folder: str) -> Mapping[str, StaticPod]:
    found = {}
    for component in COMPONENTS:
        content = hosts.read(host, f"{folder}/{component}.yaml")
        if content is not None:
            try:
                found[component] = _static_pod(component, content)
                lack = lacking(found[component].pod)
            except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
                mark = getattr(error, "problem_mark", None)
                raise _no_manifest(host, folder, component, f", line {mark.line + 1}" if mark else "") from error
            if lack:
                raise _no_manifest(host, folder, component, f": {lack}")
    return found


def _no_manifest(host: Host, folder: str, component: str, why: str) -> Blocked:
    return Blocked(
        f"{host.name}: {folder}/{component}.yaml is not a manifest of a static pod{why}; nothing was changed",
        remedy="Correct it. To see the kubelet's error: journalctl -u kubelet",
    )


def _static_pod(component: str, content: bytes) -> StaticPod:
    container = _own(first_document(content), component)
    return StaticPod(component, content, flags_of(container), container["image"])


def _own(pod: Mapping[str, Any], component: str) -> dict[str, Any]:
    """The container of that name, or the first one."""
    containers: list[dict[str, Any]] = pod["spec"]["containers"]
    return next((each for each in containers if each.get("name") == component), containers[0])


def at_version(image: str, version: KubernetesVersion) -> str:
    """An image reference of a Kubernetes component with the tag of a version; a digest is left as it is."""
    name, colon, tag = image.rpartition(":")
    return image if "@" in image or not colon or "/" in tag else f"{name}:{version}"


def flags_of(container: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """A container's flags by name without dashes, with the values that its program sees; in the order of repetition;
    `true` for one without a value.
    """
    return values(command_line(container))

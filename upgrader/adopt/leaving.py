"""A controller that is to leave: whether it may, by the inventory and by what its node and its machine say."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from upgrader.adopt.client_addresses import local_addresses
from upgrader.adopt.names_of_one_controller import canonical
from upgrader.errors import Blocked, HostError, HostSilent, UsageError
from upgrader.model.cluster import Cluster, Host
from upgrader.model.config_text import read_config
from upgrader.model.kubeadm_config import KUBEADM_CONFIG_MAP, KubeadmConfig
from upgrader.onhost.sending.host_facts import Examined
from upgrader.ports import Hosts, KubeObject

__all__ = [
    "check_etcd_servers",
    "control_plane_endpoint",
    "controller_to_remove",
    "own_addresses",
    "registered_addresses",
    "server_at",
    "why_dead",
    "why_silent",
]

_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_ENDPOINT = re.compile(
    rf"(?:(?P<name>{_LABEL}(?:\.{_LABEL})*)|\[(?P<ipv6>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{{1,5}}))?",
    re.ASCII | re.IGNORECASE,
)
"""As kubeadm has it: a name of DNS or an address, with or without a port."""


def controller_to_remove(cluster: Cluster, name: str) -> Host:
    """Raises UsageError for one that the inventory doesn't list, Blocked for the only one."""
    found = next((host for host in cluster.controllers if host.name == name), None)
    if found is None:
        names = ", ".join(host.name for host in cluster.controllers)
        raise UsageError(
            f"the group `controllers` of {cluster.inventory.name} has no {name!r}: nothing was changed",
            remedy=f"Name one of its controllers: {names}",
        )
    if len(cluster.controllers) == 1:
        raise Blocked(
            f"{name} is the only controller, and can't be removed; nothing was changed",
            remedy="Join another one first (kubeadm join --control-plane; upgrader adopt --new-controllers).",
        )
    return found


def check_etcd_servers(name: str, own: Collection[str], servers: Iterable[str]) -> None:
    """No kube-apiserver that stays asks the leaving controller's etcd. Raises Blocked."""
    if named := [server for server in servers if canonical(urlsplit(server).hostname or "") in {*own, name}]:
        raise Blocked(
            f"the remaining kube-apiservers use etcd on {name}: {', '.join(named)}; nothing was changed",
            remedy="First remove it from `etcd.servers` in values/kube-apiserver.yaml, and run `upgrader run`.",
        )


def why_dead(name: str, node: KubeObject | None, silent: str, *, serving: bool, said: bool) -> str:
    """Why a controller is taken for dead; "" for one that answers.

    `silent`: that nothing answers SSH there, "" where something does. `serving`: whether its kube-apiserver announces
    itself. `said`: whether the operator says that it is gone. Raises Blocked where these contradict each other.
    """
    conditions = {item["type"]: item["status"] for item in ((node or {}).get("status") or {}).get("conditions") or ()}
    if not silent:
        if said:
            raise Blocked(
                f"{name} answers over SSH, so it isn't dead, and its components must be stopped; nothing was changed",
                remedy="Run it without --dead.",
            )
        return ""
    if conditions.get("Ready") == "True":
        raise Blocked(
            f"{name} can't be reached over SSH, but its kubelet still reports: etcd and the checkpoints there would "
            "keep running; nothing was changed",
            remedy=f"Repair SSH; or power the machine off permanently, and wait until its node is not Ready. {silent}",
        )
    if serving:
        raise Blocked(
            f"nothing answers SSH on {name}, but its kube-apiserver serves: its address is in EndpointSlice "
            "default/kubernetes; nothing was changed",
            remedy="Repair SSH; or power the machine off permanently, and run the same command again in a minute, "
            f"once that address is gone: kubectl -n default get endpointslice kubernetes. {silent}",
        )
    return f"{silent}; its node is {'gone' if node is None else 'not Ready'}"


def why_silent(hosts: Hosts, examined: Examined) -> str:
    """That nothing answers SSH on a controller; "" for one that was examined.

    Raises Blocked for one that answers and could not be examined, also where it refuses the login or shows another host
    key: it may live, and what runs there isn't known. So it is where a bastion before it can't be passed.
    """
    if examined.facts is not None:
        return ""
    host = examined.host
    why, remedy = examined.error, f"Repair that on {host.name}, or power it off permanently."
    if host.proxy_command:
        remedy += " upgrader can't tell why a ProxyCommand fails: use ProxyJump for the bastion instead (ssh -J)."
    try:
        hosts.run(host, ["true"])
    except HostSilent as error:
        return error.message
    except HostError as error:
        why, remedy = error.message, "\n".join(filter(None, (error.remedy, remedy)))
    raise Blocked(f"{why}; nothing was changed", remedy=remedy)


def own_addresses(hosts: Hosts, host: Host, node: KubeObject | None, *, beside: Host, dead: bool) -> frozenset[str]:
    """By which others know a controller: those of SSH and of its kubelet, and what a living one has, as a virtual IP.

    Without what doesn't tell it from other machines: 127.0.0.1, and what the controller `beside` it has as well, as
    behind LVS, or that of a bridge of containers. Raises HostError.
    """
    local = set() if dead else local_addresses(hosts, host) - local_addresses(hosts, beside)
    found = map(canonical, {host.address, *registered_addresses(node), *local})
    return frozenset(address for address in found if not _means_itself(address))


def registered_addresses(node: KubeObject | None) -> tuple[str, ...]:
    """The addresses that a node's kubelet has registered; () for a node that is gone."""
    addresses = ((node or {}).get("status") or {}).get("addresses") or ()
    return tuple(str(item["address"]) for item in addresses if item["type"] in ("InternalIP", "ExternalIP"))


def _means_itself(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or parsed.is_link_local


def control_plane_endpoint(kubeadm_config: KubeObject | None, port: int) -> str:
    """`HOST:PORT` of ConfigMap kubeadm-config's `controlPlaneEndpoint`; "" where there is none.

    `port` is the API's own, which kubeadm takes where the endpoint has none. Raises Blocked for what is neither: it
    is to be written into a kubelet's kubeconfig, in which other text could have root start a program.
    """
    text = KubeadmConfig.of(kubeadm_config or {}).text
    try:
        endpoint = read_config(text).get("controlPlaneEndpoint") if text else None
    except ValueError as error:
        raise _refused(f"ConfigMap {KUBEADM_CONFIG_MAP} can't be read: {error}") from error
    if not endpoint:
        return ""
    found = _host_and_port(endpoint, port) if isinstance(endpoint, str) else ""
    if not found:
        raise _refused(
            f"`controlPlaneEndpoint` of ConfigMap {KUBEADM_CONFIG_MAP} is neither HOST nor HOST:PORT: {endpoint!r}"
        )
    return found


def server_at(address: str, port: int) -> str:
    """The URL of the API at an address. Raises Blocked for what is none."""
    try:
        return f"https://{_in_url(address)}:{port}"
    except ValueError as error:
        raise Blocked(
            f"a node has registered {address!r}, which is not an IP address; nothing was changed",
            remedy="Check `status.addresses` of the controllers: kubectl get nodes -o yaml",
        ) from error


def _host_and_port(endpoint: str, default: int) -> str:
    """`HOST:PORT`; "" where it is none. kubeadm also takes an IPv6 address without brackets, which has no port then."""
    with suppress(ValueError):
        return f"{_in_url(endpoint)}:{default}"
    found = _ENDPOINT.fullmatch(endpoint)
    port = int(found["port"] or default) if found else 0
    if not found or not 0 < port < 1 << 16:
        return ""
    if found["ipv6"] is None:
        return f"{found['name']}:{port}"
    try:
        return f"[{ipaddress.IPv6Address(found['ipv6'])}]:{port}"
    except ValueError:
        return ""


def _in_url(address: str) -> str:
    """Raises ValueError for what is no address, or one whose zone only a machine itself knows."""
    parsed = ipaddress.ip_address(address)
    if "%" in address:
        raise ValueError(address)
    return f"[{parsed}]" if parsed.version == 6 else str(parsed)


def _refused(why: str) -> Blocked:
    return Blocked(
        f"{why}; nothing was changed",
        remedy=f"Correct it: kubectl -n kube-system edit configmap {KUBEADM_CONFIG_MAP}",
    )

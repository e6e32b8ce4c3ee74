"""The address at which kube-controller-manager and kube-scheduler reach the API: the charts' pods have their own
network.

kubeadm's static pods share the controller's, and so its loopback addresses and its /etc/hosts. Kubespray has them use
https://127.0.0.1:6443, at which nothing listens in the charts' pods.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from upgrader import fast_yaml
from upgrader.adopt.facts import ControllerFacts, KubeadmFacts, StaticPod
from upgrader.adopt.files_of_host import files_of_host
from upgrader.adopt.volumes import innermost_mount, on_host
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["aliases_of", "check_leaders_api"]

_KUBECONFIGS = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
_LEADERS = ("kube-controller-manager", "kube-scheduler")


def aliases_of(values: Mapping[str, Any]) -> frozenset[str]:
    """The names that the release `kubernetes` tells its pods, by its values."""
    aliases = (values.get("controlPlane") or {}).get("hostAliases") or ()
    return frozenset(str(name) for alias in aliases for name in alias.get("hostnames") or ())


def check_leaders_api(hosts: Hosts, facts: KubeadmFacts, aliases: Collection[str]) -> None:
    """Of each controller whose static pods run. `aliases`: names that the pods will know.

    Raises Blocked, or HostError.
    """
    for controller in facts.controllers:
        for path, server in _servers(hosts, controller):
            host = urlsplit(server).hostname or ""
            if _is_loopback(host):
                raise Blocked(
                    f"{controller.host.name}: {path} has the server {server}, which the chart's pods can't reach: they "
                    "don't use the host network; nothing was changed",
                    remedy="On each controller, set it to its node's own address, or to the shared API endpoint; the "
                    "address must be in kube-apiserver's certificate. On this one, if its node's address is "
                    f"{controller.host.address}: sed -i 's#{server}#{_own(server, controller.host)}#' {path}. Then "
                    "restart the static pod: move its manifest out of /etc/kubernetes/manifests for a minute.",
                )
            if host not in aliases and _only_in_hosts_file(hosts, controller.host, host):
                raise Blocked(
                    f"{controller.host.name}: {path} has the server {server}, a name that is only in /etc/hosts, not "
                    "in DNS: the chart's pods can't resolve it; nothing was changed",
                    remedy=f"Set `controlPlane.hostAliases` in values/kubernetes.yaml, with {host} and its address.",
                )


def _servers(hosts: Hosts, controller: ControllerFacts) -> Iterator[tuple[str, str]]:
    """Each kubeconfig's path on the controller, and where it leads. Raises Blocked for one that is no file."""
    for component in _LEADERS:
        if static := controller.active.get(component):
            flags = {flag: static.flags[flag][-1] for flag in (*_KUBECONFIGS, "config") if flag in static.flags}
            named = {path: f"{component}'s flag --{flag}" for flag, path in flags.items()}
            if config := flags.get("config"):
                at, content = _read(hosts, controller.host, static, config, named.pop(config))
                if kubeconfig := (content.get("clientConnection") or {}).get("kubeconfig"):
                    named.setdefault(str(kubeconfig), f"{at} (clientConnection.kubeconfig)")
            for inside, by in named.items():
                at, content = _read(hosts, controller.host, static, inside, by)
                for entry in content.get("clusters") or ():
                    yield at, str(entry["cluster"].get("server", ""))


def _read(hosts: Hosts, host: Host, static: StaticPod, inside: str, by: str) -> tuple[str, Mapping[str, Any]]:
    """A file of YAML, by its path in the static pod: its path on the controller, and its content, which is empty where
    it isn't in a volume, or isn't there.
    """
    mount = innermost_mount(static, inside)
    at = on_host(mount, inside) if mount else ""
    if not at or (found := files_of_host(hosts, host, [at]).get(at)) is None:
        return at, {}
    if not found.is_file:
        raise Blocked(
            f"{host.name}: {by} names {at}, which is {found}, not a file; nothing was changed",
            remedy="Name the file that is meant, on every controller.",
        )
    return at, fast_yaml.load(hosts.read(host, at) or b"") or {}


def _own(server: str, host: Host) -> str:
    address = f"[{host.address}]" if ":" in host.address else host.address
    return f"https://{address}:{urlsplit(server).port or 443}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _only_in_hosts_file(hosts: Hosts, host: Host, name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        asked = (["getent", "-s", service, "ahosts", name] for service in ("files", "dns"))
        in_file, in_dns = (hosts.run(host, command, check=False).stdout.strip() for command in asked)
        return bool(in_file) and not in_dns
    return False

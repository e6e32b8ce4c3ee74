"""The addresses at which kube-controller-manager and kube-scheduler reach the API, and kube-scheduler its extenders:
the charts' pods have their own network.

kubeadm's static pods share the controller's, and so its loopback addresses and its /etc/hosts. Kubespray before v2.31
has them use https://127.0.0.1:6443. After the adoption, HAProxy listens there on the controller, but not in the network
of the charts' pods, where a loopback address is the pod's own (ADR 2): these need the node's own address. What listens
for an extender at a loopback address, and maybe nowhere else, is unknown here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from upgrader.adopt.client_addresses import ApiPod, names_in_certificate
from upgrader.adopt.facts import ControllerFacts, StaticPod
from upgrader.adopt.files_as_yaml import mapping_in, servers_in
from upgrader.adopt.files_of_host import files_of_host
from upgrader.adopt.static_pod_parts import other_lease
from upgrader.adopt.volumes import innermost_mount, on_host
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["OwnServer", "aliases_of", "is_loopback", "leaders_servers"]

_KUBECONFIGS = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
_SCHEDULER = "kube-scheduler"
_LEADERS = ("kube-controller-manager", _SCHEDULER)
_LEASE = (
    ("resourceName", "leader-elect-resource-name", _SCHEDULER),
    ("resourceNamespace", "leader-elect-resource-namespace", "kube-system"),
)
"""Field of kube-scheduler's configuration, its flag, and its default."""


def aliases_of(values: Mapping[str, Any]) -> frozenset[str]:
    """The names that the release `kubernetes` tells its pods, by its values. A loopback address is the pod's own."""
    aliases = (values.get("controlPlane") or {}).get("hostAliases") or ()
    useful = (alias for alias in aliases if not is_loopback(str(alias.get("ip"))))
    return frozenset(str(name) for alias in useful for name in alias.get("hostnames") or ())


@dataclass(frozen=True)
class OwnServer:
    """A kubeconfig on a controller that leads to a loopback address (`before`), and its node's own one (`after`)."""

    host: Host
    path: str
    before: str
    after: str


@dataclass(frozen=True)
class _Names:
    """Which names controllers know by their /etc/hosts, and pods by the release's values (`aliases`)."""

    hosts: Hosts
    controllers: tuple[Host, ...]
    aliases: Collection[str]

    def only_in_file(self, host: Host, name: str) -> bool:
        """Whether DNS doesn't have it."""
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return bool(self._found(host, name, "files")) and not self._found(host, name, "dns")
        return False

    def why_no_alias(self, host: Host, name: str) -> str:
        """Why no alias can stand for the name in all pods; "" if one can."""
        here = self._found(host, name, "files")
        if all(map(is_loopback, here)):
            return f"{name} has a loopback address on {host.name}. In a pod, that would be the pod's own."
        other = next((each for each in self.controllers if self._found(each, name, "files") - here), None)
        if other is None:
            return ""
        return (
            f"{name} resolves to another address on {other.name}, but `controlPlane.hostAliases` sets one address "
            "for all pods: they would all depend on one controller."
        )

    def _found(self, host: Host, name: str, service: str) -> frozenset[str]:
        command = ["getent", "-s", service, "ahosts", name]
        return frozenset(line.split()[0] for line in self.hosts.run(host, command, check=False).stdout.splitlines())


def leaders_servers(
    hosts: Hosts, controllers: Sequence[ControllerFacts], addresses: Sequence[str], aliases: Collection[str]
) -> tuple[OwnServer, ...]:
    """What must change for the charts' pods to reach the API, of each controller whose static pods run.

    kube-apiserver answers at each node's own address (`addresses`, in order), too, before the adoption and after it.
    `aliases`: names that the pods will know. Raises Blocked if that isn't enough, or HostError.
    """
    changes = []
    known = _Names(hosts, tuple(each.host for each in controllers), aliases)
    for controller, address in zip(controllers, addresses, strict=True):
        for flag, url in _masters(controller):
            name = urlsplit(url if "//" in url else f"//{url}").hostname or ""
            if is_loopback(name):
                raise Blocked(
                    f"{controller.host.name}: {flag} is {url}, which the chart's pod can't reach, because it doesn't "
                    "use the host network; nothing was changed",
                    remedy="Remove it from the static pod, on every controller: without it, the kubeconfig's server "
                    "is used. If `extraArgs` in ConfigMap kube-system/kubeadm-config sets it, also remove it there.",
                )
            _check_resolved(known, controller.host, flag, name, url)
        for path, server in _servers(hosts, controller):
            host = urlsplit(server).hostname or ""
            if is_loopback(host):
                changes.append(_own_server(hosts, controller, address, path, server))
            else:
                _check_resolved(known, controller.host, path, host, server)
        path, scheduler = _scheduler_config(hosts, controller)
        _check_lease(controller, path, scheduler)
        for url in _extenders(scheduler):
            name = urlsplit(url).hostname or ""
            if is_loopback(name):
                raise Blocked(
                    f"{controller.host.name}: {path} has the extender {url}, which the chart's kube-scheduler can't "
                    "reach, because it doesn't use the host network; nothing was changed",
                    remedy="On each controller, set the extender's `urlPrefix` to an address that pods can reach: its "
                    "Service's cluster IP, or the node's own address, if the extender listens there. Then restart "
                    "kube-scheduler's static pod.",
                )
            _check_resolved(known, controller.host, path, name, url)
    return tuple(changes)


def _masters(controller: ControllerFacts) -> Iterator[tuple[str, str]]:
    """Words for the flag that overrides the server of each kubeconfig, and what it is: a URL, or HOST:PORT."""
    for component in _LEADERS:
        if (static := controller.active.get(component)) and (given := static.flags.get("master")):
            yield f"{component}'s flag --master", given[-1]


def _check_resolved(known: _Names, host: Host, by: str, name: str, url: str) -> None:
    """Raises Blocked where a file or a flag (`by`) leads to a name that only this controller knows."""
    if name in known.aliases or not known.only_in_file(host, name):
        return
    why_no_alias = known.why_no_alias(host, name)
    raise Blocked(
        f"{host.name}: {by} uses {url}, and {name} is only in /etc/hosts, not in DNS: the chart's pods can't resolve "
        "it; nothing was changed",
        remedy=f"{why_no_alias} So use an address there, on every controller: the node's own address, or the address "
        "of a load balancer. It must be in the server's certificate."
        if why_no_alias
        else f"Set `controlPlane.hostAliases` in values/kubernetes.yaml, with {name} and its address.",
    )


def _own_server(hosts: Hosts, controller: ControllerFacts, address: str, path: str, server: str) -> OwnServer:
    """Raises Blocked where kube-apiserver isn't what answers there, or can't be trusted at the node's own address."""
    api = controller.known("kube-apiserver")
    pod = ApiPod(controller.host, api.flags if api else {})
    own = f"https://{f'[{address}]' if ':' in address else address}:{pod.port}"
    certificate = pod.certificates[0]
    if (urlsplit(server).port or 443) != pod.port:
        why = f"kube-apiserver listens at port {pod.port}, so another program must answer there"
    elif not any(_same(name, address) for name in names_in_certificate(hosts, pod, certificate)):
        why = f"the node's own address, {address}, isn't in kube-apiserver's certificate {certificate}"
    else:
        return OwnServer(controller.host, path, server, own)
    raise Blocked(
        f"{controller.host.name}: {path} has the server {server}, which the chart's pods can't reach, because they "
        f"don't use the host network; {why}; nothing was changed",
        remedy="On each controller, set it to its node's own address, or to the shared API endpoint, at a port where "
        "the API answers; the address must be in kube-apiserver's certificate. On this one: sed -i "
        f"'s#{server}#{own}#' {path}",
    )


def _servers(hosts: Hosts, controller: ControllerFacts) -> Iterator[tuple[str, str]]:
    """Each kubeconfig's path on the controller, and where it leads. Raises Blocked for one that is no file."""
    for component in _LEADERS:
        if static := controller.active.get(component):
            flags = {flag: static.flags[flag][-1] for flag in (*_KUBECONFIGS, "config") if flag in static.flags}
            named = {path: f"{component}'s flag --{flag}" for flag, path in flags.items()}
            if config := flags.get("config"):
                at, content = _read(hosts, controller.host, static, config, named.pop(config))
                connection = mapping_in(controller.host, at, content).get("clientConnection") or {}
                if kubeconfig := connection.get("kubeconfig"):
                    named.setdefault(str(kubeconfig), f"{at} (clientConnection.kubeconfig)")
            for inside, by in named.items():
                at, content = _read(hosts, controller.host, static, inside, by)
                yield from ((at, server) for server in servers_in(controller.host, at, content))


def _scheduler_config(hosts: Hosts, controller: ControllerFacts) -> tuple[str, Mapping[str, Any]]:
    """The path of kube-scheduler's configuration on the controller, and what is in it; empty without one."""
    static = controller.active.get(_SCHEDULER)
    if static is None or "config" not in static.flags:
        return "", {}
    at, content = _read(hosts, controller.host, static, static.flags["config"][-1], f"{_SCHEDULER}'s flag --config")
    return at, mapping_in(controller.host, at, content)


def _extenders(config: Mapping[str, Any]) -> Iterator[str]:
    """Where each extender is."""
    for extender in config.get("extenders") or ():
        if url := extender.get("urlPrefix"):
            yield str(url)


def _check_lease(controller: ControllerFacts, path: str, config: Mapping[str, Any]) -> None:
    """Raises Blocked for what `check_static_pods` refuses as a flag, which wins over the file. The charts' flags turn
    the election on.
    """
    static = controller.active.get(_SCHEDULER)
    flags: Collection[str] = static.flags if static else ()
    election = config.get("leaderElection") or {}
    if election.get("leaderElect") is False and "leader-elect" not in flags:
        raise Blocked(
            f"{controller.host.name}: {path} has `leaderElection.leaderElect: false`: without leader election, "
            f"{_SCHEDULER}'s static pod and the chart's pod would be active at the same time; nothing was changed",
            remedy="Remove it from the file, on every controller, and restart the static pods.",
        )
    for key, flag, own in _LEASE:
        if (found := election.get(key) or own) != own and flag not in flags:
            raise other_lease(f"{controller.host.name}: {path} has `leaderElection.{key}: {found}`", _SCHEDULER)


def _read(hosts: Hosts, host: Host, static: StaticPod, inside: str, by: str) -> tuple[str, bytes]:
    """A file, by its path in the static pod: its path on the controller, and its content; empty if no volume has it."""
    mount = innermost_mount(static, inside)
    at = on_host(mount, inside) if mount else ""
    if not at or (found := files_of_host(hosts, host, [at]).get(at)) is None:
        return at, b""
    if not found.is_file:
        raise Blocked(
            f"{host.name}: {by} names {at}, which is {found}, not a file; nothing was changed",
            remedy="Correct the path on every controller, so that it names a file.",
        )
    return at, hosts.read(host, at) or b""


def is_loopback(host: str) -> bool:
    """Whether an address, or the name `localhost`, leads to the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _same(name: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(address)
    except ValueError:
        return False

"""The addresses of a controller at which clients use the API, other than the node's own.

kubeadm's kube-apiserver listens on all of them, the chart's only on the node's own and on those that its values name.
A client verifies the certificate, so only what that contains can be such an address: a virtual IP, the advertised
address, 127.0.0.1. Kubeconfigs that don't verify the address they use are read as well, and what the programs use that
keep a virtual IP.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from cryptography import x509

from upgrader.adopt.files_as_yaml import servers_in
from upgrader.adopt.hosts_file import read_hosts_file
from upgrader.adopt.listeners import Listeners, read_listeners
from upgrader.adopt.local_clients import local_names
from upgrader.adopt.names_of_one_controller import resolved
from upgrader.adopt.node_addresses import node_address
from upgrader.contract.flags import number
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import Hosts, Kube

__all__ = [
    "ApiPod",
    "client_addresses",
    "given_address",
    "local_addresses",
    "names_in_certificate",
    "secure_port",
    "without_ipv6_loopback",
]

_PORT = 6443
"""kube-apiserver's own."""
_KUBECONFIGS = ("admin", "kubelet", "controller-manager", "scheduler")
_OWN = "::1"
"""Where a kube-apiserver that listens on all addresses connects to itself, and accepts only its own certificate."""
_BOTH = "localhost"
"""A name whose clients try 127.0.0.1, too, unless the file of the host has only the other address."""
_IPVS = "kube-ipvs0"
"""The interface on which kube-proxy's mode `ipvs` keeps the addresses of Services."""
_LOOPBACK = ipaddress.ip_network("127.0.0.0/8")
"""All of it is local, though the interface shows 127.0.0.1 alone. /etc/hosts of Debian has the machine's own name at
127.0.1.1.
"""


def given_address(flags: Mapping[str, tuple[str, ...]], name: str) -> str:
    """What a flag of kube-apiserver says, "" for nothing: an empty one leaves what another before it has said."""
    return next(filter(None, map(str.strip, reversed(flags.get(name, ())))), "")


def secure_port(flags: Mapping[str, tuple[str, ...]]) -> int:
    """Where kube-apiserver listens. Its number has been checked (`static_pod_parts.py`)."""
    return number(flags.get("secure-port", ("",))[-1]) or _PORT


@dataclass(frozen=True)
class ApiPod:
    """A controller, and the flags of its kube-apiserver as kubeadm made it."""

    host: Host
    flags: Mapping[str, tuple[str, ...]]

    @property
    def port(self) -> int:
        """Where it listens."""
        return secure_port(self.flags)

    @property
    def certificates(self) -> tuple[str, ...]:
        """Its certificates' files."""
        named = (value.partition(":")[0].partition(",")[0] for value in self.flags.get("tls-sni-cert-key", ()))
        return (self.flags.get("tls-cert-file", ("/etc/kubernetes/pki/apiserver.crt",))[-1], *named)

    @property
    def everywhere(self) -> bool:
        """Whether it listens on all addresses."""
        return self.bound.is_unspecified

    @property
    def bound(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        """The address at which it listens."""
        return ipaddress.ip_address(given_address(self.flags, "bind-address") or "0.0.0.0")


def client_addresses(kube: Kube, hosts: Hosts, pods: Sequence[ApiPod], servers: Iterable[str]) -> tuple[str, ...]:
    """Those that some controller has, or could have: a virtual IP moves. `servers` are hosts from other kubeconfigs.

    `::1` is one only where something uses it, or a name of it alone: there, a static pod that is restored connects to
    itself. Kubespray's certificates always have it.

    Raises ApiError, HostError, and Blocked where a certificate can't be read.
    """
    own = {str(ipaddress.ip_address(node_address(kube, pod.host))) for pod in pods}
    local: set[str] = set()
    wanted: set[str] = set()
    for pod in pods:
        listeners = read_listeners(hosts, pod.host)
        listed = read_hosts_file(hosts, pod.host)
        led: set[str] = set()
        certified = {name for path in pod.certificates for name in names_in_certificate(hosts, pod, path)}
        used = {*servers, *_used(hosts, pod, frozenset(certified))}
        for name in sorted(certified | used):
            found = resolved(hosts, pod.host, name)
            led |= found - {_OWN}
            if name in used and listed.get(name, frozenset() if name == _BOTH else found) == {_OWN}:
                led.add(_OWN)
        here = local_addresses(hosts, pod.host) | {each for each in led if ipaddress.ip_address(each) in _LOOPBACK}
        local |= {address for address in here if _served_by(pod, address, own, listeners)}
        wanted |= led
    return tuple(sorted((wanted & local) - own, key=lambda address: (":" in address, address)))


def without_ipv6_loopback(hosts: Hosts, pods: Sequence[ApiPod]) -> tuple[str, ...]:
    """Names of the controllers whose kubeadm's kube-apiserver connects to itself at 127.0.0.1, as they lack `::1`.

    Raises HostError.
    """
    return tuple(pod.host.name for pod in pods if pod.everywhere and _OWN not in local_addresses(hosts, pod.host))


def _served_by(pod: ApiPod, address: str, own: set[str], listeners: Listeners) -> bool:
    """Whether kubeadm's kube-apiserver serves a local address, and not another program, such as a load balancer.

    A socket at an address gets its connections before one on all addresses. Where the node's own address has such a
    socket, it is an earlier adoption's.
    """
    if not pod.everywhere:
        return address == str(pod.bound)
    adopted = any(listeners.at(each, pod.port) for each in own)
    return adopted or not listeners.at(address, pod.port)


def _used(hosts: Hosts, pod: ApiPod, certified: frozenset[str]) -> Iterator[str]:
    """Names and addresses in the kubeconfigs of the controller's own components, and those that programs beside them
    use.
    """
    yield from local_names(hosts, pod.host, pod.port, certified)
    for path in (f"/etc/kubernetes/{name}.conf" for name in _KUBECONFIGS):
        for server in servers_in(pod.host, path, hosts.read(pod.host, path) or b""):
            if host := urlsplit(server).hostname:
                yield host


def names_in_certificate(hosts: Hosts, pod: ApiPod, path: str) -> set[str]:
    """Names and addresses in one of its certificates. Raises HostError, and Blocked if it doesn't exist."""
    content = hosts.read(pod.host, path) if path else None
    if content is None:
        flag = "tls-cert-file" if path == pod.certificates[0] else "tls-sni-cert-key"
        what = f"certificate {path} doesn't exist on the node" if path else f"--{flag} is empty"
        raise Blocked(
            f"{pod.host.name}: kube-apiserver's {what}, so the addresses at which clients use the API are unknown",
            remedy="Use the same path on the node and in the static pod: mount the certificate's folder there at its "
            f"own path, and name the certificate in --{flag}.",
        )
    try:
        return set(_in_certificate(content))
    except ValueError as error:
        raise Blocked(
            f"{pod.host.name}: kube-apiserver's certificate {path} can't be read, so the addresses at which clients "
            "use the API are unknown",
            remedy=f"Check it: openssl x509 -in {path} -noout -text",
        ) from error


def _in_certificate(pem: bytes) -> Iterator[str]:
    extensions = x509.load_pem_x509_certificate(pem).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield from names.get_values_for_type(x509.DNSName)
    yield from map(str, names.get_values_for_type(x509.IPAddress))


def local_addresses(hosts: Hosts, host: Host) -> set[str]:
    """The addresses of a host's interfaces, but for those of Services. Raises HostError."""
    found = set()
    for line in hosts.run(host, ["ip", "-o", "address", "show"]).stdout.splitlines():
        _, interface, family, address, *_ = line.split()
        if family in ("inet", "inet6") and interface != _IPVS:
            found.add(str(ipaddress.ip_interface(address).ip))
    return found

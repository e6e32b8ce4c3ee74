"""Whether kube-apiserver's etcd is on this host: a service of the host that is called etcd may be anybody's."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from upgrader.contract.flags import manifest_flags
from upgrader.onhost.common.questions import SECONDS, Failed, read, together
from upgrader.onhost.node.disk_layout import KUBE_APISERVER

if TYPE_CHECKING:
    from upgrader.onhost.node.disk_inventory import Inventory

_STATIC_POD = "/etc/kubernetes/manifests/kube-apiserver.yaml"
_FLAG = "etcd-servers"


def named_here(disk: Inventory, root: str) -> bool:
    """Whether `--etcd-servers` of kube-apiserver's generations, or of kubeadm's static pod, names an address of this
    host. Raises Failed if that isn't known.
    """
    hosts = sorted({urlsplit(url.strip()).hostname or "" for url in _servers(disk, root)} - {""})
    if not hosts:
        raise Failed(f"no kube-apiserver on this host has --{_FLAG}")
    answers = together({host: partial(_is_here, host) for host in hosts}, SECONDS)
    if True in answers.values():
        return True
    for host, answer in answers.items():
        if answer is not False:
            raise Failed(f"{host} of --{_FLAG} can't be resolved: {answer['unknown']}")
    return False


def _servers(disk: Inventory, root: str) -> list[str]:
    found: list[bytes] = []
    with contextlib.suppress(OSError):  # told by `checkpoint_facts.workloads`
        found += [disk.manifest(KUBE_APISERVER, number) or b"" for number in disk.numbers(KUBE_APISERVER)]
    with contextlib.suppress(OSError):
        found.append(read(root + _STATIC_POD))
    texts = (each.decode("utf-8", "replace") for each in found)
    return [url for text in texts for url in manifest_flags(text).get(_FLAG, "").split(",")]


def _is_here(host: str) -> bool:
    """Whether a name or an address is this host's. Nothing is sent: a datagram's socket is only connected. Raises
    OSError for a name that can't be resolved.
    """
    for family, kind, _, _, place in socket.getaddrinfo(host, 2379, type=socket.SOCK_DGRAM):
        address = str(place[0])
        if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            return True
        with contextlib.suppress(OSError), socket.socket(family, kind) as link:
            if family == socket.AF_INET:
                # The kernel would send from the first address of that network, which may be another one of this host.
                # From one that isn't this host's, it connects to nothing, also with `ip_nonlocal_bind`.
                link.bind((address, 0))
            link.connect(place)
            if link.getsockname()[0] == address:
                return True
    return False

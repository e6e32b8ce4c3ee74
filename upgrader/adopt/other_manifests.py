"""Manifests of a component that adoption doesn't read, or couldn't move: refused by name.

The kubelet reads every file in its folder but those that begin with a dot, whatever the name ends with. Of two pods
with one name, it runs one, and the other as soon as the first is gone: a backup beside the manifest would take over
from it when adoption moves that, and the static pod would never end. One that is alone there under another name, such
as kube-apiserver.json, is the one that runs. A symbolic link may lead nowhere from another folder, and an undo wouldn't
find the manifest.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import yaml

from upgrader.adopt.facts import ADOPTED, COMPONENTS, MANIFESTS
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.model.go_yaml import first_document
from upgrader.ports import Hosts

__all__ = ["check_other_manifests"]

_LIST = f"""for file in {MANIFESTS}/*; do
  [ ! -f "$file" ] || if [ -h "$file" ]; then echo "$file -> $(readlink -f "$file")"; else echo "$file"; fi
done"""
_ASIDE = "/etc/kubernetes"
_SYSTEM = "kube-system"


def check_other_manifests(hosts: Hosts, controllers: Iterable[Host]) -> None:
    """Raises Blocked, or HostError."""
    for host in controllers:
        for line in hosts.run(host, ["sh", "-c", _LIST]).stdout.splitlines():
            path, _, target = line.partition(" -> ")
            component = _component(hosts.read(host, path) or b"")
            own = f"{MANIFESTS}/{component}.yaml"
            if component and path != own:
                named = (own, f"{ADOPTED}/{component}.yaml")
                alone = all(hosts.read(host, each) is None for each in named)
                raise (_misnamed if alone else _second)(host, path, component)
            if component and target:
                raise _link(host, path, target)


def _second(host: Host, path: str, component: str) -> Blocked:
    return Blocked(
        f"{host.name}: {path} is a second manifest of {component}: the kubelet runs every file in that folder as a "
        "static pod, so it would start this one when the other is retired; nothing was changed",
        remedy=f"Compare it with the running pod: kubectl -n {_SYSTEM} get pod {component}-{host.name} -o yaml\n"
        f"The right one must be {MANIFESTS}/{component}.yaml. Move the other one away: mv {shlex.quote(path)} {_ASIDE}",
    )


def _misnamed(host: Host, path: str, component: str) -> Blocked:
    return Blocked(
        f"{host.name}: {path} is the manifest of {component}, which adoption expects under kubeadm's name, "
        f"{component}.yaml; nothing was changed",
        remedy=f"Rename it; the kubelet may restart {component}: mv {shlex.quote(path)} {MANIFESTS}/{component}.yaml\n"
        "Only the control plane of a kubeadm cluster can be adopted.",
    )


def _link(host: Host, path: str, target: str) -> Blocked:
    aside = f"{_ASIDE}/{PurePosixPath(path).name}"
    return Blocked(
        f"{host.name}: {path} is a symbolic link to {target}: adoption moves it to another folder and back, which "
        "could break the link; nothing was changed",
        remedy=f"Replace it with the file: cp {shlex.quote(target)} {aside} && mv {aside} {MANIFESTS}",
    )


def _component(content: bytes) -> str:
    """Which component a manifest is of; "" if of none."""
    try:
        pod = first_document(content)
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError):
        return ""  # the kubelet can't read it either
    metadata: Any = pod.get("metadata") if isinstance(pod, Mapping) else None
    if not isinstance(metadata, Mapping) or metadata.get("namespace") != _SYSTEM:
        return ""
    name = str(metadata.get("name"))
    return name if name in COMPONENTS else ""

"""Copies of a component's manifest that the kubelet would run: refused by name.

It reads every file in its folder but those that begin with a dot, whatever the name ends with. Of two pods with one
name, it runs one, and the other as soon as the first is gone: a backup beside the manifest would take over from it when
adoption moves that, and the static pod would never end.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

import yaml

from upgrader.adopt.facts import COMPONENTS, MANIFESTS
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.model.go_yaml import first_document
from upgrader.ports import Hosts

__all__ = ["check_other_manifests"]

_LIST = f'for file in {MANIFESTS}/*; do [ ! -f "$file" ] || echo "$file"; done'
_ASIDE = "/etc/kubernetes"
_SYSTEM = "kube-system"


def check_other_manifests(hosts: Hosts, controllers: Iterable[Host]) -> None:
    """Raises Blocked, or HostError."""
    for host in controllers:
        for path in hosts.run(host, ["sh", "-c", _LIST]).stdout.splitlines():
            component = _component(hosts.read(host, path) or b"")
            if component and PurePosixPath(path).name != f"{component}.yaml":
                raise Blocked(
                    f"{host.name}: {path} is a second manifest of {component}: the kubelet runs every file in that "
                    "folder as a static pod, so it would start this one when the other is retired; nothing was changed",
                    remedy=f"Compare it with what runs: kubectl -n {_SYSTEM} get pod {component}-{host.name} -o yaml\n"
                    f"The right one must be {MANIFESTS}/{component}.yaml. Move the other one away: mv "
                    f"{shlex.quote(path)} {_ASIDE}",
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

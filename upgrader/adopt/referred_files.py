"""The files that kube-apiserver's chart mounts one by one, where kubeadm's static pod mounts their folder.

The chart mounts single files of the folder of certificates, as the keys of the CAs are there, too. Two other folders of
a static pod can't be mounted as a whole either:

- one that is closed to root without capabilities, as the charts' pods run (Kubespray's /etc/ssl/etcd/ssl has mode 0700
  and belongs to the user etcd): a file that is mounted by itself is found without its folder's mode;
- one at a path above the certificates that isn't that folder of the controller (Kubespray mounts `admission-controls`
  at /etc/kubernetes): it would hide them.

What the flags name is needed, and what these files name in turn, say a kubeconfig beside an admission configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from upgrader import fast_yaml
from upgrader.adopt.facts import ControllerFacts, StaticPod
from upgrader.adopt.readable_files import closed_folders, named_in_flags
from upgrader.adopt.volumes import Mounted, above_certificates, innermost_mount, mounts_of, on_host
from upgrader.gates.manifest_workloads import pod_spec
from upgrader.ports import Hosts

__all__ = ["SingleFiles", "mounted_by_file", "single_files"]

_API = "kube-apiserver"
_PEM = b"-----BEGIN "
_LONGEST_PATH = 1024


@dataclass(frozen=True)
class SingleFiles:
    """`folders`: where the static pod mounts those that the chart doesn't mount as a whole, besides the certificates'.
    `files`: path in the container → path on the controller, but for what the chart mounts by itself.
    """

    folders: tuple[str, ...]
    files: Mapping[str, str]


def single_files(hosts: Hosts, controllers: tuple[ControllerFacts, ...], pki: str) -> SingleFiles:
    """Of the first controller whose kube-apiserver is a static pod; paths relative to a file begin at its folder.

    A folder with something else than files that exist stays as it is: an audit log, say. Raises HostError.
    """
    running = [(each, pod) for each in controllers if (pod := each.active.get(_API))]
    if not running:
        return SingleFiles((), {})
    controller, static = running[0]
    closed = {path for each, pod in running for path in closed_folders(hosts, each.host, pod, pki)}
    found: dict[str, str] = {}
    folders = []
    for folder in mounts_of(static):
        if folder.path in closed or above_certificates(folder, pki):
            named = dict(_named_below(static, folder))
            written = static.flags.get("audit-log-path", ())
            contents = [hosts.read(controller.host, path) for path in named.values()]
            if named and all(contents) and not any(path in named for path in written):
                folders.append(folder.path)
                found |= named
    named_in_pki = {value for value in named_in_flags(static) if _below(value, pki)}
    left = {**{path: path for path in named_in_pki}, **found}
    while left:
        inside, path = left.popitem()
        content = hosts.read(controller.host, path) or b""
        for other in _paths(content, PurePosixPath(inside).parent) if not content.startswith(_PEM) else ():
            mount = innermost_mount(static, other)
            if mount and mount.path in (pki, *folders) and other not in found and other not in named_in_pki:
                at = on_host(mount, other)
                if hosts.read(controller.host, at) is not None:
                    found[other] = left[other] = at
    return SingleFiles(tuple(folders), dict(sorted(found.items())))


def mounted_by_file(new: Sequence[ControllerFacts], manifests: Sequence[str]) -> tuple[str, ...]:
    """Folders of static pods that the release's kube-apiserver has, if at all, by single files. Pure."""
    manifest = next((text for text in manifests if pod_spec(text, _API)), "")
    containers = [each for each in pod_spec(manifest, _API).get("containers", ()) if each["name"] == _API]
    there = {str(mount["mountPath"]) for each in containers for mount in each.get("volumeMounts") or ()}
    pods = (pod for each in new if (pod := each.active.get(_API)))
    return tuple(sorted({mount.path for pod in pods for mount in mounts_of(pod)} - there))


def _named_below(static: StaticPod, mount: Mounted) -> Iterator[tuple[str, str]]:
    """What flags name in a mount and in none below it: path in the container, path on the controller."""
    for value in sorted(named_in_flags(static)):
        found = innermost_mount(static, value)
        if found and found.path == mount.path:
            yield value, on_host(mount, value)


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/") and ".." not in PurePosixPath(path).parts


def _paths(content: bytes, folder: PurePosixPath) -> Iterator[str]:
    """What may be a path in a file of YAML or JSON."""
    try:
        documents = list(fast_yaml.load_all(content))
    except (yaml.YAMLError, UnicodeDecodeError):
        return
    for text in _strings(documents):
        if text and len(text) < _LONGEST_PATH and not any(each in text for each in (" ", "\n", "://", "\0")):
            yield str(folder / text)


def _strings(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for value in part.values():
            yield from _strings(value)
    elif isinstance(part, list):
        for value in part:
            yield from _strings(value)

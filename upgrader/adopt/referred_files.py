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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from upgrader.adopt.facts import ControllerFacts, KubeadmFacts, StaticPod
from upgrader.adopt.file_references import Reference, references
from upgrader.adopt.files_of_host import FileOfHost, files_of_host
from upgrader.adopt.readable_files import chain_of, check_readable, closed_folders, named_in_flags
from upgrader.adopt.same_everywhere import check_same_everywhere
from upgrader.adopt.volumes import Mounted, above_certificates, innermost_mount, missing_files, mounts_of, on_host
from upgrader.errors import Blocked
from upgrader.gates.manifest_workloads import pod_spec
from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = [
    "SingleFiles",
    "mounted_by_file",
    "opened_files",
    "referred_to",
    "shown_by_file",
    "single_files",
    "with_single_files",
]

_API = "kube-apiserver"

Referred = Mapping[Host, tuple[Reference, ...]]
"""What the files of each controller's static kube-apiserver name."""


@dataclass(frozen=True)
class SingleFiles:
    """`folders`: where the static pod mounts those that the chart doesn't mount as a whole, besides the certificates'.
    `files`: path in the container → path on the controller, but for what the chart mounts by itself.
    """

    folders: tuple[str, ...]
    files: Mapping[str, str]


def with_single_files(hosts: Hosts, facts: KubeadmFacts, pki: str) -> KubeadmFacts:
    """The facts with these files, of controllers whose static pods are alike, once the charts' pods can read them.

    Raises Blocked, or HostError.
    """
    check_same_everywhere(facts)
    referred = referred_to(hosts, facts.controllers)
    single = single_files(hosts, facts.controllers, pki, referred)
    opened = opened_files(referred, (pki, *single.folders))
    check_readable(hosts, facts.controllers, pki, single.folders, {*single.files.values(), *opened})
    return replace(facts, by_file=single.folders, single_files=single.files)


def referred_to(hosts: Hosts, controllers: Sequence[ControllerFacts]) -> Referred:
    """Reads the files that flags name, and those that they name in turn. Raises HostError."""
    return {
        each.host: tuple(references(hosts, each.host, static))
        for each in controllers
        if (static := each.active.get(_API))
    }


def single_files(hosts: Hosts, controllers: Sequence[ControllerFacts], pki: str, referred: Referred) -> SingleFiles:
    """Of all controllers whose kube-apiserver is a static pod, which have its flags and its volumes in common; paths
    relative to a file begin at its folder.

    A folder with something else than files that exist stays as it is: an audit log, say. Raises Blocked where one of
    these controllers lacks a file that others have: one release mounts it on all of them. Or HostError.
    """
    running = [(each.host, pod) for each in controllers if (pod := each.active.get(_API))]
    if not running:
        return SingleFiles((), {})
    at, static = [host for host, _ in running], running[0][1]
    closed = {path for host, pod in running for path in closed_folders(hosts, host, pod, pki)}
    found: dict[str, str] = {}
    folders = []
    for folder in mounts_of(static):
        if folder.path in closed or above_certificates(folder, pki):
            named = dict(_named_below(static, folder))
            written = any(path in named for path in static.flags.get("audit-log-path", ()))
            if named and not written and _on_all(hosts, at, dict.fromkeys(named.values(), "a flag of kube-apiserver")):
                folders.append(folder.path)
                found |= named
    in_pki = [value for value in named_in_flags(static) if _below(value, pki)]
    for host in at:
        _check_files(hosts, host, static, in_pki, pki)
    by: dict[str, str] = {}
    for host in at:
        for each in referred[host]:
            if each.mount.path not in (pki, *folders):
                continue
            if each.found.is_file:
                found[each.inside] = each.path
                by[each.path] = each.by
            # A word alone may be anything that a folder is named after, such as a namespace: no field takes a folder.
            elif "/" in each.text:
                raise _no_file(host, each.by, each.path, each.found, each.mount.path)
    _on_all(hosts, at, by)
    return SingleFiles(tuple(folders), dict(sorted(found.items())))


def _on_all(hosts: Hosts, at: Sequence[Host], named: Mapping[str, str]) -> bool:
    """Whether each of these files is on all controllers; False if one is on none. Path → what names it.

    Raises Blocked where a file is on some only.
    """
    there = {host: {path for path, it in files_of_host(hosts, host, named).items() if it.is_file} for host in at}
    if named.keys() - set().union(*there.values()):
        return False
    for host in at:
        for path in sorted(named.keys() - there[host]):
            other = next(each.name for each in at if path in there[each])
            raise Blocked(
                f"{host.name} has no file {path}, which {named[path]} names, but {other} has it: the chart mounts it "
                "as a single file, on every controller; nothing was changed",
                remedy=f"Create it on {host.name} as well, or remove the reference to it on every controller.",
            )
    return True


def _check_files(hosts: Hosts, host: Host, static: StaticPod, named: Collection[str], pki: str) -> None:
    """What flags name in the folder of certificates, where it is anything. Raises Blocked."""
    for path, file in files_of_host(hosts, host, named).items():
        if not file.is_file:
            flag = next(name for name, values in static.flags.items() if path in ",".join(values).split(","))
            raise _no_file(host, f"kube-apiserver's flag --{flag}", path, file, pki)


def _no_file(host: Host, by: str, path: str, file: FileOfHost, folder: str) -> Blocked:
    return Blocked(
        f"{host.name}: {by} names {path}, which is {file}: the chart mounts only single files from the folder "
        f"{folder}; nothing was changed",
        remedy=f"Correct the path. If {file} is needed there, move it to a folder that the static pod mounts as a "
        "whole, on every controller, and change the path to that.",
    )


def opened_files(referred: Referred, by_file: Collection[str]) -> frozenset[str]:
    """What the files of static kube-apiservers name, on their controllers: files and sockets, and the folders from
    their volume down to them, except for what is mounted by file. Pure.
    """
    return frozenset(
        path
        for found in referred.values()
        for each in found
        if not each.found.is_folder
        for path in ([each.path] if each.mount.path in by_file else chain_of(each.mount, each.inside))
    )


def mounted_by_file(new: Sequence[ControllerFacts], manifests: Sequence[str]) -> tuple[str, ...]:
    """Folders of static pods that the release's kube-apiserver has, if at all, by single files. Pure."""
    manifest = next((text for text in manifests if pod_spec(text, _API)), "")
    there = _mount_paths(pod_spec(manifest, _API), _API)
    pods = (pod for each in new if (pod := each.active.get(_API)))
    return tuple(sorted({mount.path for pod in pods for mount in mounts_of(pod)} - there))


def shown_by_file(static: StaticPod, rendered: Mapping[str, Any]) -> tuple[str, ...]:
    """Folders of a static pod, as paths in its container, that a rendered pod doesn't have, but each file that a flag
    names there. Pure.
    """
    there = _mount_paths(rendered, static.component)
    named = {mount.path: dict(_named_below(static, mount)) for mount in mounts_of(static) if mount.path not in there}
    return tuple(
        folder for folder, files in named.items() if files and not missing_files(static.component, rendered, files)
    )


def _mount_paths(pod: Mapping[str, Any], component: str) -> set[str]:
    containers = [each for each in pod.get("containers", ()) if each["name"] == component]
    return {str(mount["mountPath"]).rstrip("/") for each in containers for mount in each.get("volumeMounts") or ()}


def _named_below(static: StaticPod, mount: Mounted) -> Iterator[tuple[str, str]]:
    """What flags name in a mount and in none below it: path in the container, path on the controller."""
    for value in sorted(named_in_flags(static)):
        found = innermost_mount(static, value)
        if found and found.path == mount.path:
            yield value, on_host(mount, value)


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/") and ".." not in PurePosixPath(path).parts

"""The files that the static pods' flags name can be read by the charts' pods.

Those run as root without capabilities: a file of another user is closed to them unless its mode lets everyone read it.
kubeadm's static pods have DAC_OVERRIDE, which passes over modes. Kubespray's /etc/ssl/etcd/ssl is such a folder: of it,
kube-apiserver's chart mounts single files (`referred_files.py`), to which their folder's mode doesn't matter.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePosixPath

from upgrader.adopt.facts import ControllerFacts, StaticPod
from upgrader.adopt.files_of_host import FileOfHost, files_of_host
from upgrader.adopt.volumes import Mounted, innermost_mount
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.model.first_few import first_few
from upgrader.ports import Hosts

__all__ = ["chain_of", "check_readable", "closed_folders", "named_in_flags"]

_API = "kube-apiserver"
_SNI = "tls-sni-cert-key"
"""`CERTIFICATE,KEY:NAME,NAME`: the one flag in which something else follows a path."""
_FOLDER, _SOCKET, _FILE = 0o1, 0o2, 0o4
"""What reaching into a folder needs, connecting to a socket, and reading a file."""


def check_readable(
    hosts: Hosts,
    controllers: Iterable[ControllerFacts],
    pki: str,
    by_file: Collection[str] = (),
    files: Collection[str] = (),
) -> None:
    """Of each controller whose static pods run; a missing file is for others to find. Of `pki` and `by_file`, paths in
    the container, kube-apiserver's chart mounts single files; `files`, on the controller, are files, sockets and
    folders that other files name. Raises Blocked, or HostError.
    """
    for controller in controllers:
        needed = {path: pod.component for pod in controller.active.values() for path in _paths(pod, {pki, *by_file})}
        if _API in controller.active:
            needed |= dict.fromkeys(files, _API)
        closed = _closed(hosts, controller.host, needed)
        if closed:
            paths = " ".join(shlex.quote(path) for path, _ in closed)
            raise Blocked(
                f"{controller.host.name}: the chart's {needed[closed[0][0]]} can't read "
                f"{first_few([text for _, text in closed])}: it runs as root without capabilities; nothing was changed",
                remedy=f"Make root their owner on every controller: chown root {paths}. If another user's program "
                "needs them, copy the files that the static pods' flags name to a folder that root owns, and change "
                "the flags and the volume. If a tool manages the folder, set the owner there, too (Kubespray: "
                "`etcd_owner: root`). A socket belongs to the user of the program that listens there: run that program "
                "as root, or have it make the socket writable for everyone.",
            )


def closed_folders(hosts: Hosts, host: Host, pod: StaticPod, pki: str) -> frozenset[str]:
    """The mounts of a running static pod, as paths in its container, in which a folder is closed to root without
    capabilities above something that a flag names. Raises HostError.
    """
    above = [(mount.path, folder) for _, mount, chain in _chains(pod) for folder in chain[:-1]]
    folders = {folder for path, folder in above if path != pki}
    closed = {path for path, _ in _closed(hosts, host, folders)}
    return frozenset(path for path, folder in above if folder in closed)


def _closed(hosts: Hosts, host: Host, paths: Collection[str]) -> list[tuple[str, str]]:
    """Each path that root without capabilities can't use, and words for it."""
    return [
        (path, f"{path} ({'socket, ' if file.is_socket else ''}mode {file.mode & 0o7777:04o}, user {file.user})")
        for path, file in files_of_host(hosts, host, paths).items()
        if not _open_to_root(file)
    ]


def _open_to_root(file: FileOfHost) -> bool:
    """The first class that fits decides, as in the kernel."""
    wanted = _FOLDER if file.is_folder else _SOCKET if file.is_socket else _FILE
    shift = 6 if file.user == 0 else 3 if file.group == 0 else 0
    return bool(file.mode >> shift & wanted)


def _paths(pod: StaticPod, by_file: Collection[str]) -> Iterator[str]:
    """On the controller: each file that a flag names, and the folders from its volume down to it.

    kube-apiserver's chart mounts those of the folders `by_file` one by one, so the folders above them don't count.
    """
    for inside, mount, chain in _chains(pod):
        below = any(inside.startswith(f"{folder}/") and len(folder) >= len(mount.path) for folder in by_file)
        yield from chain[-1:] if pod.component == _API and below else chain


def named_in_flags(pod: StaticPod) -> set[str]:
    """What may be a path in a static pod's flags, some of which take several."""
    parts = ((name, part) for name, values in pod.flags.items() for value in values for part in value.split(","))
    return {part.partition(":")[0] if name == _SNI else part for name, part in parts}


def _chains(pod: StaticPod) -> Iterator[tuple[str, Mounted, list[str]]]:
    """What a flag names: its path in the container, its mount, and the controller's paths from that down to it."""
    for inside in sorted(named_in_flags(pod)):
        if mount := innermost_mount(pod, inside):
            yield inside, mount, list(chain_of(mount, inside))


def chain_of(mounted: Mounted, inside: str) -> Iterator[str]:
    """From a mount down to a path in the container: paths on the controller."""
    path = PurePosixPath(str(mounted.source["hostPath"]))
    yield str(path)
    for part in PurePosixPath(inside).relative_to(mounted.path).parts:
        path /= part
        yield str(path)

"""The files that the static pods' flags name can be read by the charts' pods.

Those run as root without capabilities: a file of another user is closed to them unless its mode lets everyone read it.
kubeadm's static pods have DAC_OVERRIDE, which passes over modes. Kubespray's /etc/ssl/etcd/ssl is such a folder.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from upgrader.adopt.facts import ControllerFacts, StaticPod
from upgrader.adopt.volumes import Mounted, mounts_of
from upgrader.errors import Blocked
from upgrader.model.first_few import first_few
from upgrader.ports import Hosts

__all__ = ["check_readable"]

_SCRIPT = 'for path; do [ ! -e "$path" ] || stat -L -c "%f %u %g %n" -- "$path" || exit 1; done'
_FOLDER, _FILE = 0o1, 0o4
"""What reaching into a folder needs, and reading a file."""


def check_readable(hosts: Hosts, controllers: Iterable[ControllerFacts], pki: str) -> None:
    """Of each controller whose static pods run; a missing file is for others to find. Raises Blocked, or HostError."""
    for controller in controllers:
        needed = {path: pod.component for pod in controller.active.values() for path in _paths(pod, pki)}
        if not needed:
            continue
        answer = hosts.run(controller.host, ["sh", "-c", _SCRIPT, "sh", *sorted(needed)])
        found = [line.split(" ", 3) for line in answer.stdout.splitlines()]
        closed = [
            (path, f"{path} (mode {int(mode, 16) & 0o7777:04o}, user {user})")
            for mode, user, group, path in found
            if not _open_to_root(int(mode, 16), int(user), int(group))
        ]
        if closed:
            paths = " ".join(shlex.quote(path) for path, _ in closed)
            raise Blocked(
                f"{controller.host.name}: the chart's {needed[closed[0][0]]} can't read "
                f"{first_few([text for _, text in closed])}: it runs as root without capabilities; nothing was changed",
                remedy=f"Give them to root on every controller: chown root {paths}. If a program that isn't root needs "
                "them, copy what the static pods' flags name to a folder of root's, and change the flags and the "
                "volume. If a tool owns the folder, set its owner there, too (Kubespray: `etcd_owner: root`).",
            )


def _open_to_root(mode: int, user: int, group: int) -> bool:
    """The first class that fits decides, as in the kernel."""
    wanted = _FOLDER if stat.S_ISDIR(mode) else _FILE
    shift = 6 if user == 0 else 3 if group == 0 else 0
    return bool(mode >> shift & wanted)


def _paths(pod: StaticPod, pki: str) -> Iterator[str]:
    """On the controller: each file that a flag names, and the folders from its volume down to it.

    kube-apiserver's chart mounts those of `pki` one by one, so the folder above them doesn't count.
    """
    mounts = [each for each in mounts_of(pod) if "hostPath" in each.source]
    named = {part for values in pod.flags.values() for value in values for part in value.split(",")}
    for inside in sorted(path for path in named if path.startswith("/")):
        above = [each for each in mounts if inside == each.path or inside.startswith(f"{each.path}/")]
        innermost = max(above, key=lambda each: len(each.path), default=None)
        if innermost is not None:
            single = pod.component == "kube-apiserver" and inside.startswith(f"{pki}/")
            chain = list(_chain(innermost, inside))
            yield from chain[-1:] if single else chain


def _chain(mounted: Mounted, inside: str) -> Iterator[str]:
    path = PurePosixPath(str(mounted.source["hostPath"]))
    yield str(path)
    for part in PurePosixPath(inside).relative_to(mounted.path).parts:
        path /= part
        yield str(path)

"""What is at paths of a controller."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from upgrader.model.cluster import Host
from upgrader.ports import Hosts

__all__ = ["FileOfHost", "files_of_host"]

_SCRIPT = """while IFS= read -r path; do
  [ ! -e "$path" ] || stat -L -c "%f %u %g %n" -- "$path" || exit 1
done"""
# What is asked for are texts of configuration files, and one may be a key: everybody on the controller can read the
# arguments of a process, and sudo logs them. The shell tests it by itself, and only what exists is an argument of stat.
_KINDS = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a pipe"}


@dataclass(frozen=True)
class FileOfHost:
    """What a path leads to, by symbolic links too: `mode` with the bits of its type, and the IDs of its owners."""

    mode: int
    user: int
    group: int

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_socket(self) -> bool:
        """Whether it is a Unix socket."""
        return stat.S_ISSOCK(self.mode)

    def __str__(self) -> str:
        return _KINDS.get(stat.S_IFMT(self.mode), "a device")


def files_of_host(hosts: Hosts, host: Host, paths: Iterable[str]) -> Mapping[str, FileOfHost]:
    """Those of these paths at which there is anything, but none with a line break. Raises HostError."""
    wanted = "".join(f"{path}\n" for path in sorted(set(paths)) if "\n" not in path)
    found = {}
    if wanted:
        for line in hosts.run(host, ["sh", "-c", _SCRIPT], stdin=wanted.encode()).stdout.splitlines():
            mode, user, group, path = line.split(" ", 3)
            found[path] = FileOfHost(int(mode, 16), int(user), int(group))
    return found

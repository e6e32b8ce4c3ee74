"""Kubeconfigs of kube-controller-manager and kube-scheduler that lead to a loopback address, before their charts' pods.

They are changed where they are: no command renews the certificate in a copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upgrader.adopt.files_of_host import files_of_host
from upgrader.adopt.leaders_api import OwnServer
from upgrader.errors import StepFailed
from upgrader.model.first_few import first_few
from upgrader.model.release import RestorePoint
from upgrader.ports import Hosts

__all__ = ["KubeconfigsStep"]


@dataclass(frozen=True)
class KubeconfigsStep:
    """Sets the server to the node's own address. kubeadm's static pods read it when they start, and reach it too."""

    hosts: Hosts
    changes: Sequence[OwnServer]
    name: str = "kubeconfigs"

    def summary(self) -> str:
        servers = ", ".join(sorted({each.before for each in self.changes}))
        files = first_few([f"{each.path} on {each.host.name}" for each in self.changes])
        return f"set the node's own address instead of {servers}, which the charts' pods can't reach, in {files}"

    def capture(self) -> None:
        """Nothing to undo: kubeadm's own pods reach the API at that address as well."""
        return

    def apply(self, note: Callable[[str], None]) -> None:
        for each in self.changes:
            content, files = self.hosts.read(each.host, each.path), files_of_host(self.hosts, each.host, [each.path])
            if content is None or each.path not in files:
                raise StepFailed(f"{each.host.name}: {each.path} no longer exists", remedy="Run adopt again.")
            changed, count = _server(each.before).subn(rf"\g<1>{each.after}".encode(), content)
            if count:
                file = files[each.path]
                # A symbolic link stays one: a tool that renews its target would no longer reach a file in its place.
                path = self.hosts.run(each.host, ["readlink", "-e", "--", each.path]).stdout.removesuffix("\n")
                # Whole or not at all: a power cut may come at any moment, and the static pods need it at their start.
                self.hosts.write(each.host, path, changed, mode=file.mode & 0o777)
                if (file.user, file.group) != (0, 0):
                    self.hosts.run(each.host, ["chown", f"{file.user}:{file.group}", path])
                note(f"{each.host.name}: {each.path} has the server {each.after} instead of {each.before}")
            elif _server(each.after).search(content) is None:
                raise StepFailed(
                    f"{each.host.name}: {each.path} has no line with the server {each.before}",
                    remedy=f"Set the server to {each.after} there, and run adopt again.",
                )

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo."""


def _server(url: str) -> re.Pattern[bytes]:
    """The field in YAML or JSON, with quotes or without, and not as the beginning of a longer value."""
    return re.compile(rb"""("?\bserver"?:[ \t]*["']?)""" + re.escape(url.encode()) + rb"""(?=["'\s,}]|$)""")

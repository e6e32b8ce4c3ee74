"""The use case behind `upgrader certs show`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from upgrader.app.wiring import open_session
from upgrader.errors import HostError, HostUnreachable
from upgrader.model.certificate_file import CertificateFile, UnreadableCertificate
from upgrader.model.cluster import Host
from upgrader.ports import Hosts
from upgrader.preflight.certificate_files import read_certificates

__all__ = ["ShownCertificates", "read_all", "show_certificates"]


@dataclass(frozen=True)
class ShownCertificates:
    """What the controllers' files have, soonest end first, and what could not be read."""

    now: datetime
    """By this machine's clock."""
    files: tuple[CertificateFile, ...]
    unreadable: tuple[UnreadableCertificate, ...]
    unread: tuple[HostError, ...]
    """Of each controller that could not be asked, why."""

    def refuse_if_incomplete(self) -> None:
        """Raise HostError if a controller, or a file, could not be read: what it has is unknown."""
        files = "\n".join(f"{item.host}: {item.path}: {item.why}" for item in self.unreadable)
        wrong = f"no readable certificate in: {files}" if files else ""
        if self.unread:
            kind = HostUnreachable if isinstance(self.unread[0], HostUnreachable) else HostError
            hosts = "\n".join(error.message for error in self.unread)
            remedy = self.unread[0].remedy
            raise kind(f"the certificates of these controllers are unknown: {hosts}\n{wrong}".strip(), remedy=remedy)
        if wrong:
            raise HostError(wrong, remedy="Check the file, or restore it from a backup.")


def show_certificates(folder: Path) -> ShownCertificates:
    """Read them over SSH; no API is needed."""
    with open_session(folder) as session:
        return read_all(session.tools.hosts, session.cluster.controllers, session.tools.clock.now())


def read_all(hosts: Hosts, controllers: tuple[Host, ...], now: datetime) -> ShownCertificates:
    """Ask every controller, whatever others answer."""
    files: list[CertificateFile] = []
    unreadable: list[UnreadableCertificate] = []
    unread: list[HostError] = []
    for host in controllers:
        try:
            found = read_certificates(hosts, host)
        except HostError as error:
            unread.append(error)
            continue
        if not found:
            unread.append(
                HostError(
                    f"{host.name}: no certificate in /etc/kubernetes",
                    remedy="Check that this is a controller, and that its user can read the files with sudo.",
                )
            )
        for item in found:
            if isinstance(item, UnreadableCertificate):
                unreadable.append(item)
            else:
                files.append(item)
    files.sort(key=lambda item: (item.not_after, item.host, item.path))
    return ShownCertificates(now, tuple(files), tuple(unreadable), tuple(unread))

"""The controllers' certificates as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TextIO

from rich.table import Table
from rich.text import Text

from upgrader.app.certificates import ShownCertificates
from upgrader.cli.ui.terminal import console, show
from upgrader.model.certificate_file import CertificateFile, Keeper
from upgrader.model.cluster import Host
from upgrader.model.renewable import RenewableCertificate
from upgrader.preflight.certificates import WARNING

__all__ = ["print_certificates", "print_renewable"]

_KEEPERS: dict[Keeper, str] = {
    "kubeadm": "kubeadm certs renew",
    "kubelet": "the kubelet",
    "nobody": "not renewed (a CA)",
    "unknown": "unknown",
}


def print_certificates(shown: ShownCertificates, stream: TextIO | None = None) -> None:
    """Print a line for each: its path, its expiry, the time left, and what renews it. Prints nothing for none."""
    if not shown.files:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("CONTROLLER", "ENDS", "LEFT"):
        table.add_column(title, no_wrap=True)
    table.add_column("RENEWED BY")
    table.add_column("FILE", overflow="fold")
    for item in shown.files:
        left = item.not_after - shown.now
        table.add_row(
            Text(item.host),
            Text(f"{item.not_after:%Y-%m-%d %H:%M}"),
            Text(_left(left, item, shown), style=_style(left, item, shown)),
            Text(_KEEPERS[item.keeper]),
            Text(item.path),
        )
    show(console(stream), table)


def print_renewable(
    wanted: Mapping[Host, Sequence[RenewableCertificate]], now: datetime, stream: TextIO | None = None
) -> None:
    """Print a line for each certificate that will be renewed, by kubeadm's name."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("CONTROLLER", "CERTIFICATE", "ENDS", "LEFT"):
        table.add_column(title, no_wrap=True)
    for host, items in wanted.items():
        for item in sorted(items, key=lambda each: (each.not_after, each.name)):
            ends = f"{item.not_after:%Y-%m-%d %H:%M}"
            table.add_row(Text(host.name), Text(item.name), Text(ends), Text(_shown(item.not_after - now)))
    show(console(stream), table)


def _left(left: timedelta, item: CertificateFile, shown: ShownCertificates) -> str:
    return "not yet valid" if item.not_before > shown.now else _shown(left)


def _shown(left: timedelta) -> str:
    if left <= timedelta(0):
        return "expired"
    return f"{left.days} d" if left.days else f"{left.seconds // 3600} h {left.seconds % 3600 // 60:02} min"


def _style(left: timedelta, item: CertificateFile, shown: ShownCertificates) -> str:
    if item.not_before > shown.now or left <= timedelta(0):
        return "bold red"
    return "yellow" if left < WARNING else ""

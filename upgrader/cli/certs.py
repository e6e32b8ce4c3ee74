"""`upgrader certs`: the certificates of the controllers."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.command_line import DURATION, EVENTS, TAKE_OVER, YES, front_end
from upgrader.cli.notices import say
from upgrader.cli.output import OUTPUT, Output, print_plain
from upgrader.cli.questions import start
from upgrader.cli.rotate_ca import rotate_ca

if TYPE_CHECKING:
    from upgrader.app.certificate_renewal import ProposedRenewal
    from upgrader.app.certificates import ShownCertificates

__all__ = ["certs"]


@click.group(cls=GroupOfWholeLines)
def certs() -> None:
    """Show the certificates of the controllers, and renew them."""


certs.add_command(rotate_ca)


@certs.command()
@OUTPUT
@click.pass_obj
def show(folder: Path, output: Output) -> None:
    """Show when each certificate of each controller expires, earliest first.

    Reads /etc/kubernetes over SSH, kubeconfigs included, and the kubelet's own certificate; keys never leave the
    controllers. Changes nothing, and works while the API is down.

    Exit codes: 0 all are shown, expired ones too; 2 wrong usage or files; 3 or 5 a controller could not be reached or a
    file could not be read (the other certificates are shown).
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.certificates import show_certificates
    from upgrader.cli.ui.certificates import print_certificates

    with shown.busy("reading the certificates of the controllers…"):
        found = show_certificates(folder)
    if output == "table":
        print_certificates(found, sys.stdout)
    else:
        print_plain(_described(found), output)
    found.refuse_if_incomplete()


@certs.command()
@click.option(
    "--within",
    metavar="DURATION",
    type=DURATION,
    help="Renew only certificates that expire within this time, such as 60d (default: all, as kubeadm does).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be renewed, and change nothing.")
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def renew(folder: Path, within: float | None, dry_run: bool, yes: bool, take_over: bool) -> None:
    """Renew what `kubeadm certs renew` renews, on each controller in turn, without an outage.

    Uses the controller's kubeadm and CA key. A controller's files are saved before they change, and restored if a step
    fails. Then kube-controller-manager and kube-scheduler, which read their certificate only at startup, are restarted
    by a rollout, even if an earlier renewal was interrupted before that. If it is interrupted, run it again. CAs are
    not renewed.

    Exit codes: 0 done (or nothing to renew), 2 wrong usage or files, 3 blocked before anything changed, 4 failed and
    rolled back, 5 manual action required, 6 another run holds the lock, 130 interrupted.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.certificate_renewal import propose_renewal
    from upgrader.cli.ui.certificates import print_renewable
    from upgrader.cli.ui.proposed_steps import print_steps

    limit = None if within is None else timedelta(seconds=within)
    with propose_renewal(folder, shown, limit, take_over=take_over, dry_run=dry_run) as proposed:
        if not proposed.needed:
            say("Nothing to renew: no certificate expires within that time, and the components use the current ones.")
            return
        print_renewable(proposed.wanted, proposed.now, sys.stdout)
        print_steps(proposed.pipeline, proposed.findings)
        proposed.check_allowed()
        if dry_run:
            say("Nothing was changed.")
            return
        start(proposed, question="Renew these certificates?", yes=yes)
        _mention_copies(proposed)


def _mention_copies(proposed: ProposedRenewal) -> None:
    if proposed.of_administrators:
        say(
            f"Your own kubeconfig, {proposed.session.cluster.kubeconfig}, was not renewed. If it is a copy of "
            "/etc/kubernetes/admin.conf, copy that file again from a controller before its certificate expires."
        )


def _described(shown: ShownCertificates) -> dict[str, object]:
    files = [
        {
            "controller": item.host,
            "path": item.path,
            "subject": item.subject,
            "issuer": item.issuer,
            "not_before": f"{item.not_before:%Y-%m-%dT%H:%M:%SZ}",
            "not_after": f"{item.not_after:%Y-%m-%dT%H:%M:%SZ}",
            "authority": item.authority,
            "renewed_by": item.keeper,
        }
        for item in shown.files
    ]
    unreadable = [{"controller": item.host, "path": item.path, "why": item.why} for item in shown.unreadable]
    return {"certificates": files, "unreadable": unreadable, "not_asked": [error.message for error in shown.unread]}

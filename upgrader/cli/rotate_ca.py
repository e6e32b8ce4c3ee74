"""`upgrader certs rotate-ca`: the cluster's CA, beside a new one."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from upgrader.app.ca_rotation import FoundCas, found_cas, show_cas
from upgrader.app.values_edit import write_edited
from upgrader.cli.command_line import EVENTS, FRONT_END, TAKE_OVER, YES, conclude, confirm, say
from upgrader.cli.output import OUTPUT, Output, print_plain
from upgrader.model.ca_trust import CaTrust
from upgrader.ui.ca_trust import print_cas
from upgrader.ui.proposed_steps import print_found, print_steps

__all__ = ["rotate_ca"]


@click.group("rotate-ca")
def rotate_ca() -> None:
    """Have a new CA of the cluster trusted beside the one that signs.

    That of /etc/kubernetes/pki/ca.crt. CAs of etcd and of the front proxy are others, and stay as they are.
    """


@rotate_ca.command()
@OUTPUT
@click.pass_obj
def show(folder: Path, output: Output) -> None:
    """Show which CAs each node trusts, file by file, and which one signs. Changes nothing.

    \b
    Exit codes: 0 shown, 2 wrong usage or files, 3 CAs that no rotation leaves so, 3 or 5 a node could not be asked.
    """
    found = show_cas(folder)
    if output == "table":
        print_cas(found, sys.stdout)
    else:
        print_plain(_described(found), output)


@rotate_ca.command()
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def trust(folder: Path, yes: bool, take_over: bool) -> None:
    """Make a new CA, and have everything on the nodes trust both; the old one still signs.

    The kubeadm of the first controller makes it, and keeps its key there. Then both are trusted by kube-apiserver, by
    the kubelets, in kubeconfigs, by pods and by `kubeadm join`. Kubelets are restarted, one after the other, and the
    pods of kube-controller-manager, kube-scheduler, kube-proxy and CoreDNS are rolled out. If it is interrupted, run it
    again.

    \b
    Exit codes: 0 done (or nothing to do), 2 wrong usage or files, 3 blocked before anything changed, 4 failed and
    rolled back, 5 manual action required, 6 another run holds the lock, 130 interrupted.
    """
    _run(folder, cancel=False, yes=yes, take_over=take_over)


@rotate_ca.command()
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def cancel(folder: Path, yes: bool, take_over: bool) -> None:
    """Have everything on the nodes trust the old CA alone again, and remove the new one.

    If it is interrupted, run it again.

    \b
    Exit codes: 0 done, 2 wrong usage or files, 3 blocked before anything changed, 5 manual action required, 6 another
    run holds the lock, 130 interrupted.
    """
    _run(folder, cancel=True, yes=yes, take_over=take_over)


def _run(folder: Path, *, cancel: bool, yes: bool, take_over: bool) -> None:
    with found_cas(folder, FRONT_END, cancel=cancel) as found:
        print_found(found.findings)
        found.check_allowed()
        _write(found, yes=yes)
        with found.propose(take_over=take_over) as proposed:
            if not proposed.changes:
                say("Nothing to do: every node trusts the new CA beside the old one.")
                return
            print_steps(proposed.pipeline)
            confirm("Start?", yes=yes)
            conclude(proposed.execute())
    if not cancel:
        say(
            "The new CA signs nothing yet. Kubeconfigs elsewhere trust the old one alone: give them the "
            "certificate-authority-data of /etc/kubernetes/admin.conf. Pods of yours that began before read what they "
            "trust when they are started again."
        )


def _write(found: FoundCas, *, yes: bool) -> None:
    if found.files:
        for file in found.files:
            say(f"Will write `pki.signingCertificate` into {file.relative_to(found.folder)}")
        confirm("Write this file?", yes=yes)
    for file, text in found.files.items():
        write_edited(file, text)


def _described(found: CaTrust) -> dict[str, object]:
    files = [
        {"node": node.host.name, "path": item.path, "trusts": list(item.trusts)}
        for node in found.nodes
        for item in node.files
    ]
    return {
        "signs": found.signs,
        "new": found.new,
        "new_key_on": found.keeper.name if found.keeper else "",
        "trusted_everywhere": found.trusted,
        "files": files,
    }

"""`upgrader certs rotate-ca`: a new CA of the cluster in the place of the old one, phase by phase."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from upgrader.cli.command_line import EVENTS, TAKE_OVER, YES, conclude, confirm, front_end
from upgrader.cli.notices import say
from upgrader.cli.output import OUTPUT, Output, print_plain
from upgrader.cli.whole_lines import GroupOfWholeLines

if TYPE_CHECKING:
    from upgrader.app.ca_rotation import FoundCas
    from upgrader.model.ca_trust import CaTrust

__all__ = ["rotate_ca"]

_DONE = {
    "trust": "every node trusts the new CA beside the old one",
    "sign": "the new CA signs, and has issued everything",
    "finish": "the new CA alone is trusted",
    "cancel": "the old CA alone is trusted",
}
_THEN = {
    "trust": "The new CA signs nothing yet. Kubeconfigs elsewhere trust the old one alone: give them the "
    "certificate-authority-data of /etc/kubernetes/admin.conf. Pods of yours that began before read what they trust "
    "when they are started again. Then: upgrader certs rotate-ca sign",
    "sign": "The new CA signs; both are trusted. Your own kubeconfig is another file, and still has a certificate "
    "of the old one: give it client-certificate-data and client-key-data of the user in /etc/kubernetes/admin.conf, "
    "which is new on each controller. Every other client with a certificate of the old CA needs a new one, too: "
    "`finish` locks them out. Then: upgrader certs rotate-ca finish",
    "finish": "The old CA is trusted no longer, and its key is removed from the controllers. Remove it from "
    "backups, and its certificate from kubeconfigs elsewhere.",
}


@click.group("rotate-ca", cls=GroupOfWholeLines)
def rotate_ca() -> None:
    """Replace the cluster's CA: a new one is trusted, then it signs, then the old one goes.

    That of /etc/kubernetes/pki/ca.crt. CAs of etcd and of the front proxy are others, and stay as they are.
    """


@rotate_ca.command()
@OUTPUT
@click.pass_obj
def show(folder: Path, output: Output) -> None:
    """Show how far a rotation is, which CAs each node trusts, file by file, and which one signs. Changes nothing.

    Exit codes: 0 shown, 2 wrong usage or files, 3 CAs that no rotation leaves so, 3 or 5 a node could not be asked.
    """
    from upgrader.app.ca_rotation import show_cas
    from upgrader.ui.ca_trust import print_cas

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

    Exit codes: 0 done (or nothing to do), 2 wrong usage or files, 3 blocked before anything changed, 4 failed and
    rolled back, 5 manual action required, 6 another run holds the lock, 130 interrupted.
    """
    _run(folder, "trust", yes=yes, take_over=take_over)


@rotate_ca.command()
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def sign(folder: Path, yes: bool, take_over: bool) -> None:
    """Have the new CA sign, and issue anew what the old one has issued; both are still trusted.

    On each controller in turn, its kubeadm issues kube-apiserver's certificates and those in the kubeconfigs, also in
    admin.conf, and kube-controller-manager signs with the new CA. Then each kubelet gets a certificate of it, and is
    restarted. Every client has to trust the new CA before: see `trust`. If it is interrupted, run it again.

    Exit codes: 0 done (or nothing to do), 2 wrong usage or files, 3 blocked before anything changed, 4 failed and
    rolled back, 5 manual action required, 6 another run holds the lock, 130 interrupted.
    """
    _run(folder, "sign", yes=yes, take_over=take_over)


@rotate_ca.command()
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def finish(folder: Path, yes: bool, take_over: bool) -> None:
    """Have nothing trust the old CA any more, and remove its key. There is no way back.

    Clients with a certificate of the old CA are locked out, so renew your own kubeconfig before: see `sign`. If it is
    interrupted, run it again.

    Exit codes: 0 done, 2 wrong usage or files, 3 blocked before anything changed, 5 manual action required, 6 another
    run holds the lock, 130 interrupted.
    """
    _run(folder, "finish", yes=yes, take_over=take_over)


@rotate_ca.command()
@YES
@TAKE_OVER
@EVENTS
@click.pass_obj
def cancel(folder: Path, yes: bool, take_over: bool) -> None:
    """Have everything on the nodes trust the old CA alone again, and remove the new one.

    Only before `sign`. If it is interrupted, run it again.

    Exit codes: 0 done, 2 wrong usage or files, 3 blocked before anything changed, 5 manual action required, 6 another
    run holds the lock, 130 interrupted.
    """
    _run(folder, "cancel", yes=yes, take_over=take_over)


def _run(folder: Path, phase: Literal["trust", "sign", "finish", "cancel"], *, yes: bool, take_over: bool) -> None:
    from upgrader.app.ca_rotation import Phase, found_cas, show_cas
    from upgrader.ui.proposed_steps import print_found, print_steps

    with found_cas(folder, front_end(), Phase(phase)) as found:
        print_found(found.findings)
        found.check_allowed()
        _write(found, yes=yes)
        with found.propose(take_over=take_over) as proposed:
            if not proposed.changes:
                say(f"Nothing to do: {_DONE[phase]}.")
                return
            print_steps(proposed.pipeline)
            confirm("Start?", yes=yes)
            conclude(proposed.execute())
        if phase == "sign":
            for line in show_cas(folder).left():
                say(f"Of the old CA, and not known to kubeadm: {line}")
    if phase in _THEN:
        say(_THEN[phase])


def _write(found: FoundCas, *, yes: bool) -> None:
    from upgrader.app.values_edit import write_edited

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
    issued = [
        {"node": node.host.name, "path": item.path, "issued_by": item.by}
        for node in found.nodes
        for item in node.issued
        if item.by
    ]
    return {
        "stage": str(found.stage),
        "next": found.stage.command,
        "signs": found.signs,
        "old": found.old,
        "new": found.new,
        "new_key_on": found.keeper.name if found.keeper else "",
        "trusted_everywhere": found.trusted,
        "files": files,
        "certificates": issued,
    }

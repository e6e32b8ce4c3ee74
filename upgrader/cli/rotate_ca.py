"""`upgrader certs rotate-ca`: a new CA of the cluster in the place of the old one, phase by phase."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.command_line import EVENTS, TAKE_OVER, YES, front_end
from upgrader.cli.notices import say
from upgrader.cli.output import OUTPUT, Output, print_plain
from upgrader.cli.questions import confirm, start

if TYPE_CHECKING:
    from upgrader.app.ca_rotation import FoundCas
    from upgrader.model.ca_trust import CaTrust

__all__ = ["rotate_ca"]

_DONE = {
    "trust": "every node trusts both the new CA and the old one",
    "sign": "the new CA signs, and has reissued all certificates",
    "finish": "only the new CA is trusted",
    "cancel": "only the old CA is trusted",
}
_THEN = {
    "trust": "The new CA doesn't sign yet. Kubeconfigs elsewhere still trust only the old CA: copy "
    "certificate-authority-data to them from /etc/kubernetes/admin.conf. Restart your own pods, so that they "
    "read the new CA. Then run `upgrader certs rotate-ca sign`.",
    "sign": "The new CA signs; both are trusted. Your own kubeconfig still has a certificate from the old CA: copy "
    "client-certificate-data and client-key-data to it from /etc/kubernetes/admin.conf on a controller. Every other "
    "client with a certificate from the old CA also needs a new one: `finish` locks them out. Then run `upgrader "
    "certs rotate-ca finish`.",
    "finish": "The old CA is no longer trusted, and its key is removed from the controllers. Also remove the key from "
    "backups, and the certificate from kubeconfigs elsewhere.",
}


@click.group("rotate-ca", cls=GroupOfWholeLines)
def rotate_ca() -> None:
    """Replace the cluster's CA: trust the new one, sign with it, then remove the old one.

    This is /etc/kubernetes/pki/ca.crt. The CAs of etcd and of the front proxy are separate, and are not replaced.
    """


@rotate_ca.command()
@OUTPUT
@click.pass_obj
def show(folder: Path, output: Output) -> None:
    """Show the stage of a rotation, which CAs each node trusts, file by file, and which one signs. Changes nothing.

    Exit codes: 0 shown, 2 wrong usage or files, 3 the CAs match no stage of a rotation, 3 or 5 a node could not be
    inspected.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.ca_rotation import show_cas
    from upgrader.cli.ui.ca_trust import print_cas

    with shown.busy("reading the CAs of every node…"):
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
    """Create a new CA, and make the nodes trust both; the old one still signs.

    kubeadm on the first controller creates it, and its key stays there. Then kube-apiserver, the kubelets, kubeconfigs,
    pods and `kubeadm join` trust both. Kubelets are restarted, one after the other, and the pods of
    kube-controller-manager, kube-scheduler, kube-proxy and CoreDNS are rolled out. If it is interrupted, run it again.

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
    """Sign with the new CA, and reissue the certificates of the old one; both are still trusted.

    On each controller in turn, kubeadm issues kube-apiserver's certificates and those in the kubeconfigs, admin.conf
    included, and kube-controller-manager signs with the new CA. Then each kubelet gets a certificate from it, and is
    restarted. Every client must trust the new CA first: see `trust`. If it is interrupted, run it again.

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
    """Stop trusting the old CA, and remove its key. This can't be undone.

    Clients with a certificate from the old CA are locked out, so update your own kubeconfig first: see `sign`. If it is
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
    """Make the nodes trust only the old CA again, and remove the new one.

    Possible only before `sign`. If it is interrupted, run it again.

    Exit codes: 0 done, 2 wrong usage or files, 3 blocked before anything changed, 5 manual action required, 6 another
    run holds the lock, 130 interrupted.
    """
    _run(folder, "cancel", yes=yes, take_over=take_over)


def _run(folder: Path, phase: Literal["trust", "sign", "finish", "cancel"], *, yes: bool, take_over: bool) -> None:
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.ca_rotation import Phase, found_cas, show_cas
    from upgrader.cli.ui.proposed_steps import print_found, print_steps

    with found_cas(folder, shown, Phase(phase)) as found:
        print_found(found.findings)
        found.check_allowed()
        _write(found, yes=yes)
        with found.propose(take_over=take_over) as proposed:
            if not proposed.changes:
                say(f"Nothing to do: {_DONE[phase]}.")
                return
            print_steps(proposed.pipeline)
            start(proposed, yes=yes)
        if phase == "sign":
            with shown.busy("reading the CAs of every node…"):
                left = show_cas(folder).left()
            for line in left:
                say(f"From the old CA, and not managed by kubeadm: {line}")
    if phase in _THEN:
        say(_THEN[phase])


def _write(found: FoundCas, *, yes: bool) -> None:
    from upgrader.app.values_edit import write_edited

    if found.files:
        for file in found.files:
            say(f"Will write `pki.signingCertificate` to {file.relative_to(found.folder)}")
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

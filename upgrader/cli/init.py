"""`upgrader init`: a folder for a cluster that runs already."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from upgrader.app.initialization import Login, ProposedFolder, look_at_cluster
from upgrader.cli.command_line import YES, confirm, say
from upgrader.errors import UsageError
from upgrader.ui.found_cluster import print_found

__all__ = ["init"]

_NEXT = {
    "kubeadm": ("check", "adopt"),
    "self-hosted": ("check", "plan"),
}


@click.command()
@click.option(
    "--ssh-user", metavar="USER", default=Login.user, show_default=True, help="Who logs in to the controllers."
)
@click.option(
    "--ssh-key",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The private key to log in with (default: the agent's, or those that ssh uses).",
)
@YES
@click.pass_obj
def init(folder: Path, ssh_user: str, ssh_key: Path | None, yes: bool) -> None:
    """Look at the cluster of your kubeconfig, and write the folder that all other commands need.

    The kubeconfig is the one that kubectl would use, or that of --kubeconfig and --context. Writes upgrader.yaml, its
    JSON Schema for editors, hosts.yml, .gitignore, and ssh/known_hosts once you have compared the fingerprints; links
    the kubeconfig. What is there already stays as it is. Changes nothing in the cluster.

    Exit codes: 0 written, or all is there already; 2 wrong usage or files; 3 no control plane that upgrader can
    upgrade; 5 the API did not answer.
    """
    found = look_at_cluster(folder, Login(ssh_user, ssh_key.absolute() if ssh_key else None))
    print_found(found, sys.stdout)
    for name, why in found.silent.items():
        say(f"{name}: {why}")
    trust = bool(found.keys) and not yes and click.confirm("Are these the controllers' own fingerprints?", err=True)
    if found.keys and not trust:
        say("Their host keys are not written: log in to each controller once, or write ssh/known_hosts yourself.")
    _write(found, trust=trust, yes=yes)
    where = "upgrader" if folder == Path.cwd() else f"upgrader -C {folder}"
    say(f"Next: {', then '.join(f'{where} {command}' for command in _NEXT[found.cluster.kind])}")


def _write(found: ProposedFolder, *, trust: bool, yes: bool) -> None:
    new = [*found.files(trust=trust), *([found.folder / "kubeconfig"] if found.links_kubeconfig else [])]
    for path in found.kept:
        say(f"stays as it is: {path}")
    if not new:
        return
    say("\n".join(f"to be written: {path}" for path in new))
    confirm("Write these files?", yes=yes)
    try:
        found.write(trust=trust)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}", remedy="Check the folder's permissions.") from error

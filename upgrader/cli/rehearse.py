"""`upgrader rehearse`: the target's kube-apiserver on a copy of this cluster's data, before anything changes."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.command_line import IDENTITY_HELP, TARGET, front_end
from upgrader.cli.output import OUTPUT, Output, print_plain, print_text
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.app.rehearsal import Rehearsed
    from upgrader.model.api_lifecycle import Minor

__all__ = ["rehearse"]


@click.group(cls=GroupOfWholeLines, invoke_without_command=True)
@TARGET
@click.option(
    "--on",
    metavar="HOST",
    help="Compare both versions on this host of the inventory's group `rehearsal`, and not on a controller.",
)
@click.option(
    "--here",
    metavar="BACKUP",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Compare both versions on this machine, with the data of a file that `upgrader backup` wrote. Needs root, and "
    "--identity.",
)
@click.option("--identity", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help=IDENTITY_HELP)
@click.option(
    "--audit-log",
    "audit_logs",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Try the requests in this audit log of kube-apiserver, or in all files of a folder, and name the clients that "
    "send what the target doesn't serve; may be repeated.",
)
@click.option(
    "--redacted",
    is_flag=True,
    help="Print placeholders for the names of objects, releases, policies, custom resources and hosts, each the same "
    "throughout. Progress messages, and the record in runs/, keep the names.",
)
@OUTPUT
@click.pass_context
def rehearse(
    context: click.Context,
    target: KubernetesVersion | None,
    on: str | None,
    here: Path | None,
    identity: Path | None,
    audit_logs: tuple[Path, ...],
    redacted: bool,
    output: Output,
) -> None:
    """Try the target's kube-apiserver on a copy of this cluster's data, and compare it with the running version.

    `rehearse copy` writes a file from which a lab like this cluster can be made, to try an upgrade, a rollback and a
    power cut there.

    On a controller, a snapshot of etcd is restored twice. In a systemd unit without a network, the running version of
    kube-apiserver serves one copy with its current flags, and the target serves the other with the planned flags. Every
    object is read at every version, and updated and created again as a dry run. A request that only the target rejects
    is a finding. The copies are removed at the end.

    Changes nothing in the cluster, but holds its lock until the end. Only names and reasons leave the controller. The
    controller needs 2.25 GiB of free memory, free disk space, and the target's image.

    With --audit-log, the clients' requests are compared as well. The clients' names stay on this machine.

    With --on, HOST needs the same memory, disk space and image, and also systemd and containerd. Until the rehearsal
    ends, HOST has the restored snapshot and the files that flags name, such as encryption keys. They pass through the
    memory of this machine.

    With --here, this machine needs all of these, and nothing runs on a controller. Objects and keys that are newer
    than the backup are not tested, and the record of the rehearsal is as old as the backup.

    Exit codes: 0 no difference, 2 wrong usage or files, 3 the target rejects something, something could not be
    compared, or a controller or HOST failed, 5 the API or Helm failed, 6 another run holds the lock.
    """
    if context.invoked_subcommand is not None:
        for option, given in (
            ("--to", target),
            ("--on", on),
            ("--here", here),
            ("--identity", identity),
            ("--audit-log", audit_logs or None),
            ("--redacted", redacted or None),
        ):
            if given is not None:
                raise UsageError(
                    f"{option} has no meaning for `rehearse {context.invoked_subcommand}`",
                    remedy=f"Omit {option}.",
                )
        return
    if on is not None and here is not None:
        raise UsageError("--on and --here can't be combined", remedy="Choose one of them.")
    if (here is None) != (identity is None):
        raise UsageError(
            "--here BACKUP and --identity FILE must be used together",
            remedy="Give both: FILE is the private key for the backup, as for `upgrader restore`.",
        )
    folder: Path = context.obj
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.backup import open_backup
    from upgrader.app.rehearsal import rehearse as rehearse_upgrade
    from upgrader.cli.ui.findings import on_screen
    from upgrader.cli.ui.rehearsal import print_rehearsal

    backup = open_backup(here, identity) if here is not None and identity is not None else None
    rehearsed = rehearse_upgrade(folder, target, shown, on, backup, audit_logs=audit_logs)
    rehearsed = rehearsed.redacted() if redacted else rehearsed
    seen = False
    if output != "table":
        print_plain(_described(rehearsed), output)
    else:
        seen = on_screen(rehearsed.findings, sys.stdout)
        print_rehearsal(rehearsed, sys.stdout)
    rehearsed.refuse_if_blocked(seen=seen)


@rehearse.command()
@click.option(
    "--out",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write, readable only by you; an existing one is replaced.",
)
@click.pass_obj
def copy(folder: Path, out: Path) -> None:
    """Write a copy of this cluster's shape, for `upgrader lab up --like FILE`. Changes nothing in the cluster.

    An allow-list of fields decides what is in it: versions; flags and values that a lab can have; nodes with their
    labels and taints; namespaces, CustomResourceDefinitions, admission policies, webhooks' rules, priority classes,
    disruption budgets; and the counts, labels, selectors and placement of workloads. It has no Secrets, ConfigMaps,
    custom resources or annotations, and nothing about containers. Read the file before you share it.

    Exit codes: 0 written, 2 wrong usage or files, 3 no control plane that upgrader can upgrade, 5 the API did not
    answer, or refused a list.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.rehearsal_copy import write_cluster_copy
    from upgrader.cli.ui.cluster_copy import describe_copy

    copied = write_cluster_copy(folder, out, shown)
    for line in describe_copy(copied, out):
        print_text(line)


def _described(rehearsed: Rehearsed) -> dict[str, object]:
    from upgrader.model.emulation import minor_text

    def minor(found: Minor | None) -> str | None:
        return None if found is None else minor_text(found)

    result = rehearsed.result
    return {
        "current": str(rehearsed.current),
        "target": str(rehearsed.target),
        "current_emulates": minor(rehearsed.current_emulates),
        "target_emulates": minor(rehearsed.target_emulates),
        "emulated_first": minor(rehearsed.emulated_first),
        "blocked": rehearsed.blocked,
        "controller": result.controller,
        "rehearsal_host": result.rehearsal_host or None,
        "backup_taken": rehearsed.backup_taken.isoformat() if rehearsed.backup_taken else None,
        "counts": result.counts,
        "seconds": result.seconds,
        "peak_bytes": result.peak_bytes,
        "findings": [asdict(finding) for finding in rehearsed.findings],
    }

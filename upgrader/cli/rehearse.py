"""`upgrader rehearse`: the target's kube-apiserver on a copy of this cluster's data, before anything changes."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_line import TARGET, front_end
from upgrader.cli.output import OUTPUT, Output, print_plain
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.app.rehearsal import Rehearsed
    from upgrader.model.api_lifecycle import Minor

__all__ = ["rehearse"]


@click.command()
@TARGET
@OUTPUT
@click.pass_obj
def rehearse(folder: Path, target: KubernetesVersion | None, output: Output) -> None:
    """Try the target's kube-apiserver on a copy of this cluster's data, beside the version that runs.

    On a controller, a snapshot of etcd is restored twice; both versions of kube-apiserver serve a copy, with today's
    and with the planned flags, in a systemd unit without a network. Every object is read at every version, and updated
    and created again as a dry run. What only the target refuses is a finding. All of it is removed at the end.

    Changes nothing in the cluster, and holds its lock meanwhile. Only names and reasons leave the controller. The
    controller needs 2.25 GiB of free memory, free disk space, and the target's image.

    Exit codes: 0 no difference, 2 wrong usage or files, 3 the target refuses something, something could not be
    compared, or a controller failed, 6 another run holds the lock.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.rehearsal import rehearse as rehearse_upgrade
    from upgrader.ui.findings import on_screen
    from upgrader.ui.rehearsal import print_rehearsal

    rehearsed = rehearse_upgrade(folder, target, shown)
    seen = False
    if output != "table":
        print_plain(_described(rehearsed), output)
    else:
        seen = on_screen(rehearsed.findings, sys.stdout)
        print_rehearsal(rehearsed, sys.stdout)
    rehearsed.refuse_if_blocked(seen=seen)


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
        "counts": result.counts,
        "seconds": result.seconds,
        "peak_bytes": result.peak_bytes,
        "findings": [asdict(finding) for finding in rehearsed.findings],
    }

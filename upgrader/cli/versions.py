"""`upgrader versions`: what can be upgraded to from here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upgrader.cli.command_line import VERSION, front_end
from upgrader.cli.output import OUTPUT, Output, print_plain
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.app.versions_on_offer import Here, OfferedVersion

__all__ = ["versions"]


@click.command()
@click.option("--from", "chosen", metavar="VERSION", type=VERSION, help="Start from this version; needs no cluster.")
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use the versions in this file, one per line, such as the tags of your registry.",
)
@OUTPUT
@click.pass_obj
def versions(folder: Path, chosen: KubernetesVersion | None, file: Path | None, output: Output) -> None:
    """Show what this cluster can be upgraded to: the newest patch of each minor, in how many runs, and its end of
    support.

    Without --file, these are the versions that this upgrader knows; later patches of them work too. A kubelet may be
    three minors behind: older ones are listed. If the cluster doesn't answer, the version in upgrader.yaml is used.
    Changes nothing.
    """
    shown = front_end()  # before the imports, which take seconds

    from upgrader.app.versions_on_offer import offered_versions, read_versions, where_we_are
    from upgrader.app.wiring import system_clock
    from upgrader.cli.ui.versions import print_versions

    with shown.busy("asking the cluster…"):
        here = where_we_are(folder, chosen)
    offered = offered_versions(here, read_versions(file) if file else None)
    if output == "table":
        print_versions(here, offered, system_clock().now().date(), sys.stdout)
    else:
        print_plain(_plain(here, offered), output)


def _plain(here: Here, offered: Sequence[OfferedVersion]) -> dict[str, Any]:
    from upgrader.model.support_ends import support_ends

    return {
        "current": str(here.version),
        "source": here.source,
        "problem": here.problem,
        "emulated": ".".join(map(str, here.emulated)) if here.emulated else None,
        "supported_until": _iso(here.version),
        "known_on": support_ends().made.isoformat(),
        "versions": [
            {
                "version": str(each.version),
                "hops": [str(hop) for hop in each.hops],
                "supported_until": _iso(each.version),
                "old_kubelets": list(each.old_kubelets),
                "known": each.known,
            }
            for each in offered
        ],
    }


def _iso(version: KubernetesVersion) -> str | None:
    from upgrader.model.support_ends import support_ends

    day = support_ends().of(version)
    return day.isoformat() if day else None

"""`upgrader bundle`: images and charts in one file, for sites without a registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.command_line import TARGET
from upgrader.cli.output import print_text
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.model.bundle_index import BundleIndex

__all__ = ["bundle"]


@click.group(cls=GroupOfWholeLines)
def bundle() -> None:
    """Put the images and charts of an upgrade into one file, for sites without a registry."""


@bundle.command()
@click.option(
    "-o",
    "--out",
    "path",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write.",
)
@TARGET
@click.option(
    "--archives",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with image archives (*.tar, from `docker save` or `ctr images export`).",
)
@click.pass_obj
def create(folder: Path, path: Path, target: KubernetesVersion | None, archives: Path | None) -> None:
    """Write a bundle for an upgrade of the cluster folder.

    Images come from --archives; the others are copied from their registries with `skopeo`, for this machine's
    architecture. Needs no cluster.

    Exit codes: 0 done, 2 wrong usage or files, or an image isn't available.
    """
    from upgrader.app.bundles import create_bundle

    _show(create_bundle(folder, path, target, archives))


@bundle.command()
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
def verify(path: Path) -> None:
    """Verify a bundle's checksums, and show its content.

    The checksums detect damage, not tampering: also compare the SHA-256 of the file with the one from its author.

    Exit codes: 0 intact, 2 damaged, or not a bundle.
    """
    from upgrader.app.bundles import verify_bundle

    _show(verify_bundle(path))


def _show(index: BundleIndex) -> None:
    print_text(f"Kubernetes {index.kubernetes_version}, made by upgrader {index.upgrader}")
    for item in index.images:
        print_text(f"{', '.join(item.names)}  ({item.size / 1e6:.1f} MB)")
    click.echo(f"{len(index.charts)} chart files; all checksums match")

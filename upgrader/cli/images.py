"""`upgrader images`: the images that upgrader itself brings."""

from __future__ import annotations

import re
from pathlib import Path

import click

from upgrader.cli.command_groups import GroupOfWholeLines

__all__ = ["images"]

_REGISTRY = re.compile(r"([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*/?")


@click.group(cls=GroupOfWholeLines)
def images() -> None:
    """Push upgrader's own images and charts to your registry."""


@images.command()
@click.argument("registry", metavar="REGISTRY")
@click.option(
    "--from",
    "release",
    metavar="DIR",
    default=Path("dist"),
    show_default=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The output folder of `make dist`.",
)
@click.pass_obj
def push(folder: Path, registry: str, release: Path) -> None:
    """Push upgrader's own images and charts, and write the pod-checkpointer's digest into the cluster folder's values.

    REGISTRY is HOST[:PORT][/PATH], as in registry.example.com/upgrader; charts go to REGISTRY/charts. It needs skopeo,
    and a login (`skopeo login`) if the registry requires one. Anyone who can push to the pod-checkpointer's repository
    has root access to every controller.

    Prints REPOSITORY@DIGEST of each. Pushes what DIR has; only the pod-checkpointer's image is required.

    Exit codes: 0 done, 2 wrong usage or files, or the registry rejects it.
    """
    from upgrader.app.image_push import push_images
    from upgrader.config.yaml_document import shown

    if not _REGISTRY.fullmatch(registry):
        raise click.BadParameter(
            f"{registry!r} is not a registry: write HOST[:PORT][/PATH], in lower case and without https://"
        )
    pushed = push_images(folder, release, registry, lambda text: click.echo(text, err=True))
    for reference in pushed.references:
        click.echo(reference)
    click.echo(f"{shown(pushed.values_file)}: image.repository and image.digest are set; commit it", err=True)

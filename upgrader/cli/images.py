"""`upgrader images`: the images that upgrader itself brings."""

from __future__ import annotations

import re
from pathlib import Path

import click

from upgrader.app.image_push import push_images
from upgrader.config.yaml_document import shown

__all__ = ["images"]

_REGISTRY = re.compile(r"([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*/?")


@click.group()
def images() -> None:
    """Bring upgrader's own images into a registry of yours."""


@images.command()
@click.argument("registry", metavar="REGISTRY")
@click.option(
    "--from",
    "archives",
    metavar="DIR",
    default=Path("dist/images"),
    show_default=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder with the images of `make dist`.",
)
@click.pass_obj
def push(folder: Path, registry: str, archives: Path) -> None:
    """Push the pod-checkpointer's image, and write its repository and digest into the cluster folder's values.

    REGISTRY is HOST[:PORT][/PATH], as in registry.example.com/upgrader. It needs skopeo, and a login (`skopeo login`)
    where the registry wants one. Whoever can push to the repository has root's rights on every controller.

    \b
    Exit codes: 0 done, 2 wrong usage or files, or the registry refuses it.
    """
    if not _REGISTRY.fullmatch(registry):
        raise click.BadParameter(f"{registry!r} isn't HOST[:PORT][/PATH], in lower case and without https://")
    pushed = push_images(folder, archives, registry, lambda text: click.echo(text, err=True))
    click.echo(f"{pushed.repository}@{pushed.digest}")
    click.echo(f"{shown(pushed.values_file)}: image.repository and image.digest are set; commit it")

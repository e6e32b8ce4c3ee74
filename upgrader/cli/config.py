"""`upgrader config`: the settings of a cluster folder."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click
import yaml

from upgrader.config.effective import effective_settings
from upgrader.redaction.printable import printable
from upgrader.ui.settings import print_settings

__all__ = ["config"]


@click.group()
def config() -> None:
    """Show the settings of the cluster folder."""


@config.command()
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="What is printed on standard output.",
)
@click.pass_obj
def show(folder: Path, output: Literal["table", "json", "yaml"]) -> None:
    """Show every setting as it applies, and where it comes from: a line of upgrader.yaml, the environment, a default.

    The content of values files isn't shown, and what looks like a secret is masked. Needs no cluster.
    """
    found = effective_settings(folder, os.environ)
    plain = [asdict(each) for each in found]
    if output == "json":
        click.echo(printable(json.dumps(plain, indent=2)))
    elif output == "yaml":
        click.echo(printable(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)), nl=False)
    else:
        print_settings(found, sys.stdout)

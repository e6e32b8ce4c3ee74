"""`upgrader config`: the settings of a cluster folder."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from upgrader.cli.command_groups import GroupOfWholeLines
from upgrader.cli.output import OUTPUT, Output, print_plain

__all__ = ["config"]


@click.group(cls=GroupOfWholeLines)
def config() -> None:
    """Show the settings of the cluster folder."""


@config.command()
@OUTPUT
@click.pass_obj
def show(folder: Path, output: Output) -> None:
    """Show the effective settings, and where each comes from: a line of upgrader.yaml, the environment, a default.

    The content of values files isn't shown, and what looks like a secret is masked. Needs no cluster.
    """
    from upgrader.cli.ui.settings import print_settings
    from upgrader.config.effective import effective_settings

    found = effective_settings(folder, os.environ)
    if output == "table":
        print_settings(found, sys.stdout)
    else:
        print_plain([asdict(each) for each in found], output)

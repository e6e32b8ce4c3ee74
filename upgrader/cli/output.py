"""`-o table|json|yaml`: the same option, and the same form, for every command that shows something."""

from __future__ import annotations

import json
from typing import Any, Literal

import click

__all__ = ["OUTPUT", "TEXT_OR_JSON", "Output", "PlainOutput", "print_plain", "print_text"]

PlainOutput = Literal["json", "yaml"]
Output = Literal["table"] | PlainOutput

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="What is printed on standard output.",
)

TEXT_OR_JSON = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What is printed on standard output; json: the same as --json.",
)


def print_plain(value: Any, output: PlainOutput) -> None:
    """Print JSON values for programs; secrets in them are masked."""
    import yaml

    from upgrader.model.redaction.printable import printable

    if output == "json":
        click.echo(printable(json.dumps(value, indent=2)))
    else:
        click.echo(printable(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)), nl=False)


def print_text(text: str, *, err: bool = False) -> None:
    """Print lines with others' words in them, such as a file's that somebody else has made; they control nothing."""
    from upgrader.model.redaction.printable import printable

    click.echo(printable(text), err=err)

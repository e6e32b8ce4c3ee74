"""`-o FORM`: the same option, and the same forms, for every command that shows something."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import click

__all__ = ["OUTPUT", "TEXT_OR_JSON", "Output", "PlainOutput", "output_option", "print_plain", "print_text"]

_C = TypeVar("_C", bound=Callable[..., Any])

PlainOutput = Literal["json", "yaml"]
Output = Literal["table"] | PlainOutput

_PRINTED = "What is printed on standard output."


def output_option(*forms: str, default: bool = True, help_text: str = _PRINTED, **more: Any) -> Callable[[_C], _C]:
    """`-o FORM`, for the parameter `output`: the first form by `default`, or else None. `more` is for click."""
    first: dict[str, Any] = {"default": forms[0], "show_default": True} if default else {}
    return click.option("-o", "--output", type=click.Choice(forms), help=help_text, **first, **more)


OUTPUT = output_option("table", "json", "yaml")
TEXT_OR_JSON = output_option("text", "json", help_text=f"{_PRINTED[:-1]}; json: the same as --json.")


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

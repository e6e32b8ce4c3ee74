"""Prints the findings of `upgrader doctor`, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.text import Text

from upgrader.app.doctor import Symptom
from upgrader.cli.ui.terminal import console, filled
from upgrader.model.redaction.printable import printable

__all__ = ["print_symptoms"]

_INDENT = 21
"""Of what was found: it stands behind its state and name."""
_STYLES = {"ok": "green", "warning": "yellow", "error": "bold red"}


def print_symptoms(symptoms: Sequence[Symptom], stream: TextIO | None = None) -> None:
    """Print a line for each, and the remedy below those that have one."""
    out = console(stream)
    for each in symptoms:
        state = Text(f"{each.state:<8}", style=_STYLES[each.state])
        lines = each.text.splitlines() or [""]
        shown = [Text.assemble(state, f"{each.name:<12} ", printable(lines[0]))]
        shown += [Text(f"{'':<{_INDENT}}{printable(line)}") for line in lines[1:]]
        shown += [Text(f"{'':<{_INDENT}}Remedy: {printable(line)}") for line in each.remedy.splitlines()]
        for line in shown:
            out.print(filled(line, out, _INDENT), soft_wrap=True)

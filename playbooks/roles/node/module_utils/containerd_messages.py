"""What containerd says of a configuration, without the values in it: one may be a registry's password."""

from __future__ import annotations

import re

__all__ = ["reading_problem", "without_values"]

_PLACE = re.compile(r"line (\d+)(?:,? column (\d+))?|\((\d+), (\d+)\)")
_FIELD = re.compile(r"struct field ([A-Za-z_]+(?:\.[A-Za-z_]+)*)")
_READS = re.compile(r"toml|unmarshal|decod|convert|pars(?:e|ing)", re.IGNORECASE)
"""Words of errors that repeat what couldn't be read."""


def reading_problem(said: str) -> str:
    """Where the mistake is, by the error of `config dump`, and how to see the rest."""
    return (
        f"it can't be read{_where(said)}. `containerd --config FILE config dump` shows more, possibly with a password"
    )


def without_values(line: str) -> str:
    """A line of containerd's log; of one that could repeat a value, only where the mistake is."""
    return f"something can't be read{_where(line)}; the log on the node has the line" if _READS.search(line) else line


def _where(said: str) -> str:
    place, field = _PLACE.search(said), _FIELD.search(said)
    found = ""
    if place:
        line, column = place[1] or place[3], place[2] or place[4]
        found = f" at line {line}" + (f", column {column}" if column else "")
    return found + (f", field {field[1]}" if field else "")

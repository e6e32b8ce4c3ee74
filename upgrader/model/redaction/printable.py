"""The safe part of others' text: no secrets, and nothing that a terminal or a CI system executes."""

from __future__ import annotations

import re

from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.redaction.patterns import mask_patterns

__all__ = ["mask_around_colours", "mask_secrets", "printable", "shown_on_a_terminal", "without_commands"]

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 except tab and newline, characters that only some readers take as a line break, those that reverse the
direction of text, and surrogates, which JSON may have and no stream can write.
"""
_WORKFLOW_COMMAND = re.compile(r"(?m)^([^\S\n]*):(?=:[A-Za-z].*::)")
"""`::error::`, `::set-env name=…::`, which GitHub Actions executes at the start of a line, after any Unicode
whitespace.
"""
_COMMAND_ON_A_TERMINAL = re.compile(r"(?m)^((?:\x1b\[[0-9;?]*[A-Za-z]|[^\S\n])*)::(?=[A-Za-z].*::)")
"""The same after the characters that a display writes at the start of a line."""
_LOGGING_COMMAND = re.compile(r"##(?=(?:vso|teamcity)?\[)")
"""`##[command]`, `##vso[…]`, `##teamcity[…]`."""


def printable(text: str) -> str:
    """The text for people: secrets masked, colours removed, control characters and commands for CI made harmless."""
    return mask_secrets(without_commands(text))


def without_commands(text: str) -> str:
    """The text without what a terminal or a CI system would execute; line breaks stay."""
    text = _COLOURS.sub("", text.replace("\r\n", "\n"))
    text = _CONTROL.sub("\ufffd", text)
    text = _WORKFLOW_COMMAND.sub(r"\1: ", text)
    return _LOGGING_COMMAND.sub("## ", text)


def mask_secrets(text: str) -> str:
    """The text with every known secret and everything that looks like one masked, without colours, which may separate a
    secret from its name.
    """
    return mask_around_colours(_COLOURS.sub("", text))


def mask_around_colours(text: str) -> str:
    """The same for text on a terminal, whose colours are our own and stay."""
    return mask_patterns(KNOWN.mask(text))


def shown_on_a_terminal(text: str) -> str:
    """The output of a display, with secrets masked. A CI job may give it a terminal (`docker run -t`): if a line were
    broken before `::error::`, the next one would begin with a command. The length stays the same.
    """
    return _COMMAND_ON_A_TERMINAL.sub(r"\1: ", mask_around_colours(text))

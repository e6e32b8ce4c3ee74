"""What may be shown of others' text: no secrets, and nothing that a terminal or a CI system obeys."""

from __future__ import annotations

import re

from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.redaction.patterns import mask_patterns

__all__ = ["mask_around_colours", "mask_secrets", "printable", "shown_on_a_terminal", "without_commands"]

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 without tab and newline, what ends a line for some readers only, what reverses the direction of text, and
halves of characters, which no stream takes: JSON may have them."""
_WORKFLOW_COMMAND = re.compile(r"(?m)^([^\S\n]*):(?=:[A-Za-z].*::)")
"""`::error::`, `::set-env name=…::`, which GitHub Actions obeys at the start of a line, after whatever Unicode calls a
space."""
_COMMAND_ON_A_TERMINAL = re.compile(r"(?m)^((?:\x1b\[[0-9;?]*[A-Za-z]|[^\S\n])*)::(?=[A-Za-z].*::)")
"""The same behind what a display writes at the start of a line."""
_LOGGING_COMMAND = re.compile(r"##(?=(?:vso|teamcity)?\[)")
"""`##[command]`, `##vso[…]`, `##teamcity[…]`."""


def printable(text: str) -> str:
    """The text for people: secrets masked, colours removed, control characters and commands to CI made harmless."""
    return mask_secrets(without_commands(text))


def without_commands(text: str) -> str:
    """The text without what a terminal or a CI system would obey; lines stay lines."""
    text = _COLOURS.sub("", text.replace("\r\n", "\n"))
    text = _CONTROL.sub("\ufffd", text)
    text = _WORKFLOW_COMMAND.sub(r"\1: ", text)
    return _LOGGING_COMMAND.sub("## ", text)


def mask_secrets(text: str) -> str:
    """The text with every known secret masked, and what looks like one; without colours, which may part a secret from
    its name.
    """
    return mask_around_colours(_COLOURS.sub("", text))


def mask_around_colours(text: str) -> str:
    """The same for what a terminal shows, whose colours are ours and stay."""
    return mask_patterns(KNOWN.mask(text))


def shown_on_a_terminal(text: str) -> str:
    """What a display writes, with secrets masked. A CI job may give it a terminal (`docker run -t`): a line that was
    broken before `::error::` would begin with a command. It stays as long as it was.
    """
    return _COMMAND_ON_A_TERMINAL.sub(r"\1: ", mask_around_colours(text))

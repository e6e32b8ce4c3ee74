"""What clusters that fail in the same way have in common: a text without what only one of them has."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["cause_of", "code_of", "without_identity"]

_CAUSE_CHARACTERS = 300
_IDENTITY = (
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
)
"""What tells two clusters apart, besides their names."""
_VARYING = (
    (re.compile(r"ADDRESS:\d+\b"), "ADDRESS"),
    (re.compile(r"-[0-9a-z]{8,10}-[0-9a-z]{5}\b"), "-POD"),
    (re.compile(r"\b[0-9a-f]{12,}\b"), "DIGEST"),
    (re.compile(r"\d+"), "N"),
    (re.compile(r"\s+"), " "),
)
"""What differs between two clusters with the same fault."""


def cause_of(code: str, text: str, name: str) -> str:
    """A text that is equal for two clusters that fail in the same way; `name` is what only one of them has in it."""
    text = _with(_VARYING, without_identity(text, name))
    return f"{code}: {text}".removeprefix(": ").strip()[:_CAUSE_CHARACTERS]


def code_of(cause: str) -> str:
    """The error's code with which a cause of `cause_of` begins; of one without a code, a part of its text."""
    return cause.partition(":")[0]


def without_identity(text: str, name: str) -> str:
    """NAME for a name, but not within another word: `eu-1` is no part of `eu-10`. ADDRESS and UID for all others."""
    if name:
        text = re.sub(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", "NAME", text)
    return _with(_IDENTITY, text)


def _with(replacements: Iterable[tuple[re.Pattern[str], str]], text: str) -> str:
    for pattern, instead in replacements:
        text = pattern.sub(instead, text)
    return text

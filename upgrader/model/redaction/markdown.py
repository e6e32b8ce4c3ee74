"""Markdown around text from others, which must not become markup.

Each such text is in a code span or a block of code, in which Markdown, HTML and the keywords of GitHub and GitLab
(`@all`, `#1`, `/close` at the start of a line) have no effect. Each is made printable by itself, so that a key without
an end masks nothing of the text after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from upgrader.model.redaction.printable import printable

__all__ = ["block", "code", "details", "one_line", "prose", "table"]

_PLAIN = re.compile(r"[^|`\\<>&]+")
_HARMLESS = re.compile(r"(?!.*www)(?:[^\W_]|[ .,;:'()→–…?-]|(?<=\w)/(?=\w))*", re.IGNORECASE)
"""Words, and the punctuation that GitHub and GitLab don't interpret."""
_PUNCTUATION = re.compile(r"[^\w ]", re.ASCII)


def code(text: str) -> str:
    """A code span on one line, for running text and for a cell of a table."""
    line = one_line(text)
    # A pipe ends a cell, even in backticks, and renderers disagree about a backslash before it.
    return f"`{line}`" if _PLAIN.fullmatch(line) else _as_html(line)


def prose(text: str) -> str:
    """A sentence, in which backticks mark what is typed. A part that could be more than words is a code span as a
    whole.
    """
    parts = one_line(text).split("`")
    if len(parts) % 2 and all(_HARMLESS.fullmatch(part) for part in parts[::2] if part):
        return "".join(code(part) if place % 2 and part else part for place, part in enumerate(parts))
    return code(text)


def block(text: str, language: str = "") -> str:
    """A block of code; its fence is longer than every run of backticks in the text."""
    shown = printable(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def details(name: str, summary: str, content: str) -> str:
    """A folded part that opens with a click: `content` is Markdown, `summary` is our own text after the name."""
    return f"<details>\n<summary>{_as_html(one_line(name))} {summary}</summary>\n\n{content}\n\n</details>"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the cells are Markdown on one line."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def one_line(text: str) -> str:
    """The text without line breaks, so that no line begins with text from others."""
    return " ".join(printable(text).split())


def _as_html(line: str) -> str:
    """Punctuation as numeric character references, which are never markup."""
    return f"<code>{_PUNCTUATION.sub(lambda found: f'&#{ord(found[0])};', line)}</code>"

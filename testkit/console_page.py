"""A page's console blocks: the commands with the output in the page, and their real output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Step", "console_block", "differences", "one_after_another", "printed"]

_MARK = "\x1eSTEP"


@dataclass(frozen=True)
class Step:
    """A command, and what it printed (or should print: `…` stands for any text)."""

    command: str
    lines: tuple[str, ...]


def one_after_another(commands: Sequence[str]) -> list[str]:
    """Lines of a shell script that runs the commands in one shell, and continues if one fails; see `printed`."""
    script: list[str] = []
    for command in commands:
        script += [f"echo {shlex.quote(_MARK)}", f"eval {shlex.quote(command)}"]
        script += ['code=$?; [ $code = 0 ] || echo "(exit code $code)"']
    return script


def printed(commands: Sequence[str], output: str) -> list[Step]:
    """What each of them printed, from the output of that script; raises AssertionError if the script ended early."""
    _, *outputs = output.split(f"{_MARK}\n")
    assert len(outputs) == len(commands), f"{len(outputs)} of {len(commands)} commands were run: {output}"
    return [Step(command, tuple(text.splitlines())) for command, text in zip(commands, outputs, strict=True)]


def console_block(page: str, heading: str) -> list[Step]:
    """The first ```console block below a heading of a Markdown page. A command continues in the next line if its line
    ends in `\\`.
    """
    block = re.search(rf"^#+ {re.escape(heading)}\n.*?^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block, f"no console block below {heading!r}"
    steps: list[Step] = []
    for line in block[1].replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], ()))
        else:
            steps[-1] = Step(steps[-1].command, (*steps[-1].lines, line))
    return steps


def differences(expected: list[Step], seen: list[Step]) -> str:
    """The differences between the page and the real output, as text; empty: none. Empty lines, and spaces at the ends
    of lines, don't count. A line `…` stands for any lines, or none.
    """
    found = []
    for page, run in zip(expected, seen, strict=True):
        pattern, text = _text(page), _text(run)
        if not re.fullmatch(_form(pattern), f"{text}\n", re.DOTALL):
            found.append(f"$ {page.command}\n--- the page says\n{pattern}\n--- it was\n{text}")
    return "\n\n".join(found)


def _form(pattern: str) -> str:
    """As a regular expression for lines with their ends."""
    lines = []
    for line in pattern.splitlines() or [""]:
        text = ".*".join(re.escape(part) for part in line.split("…"))
        lines.append(r"(?:.*\n)?" if line == "…" else f"{text}\n")
    return "".join(lines)


def _text(step: Step) -> str:
    return "\n".join(line.rstrip() for line in step.lines if line.strip())

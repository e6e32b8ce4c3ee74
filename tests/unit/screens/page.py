"""docs/failures.md: what operators see of common failures. `python -m tests.unit.screens.page` prints it."""

from __future__ import annotations

import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.terminal import COLUMNS, LINES, Shown
from tests.unit.screens.failures import FAILURES, Failure
from tests.unit.screens.site import Site

__all__ = ["render", "seen"]

_HEAD = f"""# Failures, as they are seen

What stands on a terminal of {COLUMNS}×{LINES} after some failures, without scrolling: which object, why, and what to do
next. Look for the words that you see, with the site's search. `make docs` makes this page: tests cause each failure
on a cluster in memory, and fail when one of the three isn't on the screen. The same is tested on a real cluster for
some of them (`tests/e2e/test_first_screens.py`).

More on each: [Troubleshooting](troubleshooting.md), and `upgrader explain` with the name that the last line says, or
with a check's id.
"""


def seen(failure: Failure) -> Shown:
    """Cause a failure, and look at the terminal."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
        return failure.make(Site(Path(home), patch))


def render() -> str:
    """The page."""
    return "\n".join([_HEAD, *(line for failure in FAILURES.values() for line in _section(failure, seen(failure)))])


def _section(failure: Failure, shown: Shown) -> Iterator[str]:
    lines = list(shown.lines)
    while lines and lines[-1] in ("", "$"):
        lines.pop()
    if lines[:1] != [f"$ {shown.command}"]:  # it has scrolled out
        lines = [f"$ {shown.command}", "…", *lines]
    yield f"## {failure.title}\n"
    yield f"{textwrap.fill(failure.about, 120)}\n"
    yield "\n".join(["```text", *lines, "```"])
    yield f"\nExit code {shown.exit_code}.\n" if shown.exit_code else ""


if __name__ == "__main__":
    sys.stdout.write(f"{render().rstrip()}\n")

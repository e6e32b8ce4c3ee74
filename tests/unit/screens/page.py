"""docs/reference/failures.md: what operators see of common failures. `python -m tests.unit.screens.page` prints it."""

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

_HEAD = f"""# Failures as you see them

This page shows the screen of a terminal ({COLUMNS}×{LINES}) after common failures: object, cause and remedy. Search it
for the words on your screen. [Troubleshooting](../troubleshooting.md) and `upgrader explain` say more.

`make docs` generates this page with tests that cause each failure on a cluster in memory. A test fails if the object,
the cause or the remedy isn't on the screen. Some failures are also tested on a real cluster
(`tests/e2e/test_first_screens.py`).
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

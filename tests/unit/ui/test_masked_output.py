"""Nothing that this process writes to its standard streams shows a secret, or controls what reads them."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest
from rich.table import Table
from rich.text import Text

from upgrader.errors import UpgraderError
from upgrader.ui.errors import print_error
from upgrader.ui.terminal import console

_PROGRAM = """
import os, sys, click
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.ui.masked_output import mask_output
from upgrader.ui.terminal import console
KNOWN.learn(["hunter22"])
mask_output()
click.echo("one hunter22 \\x1b[2K")
print("two hunter22", file=sys.stderr)
console().print("three hunter22 \\x1b[2K")
click.echo("::error::four")
sys.stdout.writelines(["six ", "hunter22\\n"])
raise RuntimeError("five hunter22")
"""


def test_every_way_out_is_masked() -> None:
    """Click, print, rich and a traceback; a CI system finds no command, even where the locale is ASCII's."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:replace"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, env=environment, check=False
    )
    everything = done.stdout + done.stderr
    assert done.returncode == 1
    assert "hunter22" not in everything and "\x1b" not in everything
    assert [word for word in ("one", "two", "three", "four", "five", "six") if word not in everything] == []
    assert "::error" not in everything


def test_a_terminal_keeps_its_display() -> None:
    """On a terminal, rich's own control characters pass, secrets do not."""
    ours, theirs = pty.openpty()
    program = "console().print('[red]x[/]', end=''); print(' hunter22')"
    script = _PROGRAM.split("click.echo", 1)[0].replace("mask_output()", "mask_output()\n" + program)
    with os.fdopen(ours, "rb", buffering=0) as screen:
        environment = {**os.environ, "TERM": "xterm"}
        subprocess.run([sys.executable, "-c", script], stdout=theirs, stderr=theirs, env=environment, check=True)
        shown = screen.read(4096).decode()
    os.close(theirs)
    assert "\x1b[31mx" in shown and "[masked]" in shown and "hunter22" not in shown


@pytest.mark.parametrize(
    "renderable", ["a \x1b[2K password=hunter22", Text("a \x1b[2K password=hunter22", style="red")]
)
@pytest.mark.parametrize("width", [12, 80])
def test_text_is_masked_before_it_is_wrapped(renderable: str | Text, width: int) -> None:
    """A secret that would be broken into two lines of a table is masked as a whole."""
    out = io.StringIO()
    screen = console(out)
    screen.width = width
    table = Table.grid()
    table.add_column(overflow="fold")
    table.add_row(renderable)
    screen.print(table)
    assert "[masked]" in out.getvalue().replace("\n", "").replace(" ", "")
    assert "hun" not in out.getvalue() and "\x1b" not in out.getvalue()


def test_errors_are_printable() -> None:
    """A pod's log line in an error's message can't hide the lines above it, nor annotate a CI job."""
    out = io.StringIO()
    print_error(UpgraderError("failed\n::warning::x\n\x1b[1Agone\ntoken=abc123def", remedy="--password letmein"), out)
    assert out.getvalue().splitlines() == [
        "Error: failed",
        "       : :warning::x",
        "       \ufffd[1Agone",
        "       token=[masked]",
        "Remedy: --password [masked]",
        "More: upgrader explain UpgraderError",
    ]

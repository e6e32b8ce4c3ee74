"""Nothing that this process writes to its standard streams shows a secret, or controls what reads them."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import subprocess
import sys

import pytest
from rich.table import Table
from rich.text import Text

from upgrader.cli.ui.errors import print_error
from upgrader.cli.ui.terminal import console
from upgrader.errors import UpgraderError

_PROGRAM = """
import os, sys, click
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.cli.ui.masked_output import mask_output
from upgrader.cli.ui.terminal import console
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


_WRAPS = """
from upgrader.model.finding import Finding
from upgrader.cli.ui.errors import print_error
from upgrader.cli.ui.findings import print_findings
from upgrader.errors import UpgraderError
for most in (*range(46, 82, 3), *range(166, 202, 3)):
    text = "x" * most + " ::error file=a::pwned ##[error]pwned ##vso[x]pwned"
    print_findings([Finding("a.b", "error", text, text, text)], "v1")
    print_error(UpgraderError(text, remedy=text))
"""


@pytest.mark.parametrize("terminal", [False, True])
def test_what_wraps_begins_no_line_with_a_command(terminal: bool) -> None:
    """Wherever a finding's text is broken into lines, also where a job gives its command a terminal."""
    script = _PROGRAM.split("click.echo", 1)[0] + _WRAPS
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    if not terminal:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        shown = done.stdout + done.stderr
    else:
        ours, theirs = pty.openpty()
        process = subprocess.Popen([sys.executable, "-c", script], stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        with os.fdopen(ours, "rb", buffering=0) as screen:
            parts: list[bytes] = []
            with contextlib.suppress(OSError):  # its other end is closed
                while part := screen.read(65536):
                    parts.append(part)
        assert process.wait() == 0
        shown = b"".join(parts).decode()
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in shown.splitlines()]
    assert any("error file=a::pwned" in line for line in lines)
    assert not [line for line in lines if line.startswith("::") or "##[" in line or "##vso" in line]


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

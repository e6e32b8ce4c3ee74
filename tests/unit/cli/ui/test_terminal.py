"""Colours on a terminal, and where nobody wants any."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from upgrader.cli.ui.terminal import console

RED = "\x1b[31m"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, **environment: str) -> str:
    """What is printed there of a red word."""
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    console(stream).print(Text("failed", style="red"))
    return stream.getvalue()


def test_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what the next test could not tell otherwise."""
    assert RED in _shown(monkeypatch, _Terminal())


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR, a terminal gets none; nor does a pipe, or a terminal that knows none."""
    assert "failed" in _shown(monkeypatch, _Terminal(), NO_COLOR="1")
    for shown in (
        _shown(monkeypatch, _Terminal(), NO_COLOR="1"),
        _shown(monkeypatch, io.StringIO()),
        _shown(monkeypatch, _Terminal(), TERM="dumb"),
    ):
        assert "\x1b[" not in shown

"""What the command prints, and its exit code, when an operator ends it."""

from __future__ import annotations

import sys

import click
import pytest

from upgrader.cli import main as entry


def ended(action: object, monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of a command that does this."""
    assert callable(action)
    monkeypatch.setattr(entry, "cli", click.Command("run", callback=action))
    monkeypatch.setattr(sys, "argv", ["upgrader"])
    monkeypatch.setattr(sys, "stderr", sys.stderr)  # main() wraps it
    with pytest.raises(SystemExit) as exit_:
        entry.main()
    return exit_.value.code


def test_interrupted_work_is_not_said_to_have_changed_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second Ctrl-C during a run names `status` and `resume`; only a declined question aborts."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    def declined() -> None:
        click.confirm("Start?", abort=True)

    assert ended(interrupted, monkeypatch) == 130
    output = capsys.readouterr().err
    assert "upgrader resume" in output and "nothing more was changed" not in output
    monkeypatch.setattr(click.termui, "visible_prompt_func", lambda *_: "n")
    assert ended(declined, monkeypatch) == 130
    assert "nothing more was changed" in capsys.readouterr().err

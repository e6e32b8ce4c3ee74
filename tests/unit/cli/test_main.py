"""What the command prints, and its exit code, when an operator ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

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
    assert "Helm that was at work goes on by itself" in output
    monkeypatch.setattr(click.termui, "visible_prompt_func", lambda *_: "n")
    assert ended(declined, monkeypatch) == 130
    assert "nothing more was changed" in capsys.readouterr().err


def test_kubeconfig_and_context_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They reach the use case as the environment's would, before which they come; afterwards, that is as it was."""
    seen: list[tuple[str | None, str | None]] = []

    @click.command()
    def look() -> None:
        seen.append((os.environ.get("UPGRADER_KUBECONFIG"), os.environ.get("UPGRADER_CONTEXT")))

    monkeypatch.setattr(type(entry.cli), "get_command", lambda *_: look)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPGRADER_CONTEXT", "shell")
    monkeypatch.delenv("UPGRADER_KUBECONFIG", raising=False)
    for arguments in (["look"], ["--kubeconfig", "mine", "--context", "prod", "look"], ["look"]):
        assert CliRunner().invoke(entry.cli, arguments).exit_code == 0
    assert seen == [(None, "shell"), (str(tmp_path / "mine"), "prod"), (None, "shell")]


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Of a command and all below it: how it is typed, and its help."""
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _helps(below, click.Context(below, info_name=name, parent=context))


def test_help_fits_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of any command's help is broken by the terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    # With its settings, as commands keep the options of the first help that they were asked for.
    context = click.Context(entry.cli, info_name="upgrader", **entry.cli.context_settings)
    helps = dict(_helps(entry.cli, context))
    assert "Exit codes: 0 done" in helps["upgrader run"]
    wide = {name: [line for line in text.splitlines() if len(line) > 80] for name, text in helps.items()}
    assert {name: lines for name, lines in wide.items() if lines} == {}


def test_no_sentence_of_help_is_cut() -> None:
    """Click ends what doesn't fit on one line with dots: what a command does would be left to guess."""
    context = click.Context(entry.cli, info_name="upgrader", terminal_width=80, **entry.cli.context_settings)
    helps = dict(_helps(entry.cli, context))
    assert len(helps) > 50 and "upgrader certs rotate-ca trust" in helps
    lines = [(path, line) for path, text in helps.items() for line in text.splitlines() if "Usage:" not in line]
    assert [(path, line) for path, line in lines if line.endswith("...") or len(line) > 80] == []


def test_output_that_nobody_reads_to_its_end_is_no_bug() -> None:
    """`upgrader explain | head -1`: no traceback, and not the exit code of a bug."""
    command = [sys.executable, "-m", "upgrader", "explain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        assert asked.stdout is not None and asked.stderr is not None
        asked.stdout.close()
        assert (asked.stderr.read(), asked.wait()) == ("", 141)

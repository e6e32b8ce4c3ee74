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
from upgrader.errors import UpgraderError


def ended(action: object, monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of a command that does this."""
    assert callable(action)
    monkeypatch.setattr(entry, "cli", click.Command("run", callback=action))
    monkeypatch.setattr(sys, "argv", ["upgrader"])
    monkeypatch.setattr(sys, "stderr", sys.stderr)  # main() wraps it
    with pytest.raises(SystemExit) as exit_:
        entry.main()
    return exit_.value.code


def test_secrets_of_the_environment_are_masked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable that is named like a secret has one, be it a plain word: a playbook may print its environment."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "wqhjkzpvbtmrls")
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # main() wraps it
    assert ended(lambda: click.echo(f"it has {os.environ['AWS_SESSION_TOKEN']}"), monkeypatch) == 0
    assert capsys.readouterr().out == "it has [masked]\n"


def test_interrupted_work_is_not_said_to_have_started_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second Ctrl-C during a run names `status` and `resume` of this folder; only a declined question aborts."""

    @click.command()
    def interrupted() -> None:
        raise KeyboardInterrupt

    def declined() -> None:
        click.confirm("Start?", abort=True)

    with monkeypatch.context() as patched:
        patched.setattr(type(entry.cli), "get_command", lambda *_: interrupted)
        patched.setattr(sys, "argv", ["upgrader", "-C", str(tmp_path), "run"])
        patched.setattr(sys, "stderr", sys.stderr)  # main() wraps it
        with pytest.raises(SystemExit) as ended_with:
            entry.main()
    assert ended_with.value.code == 130
    output = capsys.readouterr().err
    assert f"`upgrader -C {tmp_path} resume` continues it" in output and "Traceback" not in output
    assert "active Helm process continues" in output and "nothing was started" not in output
    monkeypatch.setattr(click.termui, "visible_prompt_func", lambda *_: "n")
    assert ended(declined, monkeypatch) == 130
    assert "nothing was started" in capsys.readouterr().err


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


@pytest.mark.parametrize("words", ["explain", "check --offline", "versions --from v1.36.3", "--help"])
def test_output_that_nobody_reads_to_its_end_is_no_bug(words: str) -> None:
    """`| head -1`: no traceback, and not the exit code of a bug, whether click or rich has printed."""
    command = [sys.executable, "-m", "upgrader", "-C", "/nonexistent", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        assert asked.stdout is not None and asked.stderr is not None
        asked.stdout.close()
        assert (asked.stderr.read(), asked.wait()) == ("", 141)


@pytest.mark.parametrize(
    ("typed", "meant"), [("upgrade", "run"), ("apply", "run"), ("rolback", "rollback"), ("chek", "check")]
)
def test_command_of_another_name_is_suggested(typed: str, meant: str) -> None:
    """What other programs call it, and what is misspelt, names the command."""
    result = CliRunner().invoke(entry.cli, [typed])
    assert result.exit_code == 2 and f"Did you mean '{meant}'?" in result.stderr


@pytest.mark.parametrize("words", [(), ("certs",), ("certs", "rotate-ca"), ("lab",), ("config",)])
def test_group_without_a_command_shows_its_help(words: tuple[str, ...]) -> None:
    """Nobody has made a mistake: it is shown on standard output, and ends with 0."""
    result = CliRunner().invoke(entry.cli, words)
    assert result.exit_code == 0 and result.stdout.startswith("Usage:")


def test_backup_without_a_command_takes_one(tmp_path: Path) -> None:
    """`upgrader backup` is a command that has commands: it reads the folder, and doesn't end with its help and 0."""
    result = CliRunner().invoke(entry.cli, ["-C", str(tmp_path), "backup"])
    assert isinstance(result.exception, UpgraderError) and "upgrader.yaml" in str(result.exception), result
    assert "Usage:" not in result.output


def test_help_groups_the_commands() -> None:
    """Each command is in one group, in the order in which they are needed."""
    shown = CliRunner().invoke(entry.cli, ["--help"]).stdout
    titles = ["Get started:", "Upgrade:", "When it fails:", "Cluster care:", "Workload protection:", "Tools:"]
    assert [line for line in shown.splitlines() if line in titles] == titles
    names = [line.split()[0] for line in shown.partition("Get started:")[2].splitlines() if line[:3].strip()]
    listed = [name for name in names if name in entry.cli.list_commands(click.Context(entry.cli))]
    assert sorted(listed) == sorted(entry.cli.list_commands(click.Context(entry.cli)))


def test_several_codes_are_explained() -> None:
    """One after the other; an unknown one is refused before any is shown."""
    result = CliRunner().invoke(entry.cli, ["explain", "3", "4"])
    assert result.stdout.index("3 (exit code)") < result.stdout.index("4 (exit code)")
    refused = CliRunner().invoke(entry.cli, ["explain", "3", "nonsense"])
    assert refused.exit_code and not refused.stdout

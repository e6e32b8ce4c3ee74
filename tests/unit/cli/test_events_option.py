"""`-o json` of the commands that act: what is on standard output, and what isn't."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from testkit.command import REPOSITORY
from testkit.example_runs import GOOD, ROLLED_BACK, Story, state_of
from upgrader.app.execution import FinishedRun
from upgrader.app.front_end import FrontEnd
from upgrader.cli import main as entry
from upgrader.errors import StepFailed
from upgrader.model.version import KubernetesVersion

SHOW = {
    *("bundle verify", "certs show", "check", "completion", "config show", "doctor", "explain", "history", "plan"),
    *("probe", "replay", "report", "status", "versions"),
}
"""Commands that show something, each in forms of its own."""
PREPARE = {"backup keygen", "backup verify", "bundle create", "images push", "init", "rehearse copy"}
"""Commands that read or write files here or in a registry, and change no cluster."""
AT_ONCE = {"guard forget-cell", "guard off", "guard on"}
"""Commands that change one field for each object, without a run: a line for each is all that there is to tell."""
FLEET = {
    *("fleet approve", "fleet pause", "fleet plan", "fleet resume", "fleet retry", "fleet run", "fleet skip"),
    "fleet init",
    "fleet job",
    "fleet jobs-gone",
    "fleet render",
    "fleet report",
    "fleet status",
}
"""Commands that show a fleet, or write the campaign's journal: each cluster's run streams its own events."""


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its whole name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield before + name, command
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name, command


def test_every_command_that_acts_streams_events() -> None:
    """A new command either takes `-o json`, or is listed above as one that doesn't act on a cluster."""
    without = SHOW | PREPARE | AT_ONCE | FLEET
    for name, command in commands(entry.cli):
        if name in without or name.startswith("lab "):
            continue
        option = next((each for each in command.params if each.name == "output"), None)
        assert option is not None and "-o" in option.opts, name
        assert isinstance(option.type, click.Choice) and "json" in option.type.choices, name


class Proposed(SimpleNamespace):
    """A use case that has this run when it is executed."""

    front_end: FrontEnd
    story: Story
    error: StepFailed | None

    def execute(self) -> FinishedRun:
        click.echo("a table for people")
        with self.front_end.display() as display:
            for _, event in self.story:
                display.emit(event)
        return FinishedRun(state_of(self.story), Path("/c/runs/x"), self.error)


def ended(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, story: Story = GOOD, error: StepFailed | None = None
) -> int:
    """The exit code of `upgrader migrate-storage ARGUMENTS`, which has this run."""

    @contextmanager
    def propose(_folder: Path, front_end: FrontEnd, **_named: object) -> Iterator[Any]:
        front_end.notify("waiting for the lock")
        plan = SimpleNamespace(target=KubernetesVersion(1, 37, 1))
        yield Proposed(front_end=front_end, story=story, error=error, plan=plan)

    monkeypatch.setattr("upgrader.app.storage_migration.propose_migration", propose)
    monkeypatch.setattr(sys, "argv", ["upgrader", "migrate-storage", *arguments])
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)  # main() wraps them
    with pytest.raises(SystemExit) as exit_:
        entry.main()
    return int(exit_.value.code or 0)


def test_events_alone_are_on_standard_output(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Notices are events, too; whatever is printed for people, wherever it was meant to go, is on standard error."""
    assert ended(monkeypatch, "-o", "json", "--yes") == 0
    out, err = capfd.readouterr()
    types = [json.loads(line)["type"] for line in out.splitlines()]
    assert types[:2] == ["Note", "RunStarted"] and types[-2:] == ["RunEnded", "CommandEnded"]
    assert "a table for people" in err and "waiting for the lock" in err and "succeeded in" in err


def test_failed_command_ends_with_its_error(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """The last line has the exit code of the process and the error, which people see as well."""
    error = StepFailed("The run failed.\nunknown flag", remedy="Remove it.")
    assert ended(monkeypatch, "-o", "json", "--yes", story=ROLLED_BACK, error=error) == 4
    out, err = capfd.readouterr()
    last = json.loads(out.splitlines()[-1])["data"]
    assert (last["exit_code"], last["outcome"], last["error"]["code"]) == (4, "rolled-back", "StepFailed")
    assert "Remedy: Remove it." in err


def test_code_that_answers_is_no_error(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A command that says by 7 that there is something to do has a last line with that, and without an error."""

    def answers(_self: Proposed) -> FinishedRun:
        raise click.exceptions.Exit(7)

    monkeypatch.setattr(Proposed, "execute", answers)
    assert ended(monkeypatch, "-o", "json", "--yes") == 7
    last = json.loads(capfd.readouterr().out.splitlines()[-1])["data"]
    assert (last["exit_code"], last["error"]) == (7, None)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("-o", "json"), 130, [130]),
        (("-o", "json", "surplus"), 2, [2]),
        (("-o", "json", "--no-such-option"), 2, []),
    ],
)
def test_command_that_ends_before_it_acts(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    told: list[int],
) -> None:
    """A declined question has a last line; a command line that can't be taken apart has none, as it asks for none."""
    monkeypatch.setattr(click.termui, "visible_prompt_func", lambda *_: "n")
    assert ended(monkeypatch, *arguments) == code
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["data"]["exit_code"] for line in lines if line["type"] == "CommandEnded"] == told


def test_without_the_option_nothing_changes(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Standard output is the command's own."""
    assert ended(monkeypatch, "--yes") == 0
    assert capfd.readouterr().out == "a table for people\n"


_WRITER = """
import signal
from upgrader.cli.events_option import write_all
from upgrader.cli.ui.event_stream import EventStream
stream = EventStream(lambda line: write_all(1, line), print)
signal.setitimer(signal.ITIMER_REAL, 0.2)  # nothing handles its signal, which kills
for number in range(10**9):
    stream.notify(f"{number} " + "x" * 5000)
"""


def test_kill_leaves_whole_lines(tmp_path: Path) -> None:
    """Killed in the middle of its events, a command has left nothing but whole lines in the file."""
    file = tmp_path / "events.jsonl"
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with file.open("wb") as out:
        killed = subprocess.run([sys.executable, "-c", _WRITER], stdout=out, env=environment, check=False)
    assert killed.returncode == -signal.SIGALRM
    content = file.read_bytes()
    assert content.endswith(b"\n")
    assert all(json.loads(line)["type"] == "Note" for line in content.splitlines())

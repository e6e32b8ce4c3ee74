"""The events of `-o json`: their shape, what they never show, and that lines stay whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from testkit import example_runs
from testkit.command import REPOSITORY
from testkit.example_runs import Story, state_of
from upgrader.app.event_lines import CommandEnded, error_form, render
from upgrader.cli.ui.event_stream import EventStream
from upgrader.cli.ui.repeats import REPEAT_SECONDS, Repeats
from upgrader.errors import ConfigError, StepFailed
from upgrader.model.event import Event, GateChecked, Note, StepEnded
from upgrader.model.outcome import pending

FOLDER = Path("/c/runs/x")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
STORIES = {
    "good": example_runs.GOOD,
    "rolled back": example_runs.ROLLED_BACK,
    "recovered": example_runs.RECOVERED,
    "stuck": example_runs.STUCK,
    "interrupted": example_runs.INTERRUPTED,
    "hostile": example_runs.HOSTILE,
}


def stream(write: Callable[[bytes], object], warned: list[str] | None = None) -> EventStream:
    """A stream whose clock stands still."""
    warnings = [] if warned is None else warned
    return EventStream(write, warnings.append, lambda: NOW, Repeats(lambda: 0.0))


def written(story: Story, error: BaseException | None = None) -> list[bytes]:
    """What a command that had this run wrote."""
    lines: list[bytes] = []
    events = stream(lines.append)
    with events:
        for _, event in story:
            events.emit(event)
    events.ended(state_of(story), FOLDER)
    events.end(4 if error else 0, error, Path("/c"))
    return lines


def decoded(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Each line, as a program reads it."""
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", STORIES)
def test_lines_are_as_published(name: str) -> None:
    """Every line of every kind of run is an object of the schema; the last one, and no other, is the outcome."""
    lines = written(STORIES[name], StepFailed("no\nbecause", remedy="do"))
    validator = jsonschema.Draft202012Validator(json.loads(render()))
    for line in lines:
        assert line.endswith(b"\n") and line.count(b"\n") == 1 and line.isascii()
        validator.validate(json.loads(line))
    assert [each["type"] == "CommandEnded" for each in decoded(lines)] == [False] * (len(lines) - 1) + [True]


def test_schema_is_published() -> None:
    """docs/reference has the schema as the code writes it."""
    assert (REPOSITORY / "docs/reference/events.schema.json").read_text() == render()


def test_outcome_has_the_error_in_its_one_form() -> None:
    """The last line says what happened, where, why, what to do and the code to ask about."""
    error = StepFailed("The run failed and was rolled back.\nunknown flag: --nope", remedy="Remove it.")
    ended = decoded(written(example_runs.ROLLED_BACK, error))[-1]["data"]
    assert (ended["exit_code"], ended["outcome"], ended["folder"]) == (4, "rolled-back", str(FOLDER))
    assert ended["error"] == {
        "code": "StepFailed",
        "what": "The run failed and was rolled back.",
        "where": f"step kube-apiserver, run {example_runs.RUN}",
        "why": "unknown flag: --nope",
        "what_to_do": "Remove it.",
    }


def test_success_has_no_error() -> None:
    """Exit code 0, the run that succeeded, and null."""
    ended = decoded(written(example_runs.GOOD))[-1]["data"]
    assert (ended["exit_code"], ended["run"], ended["error"]) == (0, example_runs.RUN, None)


@pytest.mark.parametrize(
    ("error", "code", "where"),
    [
        (ConfigError("upgrader.yaml:7: no such key"), "ConfigError", "upgrader.yaml:7"),
        (ConfigError("hosts.yml: no such file"), "ConfigError", "/c"),
        (RuntimeError("a bug"), "RuntimeError", "/c"),
        (KeyboardInterrupt(), "KeyboardInterrupt", "/c"),
    ],
)
def test_place_of_an_error(error: BaseException, code: str, where: str) -> None:
    """The line of a file that is wrong; otherwise the cluster's folder; and no error is without words."""
    form = error_form(error, "/c")
    assert (form.code, form.where) == (code, where) and form.what


def test_no_secret_and_nothing_that_is_obeyed() -> None:
    """What the journal masks is masked, and no terminal or CI system finds anything to obey in a line."""
    evil = "password: hunter2-is-long\n::error::gone\x1b[2J\u202e##vso[task.setvariable]x"
    lines: list[bytes] = []
    events = stream(lines.append)
    events.emit(StepEnded("a", "failed", 1.0, evil, evil))
    events.end(4, StepFailed(evil, remedy=evil), Path("/c"))
    shown = b"".join(lines)
    assert b"hunter2" not in shown and b"\\u001b" not in shown and b"\\u202e" not in shown
    assert b"::error::" not in shown and b"##vso[" not in shown


def test_gates_are_not_repeated() -> None:
    """A gate is checked every second: the same answer is written once, and again only after a while."""
    now, lines = [0.0], list[bytes]()
    events = EventStream(lines.append, print, lambda: NOW, Repeats(lambda: now[0]))
    for seconds in (0.0, 1.0, 2.0, REPEAT_SECONDS):
        now[0] = seconds
        events.emit(GateChecked("a", "nodes", pending("1 of 2"), 0, 3, 9.0))
    assert len(lines) == 2


def test_signal_in_the_middle_of_a_line() -> None:
    """What a signal's handler has to tell waits until the line is whole."""
    parts: list[bytes] = []

    def write(line: bytes) -> None:
        parts.append(line[:5])
        if b"first" in line:
            events.emit(Note("Stopping after the current step"))
        parts.append(line[5:])

    events = stream(write)
    events.emit(Note("first"))
    lines = b"".join(parts).splitlines()
    assert [each["data"]["text"] for each in decoded(lines)] == ["first", "Stopping after the current step"]


def test_reader_that_is_gone() -> None:
    """The run goes on without its events, and that is said once."""
    warned: list[str] = []

    def write(_line: bytes) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    events = stream(write, warned)
    for event in (Note("a"), Note("b")):
        events.emit(event)
    events.end(0, None, Path("/c"))
    assert len(warned) == 1 and "Broken pipe" in warned[0]


def test_every_type_of_event_is_in_the_schema() -> None:
    """A reader can rely on the list of types."""
    names = {kind.__name__ for kind in Event.__args__} | {CommandEnded.__name__}
    assert set(json.loads(render())["properties"]["type"]["enum"]) == names

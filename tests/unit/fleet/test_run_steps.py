"""What a run is doing, by its own output."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from upgrader.app.event_lines import CommandEnded, line_of
from upgrader.fleet.local_executor import EVENTS
from upgrader.fleet.run_steps import RunSteps
from upgrader.model.event import Event, GateChecked, Note, RunEnded, RunResumed, RunStarted, StepApplied, StepStarted
from upgrader.model.outcome import holds, pending
from upgrader.model.run_kind import RunKind

STEPS = ("etcd", "kube-apiserver")
BEGIN: tuple[Event, ...] = (
    RunStarted("r", RunKind.UPGRADE, STEPS, "/r"),
    StepStarted("kube-apiserver", "v1.36.3 → v1.37.1", None),
)


def write(attempt: Path, *items: Event | CommandEnded) -> None:
    attempt.mkdir(exist_ok=True)
    with (attempt / EVENTS).open("a") as file:
        file.writelines(line_of(each, datetime(2026, 1, 1, tzinfo=UTC)) for each in items)


def gate(reason: str) -> GateChecked:
    verdict = pending(reason) if reason else holds("")
    return GateChecked("kube-apiserver", "deployment/kube-apiserver", verdict, 0, 3, 9.0)


@pytest.mark.parametrize(
    ("events", "doing"),
    [
        (BEGIN[:1], "starting"),
        (BEGIN, "2 of 2 kube-apiserver: v1.36.3 → v1.37.1"),
        ((*BEGIN, Note("helm upgrade\nand more")), "2 of 2 kube-apiserver: helm upgrade"),
        ((*BEGIN, StepApplied("kube-apiserver", 1.0)), "2 of 2 kube-apiserver: waiting for its gates"),
        ((*BEGIN, gate("0 of 1 pods are updated")), "2 of 2 kube-apiserver: 0 of 1 pods are updated"),
        ((*BEGIN, gate("")), "2 of 2 kube-apiserver: deployment/kube-apiserver"),
        ((RunResumed("r", "ann"), BEGIN[1]), "kube-apiserver: v1.36.3 → v1.37.1"),
        ((*BEGIN, RunEnded("r", "succeeded", 1.0), CommandEnded(0)), "ended: succeeded"),
    ],
)
def test_step_of_a_run(tmp_path: Path, events: tuple[Event, ...], doing: str) -> None:
    """Its number of all steps, and what it waits for; without the number for a run that was resumed."""
    write(tmp_path / "1", *events)
    assert RunSteps().doing(tmp_path / "1") == doing


def test_output_is_read_once(tmp_path: Path) -> None:
    """Each look reads on where the last one has ended, also in the middle of a line; a playbook's text is skipped."""
    attempt, steps = tmp_path / "1", RunSteps()
    assert steps.doing(attempt) == "", "no process was begun yet, or it is a Job"
    write(attempt, *BEGIN)
    output = attempt / EVENTS
    begun = output.read_bytes()
    with output.open("ab") as file:
        file.write(b'not JSON\n{"format_version":"1.0","time":"9999"}\n\xff\n' + b"[" * 9999 + b'\n{"half')
    assert steps.doing(attempt).startswith("2 of 2 kube-apiserver")
    output.write_bytes(b"\n" * output.stat().st_size)  # what was read is in none of the next answers' files
    write(attempt, gate("no pods"))
    assert steps.doing(attempt).startswith("2 of 2 kube-apiserver"), "the rest of the line that had no end yet"
    write(attempt, gate("no pods"))
    assert steps.doing(attempt) == "2 of 2 kube-apiserver: no pods"
    steps.forget(set())
    output.write_bytes(begun)
    assert steps.doing(attempt) == "2 of 2 kube-apiserver: v1.36.3 → v1.37.1"


def test_output_that_was_truncated(tmp_path: Path) -> None:
    """What is written to it afterwards is read, and not left out until it is as long as it was."""
    attempt, steps = tmp_path / "1", RunSteps()
    write(attempt, *BEGIN, gate("0 of 1 pods are updated"), gate("0 of 1 pods are ready"))
    assert steps.doing(attempt).endswith("are ready")
    (attempt / EVENTS).write_bytes(b"")
    write(attempt, gate("no pods"))
    assert steps.doing(attempt) == "2 of 2 kube-apiserver: no pods"


def test_line_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't collected."""
    monkeypatch.setattr("upgrader.fleet.run_steps._BYTES", 8)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / EVENTS).write_bytes(b"x" * 64)
    steps = RunSteps()
    for _ in range(9):
        assert steps.doing(tmp_path / "1") == ""
    assert len(steps._outputs[tmp_path / "1"].rest) <= 8

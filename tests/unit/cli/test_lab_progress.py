"""How the lab's progress is estimated and shown."""

from __future__ import annotations

import pytest

from upgrader.cli.lab_progress import estimate, progress


def test_the_estimate_begins_with_the_usual_time_and_ends_with_the_measured_one() -> None:
    """At first the usual duration counts; the more is done, the more its extrapolation."""
    assert estimate(10, 100, 0, None) == 90
    assert estimate(10, 100, 0, 50) == 90
    assert estimate(50, 100, 50, 100) == 50
    assert estimate(90, 1000, 90, 100) == pytest.approx(0.9 * 10 + 0.1 * 910)


def test_unknown_stays_unknown() -> None:
    """Without a usual duration and without units there is no estimate; it never is negative."""
    assert estimate(10, None, 0, None) is None
    assert estimate(200, 100, 0, None) == 0
    assert estimate(200, None, 120, 100) == 0


def test_without_a_terminal_progress_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Each task prints its begin, with an estimate, and its end; standard output stays empty."""
    with progress() as display, display.task("nodes", seconds=5) as task:
        task.total(2)
        task.advance()
    captured = capsys.readouterr()
    assert captured.err.splitlines()[0] == "nodes… (about 5.0 s)"
    assert captured.err.splitlines()[1].startswith("nodes: done in")
    assert captured.out == ""


def test_a_task_that_fails_is_not_called_done(capsys: pytest.CaptureFixture[str]) -> None:
    """A task that fails is not reported as done."""
    with pytest.raises(RuntimeError), progress() as display, display.task("nodes"):
        raise RuntimeError
    assert "done" not in capsys.readouterr().err

"""Waits and retries, and their ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import upgrader
from testkit.fakes.clock import FakeClock
from upgrader.errors import ApiUnavailable, CredentialsRefused
from upgrader.wait_and_retry import retry, wait_until


def test_it_returns_as_soon_as_nothing_is_missing() -> None:
    """Two failed checks cost two intervals, and the third ends the wait."""
    clock, answers = FakeClock(), iter(["a pod", "a pod", ""])
    assert wait_until(clock, lambda: next(answers), seconds=60, interval_seconds=5) == ""
    assert clock.monotonic() == 10


def test_time_that_is_up_returns_what_was_missing_last() -> None:
    """At the deadline the caller gets the result of the last check, not of the first."""
    clock = FakeClock()
    missing = wait_until(clock, lambda: f"seen at {clock.monotonic():.0f}", seconds=3)
    assert missing == "seen at 3"


def test_api_that_is_away_is_waited_for() -> None:
    """An API that doesn't answer is neither the end of the wait nor a success."""
    answers: Iterator[str | Exception] = iter([ApiUnavailable("refused"), ApiUnavailable(""), ""])
    clock = FakeClock()

    def look() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert wait_until(clock, look, seconds=60) == ""
    assert clock.monotonic() == 2


def test_no_time_is_still_one_look() -> None:
    """With no time to wait, a condition that already holds is found."""
    assert wait_until(FakeClock(), lambda: "", seconds=0) == ""


class Flaky:
    """Work that fails so many times before it succeeds, and the clock that it runs by."""

    def __init__(self, failures: int, error: type[Exception] = ApiUnavailable) -> None:
        self.clock = FakeClock()
        self.calls = 0
        self._failures = failures
        self._error = error

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error(f"failure {self.calls}")
        return "done"


def two_seconds(error: Exception) -> float | None:
    """Another attempt two seconds later, for an API that doesn't answer only."""
    return 2.0 if isinstance(error, ApiUnavailable) else None


def test_retry_returns_what_the_first_success_does() -> None:
    """Two failures cost two pauses."""
    work = Flaky(2)
    assert retry(work.clock, work, pause=two_seconds) == "done"
    assert work.clock.monotonic() == 4


def test_retry_ends_with_the_last_error_after_its_attempts() -> None:
    """Three attempts have two pauses between them, and the error is that of the third."""
    work = Flaky(9)
    with pytest.raises(ApiUnavailable, match="failure 3"):
        retry(work.clock, work, pause=two_seconds, attempts=3)
    assert work.clock.monotonic() == 4


def test_retry_begins_no_attempt_after_its_time() -> None:
    """With four seconds, the attempt that would begin at four is not made."""
    work = Flaky(9)
    with pytest.raises(ApiUnavailable, match="failure 2"):
        retry(work.clock, work, pause=two_seconds, seconds=4)
    assert work.clock.monotonic() == 2


def test_retry_is_not_for_errors_that_stay() -> None:
    """An error without a pause is raised at once."""
    work = Flaky(1, ValueError)
    with pytest.raises(ValueError, match="failure 1"):
        retry(work.clock, work, pause=two_seconds)
    assert work.calls == 1 and work.clock.monotonic() == 0


@pytest.mark.parametrize(
    ("failures", "limits", "told"),
    [
        (1, {"seconds": 60}, []),
        (9, {"seconds": 60}, ["waiting up to 60 s for the API: failure 2"]),
        (9, {"attempts": 10}, ["waiting up to 18 s for the API: failure 2"]),
    ],
    ids=["over in a moment", "seconds", "attempts"],
)
def test_a_retry_tells_once_what_it_waits_for(failures: int, limits: dict[str, float], told: list[str]) -> None:
    """And until when, and the error of the moment; nothing where the second attempt succeeds."""
    work, notes = Flaky(failures), list[str]()
    retry(work.clock, work, pause=two_seconds, what="the API", note=notes.append, **limits)
    assert notes == told


@pytest.mark.parametrize(("over_at", "told"), [(2.0, []), (12.0, ["waiting up to 60 s for the pods: 3 of 10"])])
def test_a_wait_is_told_once_unless_it_is_over_in_a_moment(over_at: float, told: list[str]) -> None:
    """What is waited for, how long at most, and what was missing when it was told."""
    clock, notes = FakeClock(), list[str]()

    def missing() -> str:
        return "" if clock.monotonic() >= over_at else f"{clock.monotonic():.0f} of 10"

    wait_until(clock, missing, seconds=60, what="the pods", note=notes.append)
    assert notes == told


def test_credentials_that_are_refused_for_long_are_not_waited_for() -> None:
    """An hour of the same answer wouldn't change it; a server that starts may refuse for some seconds."""
    clock = FakeClock()

    def missing() -> str:
        raise CredentialsRefused("HTTP 401")

    with pytest.raises(CredentialsRefused):
        wait_until(clock, missing, seconds=3600)
    assert clock.monotonic() == 30
    assert wait_until(clock, missing, seconds=20) == "HTTP 401"


def test_a_refusal_between_other_answers_is_waited_out() -> None:
    """One of several instances refuses: what the others answer counts."""
    clock = FakeClock()

    def missing() -> str:
        if clock.monotonic() % 2:
            raise CredentialsRefused("HTTP 401")
        return "" if clock.monotonic() >= 100 else "not yet"

    assert wait_until(clock, missing, seconds=3600) == "" and clock.monotonic() == 100


def test_what_a_hundred_nodes_lack_is_told_on_one_line() -> None:
    """Each node has its own reason; the first ones are enough to know what is waited for."""
    notes = list[str]()
    lacking = "; ".join(f"worker-{number} is not Ready" for number in range(100))
    wait_until(FakeClock(), lambda: lacking, seconds=60, what="100 nodes to be drained", note=notes.append)
    (note,) = notes
    assert note.startswith("waiting up to 60 s for 100 nodes to be drained: worker-0 is") and len(note) < 400


TOLD_OTHERWISE = {
    "api_lifeline.py": "told before it begins, with what is found",
    "api_recovery.py": "its rounds are parts of one wait, which is told once",
    "folder_lock.py": "it is over in a fourth of a second",
    "interrupted_release.py": "told before it begins, with what is found",
    "wait_for_start.py": "told with what starts, which changes",
}
WAITS = {"patiently", "retry", "wait_until"}


@pytest.mark.parametrize("folder", ["adopt", "app", "certificates", "engine", "gates", "recover", "steps"])
def test_each_wait_of_a_run_says_for_what_it_is(folder: str) -> None:
    """Each of these may take minutes, on the machines that the cluster depends on."""
    silent = [
        f"{file.name}:{call.lineno}"
        for file in sorted((Path(upgrader.__file__).parent / folder).rglob("*.py"))
        if file.name not in TOLD_OTHERWISE
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in WAITS
        if not {"what", "note"} <= {keyword.arg for keyword in call.keywords}
    ]
    assert not silent

"""When an API that doesn't answer counts as lost."""

from __future__ import annotations

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError, ApiLost, ApiUnavailable
from upgrader.gates.api_absence import ApiAbsence, api_problem, unanswered
from upgrader.model.outcome import Verdict, VerdictKind, pending, unknown


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("ok", ""),
        ("<html>Log in", "the response to 'get /readyz' is not from a Kubernetes API: '<html>Log in' instead of 'ok'"),
        (
            '{"status": "UP"}',
            "the response to 'get /readyz' is not from a Kubernetes API: '{\"status\": \"UP\"}' instead of 'ok'",
        ),
        (ApiError("[-]etcd failed"), "[-]etcd failed"),
        (ApiError(""), "it gave no reason"),
    ],
)
def test_problem_is_what_readyz_answers(kube: FakeKube, answer: str | Exception, problem: str) -> None:
    """Ready means no problem; an error without a message is one too, and so is a success of something else."""
    kube.raw_answers["/readyz"] = answer
    assert api_problem(kube) == problem


def test_lost_api_has_a_remedy(kube: FakeKube, clock: FakeClock) -> None:
    """The error at the limit says for how long, and where to find out why."""
    absence = ApiAbsence(kube, clock, 30.0)
    kube.unavailable = True
    absence.check([unknown("no answer")])
    clock.sleep(30)
    with pytest.raises(ApiLost, match="for 30 s") as caught:
        absence.check([unknown("no answer")])
    assert "crictl" in caught.value.remedy


def test_api_is_asked_only_when_a_check_is_unknown(kube: FakeKube, clock: FakeClock) -> None:
    """Verdicts that the API gave show that it answers, whatever they are."""
    absence = ApiAbsence(kube, clock, 0.0)
    kube.unavailable = True
    absence.check([pending("starting")])


def test_unanswered_check_keeps_the_errors_remedy() -> None:
    """The adapter knows best what to check about a connection."""
    verdict = unanswered("nodes", ApiUnavailable("refused", remedy="check the address"))
    assert (verdict.kind, verdict.reason, verdict.remedy) == (
        VerdictKind.UNKNOWN,
        "nodes: refused",
        "check the address",
    )


def test_refusals_between_right_answers_count(kube: FakeKube, clock: FakeClock) -> None:
    """While a right instance serves beside a wrong one, each new connection may meet either: three of six are enough,
    two are not.
    """
    error = ApiError("the server could not find the requested resource")
    error.status = 404
    answers = iter([True, False, False, True, False, False, False, True, False, True, False, True])

    def either(*args: object, **kwargs: object) -> object:
        if next(answers):
            raise error
        return 1

    kube.count = either  # type: ignore[assignment,method-assign]
    absence = ApiAbsence(kube, clock, 60.0)
    for _ in range(11):
        absence.check([pending("1 old pod still terminates")])
        clock.sleep(2)
    with pytest.raises(ApiLost, match="rejects requests that a rollback needs"):
        absence.check([pending("1 old pod still terminates")])


def test_calm_waits_ask_seldom_what_is_refused(kube: FakeKube, clock: FakeClock) -> None:
    """While nothing but `pending` is seen, what a rollback needs is asked for every ten seconds. What is refused once,
    or is broken, or unknown, is asked for again two seconds later: three refusals end the wait.
    """
    error = ApiError("the server could not find the requested resource")
    error.status = 404
    absence = ApiAbsence(kube, clock, 60.0, recheck_seconds=10.0)
    asked: list[float] = []

    def count(*_: object, **__: object) -> int:
        asked.append(clock.monotonic())
        if clock.monotonic() >= 12.0:
            raise error
        return 1

    kube.count = count  # type: ignore[method-assign]

    def wait() -> None:
        for _ in range(40):
            absence.check([pending("starting")])
            clock.sleep(1.0)

    with pytest.raises(ApiLost, match="could not find"):
        wait()
    assert asked == [8.0, 18.0, 20.0, 22.0]


@pytest.mark.parametrize("kind", [VerdictKind.BROKEN, VerdictKind.UNKNOWN])
def test_what_is_broken_or_unknown_is_no_calm(kube: FakeKube, clock: FakeClock, kind: VerdictKind) -> None:
    """The API server may be the reason: it is asked at once."""
    kube.raw_answers["/readyz"] = "ok"
    absence = ApiAbsence(kube, clock, 60.0, recheck_seconds=1000.0)
    asked: list[float] = []
    kube.count = lambda *_, **__: asked.append(clock.monotonic()) or 1  # type: ignore[method-assign, func-returns-value]
    absence.check([Verdict(kind, "why")])
    assert asked == [0.0]

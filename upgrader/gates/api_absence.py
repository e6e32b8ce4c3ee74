"""Distinguishes an API that is unreachable for a moment from one that is lost."""

from __future__ import annotations

from collections.abc import Iterable

from upgrader.errors import ApiError, ApiLost
from upgrader.model.outcome import Verdict, VerdictKind, unknown
from upgrader.ports import Clock, Kube

__all__ = ["ApiAbsence", "api_problem", "unanswered"]


def api_problem(kube: Kube) -> str:
    """Why the API server isn't ready to serve; "" when it is."""
    try:
        kube.raw("/readyz")
    except ApiError as error:
        return error.message or "it gave no reason"
    return ""


def unanswered(subject: str, error: ApiError) -> Verdict:
    """The verdict of a check that the API didn't answer, or refused to."""
    remedy = error.remedy or "Check that the API server is ready: kubectl get --raw '/readyz?verbose'"
    return unknown(f"{subject}: {error.message}", remedy=remedy)


class ApiAbsence:
    """How long the API has been unreachable, while a run waits for something else.

    A check that the API doesn't answer is unknown, which is no failure: the API may answer a second later. After
    `limit_seconds` without an answer (infinity: never), no further check is worth waiting for.
    """

    def __init__(self, kube: Kube, clock: Clock, limit_seconds: float) -> None:
        self._kube = kube
        self._clock = clock
        self._limit_seconds = limit_seconds
        self._since: float | None = None

    def check(self, seen: Iterable[Verdict]) -> None:
        """Record a round of verdicts; raises ApiLost once the API has been unreachable for the whole limit."""
        problem = api_problem(self._kube) if any(verdict.kind is VerdictKind.UNKNOWN for verdict in seen) else ""
        if not problem:
            self._since = None
            return
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since >= self._limit_seconds:
            raise ApiLost(
                f"the API server has not been ready for {now - self._since:.0f} s: {problem}",
                remedy="Find out why kube-apiserver stopped: its container's log is on the controllers (crictl ps -a).",
            )

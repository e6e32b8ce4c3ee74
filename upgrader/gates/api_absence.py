"""Distinguishes an API that is unreachable for a moment from one that is lost, or refuses what a run needs."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from upgrader.errors import ApiError, ApiLost
from upgrader.gates.rollback_needs import REFUSALS, Admitted, refusal
from upgrader.model.outcome import Verdict, VerdictKind, unknown
from upgrader.ports import Clock, Kube

__all__ = ["ApiAbsence", "api_problem", "not_ready", "unanswered"]


def api_problem(kube: Kube) -> str:
    """Why the API server isn't ready to serve; "" when it is."""
    try:
        return not_ready(kube.raw("/readyz"))
    except ApiError as error:
        return error.message or "it gave no reason"


def not_ready(answer: str) -> str:
    """Why an answer of `/readyz`, with a status of success, isn't that of an API server; "" if it is."""
    if answer.strip() == "ok":
        return ""
    return f"the response to 'get /readyz' is not from a Kubernetes API: {answer[:_SHOWN]!r} instead of 'ok'"


def unanswered(subject: str, error: ApiError) -> Verdict:
    """The verdict of a check that the API didn't answer, or refused to."""
    remedy = error.remedy or "Check that the API server is ready: kubectl get --raw '/readyz?verbose'"
    return unknown(f"{subject}: {error.message}", remedy=remedy)


_SHOWN = 80
_REFUSAL_SECONDS = 2.0
"""Pause between two questions whether the API refuses what a rollback needs."""
_REMEMBERED = 6
"""How many of these questions count: while a right instance serves beside a wrong one, each answers some of them."""


class ApiAbsence:
    """How long the API has been unreachable, or refused what a run needs, while a run waits for something else.

    A check that the API doesn't answer is unknown, which is no failure: the API may answer a second later. After
    `limit_seconds` without an answer (infinity: never), no further check is worth waiting for. An API that answers and
    refuses is not waited for: waiting doesn't change its configuration.
    """

    def __init__(self, kube: Kube, clock: Clock, limit_seconds: float, recheck_seconds: float = 0.0) -> None:
        """`recheck_seconds`: between two questions what it refuses, while nothing says that it refuses anything.

        Never more often than every two seconds.
        """
        self._kube = kube
        self._clock = clock
        self._limit_seconds = limit_seconds
        self._calm_seconds = recheck_seconds
        self._since: float | None = None
        self._asked = clock.monotonic() - _REFUSAL_SECONDS
        self._refused: deque[bool] = deque(maxlen=_REMEMBERED)
        self._admitted = Admitted()

    def check(self, seen: Iterable[Verdict]) -> None:
        """Record a round of verdicts.

        Raises ApiLost once the API has been unreachable for the whole limit, or has refused time after time what a
        rollback needs.
        """
        kinds = {verdict.kind for verdict in seen}
        self._check_refusal(kinds)
        problem = api_problem(self._kube) if VerdictKind.UNKNOWN in kinds else ""
        if not problem:
            self._since = None
            return
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since >= self._limit_seconds:
            raise ApiLost(
                f"the API server has not been ready for {now - self._since:.0f} s: {problem}",
                remedy="Find out why kube-apiserver stopped: on the controllers, crictl ps -a, then crictl logs "
                "CONTAINER.",
            )

    def _check_refusal(self, kinds: Collection[VerdictKind]) -> None:
        now = self._clock.monotonic()
        if all(kind is VerdictKind.HOLDS for kind in kinds):
            self._refused.clear()
            return
        calm = not any(self._refused) and not {VerdictKind.UNKNOWN, VerdictKind.BROKEN}.intersection(kinds)
        if now - self._asked < max(_REFUSAL_SECONDS, self._calm_seconds if calm else 0.0):
            return
        self._asked = now
        self._kube.reconnect()
        found = refusal(self._kube, known=self._admitted)
        self._refused.append(found is not None)
        if found and sum(self._refused) >= REFUSALS:
            raise ApiLost(
                f"the API server answers, but rejects requests that a rollback needs: {found.text}",
                remedy="Compare its configuration with the previous revision: helm get values kube-apiserver -n "
                "kube-system.",
                credentials=found.credentials,
            )

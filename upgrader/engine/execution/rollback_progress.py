"""Whether the rollback of kube-apiserver gets through the very API server that it replaces."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upgrader.errors import ApiError, HelmError, HelmUnfinished, RollbackStalled, UpgraderError
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.model.release import RECOVERED_RELEASE
from upgrader.ports import Clock, Kube, KubeObject

__all__ = ["SLOW_ANSWERS", "SLOW_SECONDS", "STALLED_SECONDS", "RollbackProgress"]

STALLED_SECONDS = 45.0
"""How long kube-controller-manager may take to observe a Deployment: a second is usual. While it can't renew its Lease
within 10 s, it ends, and is started again, and lists all objects first.
"""

SLOW_SECONDS = 1.0
SLOW_ANSWERS = 3
"""So many requests in a row have to take so long: Helm sends dozens, one after the other. A lab answered this one after
1 to 13 s with a CPU limit of 50m, and after 0.1 s at most without one, at a load of ten times its cores.
"""

_LOOK_SECONDS = 2.0
_NAMESPACE = "kube-system"
_NONE = (0, 0)
"""There is no such Deployment: an earlier chart has a DaemonSet, whose rollback isn't followed."""


@dataclass(frozen=True)
class _Waits:
    """Since when what a rollback needs has not happened; all in monotonic seconds."""

    silent_since: float
    """The last answer of the API server."""
    unobserved_since: float
    """From when kube-controller-manager would have observed the Deployment, less the time in which it may have had no
    answer, either.
    """
    looked: float

    def silent(self, at: float) -> _Waits:
        """After a look at that time that had no answer."""
        return replace(self, unobserved_since=self.unobserved_since + at - self.looked, looked=at)

    def answered(self, at: float) -> _Waits:
        """After one that was answered."""
        return replace(self, silent_since=at, looked=at)


class RollbackProgress:
    """Called about once a second while Helm rolls back; raises RollbackStalled once waiting longer won't help.

    Helm only writes the Deployment. That its pods are replaced needs kube-controller-manager, which needs an API server
    that answers within seconds.
    """

    def __init__(self, kube: Kube, clock: Clock, patience_seconds: float) -> None:
        """`patience_seconds`: how long the API may be unreachable; longer than it may be slow, if it is longer."""
        self._kube = kube
        self._clock = clock
        self._patience_seconds = max(STALLED_SECONDS, patience_seconds)
        self._before: tuple[int, int] | None = None
        """None: unknown. Whatever was observed then counts as the change."""
        self._begun = 0.0
        self._waits = _Waits(0.0, 0.0, 0.0)
        self._seen = False
        """Whether kube-controller-manager has observed a change of the Deployment: its pods are being replaced."""
        self.replacements = 0
        """How often the slow pods were replaced for it."""

    def stalled(self, error: UpgraderError) -> bool:
        """Whether an undo ended so because nothing acted on it, and not as Helm failed at once."""
        lasted = self._clock.monotonic() - self._begun >= STALLED_SECONDS
        unfinished = isinstance(error, RollbackStalled | HelmUnfinished) or (lasted and isinstance(error, HelmError))
        return unfinished and not self._seen

    def too_slow(self, *, overdue: bool) -> str:
        """Why Helm needn't be run before the API server has been replaced; "" while it may get through.

        One that answers nothing has all its time, unless it is `overdue`: the run has waited long enough already.
        """
        began, slow, answered = self._clock.monotonic(), 0, overdue
        while True:
            self._kube.reconnect()
            self._generations()  # opens the connection, which takes several round trips to a cluster that is far away
            asked = self._clock.monotonic()
            answered = self._generations() is not None or answered
            at = self._clock.monotonic()
            if at - asked < SLOW_SECONDS:
                return ""
            slow += 1
            if slow >= SLOW_ANSWERS and (answered or at - began >= self._patience_seconds):
                return (
                    f"the API server is too slow for a rollback: {slow} requests in a row took "
                    f"{SLOW_SECONDS:.0f} s or more each"
                )

    def replaced(self) -> None:
        """The slow pods are gone. kube-controller-manager may be in its back-off for up to five minutes more: from now
        on, only an API server counts that is slow again.
        """
        self.replacements += 1

    def begin(self) -> None:
        """To be called before Helm is run, each time."""
        if self._before is None:
            self._before = self._generations()
            self._seen = self._before == _NONE
        self._begun = now = self._clock.monotonic()
        self._waits = _Waits(now, now, now)

    def __call__(self) -> None:
        """Look, if it is time."""
        asked = self._clock.monotonic()
        if self._seen or asked < self._waits.looked + _LOOK_SECONDS:
            return
        now = self._generations()
        at = self._clock.monotonic()
        if now is None:
            self._waits = self._waits.silent(at)
            if at - self._waits.silent_since >= self._patience_seconds:
                raise _stalled(at - self._waits.silent_since, "the API server does not answer")
            return
        self._waits = self._waits.answered(at)
        observed = now[1] >= now[0]
        if observed:
            self._seen = self._before is None or now[1] > self._before[0]
        quick = at - asked < SLOW_SECONDS
        if quick and (observed or self.replacements):
            self._waits = replace(self._waits, unobserved_since=at)  # Helm may have yet to write it
        elif not self._seen and at - self._waits.unobserved_since >= STALLED_SECONDS:
            slow = f"each request takes {SLOW_SECONDS:.0f} s or more"
            why = slow if observed or self.replacements else "kube-controller-manager has not observed it"
            raise _stalled(at - self._waits.unobserved_since, why)

    def _generations(self) -> tuple[int, int] | None:
        """The Deployment's, and the one that was observed; None if that isn't known."""
        try:
            found = self._kube.get(WORKLOADS["Deployment"], RECOVERED_RELEASE, _NAMESPACE)
        except ApiError:
            return None
        return _read(found) if found is not None else _NONE


def _stalled(seconds: float, why: str) -> RollbackStalled:
    return RollbackStalled(
        f"the rollback of Deployment {_NAMESPACE}/{RECOVERED_RELEASE} has not started after {seconds:.0f} s: {why}",
        remedy="Compare the CPU that kube-apiserver uses with its limit: kubectl -n kube-system top pod --containers. "
        "See also the log of kube-controller-manager.",
    )


def _read(found: KubeObject) -> tuple[int, int]:
    return int(found["metadata"].get("generation", 0)), int((found.get("status") or {}).get("observedGeneration", 0))

"""The gate that proves that new pods work, after each step, if they did before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from upgrader.errors import ApiError
from upgrader.gates.continuity.inside_pod import NO_ADDRESS, NOT_KNOWN, NOT_TRUSTED, OTHER_ADDRESS
from upgrader.gates.continuity.new_workload import NewWorkload
from upgrader.gates.continuity.signed_token import SignedToken
from upgrader.gates.pod_faults import UNSEEN
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, VerdictKind, holds
from upgrader.ports import Clock, Kube

__all__ = ["WorkloadGate"]

FIRST_ATTEMPT_SECONDS = 15.0
"""For the first Deployment; each further one has twice as long, as a slow cluster may just need it."""

_CERTAIN = (OTHER_ADDRESS, NOT_TRUSTED)
"""What nothing says that is only slow, or still starts."""
_CERTAIN_LATER = (UNSEEN, NO_ADDRESS, NOT_KNOWN)
"""What doesn't pass by waiting, once a second pod has said it as well for as long as the first one had."""


class WorkloadGate:
    """A new Deployment is rolled out, works and is deleted after the step, as before the run.

    One whose pod doesn't work in time is replaced: the pod may have got its token while an instance that is being
    replaced still answered, and a kubelet keeps a token for most of its life. Once its pod has worked, and so the
    controllers do, a new Secret gets a token that the API accepts.
    """

    name = "continuity/workload"

    def __init__(self, kube: Kube, clock: Clock, baseline: Callable[[], Baseline]) -> None:
        self._kube, self._clock, self._baseline = kube, clock, baseline
        self._patience_seconds = FIRST_ATTEMPT_SECONDS
        self._workload = NewWorkload(kube, clock)
        self._token = SignedToken(kube)
        self._begun: float | None = None

    def check(self) -> Verdict:
        """Move the workload on; one that did not work before says nothing now."""
        if not self._baseline().new_workload:
            return holds("not compared: a new Deployment already failed before this run")
        if self._begun is None:
            self._begun = self._clock.monotonic()
        verdict = self._workload.check()
        if self._workload.impossible:  # a rollback may remove what the run installed
            return holds(f"not compared: {self._workload.impossible}")
        spent = self._clock.monotonic() - self._begun
        again = self._patience_seconds > FIRST_ATTEMPT_SECONDS and spent >= FIRST_ATTEMPT_SECONDS
        if any(sign in verdict.reason for sign in (*_CERTAIN, *(_CERTAIN_LATER if again else ()))):
            return replace(verdict, kind=VerdictKind.BROKEN)
        if self._workload.worked and self._baseline().signed_token:
            signed = self._token.check()
            decides = signed.kind is VerdictKind.BROKEN or verdict.kind is VerdictKind.HOLDS
            return signed if decides and signed.kind is not VerdictKind.HOLDS else verdict
        if spent >= self._patience_seconds and not self._workload.worked and self._removed():
            self._patience_seconds *= 2
            self._workload, self._begun = NewWorkload(self._kube, self._clock), None
        return verdict

    def _removed(self) -> bool:
        try:
            self._workload.remove()
        except ApiError:
            return False
        return True

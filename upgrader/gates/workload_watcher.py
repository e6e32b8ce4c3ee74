"""Checks a release's workloads while Helm waits for them, and ends the wait when it can't succeed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any

from upgrader.errors import ApiError, WorkloadFailed
from upgrader.gates.api_absence import ApiAbsence, unanswered
from upgrader.gates.failing_pods import any_fails
from upgrader.gates.foreign_writers import foreign_verdict
from upgrader.gates.manifest_workloads import templates_in
from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.gates.workload_reading import find_workload
from upgrader.model.outcome import Verdict, VerdictKind, unknown
from upgrader.model.workload import Workload, WorkloadRef
from upgrader.ports import Clock, Kube

__all__ = ["WorkloadWatcher", "watch_workloads"]

END_HELM_AFTER_BROKEN = 2
"""Consecutive `broken` checks after which Helm's wait ends: a single one may be a passing state."""

_ABSENT = -1

_COMPLETE_SECONDS = 10.0
"""How long a status is believed: kube-controller-manager writes it, also its own, and may be what breaks."""

_CALLED_SECONDS = 1.0
"""About how often it is called."""

_PODS_A_SECOND = 200
"""How many pods are read in a second at most, on average: a DaemonSet has one on each of thousands of nodes."""


def watch_workloads(
    kube: Kube,
    manifest: str,
    *,
    clock: Clock,
    namespace: str,
    absence: ApiAbsence,
    glance: Callable[[], None] = lambda: None,
    every_seconds: float = 0.0,
    recheck_seconds: float = 0.0,
) -> WorkloadWatcher:
    """A watcher of the manifest's workloads; create it before Helm starts, as it records their present state.

    It checks them every `every_seconds`, if it is called more often than that. Until `recheck_seconds` after a check
    that found no fault, it only asks whether one of their pods fails.
    """
    templates = templates_in(manifest, namespace)
    before = {ref: _generation(kube, ref) for ref in templates}
    return WorkloadWatcher(kube, clock, before, absence, glance, every_seconds, recheck_seconds, templates)


class WorkloadWatcher:
    """Called about once a second; raises WorkloadFailed with the cause once a workload is broken.

    Raises ApiLost when the API has been unreachable for too long: Helm would wait for it until its own timeout.

    Helm changes workloads one after the other. A fault of one that it hasn't changed yet is no reason to stop: the
    upgrade may be meant to fix it. So only workloads that are new, or whose generation has changed, are judged, and
    only once their controller has observed the change.
    """

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        before: dict[WorkloadRef, int | None],
        absence: ApiAbsence,
        glance: Callable[[], None],
        every_seconds: float,
        recheck_seconds: float = 0.0,
        templates: Mapping[WorkloadRef, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """`glance` is called with each check, for what the gates behind the step need to have seen meanwhile.

        `templates` are the pod templates that Helm applies, which no one else may change meanwhile.
        """
        self._templates = templates
        self._every_seconds = every_seconds
        self._rest_seconds = recheck_seconds
        self._rests_until = -inf
        """Until when a fault of a pod is all that is looked for."""
        self._changed: dict[WorkloadRef, Workload] = {}
        """The workloads that Helm has changed, as they were when they were last checked."""
        self._next = -inf
        self._kube = kube
        self._clock = clock
        self._before = before
        self._absence = absence
        self._glance = glance
        self._broken = dict.fromkeys(before, 0)
        self._rest: dict[WorkloadRef, tuple[float, Verdict]] = {}
        """Until when a large workload isn't read again, and the verdict until then."""
        self._complete: dict[WorkloadRef, _Complete] = {}
        self.last: tuple[Verdict, ...] = ()
        """The last verdict on each workload that Helm has changed, in the manifest's order."""

    def __call__(self) -> None:
        """If it is time, check every workload once. An API that doesn't answer is `unknown`, which ends nothing."""
        now = self._clock.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_seconds - _CALLED_SECONDS / 2
        if now < self._rests_until and not self._pods_fail():
            return
        self._rests_until = -inf
        seen: list[Verdict] = []
        for ref in self._before:
            until, known = self._rest.get(ref, (0.0, None))
            if known is not None and self._clock.monotonic() < until:
                seen.append(known)
                continue
            verdict = self._check(ref)
            if verdict is not None:
                seen.append(verdict)
            is_broken = verdict is not None and verdict.kind is VerdictKind.BROKEN
            self._broken[ref] = self._broken[ref] + 1 if is_broken else 0
            if verdict is not None and self._broken[ref] >= END_HELM_AFTER_BROKEN:
                self.last = (*seen,)
                raise WorkloadFailed("\n".join(verdict.lines()), remedy=verdict.remedy)
        self.last = tuple(seen)
        self._glance()
        self._absence.check(seen)
        if seen and {verdict.kind for verdict in seen} <= {VerdictKind.HOLDS, VerdictKind.PENDING}:
            self._rests_until = now + self._rest_seconds - _CALLED_SECONDS / 2

    def _pods_fail(self) -> bool:
        """Whether a check is due ahead of time; also if the API doesn't say."""
        try:
            return any_fails(self._kube, self._changed.values(), most_pods=_PODS_A_SECOND)
        except ApiError:
            return True

    def _check(self, ref: WorkloadRef) -> Verdict | None:
        """A verdict; None when Helm hasn't changed the workload (yet)."""
        before = self._before[ref]
        try:
            now = _read(self._kube, ref, self._templates.get(ref, {}))
        except ApiError as error:
            return unanswered(str(ref), error)
        if before is None:
            # It couldn't be read at the start: the present generation counts as the old one.
            self._before[ref] = now.generation
            return None
        if now.generation == _ABSENT != before:
            # Helm deletes nothing that it installs: more likely, the API server no longer serves its group.
            return unknown(
                f"{ref} existed before this step, and the API server no longer finds it",
                remedy=f"Check that its API group is served: kubectl api-resources | grep -i {ref.kind.lower()}",
            )
        if now.generation == before:
            return None
        if now.workload is not None:
            self._changed[ref] = now.workload
        if now.changed is not None:
            return now.changed
        complete = self._complete.get(ref)
        if complete is not None and now.version == complete.version and self._clock.monotonic() < complete.until:
            return complete.verdict
        verdict = diagnose_workload(self._kube, ref, allow_none=True)
        if verdict.kind is VerdictKind.HOLDS:
            self._complete[ref] = _Complete(now.version, self._clock.monotonic() + _COMPLETE_SECONDS, verdict)
        if now.pods > _PODS_A_SECOND:
            self._rest[ref] = self._clock.monotonic() + now.pods / _PODS_A_SECOND, verdict
        return verdict


@dataclass(frozen=True)
class _Seen:
    """What a workload's own object says."""

    generation: int
    """How often its spec has changed; `_ABSENT` when there is no such workload."""
    version: str = ""
    """Another one after every change, of the status too."""
    workload: Workload | None = None
    changed: Verdict | None = None
    """What others have changed of it, if they have."""

    @property
    def pods(self) -> int:
        return self.workload.desired if self.workload else 0


@dataclass(frozen=True)
class _Complete:
    """A rollout that was complete. Its status counts Ready pods: while it is the same, its pods are hardly others."""

    version: str
    until: float
    """When its pods are listed again all the same."""
    verdict: Verdict


def _generation(kube: Kube, ref: WorkloadRef) -> int | None:
    """How often the spec has changed; `_ABSENT` when there is no such workload, None when that can't be known."""
    try:
        return _read(kube, ref).generation
    except ApiError:
        return None


def _read(kube: Kube, ref: WorkloadRef, template: Mapping[str, Any] = MappingProxyType({})) -> _Seen:
    found = find_workload(kube, ref)
    if found is None:
        return _Seen(_ABSENT)
    metadata = found["metadata"]
    workload, changed = Workload.parse(ref.kind, found), foreign_verdict(ref, found, template)
    return _Seen(int(metadata.get("generation", 0)), metadata["resourceVersion"], workload, changed)

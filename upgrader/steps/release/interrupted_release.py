"""Inspects the step of a Helm release whose process was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.errors import ChangedMeanwhile, StepFailed
from upgrader.model.manifest import objects_in
from upgrader.model.release import ReleaseSpec, RestorePoint, Revision, abandoned_after
from upgrader.pipeline import Inspection
from upgrader.ports import Clock, Helm
from upgrader.steps.release.down_workers import DownWorkers, roll_back
from upgrader.wait_and_retry import wait_until

__all__ = ["ReleaseInspector"]

_POLL_SECONDS = 2.0
_SPARE_SECONDS = 60.0
_FAILED_SECONDS = 30.0
"""How long a failed revision must stay the newest until it is certain that no Helm process rolls it back."""


@dataclass(frozen=True)
class ReleaseInspector:
    """Helm outlives the process that started it: it completes what it began, or rolls it back by itself.

    So wait for it. A Helm process that was killed as well leaves the release pending; once no other can be working on
    it, the release is rolled back to its restore point.
    """

    spec: ReleaseSpec
    helm: Helm
    clock: Clock
    timeout_seconds: float
    """Helm's own; after it, Helm rolls back, which takes at most as long again."""
    down: DownWorkers | None = None
    """Finds the workers that aren't waited for; None: Helm waits for all."""

    def await_idle(self, point: RestorePoint | None, note: Callable[[str], None]) -> None:
        self._wait(note)
        newest = self._newest()
        if newest is None or not newest.pending or point is None:
            return
        if point.revision is None:
            note(
                f"{self._describe(newest)}, and no Helm process is working on it: running helm uninstall "
                f"{self._name}, because it was not installed before"
            )
            self.helm.uninstall(self._name, self.spec.namespace, timeout_seconds=self.timeout_seconds)
            return
        note(
            f"{self._describe(newest)}, and no Helm process is working on it: running helm rollback {self._name} "
            f"{point.revision}"
        )
        roll_back(
            self.helm,
            self.down,
            self._name,
            self.spec.namespace,
            point.revision,
            timeout_seconds=self.timeout_seconds,
            note=note,
        )

    def inspect(self, point: RestorePoint | None) -> Inspection:
        newest = self._newest()
        if newest is None:
            return Inspection(False, f"release {self._name} is not installed")
        if newest.status != "deployed" or point is None:
            return Inspection(False, self._describe(newest))
        manifest = self._manifest(newest.number)
        deployed = objects_in(manifest)
        if deployed == objects_in(self.helm.render(self.spec)):
            if self.down is not None and (wait := self.down.upgrading(manifest, self.spec.namespace)) is not None:
                # The process that was to wait in Helm's place is gone.
                found = f"the change is in place (revision {newest.number} of release {self._name}), but {wait.why}"
                return Inspection(False, f"{found}: Helm hasn't waited for its workloads")
            found = f"the change is in place: revision {newest.number} of release {self._name}"
            return Inspection(True, found, newest.number)
        before = objects_in(self._manifest(point.revision)) if point.revision is not None else {}
        if deployed == before:
            return Inspection(False, f"release {self._name} is unchanged, at revision {newest.number}")
        raise ChangedMeanwhile(
            f"release {self._name}: revision {newest.number} matches neither the planned nor the previous state; "
            "it was changed outside of this run",
            remedy=f"Check what changed (helm history {self._name} -n {self.spec.namespace}), then run `upgrader run`.",
        )

    @property
    def _name(self) -> str:
        return self.spec.name

    def _newest(self) -> Revision | None:
        history = self.helm.history(self._name, self.spec.namespace)
        return history[-1] if history else None

    def _wait(self, note: Callable[[str], None]) -> None:
        """Return once no Helm process can be working on the release."""
        seen_since: dict[tuple[int, str], float] = {}
        begun = self._newest()

        def busy() -> str:
            pid = self.helm.at_work(self._name, self.spec.namespace)
            newest = self._newest()
            if pid:
                state = self._describe(newest) if newest else f"release {self._name} is not installed"
                return f"{state}; Helm process {pid} on this machine is working on it"
            if newest is None:
                return ""
            since = seen_since.setdefault((newest.number, newest.status), self.clock.monotonic())
            seen = self.clock.monotonic() - since
            if newest.status == "failed":
                # Helm rolls back right after it failed, and doesn't record when that was.
                return self._describe(newest) if seen < _FAILED_SECONDS else ""
            # Its own date may be by the clock of the machine that Helm runs on, which may be ahead of ours.
            given_up = seen >= newest.abandoned_after(self.timeout_seconds)
            working = newest.pending and not given_up and not newest.abandoned(self.clock.now(), self.timeout_seconds)
            return self._describe(newest) if working else ""

        seen = busy()
        if not seen:
            return
        seconds = 2 * abandoned_after(self.timeout_seconds, begun.waits if begun else 1) + _SPARE_SECONDS
        note(f"{seen}: an earlier Helm process may still be working on it; waiting up to {seconds:.0f} s for it to end")
        still = wait_until(self.clock, busy, seconds=seconds, interval_seconds=_POLL_SECONDS)
        if still:
            raise StepFailed(
                f"{still}, and Helm did not finish within {seconds:.0f} s",
                remedy="Run the same command again when that Helm process has ended. To see the release's state: helm "
                f"history {self._name} -n {self.spec.namespace}",
            )

    def _describe(self, newest: Revision) -> str:
        return f"revision {newest.number} of release {self._name} is {newest.status}"

    def _manifest(self, revision: int) -> str:
        return self.helm.manifest(self._name, self.spec.namespace, revision)

"""A step that frees a release which an interrupted Helm left in `pending-*`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.errors import ReleaseLocked
from upgrader.model.release import RestorePoint, last_good
from upgrader.ports import Clock, Helm
from upgrader.steps.release.down_workers import DownWorkers, roll_back

__all__ = ["FreeReleaseStep"]


@dataclass(frozen=True)
class FreeReleaseStep:
    """Rolls a pending release back to its last good revision, where that is safe.

    It comes before every other step: pods of an incomplete upgrade could fail the gates of earlier steps.
    """

    release: str
    namespace: str
    helm: Helm
    clock: Clock
    timeout_seconds: float
    down: DownWorkers | None = None
    """Finds the workers that aren't waited for; None: Helm waits for all."""

    @staticmethod
    def name_for(release: str) -> str:
        """The step's name, by which a journal shows that a release was freed."""
        return f"free {release}"

    @property
    def name(self) -> str:
        return self.name_for(self.release)

    def summary(self) -> str:
        return f"roll {self.release} back from an upgrade that was never completed"

    def capture(self) -> None:
        """Nothing to undo: the incomplete upgrade is not wanted again."""

    def apply(self, note: Callable[[str], None]) -> None:
        history = self.helm.history(self.release, self.namespace)
        if not history or not history[-1].pending:
            return
        stuck, good = history[-1], last_good(history)
        what = f"revision {stuck.number} of release '{self.release}' has status '{stuck.status}'"
        name, namespace = self.release, self.namespace
        now = self.clock.now()
        age = stuck.age_seconds(now)
        pid = self.helm.at_work(self.release, self.namespace)
        if pid or not stuck.abandoned(now, self.timeout_seconds):
            who = f"Helm process {pid} on this machine is active" if pid else "another Helm process may be active"
            raise ReleaseLocked(
                f"{what}, and is {age:.0f} s old: {who}",
                remedy="Run the same command again when that process has ended, or when the revision is "
                f"{stuck.abandoned_after(self.timeout_seconds):.0f} s old; check: helm history {name} -n {namespace}",
            )
        if good is None:
            raise ReleaseLocked(
                f"{what}, and no revision was ever deployed successfully",
                remedy=f"Check its objects (helm get manifest {name} -n {namespace}). If they work, mark the revision "
                f"as good: helm rollback {name} {stuck.number} -n {namespace} --wait. Don't uninstall the release: its "
                "objects might be in use.",
            )
        note(f"{what}, and is {age:.0f} s old, longer than Helm's timeout: rolling back to revision {good.number}")
        roll_back(
            self.helm,
            self.down,
            self.release,
            self.namespace,
            good.number,
            timeout_seconds=self.timeout_seconds,
            note=note,
        )

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo."""

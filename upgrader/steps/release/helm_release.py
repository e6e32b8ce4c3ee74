"""A step that installs or upgrades one Helm release, and rolls it back to its last good revision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from upgrader.errors import ApiUnavailable, HelmError, StepFailed, WorkloadFailed
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.release import UNWAITED, ReleaseSpec, RestorePoint, Revision, last_good, without_revision
from upgrader.ports import Helm
from upgrader.steps.release.down_workers import DownWorkers, roll_back

__all__ = ["ChartStep", "Watcher"]


_MOST_TOLD = 5
"""Of one step: each is an event in the journal."""


class Watcher(Protocol):
    """Checks a release's workloads while Helm waits for them."""

    @property
    def last(self) -> tuple[Verdict, ...]:
        """What it saw of each workload in its last check."""
        ...

    def __call__(self) -> None:
        """Check once; raises StepFailed (WorkloadFailed, ApiLost) when waiting longer won't help."""
        ...


@dataclass(frozen=True)
class ChartStep:
    """One `helm upgrade --install`: atomic, but where a worker is down for whose pods Helm would wait in vain.

    There the step waits itself, and a failure is undone as that of a gate is.
    """

    spec: ReleaseSpec
    change: str
    """What it changes, in one line, as in the plan."""
    helm: Helm
    timeout_seconds: float
    watcher: Callable[[], Watcher]
    """Makes a watcher of the release's workloads, as they are before the change."""
    take_ownership: bool = False
    """Whether the release may take over existing objects."""
    undo_watch: Callable[[], None] = lambda: None
    """Called about once a second while Helm rolls back."""
    before: str | None = None
    """The manifest that the change was planned against; None: whatever is there."""
    undo_help: Callable[[Callable[[str], None]], Callable[[], None]] = lambda _: lambda: None
    """Makes another such call, which notes what it does."""
    after: str = ""
    """The planned manifest."""
    down: DownWorkers | None = None
    """Finds the workers that aren't waited for; None: Helm waits for all."""

    @property
    def name(self) -> str:
        return self.spec.name

    def summary(self) -> str:
        return self.change

    def watched(self, check: Callable[[], None]) -> ChartStep:
        """The same step, with one more check while Helm waits; it ends the wait by raising StepFailed."""
        return replace(self, watcher=lambda: _WatchedBy(self.watcher(), check))

    def undo_watched(self, check: Callable[[], None]) -> ChartStep:
        """The same step, with a check while Helm rolls back."""
        return replace(self, undo_watch=check)

    def capture(self) -> RestorePoint:
        """Raises StepFailed where another Helm works on the release, or has changed it since the plan was made."""
        history = self.helm.history(self.spec.name, self.spec.namespace)
        good = last_good(history)
        if history and history[-1].pending:
            raise StepFailed(
                f"release {self.name}: another Helm process is changing it (revision {history[-1].number} is "
                f"'{history[-1].status}'); this step has not changed it",
                remedy="Wait until that process has ended, or stop it; then plan again. To see its state: helm history "
                f"{self.name} -n {self.spec.namespace}",
            )
        if good is not None and self.before is not None and not self._same(good.number, self.before):
            raise StepFailed(
                f"release {self.name}: {_described(good)} differs from the release that the change was planned for; "
                "this step has not changed it",
                remedy=f"Check its values: helm get values {self.name} -n {self.spec.namespace}. Then plan again.",
            )
        return RestorePoint(self.spec.name, self.spec.namespace, good.number if good else None)

    def apply(self, note: Callable[[str], None]) -> int:
        wait = self.down.upgrading(self.after, self.spec.namespace) if self.down is not None else None
        watcher = self.watcher()
        watch = _Told(watcher, note)
        how = "atomic" if wait is None else f"{wait.why}: this step, not Helm, waits for the other pods"
        note(f"helm upgrade --install {self.spec.name} ({how}, timeout {self.timeout_seconds:.0f} s)")
        try:
            done = self.helm.upgrade(
                self.spec,
                timeout_seconds=self.timeout_seconds,
                watch=watch,
                take_ownership=self.take_ownership,
                description=f"{'upgrader: ' if wait is None else UNWAITED}{self.change}",
                wait=wait is None,
            )
            if wait is not None:
                wait(self.timeout_seconds, watch, note)
        except StepFailed:
            raise
        except (HelmError, ApiUnavailable) as error:
            lost = self.down.lost() if self.down is not None else []
            raise _with_cause(error, watcher.last, lost) from error
        return done.number

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        history = self.helm.history(self.spec.name, self.spec.namespace)
        if point.revision is None:
            if history:
                note(f"helm uninstall {self.spec.name}: it was not installed before this run")
                self.helm.uninstall(self.spec.name, self.spec.namespace, timeout_seconds=self.timeout_seconds)
            return
        if history and history[-1].status == "deployed" and self._same_manifest(history[-1].number, point.revision):
            note(f"{self.spec.name} already matches revision {point.revision}")
            found = self.helm.manifest(self.name, self.spec.namespace, point.revision)
            if self.down is not None and (wait := self.down.undoing(found, self.spec.namespace)) is not None:
                wait(self.timeout_seconds, self.undo_watch, note)  # nothing has, where Helm doesn't
            return
        note(f"helm rollback {self.spec.name} {point.revision}")
        helps = self.undo_help(note)

        def watch() -> None:
            self.undo_watch()
            helps()

        roll_back(
            self.helm,
            self.down,
            self.spec.name,
            self.spec.namespace,
            point.revision,
            timeout_seconds=self.timeout_seconds,
            note=note,
            watch=watch,
        )

    def confirm(self, revision: int) -> None:
        """Raise StepFailed where another Helm has changed the release after the revision that this step wrote."""
        history = self.helm.history(self.spec.name, self.spec.namespace)
        newest = history[-1] if history else None
        if newest is None or newest.number <= revision:
            return
        kept = any(item.number == revision for item in history)  # another Helm's --history-max may be small
        if kept and not newest.pending and self._same_manifest(newest.number, revision):
            return
        raise StepFailed(
            f"release {self.name}: another Helm process changed it after this step wrote revision {revision}: "
            f"{_described(newest)}",
            remedy="Only one tool may change this release: pause the other one. The values that it set stay in Helm's "
            f"history: helm get values {self.name} -n {self.spec.namespace} --revision {newest.number}",
        )

    def _same_manifest(self, one: int, other: int) -> bool:
        return one == other or self._same(one, self.helm.manifest(self.name, self.spec.namespace, other))

    def _same(self, revision: int, manifest: str) -> bool:
        return without_revision(self.helm.manifest(self.name, self.spec.namespace, revision)) == without_revision(
            manifest
        )


@dataclass
class _Told:
    """Calls a watcher, and tells what fails while Helm only waits: until it is certain, that may take half a minute."""

    watcher: Watcher
    note: Callable[[str], None]
    said: set[str] = field(default_factory=set)

    def __call__(self) -> None:
        self.watcher()
        for verdict in self.watcher.last:
            if verdict.failing and verdict.reason not in self.said and len(self.said) < _MOST_TOLD:
                self.said.add(verdict.reason)
                self.note(f"while Helm waits: {verdict.reason}")


@dataclass
class _WatchedBy:
    """A watcher with an extra check after it: the watcher knows causes."""

    watcher: Watcher
    check: Callable[[], None]

    @property
    def last(self) -> tuple[Verdict, ...]:
        return self.watcher.last

    def __call__(self) -> None:
        self.watcher()
        self.check()


def _described(revision: Revision) -> str:
    """`revision 7 (superseded, of 2026-01-31T10:00:00Z: Upgrade complete)`."""
    when = f", of {revision.updated:%Y-%m-%dT%H:%M:%SZ}" if revision.updated else ""
    said = f": {revision.description}" if revision.description else ""
    return f"revision {revision.number} ({revision.status}{when}{said})"


def _with_cause(error: HelmError | ApiUnavailable, seen: tuple[Verdict, ...], lost: Sequence[str]) -> StepFailed:
    """Helm reports only that it timed out; the workloads show why, and the nodes that went `lost` meanwhile."""
    at_fault = [verdict for verdict in seen if verdict.kind is not VerdictKind.HOLDS]
    gone = [f"node {name} went down in the meantime" for name in lost]
    if not at_fault:
        return StepFailed("\n".join([error.message, *gone]), remedy=error.remedy)
    lines = [line for verdict in at_fault for line in verdict.lines()]
    return WorkloadFailed("\n".join([*lines, *gone, f"({error.message})"]), remedy=error.remedy)

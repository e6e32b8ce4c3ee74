"""Helm's history with what runs have seen: a revision that Helm didn't wait for is good once a run saw it healthy.

Helm calls such a revision deployed as soon as it is written. If the process that waits in its place is killed, or what
it waits for fails and can't be rolled back, the next run would take it for the last good one, and go back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from upgrader.engine.state.run_state import RunState
from upgrader.model.release import ReleaseSpec, Revision, last_good
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Helm

__all__ = ["HelmAsSeen", "seen_healthy"]


def seen_healthy(runs: Iterable[RunState], release: str, namespace: str) -> int | None:
    """The revision of a release that runs, oldest first, have last seen healthy, where a step has left a newer one; 0
    where it wasn't installed before that step. None: no step has left any behind.
    """
    found = None
    for state in runs:
        for step in state.steps:
            point = step.restore_point
            if point is not None and (point.release, point.namespace) == (release, namespace):
                found = None if step.phase in ("passed", "undone") else point.revision or 0
    return found


@dataclass(frozen=True)
class HelmAsSeen:
    """`ports.Helm`, in whose history such a revision is `unseen`.

    Without a journal it counts as good: what a lost journal saw healthy must not send a run back by another version.
    """

    helm: Helm
    runs: Callable[[], Iterable[RunState]]
    """Reads all that are known, oldest first."""

    def version(self) -> str:
        return self.helm.version()

    def history(self, release: str, namespace: str) -> tuple[Revision, ...]:
        found = self.helm.history(release, namespace)
        good = last_good(found)
        if good is None or not good.unwaited:  # the journals decide nothing, and may be many
            return found
        healthy = seen_healthy(self.runs(), release, namespace)
        if healthy is None:
            return found
        return tuple(replace(each, unseen=each.unwaited and each.number > healthy) for each in found)

    def at_work(self, release: str, namespace: str) -> int:
        return self.helm.at_work(release, namespace)

    def manifest(self, release: str, namespace: str, revision: int | None = None) -> str:
        return self.helm.manifest(release, namespace, revision)

    def render(self, spec: ReleaseSpec, *, target: KubernetesVersion | None = None, offline: bool = False) -> str:
        return self.helm.render(spec, target=target, offline=offline)

    def definitions(self, chart: Path) -> str:
        return self.helm.definitions(chart)

    def upgrade(
        self,
        spec: ReleaseSpec,
        *,
        timeout_seconds: float,
        watch: Callable[[], None],
        take_ownership: bool = False,
        description: str = "",
        wait: bool = True,
    ) -> Revision:
        return self.helm.upgrade(
            spec,
            timeout_seconds=timeout_seconds,
            watch=watch,
            take_ownership=take_ownership,
            description=description,
            wait=wait,
        )

    def rollback(
        self,
        release: str,
        namespace: str,
        revision: int,
        *,
        timeout_seconds: float,
        wait: bool = True,
        watch: Callable[[], None] = lambda: None,
    ) -> Revision:
        return self.helm.rollback(release, namespace, revision, timeout_seconds=timeout_seconds, wait=wait, watch=watch)

    def uninstall(self, release: str, namespace: str, *, timeout_seconds: float) -> None:
        self.helm.uninstall(release, namespace, timeout_seconds=timeout_seconds)

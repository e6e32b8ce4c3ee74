"""Workers that are down: Helm would wait for their pods, so a release that wants some there is waited for without it.

As kstatus has it, a DaemonSet is complete when each of its nodes has a Ready pod of the newest revision; it stays
incomplete while one of them is dead, and Helm rolls back at its timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from upgrader.errors import ApiError, WorkloadFailed
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.gates.manifest_workloads import daemon_sets_on, stateful_sets_in, workloads_in
from upgrader.gates.node_health import unreachable_nodes
from upgrader.gates.workload_diagnosis import diagnose_reading, missing
from upgrader.gates.workload_reading import find_workload, read_found
from upgrader.model.first_few import first_few
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.workload import Workload, WorkloadRef
from upgrader.ports import Clock, Helm, Kube
from upgrader.steps.release.past_down_nodes import PastDownNodes
from upgrader.wait_and_retry import wait_until

__all__ = ["DownWorkers", "OwnWait", "roll_back"]

_PODS_A_SECOND = 200
"""How many pods are read in a second at most, on average: a DaemonSet has one on each of thousands of nodes."""


@dataclass(frozen=True)
class OwnWait:
    """Waits for a release's workloads in Helm's place, without the pods on some nodes."""

    kube: Kube
    clock: Clock
    workloads: tuple[WorkloadRef, ...]
    down: tuple[str, ...]
    """Those that are down when it begins."""
    left_out: Callable[[str], bool]
    """Whether a node isn't waited for once it is seen down, even if it comes back and goes again."""
    every_seconds: float = 1.0
    """How often they are read."""

    @property
    def why(self) -> str:
        """Why Helm doesn't."""
        return f"{first_few(self.down)} {'is' if len(self.down) == 1 else 'are'} down"

    def __call__(self, seconds: float, watch: Callable[[], None], note: Callable[[str], None]) -> None:
        """Raises WorkloadFailed with what is missing at the end; what `watch` raises ends it before."""
        down = set(self.down)
        helps = {ref: PastDownNodes(self.kube, ref, down, note) for ref in self.workloads if ref.kind == "DaemonSet"}
        lacking: list[Verdict] = []
        rests_until = 0.0

        def still_missing() -> str:
            nonlocal rests_until
            watch()
            if not lacking or self.clock.monotonic() >= rests_until:
                down.update(filter(self.left_out, unreachable_nodes(self.kube)))
                seen = [self._look(ref, down, helps.get(ref)) for ref in self.workloads]
                lacking[:] = [verdict for verdict in seen if verdict.kind is not VerdictKind.HOLDS]
                rests_until = self.clock.monotonic() + self.every_seconds
            return lacking[0].reason if lacking else ""

        still = wait_until(self.clock, still_missing, seconds=seconds)
        if still:
            lines = [line for verdict in lacking for line in verdict.lines()] or [still]
            lines += [f"node {name} went down meanwhile" for name in self._lost(down)]
            without = f"(waited {seconds:.0f} s, without {first_few(sorted(down))}, which Helm would have waited for)"
            remedy = lacking[0].remedy if lacking else ""
            raise WorkloadFailed("\n".join((*lines, without)), remedy=remedy)

    def _lost(self, known: Collection[str]) -> list[str]:
        """The nodes that are down by now, as far as the API says."""
        try:
            return sorted(unreachable_nodes(self.kube).keys() - {*known})
        except ApiError:
            return []

    def _look(self, ref: WorkloadRef, down: Collection[str], past: PastDownNodes | None) -> Verdict:
        try:
            found = find_workload(self.kube, ref)
            if found is None:
                return missing(ref)
            reading = read_found(self.kube, Workload.parse(ref.kind, found), found)
            if past is not None:
                past(found, reading)
            # In an upgrade not those that were healthy before: what is healthy when a run begins has to be so in its
            # end.
            return diagnose_reading(
                self.kube, reading, allow_none=True, absent=lambda nodes: {*nodes}.intersection(down)
            )
        except ApiError as error:
            return unanswered(str(ref), error)


@dataclass(frozen=True)
class DownWorkers:
    """Finds those on which a release's DaemonSets can't be rolled out."""

    kube: Kube
    clock: Clock
    controllers: Collection[str]
    healthy_before: Collection[str] | None = None
    """The workers that were healthy before the run; None: nothing is known of them, and each is waited for."""

    def upgrading(self, manifest: str, namespace: str) -> OwnWait | None:
        """None where Helm can wait. One that was healthy before the run has to be so after it. Raises ApiError."""
        known = self.healthy_before
        return self._wait(manifest, namespace, lambda name: known is not None and name not in known)

    def undoing(self, manifest: str, namespace: str) -> OwnWait | None:
        """The same of a rollback, which no worker makes fail that is down by now. Raises ApiError."""
        return self._wait(manifest, namespace, lambda _: True)

    def _wait(self, manifest: str, namespace: str, left_out: Callable[[str], bool]) -> OwnWait | None:
        refs = workloads_in(manifest, namespace)
        if not any(ref.kind == "DaemonSet" for ref in refs):
            return None
        names = daemon_sets_on(manifest, namespace, unreachable_nodes(self.kube).values())

        def is_left_out(name: str) -> bool:
            return name not in self.controllers and left_out(name)

        found = tuple(sorted(filter(is_left_out, names)))
        if not found:
            return None
        # What others than their controllers replace, Helm doesn't wait for either: their own gates do.
        sets = stateful_sets_in(manifest, namespace)
        waited = tuple(ref for ref in refs if ref not in sets or not (sets[ref].on_delete or sets[ref].group))
        every_seconds = max(1.0, self.kube.count(NODES) / _PODS_A_SECOND)
        return OwnWait(self.kube, self.clock, waited, found, is_left_out, every_seconds)


def roll_back(
    helm: Helm,
    down: DownWorkers | None,
    release: str,
    namespace: str,
    revision: int,
    *,
    timeout_seconds: float,
    note: Callable[[str], None],
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Helm's rollback, and the wait for it."""
    wait = down.undoing(helm.manifest(release, namespace, revision), namespace) if down is not None else None
    if wait is not None:
        note(f"{wait.why}: Helm doesn't wait for {release}, its workloads are waited for without")
    helm.rollback(release, namespace, revision, timeout_seconds=timeout_seconds, wait=wait is None, watch=watch)
    if wait is not None:
        wait(timeout_seconds, watch, note)

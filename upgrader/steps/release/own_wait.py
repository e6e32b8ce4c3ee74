"""A wait for a release's workloads in Helm's place, which no pod on a node that is down keeps from its end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from upgrader.errors import ApiError, WorkloadFailed
from upgrader.gates.api_absence import unanswered
from upgrader.gates.node_health import unreachable_nodes
from upgrader.gates.rollout import short_nodes
from upgrader.gates.workload_diagnosis import diagnose_reading, missing
from upgrader.gates.workload_reading import find_workload, read_found, read_workload
from upgrader.model.first_few import first_few
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.workload import Workload, WorkloadRef
from upgrader.ports import Clock, Kube
from upgrader.steps.release.past_down_nodes import PastDownNodes
from upgrader.wait_and_retry import wait_until

__all__ = ["OwnWait"]


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

        what = f"the pods that don't run on {first_few(sorted(down))}"
        still = wait_until(self.clock, still_missing, seconds=seconds, what=what, note=note)
        if still:
            lines = [line for verdict in lacking for line in verdict.lines()] or [still]
            lines += [f"node {name} went down in the meantime" for name in self._lost(down)]
            without = f"(waited {seconds:.0f} s, ignoring {first_few(sorted(down))}; Helm would wait for them, too)"
            remedy = lacking[0].remedy if lacking else ""
            raise WorkloadFailed("\n".join((*lines, without)), remedy=remedy)

    def _lost(self, known: Collection[str]) -> list[str]:
        """The nodes that are down by now, as far as the API says."""
        try:
            return sorted(unreachable_nodes(self.kube).keys() - {*known})
        except ApiError:
            return []

    @property
    def lacks_pods_there(self) -> bool:
        """Whether a workload has pods on a node that is down, but no Ready one of its newest revision. Raises
        ApiError.
        """
        readings = (read_workload(self.kube, ref) for ref in self.workloads)
        return any(short_nodes(reading).intersection(self.down) for reading in readings if reading is not None)

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

"""Steps on the releases while the number of controllers changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from upgrader.adopt.node_withdrawal import withdrawn
from upgrader.adopt.one_by_one import InTurnStep
from upgrader.errors import StepFailed
from upgrader.model.cluster import Host
from upgrader.model.manifest import objects_in
from upgrader.model.release import RestorePoint, merged
from upgrader.ports import Clock, Kind, Kube
from upgrader.steps.release.helm_release import ChartStep
from upgrader.wait_and_retry import wait_until

__all__ = ["GrowStep", "SettleEndpointsStep", "fixed_endpoints", "keeping_endpoints"]

_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
_REGISTERED_SECONDS = 60.0


def fixed_endpoints(manifest: str) -> tuple[str, ...]:
    """The addresses that a release's manifest keeps behind Service `kubernetes`, whether anything answers there."""
    found = objects_in(manifest).get("EndpointSlice default/kube-apiserver")
    return tuple(one for each in found["endpoints"] for one in each["addresses"]) if found else ()


@dataclass(frozen=True)
class GrowStep:
    """Upgrades a release to as many pods as there are controllers now. Undo takes those of the new controllers away.

    With one controller before, all start at once: its Deployment replaces that one's pod as well, and would otherwise
    be free to leave that controller without any.
    """

    chart: ChartStep
    kube: Kube
    new: tuple[Host, ...]
    before: int
    """How many controllers had been adopted."""

    @property
    def name(self) -> str:
        return self.chart.name

    def summary(self) -> str:
        return self.chart.summary()

    def capture(self) -> RestorePoint:
        return self.chart.capture()

    def apply(self, note: Callable[[str], None]) -> int | None:
        if self.name == "kube-apiserver" and self.before > 1:
            InTurnStep(self.chart, self.kube, self.before + len(self.new)).apply(note)
            return None
        return self.chart.apply(note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        note(f"during this undo, no pods of the releases are scheduled to {', '.join(host.name for host in self.new)}")
        with withdrawn(self.kube, self.new):
            self.chart.undo(point, note)


@dataclass(frozen=True)
class SettleEndpointsStep:
    """Upgrades kube-apiserver's release to values without the one fixed endpoint, once the instances have registered.

    From one controller to several, it must stay until then: Service `kubernetes` would have no endpoint for a while.
    Afterwards requests would go to that controller even while it is down.
    """

    chart: ChartStep
    kube: Kube
    clock: Clock
    addresses: tuple[str, ...]
    """Of all controllers."""
    name: str = "endpoints"

    def summary(self) -> str:
        return "remove the fixed endpoint of Service kubernetes: the instances register themselves"

    def capture(self) -> RestorePoint:
        return self.chart.capture()

    def apply(self, note: Callable[[str], None]) -> int | None:
        def missing() -> str:
            found = self.kube.get(_SLICES, "kubernetes", "default") or {}
            there = {one for each in found.get("endpoints") or () for one in each["addresses"]}
            return ", ".join(sorted(set(self.addresses) - there))

        what = "kube-apiserver to register behind Service kubernetes"
        if left := wait_until(self.clock, missing, seconds=_REGISTERED_SECONDS, what=what, note=note):
            raise StepFailed(
                f"{left}: kube-apiserver did not register behind Service kubernetes within {_REGISTERED_SECONDS:.0f} s",
                remedy="Check kube-apiserver's flag --endpoint-reconciler-type, and: kubectl get endpointslices "
                "kubernetes -o yaml",
            )
        return self.chart.apply(note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self.chart.undo(point, note)


def keeping_endpoints(chart: ChartStep, addresses: tuple[str, ...]) -> ChartStep:
    """The same upgrade, in which the fixed endpoint stays."""
    spec = chart.spec
    return replace(chart, spec=replace(spec, values=merged(spec.values, {"endpoints": {"addresses": list(addresses)}})))

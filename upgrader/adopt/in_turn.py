"""kube-apiserver's first installation beside kubeadm's: one instance after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from upgrader.adopt.values import merged
from upgrader.model.release import RestorePoint
from upgrader.ports import Kind, Kube
from upgrader.steps.chart import ChartStep

__all__ = ["InTurnStep"]

_DEPLOYMENTS = Kind("apps/v1", "deployments")


@dataclass(frozen=True)
class InTurnStep:
    """Installs kube-apiserver's chart with one instance, then with one more, until each controller has its own.

    A kube-apiserver that starts takes all the CPU that it gets, for seconds. When all start at once, none of those that
    serve is as quick as before, and a load balancer's health checks may give up on all of them.
    """

    chart: ChartStep
    kube: Kube
    instances: int
    """As many as there are controllers."""

    @property
    def name(self) -> str:
        return self.chart.name

    def summary(self) -> str:
        return self.chart.summary() + (", one controller after the other" if self.instances > 1 else "")

    def capture(self) -> RestorePoint | None:
        return self.chart.capture()

    def apply(self, note: Callable[[str], None]) -> None:
        """The last installation is the release as the operator's values have it. Stopped half-way, it goes on."""
        for count in range(self._there() + 1, self.instances):
            note(f"{count} of {self.instances} instances")
            self._with(count).apply(note)
        self.chart.apply(note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self.chart.undo(point, note)

    def _there(self) -> int:
        found = self.kube.get(_DEPLOYMENTS, self.name, self.chart.spec.namespace)
        return int(found["spec"].get("replicas", 1)) if found else 0

    def _with(self, count: int) -> ChartStep:
        spec = self.chart.spec
        return replace(self.chart, spec=replace(spec, values=merged(spec.values, {"rollout": {"instances": count}})))

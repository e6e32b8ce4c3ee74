"""kube-apiserver's instances come and go one after the other, where kubeadm's serve beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from upgrader.adopt.endpoints import count_endpoints, wait_for_endpoints
from upgrader.adopt.values import merged
from upgrader.errors import StepFailed
from upgrader.model.release import RestorePoint
from upgrader.model.workload import Workload
from upgrader.ports import Clock, Kind, Kube
from upgrader.steps.chart import ChartStep
from upgrader.waiting import wait_until

__all__ = ["InTurnStep", "WithdrawStep"]

_DEPLOYMENTS, _PODS = Kind("apps/v1", "deployments"), Kind("v1", "pods")
_NAME, _SYSTEM = "kube-apiserver", "kube-system"
_END_SECONDS = 120.0


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


@dataclass(frozen=True)
class WithdrawStep:
    """Takes the release's instances away but for one, each when the endpoint of the one before is back.

    kubeadm's kube-apiserver serves on each controller by now. But an instance that ends takes the controller's address
    out of Service `kubernetes` for up to 10 s: were all uninstalled at the same time, no pod would find the API.
    """

    kube: Kube
    clock: Clock
    name: str = "withdraw kube-apiserver"

    def summary(self) -> str:
        return "end the instances of kube-apiserver's release one after the other, but for the last"

    def capture(self) -> None:
        """Nothing to take back: kubeadm's own instances serve."""
        return

    def apply(self, note: Callable[[str], None]) -> None:
        found = self.kube.get(_DEPLOYMENTS, _NAME, _SYSTEM)
        if found is None:
            return
        workload = Workload.parse("Deployment", found)
        endpoints = count_endpoints(self.kube)
        for count in range(workload.desired - 1, 0, -1):
            note(f"{count} of {workload.desired} instances")
            scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": _NAME, "namespace": _SYSTEM}}
            self.kube.apply(_DEPLOYMENTS, {**scaled, "spec": {"replicas": count}}, _SYSTEM)
            self._await(workload.selector, count)
            if left := wait_for_endpoints(self.kube, self.clock, endpoints):
                note(f"going on with {left}")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to take back."""

    def _await(self, selector: str, count: int) -> None:
        def missing() -> str:
            there = len(self.kube.list(_PODS, _SYSTEM, labels=selector))
            return "" if there <= count else f"{there} pods are left, not {count}"

        if state := wait_until(self.clock, missing, seconds=_END_SECONDS):
            raise StepFailed(
                f"an instance of kube-apiserver did not end within {_END_SECONDS:.0f} s: {state}",
                remedy=f"kubectl -n {_SYSTEM} get pods -l {selector}",
            )

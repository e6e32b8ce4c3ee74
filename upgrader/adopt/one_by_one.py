"""Starts and stops kube-apiserver's instances one after the other, beside kubeadm's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from upgrader.adopt.endpoints import count_endpoints, wait_for_endpoints
from upgrader.errors import StepFailed
from upgrader.model.release import RestorePoint, merged
from upgrader.model.workload import Workload
from upgrader.ports import Clock, Kind, Kube
from upgrader.steps.release.helm_release import ChartStep
from upgrader.wait_and_retry import wait_until

__all__ = ["InTurnStep", "WithdrawStep"]

_DEPLOYMENTS, _PODS = Kind("apps/v1", "deployments"), Kind("v1", "pods")
_NAME, _SYSTEM = "kube-apiserver", "kube-system"
_END_SECONDS = 120.0


@dataclass(frozen=True)
class InTurnStep:
    """Installs kube-apiserver's chart with one instance, then with one more, until each controller has its own.

    A starting kube-apiserver takes all the CPU that it gets, for seconds. If all start at once, they slow down those
    that serve, and a load balancer's health checks may fail for all of them.
    """

    chart: ChartStep
    kube: Kube
    instances: int
    """As many as there are controllers."""

    @property
    def name(self) -> str:
        return self.chart.name

    def summary(self) -> str:
        return self.chart.summary() + (", one controller at a time" if self.instances > 1 else "")

    def capture(self) -> RestorePoint | None:
        return self.chart.capture()

    def apply(self, note: Callable[[str], None]) -> None:
        """The last installation has the operator's own values. An interrupted one continues where it was."""
        for count in range(self._installed() + 1, self.instances):
            note(f"{count} of {self.instances} instances")
            self._with(count).apply(note)
        self.chart.apply(note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self.chart.undo(point, note)

    def _installed(self) -> int:
        found = self.kube.get(_DEPLOYMENTS, self.name, self.chart.spec.namespace)
        return int(found["spec"].get("replicas", 1)) if found else 0

    def _with(self, count: int) -> ChartStep:
        spec = self.chart.spec
        return replace(self.chart, spec=replace(spec, values=merged(spec.values, {"rollout": {"instances": count}})))


@dataclass(frozen=True)
class WithdrawStep:
    """Stops the release's instances, except one, each when the endpoint of the previous one is back.

    kubeadm's kube-apiserver serves on each controller by now. But an instance that ends removes the controller's
    address from Service `kubernetes` for up to 10 s: if all ended at once, no pod would find the API.
    """

    kube: Kube
    clock: Clock
    name: str = "withdraw kube-apiserver"

    def summary(self) -> str:
        return "stop all but one instance of kube-apiserver's release, one at a time"

    def capture(self) -> None:
        """Nothing to undo: kubeadm's own instances serve."""
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
            self._await(workload.selector, count, note)
            if left := wait_for_endpoints(self.kube, self.clock, endpoints, note):
                note(f"continuing with {left}")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo."""

    def _await(self, selector: str, count: int, note: Callable[[str], None]) -> None:
        def missing() -> str:
            left = len(self.kube.list(_PODS, _SYSTEM, labels=selector))
            return "" if left <= count else f"{left} pods are left, not {count}"

        what = "an instance of kube-apiserver to stop"
        if state := wait_until(self.clock, missing, seconds=_END_SECONDS, what=what, note=note):
            raise StepFailed(
                f"an instance of kube-apiserver did not stop within {_END_SECONDS:.0f} s: {state}",
                remedy=f"kubectl -n {_SYSTEM} get pods -l {selector}",
            )

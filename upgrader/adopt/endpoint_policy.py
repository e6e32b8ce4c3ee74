"""The policy of chart kube-apiserver that keeps the last endpoint of Service `kubernetes`, once nothing needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.errors import StepFailed
from upgrader.model.release import RestorePoint
from upgrader.ports import Clock, Kind, Kube
from upgrader.wait_and_retry import wait_until

__all__ = ["ForgetEndpointPolicyStep"]

_NAME = "kube-apiserver-last-endpoint"
_API = "admissionregistration.k8s.io/v1"
_KINDS = (
    Kind(_API, "validatingadmissionpolicybindings", namespaced=False),
    Kind(_API, "validatingadmissionpolicies", namespaced=False),
)
_PODS, _SYSTEM = Kind("v1", "pods"), "kube-system"
_OURS = "app.kubernetes.io/name=kube-apiserver"
_END_SECONDS = 120.0


@dataclass(frozen=True)
class ForgetEndpointPolicyStep:
    """Removes the policy, which Helm keeps, when the last instance of the uninstalled release has ended.

    Not earlier: that instance would empty the endpoints of the Service, and no pod would find the API until kubeadm's
    own kube-apiserver adds itself again, up to 10 s later.
    """

    kube: Kube
    clock: Clock
    name: str = "forget-endpoint-policy"

    def summary(self) -> str:
        return f"remove ValidatingAdmissionPolicy {_NAME}, when the release's last instance has ended"

    def capture(self) -> None:
        """Nothing to undo: the chart installs the policy again."""
        return

    def apply(self, note: Callable[[str], None]) -> None:
        def missing() -> str:
            return ", ".join(sorted(pod["metadata"]["name"] for pod in self.kube.list(_PODS, _SYSTEM, labels=_OURS)))

        if left := wait_until(self.clock, missing, seconds=_END_SECONDS):
            raise StepFailed(
                f"{left} did not end within {_END_SECONDS:.0f} s: ValidatingAdmissionPolicy {_NAME} was not removed",
                remedy=f"kubectl -n {_SYSTEM} get pods -l {_OURS}",
            )
        for kind in _KINDS:
            self.kube.delete(kind, _NAME)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo."""

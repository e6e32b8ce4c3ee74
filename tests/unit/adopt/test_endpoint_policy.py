"""The policy that keeps the last endpoint of Service `kubernetes`, when an adoption is undone."""

from __future__ import annotations

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.adopt.endpoint_policy import ForgetEndpointPolicyStep
from upgrader.errors import StepFailed
from upgrader.ports import Kind

PODS = Kind("v1", "pods")
NAME, SYSTEM = "kube-apiserver-last-endpoint", "kube-system"
KINDS = tuple(
    Kind("admissionregistration.k8s.io/v1", plural, namespaced=False)
    for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
)
LABELS = {"app.kubernetes.io/name": "kube-apiserver"}


class _EndsIn(FakeClock):
    """A clock on which the release's last instance ends after some seconds."""

    def __init__(self, kube: FakeKube, seconds: float) -> None:
        super().__init__()
        self._kube, self._seconds = kube, seconds

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        assert self._kube.get(KINDS[0], NAME) is not None
        if self.monotonic() >= self._seconds:
            self._kube.delete(PODS, "kube-apiserver-x", SYSTEM)


def world() -> FakeKube:
    """After the uninstallation: Helm has kept policy and binding, the release's instance ends, kubeadm's serves."""
    kube = FakeKube()
    kube.put(PODS, {"metadata": {"name": "kube-apiserver-x", "namespace": SYSTEM, "labels": LABELS}})
    static = {"name": "kube-apiserver-c1", "namespace": SYSTEM, "labels": {"component": "kube-apiserver"}}
    kube.put(PODS, {"metadata": static})
    for kind in KINDS:
        kube.put(kind, {"metadata": {"name": NAME}})
    return kube


def test_policy_goes_after_the_last_instance() -> None:
    """It is in force for as long as an instance of the release could empty the endpoints, and then it is gone."""
    kube = world()
    ForgetEndpointPolicyStep(kube, _EndsIn(kube, 25)).apply(lambda _: None)
    assert [kube.get(kind, NAME) for kind in KINDS] == [None, None]


def test_policy_stays_with_an_instance_that_does_not_end() -> None:
    """It is not removed then, and the message names the pod."""
    kube = world()
    with pytest.raises(StepFailed, match="kube-apiserver-x did not end within 120 s"):
        ForgetEndpointPolicyStep(kube, FakeClock()).apply(lambda _: None)
    assert all(kube.get(kind, NAME) for kind in KINDS)


def test_undo_again_finds_nothing_to_remove() -> None:
    """An undo that was interrupted after this step, and is run again, is done at once."""
    ForgetEndpointPolicyStep(FakeKube(), FakeClock()).apply(lambda _: None)

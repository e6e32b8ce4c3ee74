"""The mirror pod of a member whose image has changed: shown again by the kubelet, however late the API is."""

from __future__ import annotations

from collections.abc import Callable

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.steps.etcd.members import NEW, OLD
from upgrader.ports import Kind, KubeObject
from upgrader.steps.etcd.mirror_pod import MirrorPods

PODS = Kind("v1", "pods")


def pod(image: str, *, ready: bool = True) -> KubeObject:
    """As a kubelet writes it."""
    return {
        "metadata": {"name": "etcd-a1", "namespace": "kube-system"},
        "spec": {"nodeName": "a1", "containers": [{"name": "etcd", "image": image}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


class Kubelet(FakeClock):
    """A clock at which things happen: second → what the kubelet or the API server does then."""

    def __init__(self, *happens: tuple[float, Callable[[], None]]) -> None:
        super().__init__()
        self._happens = list(happens)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        while self._happens and self._happens[0][0] <= self.monotonic():
            self._happens.pop(0)[1]()


def quiet(text: str) -> None:
    """Nothing is read."""


def test_the_wait_says_for_what_and_how_long() -> None:
    """A kubelet may take minutes: what is printed is what is missing, and the deadline."""
    said = list[str]()
    MirrorPods(FakeKube(), FakeClock()).show("a1", NEW, said.append)
    assert said == [
        "waiting up to 120 s for pod etcd-a1 to show the image: the kubelet has not recreated the mirror pod etcd-a1"
    ]


def test_the_pod_with_the_image_before_is_deleted_and_waited_for() -> None:
    """The kubelet writes it anew, and then that it is Ready."""
    kube = FakeKube()
    kube.put(PODS, pod(OLD))
    clock = Kubelet((3, lambda: kube.put(PODS, pod(NEW, ready=False))), (9, lambda: kube.put(PODS, pod(NEW))))
    assert MirrorPods(kube, clock).show("a1", NEW, quiet) == "" and clock.monotonic() == 9


def test_an_api_that_does_not_answer_yet_is_asked_again() -> None:
    """It has just lost etcd: the deletion is not lost with it."""
    kube = FakeKube()
    kube.put(PODS, pod(OLD))
    kube.unavailable = True
    clock = Kubelet((20, lambda: setattr(kube, "unavailable", False)), (30, lambda: kube.put(PODS, pod(NEW))))
    assert MirrorPods(kube, clock).show("a1", NEW, quiet) == "" and clock.monotonic() == 30


def test_a_pod_whose_image_a_webhook_changes_is_deleted_once() -> None:
    """The kubelet writes it again, and so would it each time: the pod that is there then stays."""
    kube = FakeKube()
    kube.put(PODS, pod(OLD))
    clock = Kubelet((3, lambda: kube.put(PODS, pod("mirror.corp/etcd:3"))))
    assert MirrorPods(kube, clock).show("a1", NEW, quiet) == f"pod etcd-a1 does not have the image {NEW}"
    assert kube.get(PODS, "etcd-a1", "kube-system") is not None


def test_what_the_api_never_shows_is_said_at_the_deadline() -> None:
    """No pod, one that is not Ready, one that is being deleted: each by its name."""
    kube, clock = FakeKube(), FakeClock()
    assert MirrorPods(kube, clock).show("a1", NEW, quiet) == "the kubelet has not recreated the mirror pod etcd-a1"
    assert clock.monotonic() == 120
    kube.put(PODS, pod(NEW, ready=False))
    assert MirrorPods(kube, clock).show("a1", NEW, quiet) == "pod etcd-a1 is not Ready"
    ending = pod(OLD)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    kube.put(PODS, ending)
    assert MirrorPods(kube, clock).show("a1", NEW, quiet) == "pod etcd-a1 is being deleted"

"""A kube-scheduler that schedules nothing doesn't keep the one before from running."""

from __future__ import annotations

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import NAMESPACE, add_node, add_pod, waiting
from upgrader.errors import ApiError
from upgrader.ports import Kind
from upgrader.steps.release.unseen_scheduler import UnseenScheduler

BINDINGS = Kind("v1", "bindings")


@pytest.fixture
def kube() -> FakeKube:
    """Three controllers, of which one is not Ready."""
    found = FakeKube()
    add_node(found, "controller-1", conditions={"Ready": "False"})
    add_node(found, "controller-2")
    add_node(found, "controller-3")
    return found


def asked(kube: FakeKube, clock: FakeClock, seconds: int) -> list[str]:
    """What it notes within so many seconds of a rollback."""
    notes: list[str] = []
    names = ["controller-1", "controller-2", "controller-3"]
    helps = UnseenScheduler(kube, clock, NAMESPACE, names, notes.append)
    for _ in range(seconds):
        helps()
        clock.sleep(1.0)
    return notes


def unseen(kube: FakeKube, name: str, container: str = "kube-scheduler", awaits: str = "default-scheduler") -> None:
    """A pod that nobody has looked at."""
    add_pod(kube, "kube-scheduler", waiting("", name=container), name=name, phase="Pending", awaits=awaits)


def test_pod_that_nobody_has_seen_gets_a_controller(kube: FakeKube) -> None:
    """After some seconds, each on a node of its own that is Ready; a pod of another component waits for the right
    scheduler.
    """
    clock = FakeClock()
    unseen(kube, "first")
    unseen(kube, "second")
    unseen(kube, "dns", container="coredns")
    assert asked(kube, clock, 4) == [] and not kube.list(BINDINGS, NAMESPACE)
    notes = asked(kube, clock, 8)
    bound = {item["metadata"]["name"]: item["target"]["name"] for item in kube.list(BINDINGS, NAMESPACE)}
    assert bound == {"first": "controller-2", "second": "controller-3"}
    assert "pod first is bound to controller-2" in notes[0] and "default-scheduler" in notes[0]


def test_pod_that_a_scheduler_knows_is_left_to_it(kube: FakeKube) -> None:
    """It has a reason why it gets no node, or a node."""
    add_pod(kube, "kube-scheduler", waiting("", name="kube-scheduler"), unschedulable="no CPU", phase="Pending")
    assert asked(kube, FakeClock(), 20) == [] and not kube.list(BINDINGS, NAMESPACE)


def test_refusal_is_told_once(kube: FakeKube) -> None:
    """Without the right to bind, a run says so, and Helm's wait ends as it does without help."""
    unseen(kube, "first")
    refused = ApiError("cannot create bindings")
    refused.status = 403

    def create(*_: object, **__: object) -> None:
        raise refused

    kube.create = create  # type: ignore[assignment, method-assign]
    (note,) = asked(kube, FakeClock(), 20)
    assert "cannot create bindings" in note

"""What a drain does with each answer to an eviction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.steps.nodes.fleet import NEW, OLD, Fleet
from upgrader.errors import ApiError, ApiUnavailable, CredentialsRefused, StepFailed
from upgrader.model.node_settings import DrainPolicy
from upgrader.ports import KubeObject
from upgrader.steps.nodes.api_resources import PODS
from upgrader.steps.nodes.drain import Drain

DENIED = 'admission webhook "pod-eviction.guard" denied the request: '


def refused(status: int, message: str) -> ApiError:
    """What the API answers."""
    error = ApiError(message)
    error.status = status
    return error


@pytest.mark.parametrize(
    "error",
    [
        refused(429, f"{DENIED}1 pod not ready in db-zone-b"),
        refused(409, f"{DENIED}PodProtector shop/db has full admission buffer"),
        refused(500, 'failed calling webhook "pod-eviction.guard": connection refused'),
        refused(503, "etcdserver: no leader"),
        refused(403, "unable to create new content in namespace preview-7 because it is being terminated"),
        ApiUnavailable("the API server did not answer"),
    ],
)
def test_what_may_change_is_waited_for(error: ApiError) -> None:
    """Until the answer is another one: the node is upgraded, and the note has the webhook's own words."""
    fleet = Fleet("worker-1")
    fleet.kube.refused_evictions["web-worker-1"] = error

    def allow() -> None:
        if fleet.clock.monotonic() > 60:
            fleet.kube.refused_evictions.clear()

    fleet.kube.watchers.append(allow)
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": str(NEW)}
    assert any(error.message in note and note.endswith("; waiting") for note in fleet.notes)


def test_many_nodes_are_read_three_times_a_second() -> None:
    """Of a hundred that are drained at once, each is read at first, and then some in turn until its pods have ended."""
    fleet = Fleet(*(f"worker-{number}" for number in range(100)))
    fleet.kube.lingering.update(f"web-{name}" for name in fleet.names)
    drain = Drain(fleet.kube, fleet.clock, DrainPolicy(300.0), (), lambda _: "", check=lambda: None)
    reads, listed = list[float](), fleet.kube.list

    def counted(*given: Any, **named: Any) -> tuple[KubeObject, ...]:
        reads.append(fleet.clock.monotonic())
        if fleet.clock.monotonic() >= 60:
            for name in fleet.names:
                fleet.kube.delete(PODS, f"web-{name}", "default")
        return listed(*given, **named)

    fleet.kube.list = counted  # type: ignore[method-assign]
    began = fleet.clock.monotonic()
    assert drain.run(fleet.names, fleet.notes.append) == {}
    assert {note for note in fleet.notes if note.endswith(": drained")} == {f"{name}: drained" for name in fleet.names}
    assert len(reads) <= 100 + 3 * (fleet.clock.monotonic() - began) + 3
    assert fleet.clock.monotonic() - began <= 60 + 100 / 3 + 4


def test_every_node_is_read_again_before_the_deadline() -> None:
    """One whose pods have ended just then isn't taken for one that could not be drained."""
    fleet = Fleet(*(f"worker-{number}" for number in range(20)))
    fleet.kube.lingering.update(f"web-{name}" for name in fleet.names)
    drain = Drain(fleet.kube, fleet.clock, DrainPolicy(10.0), (), lambda _: "", check=lambda: None)

    def end() -> None:
        if fleet.clock.monotonic() >= 8:
            for name in fleet.names:
                fleet.kube.delete(PODS, f"web-{name}", "default")

    assert replace(drain, check=end).run(fleet.names, fleet.notes.append) == {}


def test_a_budget_that_a_webhook_has_is_waited_for_until_the_deadline() -> None:
    """Not longer; the error has the webhook's words, and not a PodDisruptionBudget that would have allowed it."""
    fleet = Fleet("worker-1")
    fleet.add_budget(allowed=1)
    fleet.kube.refused_evictions["web-worker-1"] = refused(429, f"{DENIED}1 pod not ready in db-zone-b")
    with pytest.raises(StepFailed) as caught:
        fleet.step(drain=DrainPolicy(90.0)).apply(fleet.notes.append)
    assert "worker-1: it was not drained within 90 s" in caught.value.message
    assert "pod default/web-worker-1 can't be evicted now: " + DENIED in caught.value.message
    assert "PodDisruptionBudget" not in caught.value.message
    assert fleet.clock.monotonic() >= 90 and fleet.state() == {"worker-1": str(OLD)}


@pytest.mark.parametrize(
    "error",
    [
        refused(429, "the API server could not serve 'evict pod default/web-worker-1': HTTP 429 Too many requests"),
        refused(500, "the API server refused 'evict pod default/web-worker-1': HTTP 500 etcdserver: leader changed"),
    ],
)
def test_a_busy_api_is_no_budget(error: ApiError) -> None:
    """API Priority and Fairness answers 429 as a budget does, and an election of etcd's leader 500: the pod's budget,
    which would have allowed it, isn't named.
    """
    fleet = Fleet("worker-1")
    fleet.add_budget(allowed=1)
    fleet.kube.refused_evictions["web-worker-1"] = error
    with pytest.raises(StepFailed) as caught:
        fleet.step(drain=DrainPolicy(90.0)).apply(fleet.notes.append)
    assert error.message in caught.value.message and "PodDisruptionBudget" not in caught.value.message


@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_what_no_wait_changes_fails_the_node(status: int) -> None:
    """At once, with the reason; the pod stays, and the node is uncordoned as it was."""
    fleet = Fleet("worker-1")
    fleet.add_pod("other", "worker-1", owner="ReplicaSet")
    fleet.kube.refused_evictions["web-worker-1"] = refused(status, f"{DENIED}maxUnavailable is 0")
    with pytest.raises(StepFailed) as caught:
        fleet.step(drain=DrainPolicy(300.0)).apply(fleet.notes.append)
    assert (
        f"pod default/web-worker-1 can't be evicted: {DENIED}maxUnavailable is 0; waiting would not help"
        in caught.value.message
    )
    assert fleet.clock.monotonic() < 10 and fleet.ran == []
    assert fleet.state() == {"worker-1": str(OLD)} and fleet.pods() == {"web-worker-1"}
    assert not any(note.endswith("; waiting") for note in fleet.notes)


@pytest.mark.parametrize("evicting", [False, True], ids=["reading", "evicting"])
def test_credentials_that_end_end_the_drain(evicting: bool) -> None:
    """No answer would be another one until its deadline, and no node is to blame: the run can go on with others."""
    fleet = Fleet("worker-1", "worker-2")
    error = CredentialsRefused("HTTP 401 Unauthorized")
    if evicting:
        fleet.kube.refused_evictions["web-worker-1"] = error
    else:

        def refuse(*_: object, **__: object) -> tuple[KubeObject, ...]:
            raise error

        fleet.kube.list = refuse  # type: ignore[method-assign]
    drain = Drain(fleet.kube, fleet.clock, DrainPolicy(3600.0, "skip-node"), (), lambda _: "", check=lambda: None)
    with pytest.raises(CredentialsRefused, match="HTTP 401 Unauthorized"):
        drain.run(fleet.names, fleet.notes.append)
    assert fleet.clock.monotonic() < 40


def test_webhook_that_answers_as_for_credentials_is_no_end_of_them() -> None:
    """`denied the request`, with status 401: the webhook's own refusal, of that pod alone."""
    fleet = Fleet("worker-1", "worker-2")
    error = CredentialsRefused(f"{DENIED}who are you?")
    fleet.kube.refused_evictions["web-worker-1"] = error
    fleet.step(drain=DrainPolicy(300.0, "skip-node")).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": str(OLD), "worker-2": str(NEW)}


def test_skipping_what_is_blocked_skips_it_then_too() -> None:
    """`onBlocked: skip-node`: the node keeps its version, at once, and the others are upgraded."""
    fleet = Fleet("worker-1", "worker-2")
    fleet.kube.refused_evictions["web-worker-1"] = refused(403, f"{DENIED}maxUnavailable is 0")
    fleet.step(drain=DrainPolicy(300.0, "skip-node")).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": str(OLD), "worker-2": str(NEW)}


def test_force_deletes_what_is_refused_for_ever() -> None:
    """`onBlocked: force`: at the deadline, so that all others have had theirs."""
    fleet = Fleet("worker-1")
    fleet.kube.refused_evictions["web-worker-1"] = refused(403, f"{DENIED}maxUnavailable is 0")
    fleet.step(drain=DrainPolicy(60.0, "force")).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": str(NEW)} and fleet.pods() == set()
    assert fleet.clock.monotonic() > 60


def test_undo_goes_on_beside_what_is_refused() -> None:
    """A kubelet can be replaced under running pods."""
    fleet = Fleet("worker-1")
    step = fleet.step()
    step.apply(fleet.notes.append)
    fleet.add_pod("again", "worker-1", owner="ReplicaSet")
    fleet.kube.refused_evictions["again"] = refused(403, f"{DENIED}maxUnavailable is 0")
    step.undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": str(OLD)} and "again" in fleet.pods()

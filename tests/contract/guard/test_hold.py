"""A run of the upgrader holds groups still, on a real API server, by its own lock and with the chart's own rights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import until
from tests.contract.guard.chart_rights import HOLD, Right, complaints
from tests.contract.guard.conftest import Pair
from tests.contract.guard.looks import look_again
from tests.contract.guard.test_chart import FLAGS, configuration, objects, rights
from tests.contract.guard.webhooks import applied, bundles, scaled, stateful_set, wait_refused
from tests.contract.guard.zones import zones
from upgrader.adapters.clock import SystemClock
from upgrader.engine.locks.cluster_lock import ClusterLock, acquire
from upgrader.engine.locks.group_notes import GroupNotes
from upgrader.engine.locks.heartbeat import kept_alive
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE, Holder
from upgrader.model.event import RunStarted, StepEnded, StepStarted
from upgrader.model.run_kind import RunKind
from upgrader.ports import Kind, KubeObject

__all__ = ["objects"]  # a fixture

RUN = "20261125T140000-v1.37.1"
HOLDING = (*FLAGS, "-roles=rollout,webhook", "-kubernetes.namespace=shop", "-hold=run", "-reconcile.interval=1s")
EVENTS = Kind("v1", "events")


class Run:
    """One that is alive, by the cluster's lock."""

    def __init__(self, lock: ClusterLock, heartbeat: ExitStack) -> None:
        self.lock, self._heartbeat = lock, heartbeat

    def end(self) -> None:
        """As it does when it is done."""
        self.die()
        assert self.lock.release()

    def die(self) -> None:
        """Its lock is renewed no more."""
        self._heartbeat.close()


@contextmanager
def run_lock(pair: Pair) -> Iterator[Run]:
    """The cluster's lock as a run holds it; removed at the end of the block."""
    lock = acquire(pair.kube, SystemClock(), Holder("anna@laptop"), take_over=True, note=lambda _: None)
    lock.emit(RunStarted(RUN, RunKind.UPGRADE, ("shop",), f"runs/{RUN}"))
    assert lock.renew()
    try:
        with ExitStack() as heartbeat:
            heartbeat.enter_context(kept_alive(lock, lambda to: None))
            yield Run(lock, heartbeat)
    finally:
        pair.kube.delete(LEASES, NAME, NAMESPACE)


@contextmanager
def holding(pair: Pair, objects: list[KubeObject], folder: Path) -> Iterator[GuardProcess]:
    """A replica with the chart's rights, whose webhooks the API server calls."""
    with rights(pair, objects), guard_process(folder, pair.account, *HOLDING) as guard:
        guard.wait_ready()
        with applied(pair.kube, configuration(objects, guard)) as name, stateful_set(pair.kube, GROUP) as probe:
            until("it to be injected", lambda: all(bundles(pair.kube, name)), timeout_seconds=120)
            wait_refused(pair.kube, probe, 2, "holds")
            yield guard


GROUP = {"rollout-group": "probe", "grafana.com/rollout-paused": "true"}


def waits(what: str, holds: Any, seconds: float = 120) -> float:
    """Until it is so; how long that took."""
    return until(what, holds, timeout_seconds=seconds, interval_seconds=0.05)


def test_a_run_holds_groups_but_those_of_its_step(pair: Pair, objects: list[KubeObject], tmp_path: Path) -> None:
    """Nothing begins to roll, nothing in a group shrinks, by itself, by `/scale` or on a dry run, and both name the
    run. Once its step has begun, the group rolls, and its own release may shrink it, while an autoscaler may not. A
    group in the middle goes on after the step. After the run, it all is done.
    """
    with run_lock(pair) as run, holding(pair, objects, tmp_path) as guard, zones(pair.kube, replicas=2) as group:
        a, b, _ = group.names
        for name in group.names:
            group.template(name, "v2")

        def told() -> bool:
            found = pair.kube.list(EVENTS, "shop", fields=f"involvedObject.name={a}")
            return [each["reason"] for each in found] == ["RolloutHeld"]

        waits("the Event", told)
        look_again(guard, pair.kube, group)
        assert len(group.pods(a)) == 2
        says = f"from 2 to 1 replicas is not allowed while the upgrade {RUN} holds the group {group.group}"
        for subresource in ("", "scale"):
            for dry_run in (True, False):
                assert says in scaled(pair.kube, a, 1, subresource=subresource, dry_run=dry_run)
        notes = GroupNotes(run.lock, {"shop": [f"shop/{group.group}"]})
        notes.emit(StepStarted("shop", "v1 → v2", None))
        waits("a to begin", lambda: len(group.pods(a)) == 1)
        assert scaled(pair.kube, a, 1, dry_run=True) == ""
        assert says in scaled(pair.kube, a, 1, subresource="scale")
        notes.emit(StepEnded("shop", "passed", 1))
        assert says in scaled(pair.kube, a, 1)
        for name in (a, a):
            group.controller(name)
            group.make_ready(name)
            waits("the next pod to go", lambda: sum(len(group.pods(each)) for each in group.names) == 5)
        assert len(group.pods(b)) == 1
        run.end()
        assert scaled(pair.kube, b, 1, dry_run=True) == ""
        assert complaints(guard) == []


def test_a_run_that_died_holds_nothing_for_long(pair: Pair, objects: list[KubeObject], tmp_path: Path) -> None:
    """Once its Lease was seen unchanged for as long as it says."""
    with run_lock(pair) as run, holding(pair, objects, tmp_path), zones(pair.kube, count=1) as group:
        run.die()
        pair.kube.patch(LEASES, NAME, {"spec": {"leaseDurationSeconds": 9}}, NAMESPACE)
        (name,) = group.names
        group.template(name, "v2")
        waits("it to begin", lambda: not group.pods(name), seconds=120)


@pytest.mark.parametrize("right", HOLD, ids=str)
def test_without_the_right_to_read_the_lease_nothing_begins(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right
) -> None:
    """Nobody knows whether a run is alive: the right is named, a group waits, and a downscale in it is for
    failurePolicy to decide.
    """
    with (
        rights(pair, objects, right),
        guard_process(tmp_path, pair.account, *HOLDING) as guard,
        zones(pair.kube, count=1) as group,
    ):
        guard.wait_ready()
        (name,) = group.names
        group.template(name, "v2")
        waits("it to name the right", lambda: complaints(guard, right) != [])
        with applied(pair.kube, configuration(objects, guard)) as webhooks:
            until("it to be injected", lambda: all(bundles(pair.kube, webhooks)), timeout_seconds=120)
            wait_refused(pair.kube, name, 0, "failed calling webhook")
        assert len(group.pods(name)) == 1

"""What goes wrong with a node in its upgrade: a budget that blocks its drain, the power, and the runner itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testkit.lab_cluster import OLD, TARGET, LabCluster, make_cluster, until
from testkit.nodes import FLOOR, Floor, three_replicas
from testkit.workers import WORKERS, Workers
from upgrader.ports import Kind

ONE = WORKERS[0]
_BUDGETS = Kind("policy/v1", "poddisruptionbudgets")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """An adopted cluster with two workers, whose control plane is upgraded."""
    cluster = make_cluster(f"e2e-faults-{os.getpid()}", tmp_path_factory.mktemp("lab"), "--workers", "2")
    try:
        yield _without_control_plane(cluster)
    finally:
        cluster.down()


@pytest.fixture
def one(made: Workers) -> Workers:
    """The first worker at the old version, the second upgraded: the first is all that a run changes."""
    return _with_workload(made, ONE)


def _with_workload(workers: Workers, *old: str) -> Workers:
    workers.cluster.restore_files()
    workers.prepare(*old)
    three_replicas(workers.cluster.kube)
    workers.spread()
    return workers


def _without_control_plane(cluster: LabCluster) -> Workers:
    workers = Workers(cluster)
    workers.configure()
    ended = workers.run()
    assert ended.exit_code == 0, ended
    return workers


@pytest.mark.parametrize("policy", ["fail", "skip-node"])
def test_budget_that_never_allows_it(one: Workers, policy: str) -> None:
    """It came after the run's checks. The drain ends at its deadline; the message names budget and pod, and the node is
    uncordoned as it was. Then `fail` fails the run, and `skip-node` doesn't."""
    one.configure(drain={"deadline": "10s", "onBlocked": policy})
    with one.started() as run:
        _budget(one, 3)
        output, _ = run.communicate(timeout=900)
    assert run.returncode == (4 if policy == "fail" else 0), output
    told = " ".join(output.split())
    assert f"{ONE}: " in told and "it was not drained within 10 s" in told, output
    assert "PodDisruptionBudget default/web (minAvailable 3; 3 of 3 pods are healthy)" in told, output
    assert "pod default/web-" in told, output
    assert f"nothing of it was changed, and it is uncordoned again, at {OLD}" in told, output
    assert one.as_before(ONE), one.state()


def test_power_is_lost_in_a_swap(one: Workers) -> None:
    """Nobody knows what the power cut left: the worker is put back as soon as it answers, and so is the run."""
    before = one.programs(ONE)
    one.configure()
    with one.started() as run:
        until("the worker's swap", lambda: one.swapping(ONE), timeout_seconds=300, interval_seconds=0.05)
        one.cluster.lab("crash", ONE)
        one.cluster.lab("boot", ONE)
        output, _ = run.communicate(timeout=900)
    assert run.returncode == 4, output
    assert f"its old programs were put back: it is at {OLD}, and Ready" in " ".join(output.split()), output
    assert one.as_before(ONE), one.state()
    assert one.programs(ONE) == before


PHASES: dict[str, Callable[[Workers], bool]] = {
    "cordon": lambda workers: workers.phase(ONE) == "drain",
    "swap": lambda workers: workers.swapping(ONE),
    "wait": lambda workers: workers.state()[ONE] == f"{TARGET} cordoned swap",
}


@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_a_phase_and_resumed(one: Workers, phase: str) -> None:
    """`resume` ends as a run that nobody disturbed: all upgraded, nothing cordoned or marked, the floor kept."""
    one.configure()
    with Floor(one.cluster.kube) as floor:
        one.kill_when(phase, lambda: PHASES[phase](one))
        ended = one.cluster.upgrader("resume", "--yes", timeout_seconds=900)
    assert ended.exit_code == 0, ended
    assert one.upgraded(), one.state()
    assert floor.lowest >= FLOOR


def test_killed_in_its_swap_and_rolled_back(one: Workers) -> None:
    """`rollback` returns the worker to what it had, although the killed run was just replacing it."""
    before = {name: one.programs(name) for name in WORKERS}
    one.configure()
    with Floor(one.cluster.kube) as floor:
        one.kill_when("swap", lambda: one.swapping(ONE))
        ended = one.cluster.upgrader("rollback", "--yes", timeout_seconds=900)
    assert ended.exit_code == 0, ended
    assert one.as_before(ONE), one.state()
    assert {name: one.programs(name) for name in WORKERS} == before
    assert floor.lowest >= FLOOR


def _budget(workers: Workers, least: int) -> None:
    budget: Any = {"spec": {"minAvailable": least}}
    workers.cluster.kube.patch(_BUDGETS, "web", budget, "default")

"""What goes wrong with a node in its upgrade: a budget, a kubelet, the power, and the runner itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testkit.lab_cluster import OLD, TARGET, LabCluster, make_cluster, until
from testkit.nodes import FLOOR, Floor, three_replicas
from testkit.waiting import stretched
from testkit.workers import WORKERS, Workers
from upgrader.ports import Kind

ONE, TWO = WORKERS
_BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
_EXITS = 'test "$1" = {old} || {{ echo "E1123 10:00:00.0 1 run.go:72] command failed: no such cgroup"; exit 1; }}'
_NO_NETWORK = (
    'cd /etc/cni && mkdir -p gone && if test "$1" = {old}; then mv gone/* net.d/; else mv net.d/* gone/; fi; true'
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """An adopted cluster with two workers, which are all that is left to upgrade; a workload is on both."""
    cluster = make_cluster(f"e2e-faults-{os.getpid()}", tmp_path_factory.mktemp("lab"), "--workers", "2")
    try:
        yield _without_control_plane(cluster)
    finally:
        cluster.down()


@pytest.fixture
def both(made: Workers) -> Workers:
    """Two workers at the old version."""
    return _with_workload(made, *WORKERS)


@pytest.fixture
def one(made: Workers) -> Workers:
    """The same, the second being upgraded already: the first is all that a run changes."""
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
        output, _ = run.communicate(timeout=stretched(900))
    assert run.returncode == (4 if policy == "fail" else 0), output
    told = " ".join(output.split())
    assert f"{ONE}: " in told and "it was not drained within 10 s" in told, output
    assert "PodDisruptionBudget default/web (minAvailable 3; 3 of 3 pods are healthy)" in told, output
    assert "pod default/web-" in told, output
    assert f"the node was not changed (it still has {OLD}), and is uncordoned again" in told, output
    assert one.as_before(ONE), one.state()


def test_budget_that_is_overridden(one: Workers) -> None:
    """`force` deletes the pods only after the deadline, and the worker is upgraded."""
    _budget(one, 3)
    one.configure(drain={"deadline": "10s", "onBlocked": "force"})
    ended = one.run()
    assert ended.exit_code == 0, ended
    assert "which could not be evicted (onBlocked: force)" in ended.stderr, ended
    assert one.upgraded(), one.state()


@pytest.mark.parametrize(
    ("fault", "cause"),
    [(_EXITS, "no such cgroup"), (_NO_NETWORK, "cni plugin not initialized")],
    ids=["ends", "never-ready"],
)
def test_kubelet_that_fails_is_put_back(both: Workers, fault: str, cause: str) -> None:
    """Whether it ends or is never Ready: the node gets its old programs, is Ready and uncordoned, and the message has
    the kubelet's words. The run, which allows one such node, upgrades the other."""
    both.break_new_kubelet(ONE, fault.format(old=OLD))
    before = both.programs(ONE)
    try:
        pool = {"name": "workers", "maxFailed": 1}
        both.configure(pools=[pool], readyDeadline="90s")
        ended = both.run()
        assert ended.exit_code == 0, ended
        assert both.state() == {ONE: OLD, TWO: TARGET}
        assert both.ready(ONE)
        told = " ".join((ended.stderr + ended.stdout).split())
        assert f"{ONE}: it failed, and keeps its old version (allowed by maxFailed: 1): " in told, ended
        assert cause in told and f"its old binaries were restored: it is at {OLD}, and Ready" in told, ended
        assert both.programs(ONE) == before
    finally:
        both.mend(ONE)


def test_kubelet_that_fails_rolls_the_run_back(both: Workers) -> None:
    """One that never gets Ready is put back, and the worker that was upgraded before it as well; the message says why,
    and the workload keeps its floor."""
    both.break_new_kubelet(TWO, _NO_NETWORK.format(old=OLD))
    try:
        both.configure(readyDeadline="90s")
        with Floor(both.cluster.kube) as floor:
            ended = both.run()
        assert ended.exit_code == 4, ended
        told = " ".join(ended.stderr.split())
        assert f"1 of 2 nodes of pool workers failed (maxFailed: 0): {TWO}: " in told
        assert "cni plugin not initialized" in told
        assert both.as_before(*WORKERS), both.state()
        assert floor.lowest >= FLOOR
    finally:
        both.mend(TWO)


@pytest.mark.parametrize("returns", [True, False])
def test_power_is_lost_in_a_drain(one: Workers, returns: bool) -> None:
    """A worker that is back within the deadline is upgraded. One that isn't fails as what it is, a node that doesn't
    answer, and is uncordoned for when it does."""
    one.configure(drain={"deadline": "240s" if returns else "90s"})
    try:
        with one.started() as run:
            _budget(one, 3)
            until("the worker's drain", lambda: one.phase(ONE) == "drain", timeout_seconds=180)
            one.cluster.lab("crash", ONE)
            _budget(one, FLOOR)
            if returns:
                one.cluster.lab("boot", ONE)
            output, _ = run.communicate(timeout=stretched(900))
    finally:
        if not returns:
            one.cluster.lab("boot", ONE)
    if returns:
        assert run.returncode == 0, output
        assert one.upgraded(), one.state()
        return
    told = " ".join(output.split())
    assert run.returncode == 4, output
    assert f"{ONE}: it was not drained within 90 s: node {ONE} is not Ready (Unknown)" in told, output
    until("the worker to be back, as it was", lambda: one.as_before(ONE), timeout_seconds=120)


def test_power_is_lost_in_a_swap(one: Workers) -> None:
    """Nobody knows what the power cut left: the worker is put back as soon as it answers, and so is the run."""
    before = one.programs(ONE)
    one.configure()
    with one.started() as run:
        until("the worker's swap", lambda: one.swapping(ONE), timeout_seconds=300, interval_seconds=0.05)
        one.cluster.lab("crash", ONE)
        one.cluster.lab("boot", ONE)
        output, _ = run.communicate(timeout=stretched(900))
    assert run.returncode == 4, output
    assert f"its old binaries were restored: it is at {OLD}, and Ready" in " ".join(output.split()), output
    assert one.as_before(ONE), one.state()
    assert one.programs(ONE) == before


PHASES: dict[str, Callable[[Workers], bool]] = {
    "cordon": lambda workers: workers.phase(ONE) == "drain",
    "swap": lambda workers: workers.swapping(ONE),
    "wait": lambda workers: workers.state()[ONE] == f"{TARGET} cordoned swap",
    "uncordon": lambda workers: workers.state()[ONE] == TARGET,
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


def test_killed_in_a_drain_and_resumed(both: Workers) -> None:
    """The same, of a drain that a budget keeps waiting."""
    both.configure()
    with Floor(both.cluster.kube) as floor:
        with both.started() as run:
            _budget(both, 3)
            assert run.stdout is not None
            assert any("; waiting" in line for line in run.stdout), "the run ended without a drain that waits"
        assert both.state()[ONE] == f"{OLD} cordoned drain"
        _budget(both, FLOOR)
        ended = both.cluster.upgrader("resume", "--yes", timeout_seconds=900)
    assert ended.exit_code == 0, ended
    assert both.upgraded(), both.state()
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

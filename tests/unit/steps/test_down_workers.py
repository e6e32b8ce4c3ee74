"""A release that wants pods on a worker that is down: neither Helm nor the DaemonSet's controller gets past it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.kube import FakeKube
from testkit.fakes.recovery import FakeRecovery
from tests.unit.gates.builders import (
    NAMESPACE,
    add_daemonset,
    add_deployment,
    add_down_node,
    add_node,
    add_pod,
    running,
    waiting,
)
from upgrader.app.observe_cluster import observe_release
from upgrader.engine.execution.runner import Runner
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.engine.history.seen_healthy import HelmAsSeen
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import ApiError, HelmError, StepFailed, WorkloadFailed
from upgrader.gates import manifest_workloads
from upgrader.gates.kubernetes_kinds import PODS, SECRETS, WORKLOADS
from upgrader.gates.workload_reading import find_workload, read_found
from upgrader.model.event import Event, Note, RunStarted
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.manifest import objects_in
from upgrader.model.observed import Observed
from upgrader.model.outcome import StepPhase, Verdict, broken
from upgrader.model.release import ReleaseSpec, RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import Workload, WorkloadRef
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.steps.release.down_workers import DownWorkers
from upgrader.steps.release.free_release import FreeReleaseStep
from upgrader.steps.release.helm_release import ChartStep
from upgrader.steps.release.interrupted_release import ReleaseInspector
from upgrader.steps.release.past_down_nodes import PastDownNodes
from upgrader.steps.release.plan import IntendedRelease

DOWN, UP = "worker-2", ("controller-1", "worker-1", "worker-3")
AGENT = WorkloadRef("DaemonSet", NAMESPACE, "agent")


def rolling(**update: Any) -> dict[str, Any]:
    """The values of the release, which FakeHelm takes for its manifest: one DaemonSet, for every node."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": NAMESPACE},
        "spec": {"updateStrategy": {"rollingUpdate": update or {"maxUnavailable": 1}}, "template": {"spec": {}}},
    }


class Watch:
    """A watcher that sees nothing."""

    last: tuple[Verdict, ...] = ()

    def __call__(self) -> None:
        return None


@dataclass
class Cluster:
    """Nodes, and one DaemonSet that is rolled out as Kubernetes' own controller (v1.37.1) does it."""

    kube: FakeKube = field(default_factory=FakeKube)
    clock: FakeClock = field(default_factory=FakeClock)
    helm: FakeHelm = field(default_factory=FakeHelm)
    down: set[str] = field(default_factory=lambda: {DOWN})
    broken: bool = False
    """Whether pods of the new revision don't become Ready."""
    fewest: int = 9
    """The fewest Ready pods that there have been."""
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in (*UP, DOWN):
            add_node(self.kube, name)
            add_pod(self.kube, "agent", waiting("") if name in self.down else running(), node=name, daemon=True)
        for name in self.down:
            add_down_node(self.kube, name)
        self._count(revision=1)

    def change(self, **update: Any) -> None:
        """A new pod template, as Helm applies it."""
        self._count(revision=2, strategy={"type": "RollingUpdate", "rollingUpdate": update or {"maxUnavailable": 1}})

    def sync(self) -> None:
        """What the controller does once: the pods on nodes that are down never end, and never start."""
        found: Any = self.kube.get(WORKLOADS["DaemonSet"], "agent", NAMESPACE)
        self._note_fewest()
        for pod in self.pods():
            node = pod["spec"]["nodeName"]
            if _hash(pod) == "hash-2" and not (_ready(pod) or self.broken or node in self.down):
                add_pod(self.kube, "agent", node=node, revision=2, daemon=True)
        rolling = found["spec"].get("updateStrategy", {}).get("rollingUpdate", {"maxUnavailable": 1})
        surge = rolling.get("maxSurge", 0)
        pods = self.pods()
        old = {each["spec"]["nodeName"]: each for each in pods if _hash(each) == "hash-1" and not _ends(each)}
        new = {each["spec"]["nodeName"]: each for each in pods if _hash(each) == "hash-2"}
        some = {each["spec"]["nodeName"] for each in pods}
        if surge:
            used = sum(not _ready(new[node]) for node in new if node in old)
            for node, pod in old.items():
                if node in new and _ready(new[node]):
                    self.end(pod)
                elif node not in new and (not _ready(pod) or used < surge):
                    used += _ready(pod)
                    self._start(node)
        else:
            lacking = {node for node in (*UP, DOWN) if not any(_ready(each.get(node)) for each in (old, new))}
            used = len(lacking & some)
            for pod in old.values():
                if not _ready(pod) or used < rolling["maxUnavailable"]:
                    used += _ready(pod)
                    self.end(pod)
        self._note_fewest()
        for node in {*UP, DOWN} - {each["spec"]["nodeName"] for each in self.pods()}:
            self._start(node)
        self._count(revision=2, strategy=found["spec"].get("updateStrategy"))

    def end(self, pod: Any) -> None:
        """Delete a pod, as anyone may."""
        if pod["spec"]["nodeName"] in self.down:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.kube.put(PODS, pod)
        else:
            self.kube.delete(PODS, pod["metadata"]["name"], NAMESPACE)

    def pods(self) -> list[Any]:
        """All of them."""
        return [dict(each) for each in self.kube.list(PODS, NAMESPACE)]

    def newest(self) -> set[str]:
        """The nodes with a Ready pod of the new revision."""
        return {each["spec"]["nodeName"] for each in self.pods() if _hash(each) == "hash-2" and _ready(each)}

    def workers(self, *healthy: str) -> DownWorkers:
        """What is known of a run that began with these."""
        return DownWorkers(self.kube, self.clock, {"controller-1"}, healthy or ("worker-1", "worker-3"))

    def step(self, **changes: Any) -> ChartStep:
        """The upgrade of the release, beside which the controller is at work."""
        manifest = rolling()
        spec = ReleaseSpec("app", NAMESPACE, Path("/charts/app"), {**manifest, "v": 2})
        step = ChartStep(spec, "v1 → v2", self.helm, 60.0, Watch, after=yaml.safe_dump(manifest), down=self.workers())
        return replace(step, **changes).watched(self.sync).undo_watched(self.sync)

    def _start(self, node: str) -> None:
        """Only the next `sync` finds it Ready."""
        add_pod(self.kube, "agent", waiting(""), node=node, revision=2, daemon=True)

    def _note_fewest(self) -> None:
        self.fewest = min(self.fewest, sum(map(_ready, self.pods())))

    def _count(self, revision: int, strategy: Any = None) -> None:
        pods = self.pods()
        ready = sum(map(_ready, pods))
        updated = len({each["spec"]["nodeName"] for each in pods if _hash(each) == f"hash-{revision}"})
        add_daemonset(
            self.kube,
            desired=len(UP) + 1,
            revision=revision,
            generation=revision,
            updatedNumberScheduled=updated,
            numberReady=ready,
            numberAvailable=ready,
        )
        found: Any = self.kube.get(WORKLOADS["DaemonSet"], "agent", NAMESPACE)
        found["spec"]["updateStrategy"] = strategy or {}
        self.kube.put(WORKLOADS["DaemonSet"], found)


def past_once(kube: FakeKube, past: PastDownNodes) -> None:
    """One reading, as the wait makes it."""
    found = find_workload(kube, AGENT)
    assert found is not None
    past(found, read_found(kube, Workload.parse("DaemonSet", found), found))


def _hash(pod: Any) -> str:
    return str(pod["metadata"]["labels"]["controller-revision-hash"])


def _ends(pod: Any) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _ready(pod: Any) -> bool:
    return bool(pod) and not _ends(pod) and pod["status"]["conditions"][0]["status"] == "True"


@pytest.fixture
def cluster() -> Cluster:
    """Three nodes that are up, and one that has been down since before the run."""
    cluster = Cluster()
    cluster.helm.install("app", yaml.safe_dump(rolling()))
    return cluster


def applied(cluster: Cluster, step: ChartStep, change: Callable[[], None]) -> None:
    """Apply it, where Helm's part is `change`."""
    upgrade = cluster.helm.upgrade

    def changing(*given: Any, **named: Any) -> Any:
        change()
        return upgrade(*given, **named)

    cluster.helm.upgrade = changing  # type: ignore[method-assign]
    step.apply(cluster.notes.append)


def test_rollout_gets_past_a_worker_that_was_down_before(cluster: Cluster) -> None:
    """Helm doesn't wait, and what does replaces the pods of the others, never more at once than the DaemonSet allows.
    The worker is named, and its dead pod is all that is left.
    """
    applied(cluster, cluster.step(), cluster.change)
    assert cluster.helm.calls == ["upgrade app without waiting"]
    assert cluster.newest() == set(UP)
    assert cluster.fewest == len(UP) - 1
    assert f"{DOWN} is down: this step, not Helm, waits for the other pods" in cluster.notes[0]
    assert f"{DOWN} is down, and uses up the DaemonSet's maxUnavailable" in cluster.notes[1]


@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize("allowed", [1, 2])
@pytest.mark.parametrize("dead", [1, 2])
def test_never_more_up_nodes_than_allowed_are_without_a_pod(included: bool, allowed: int, dead: int) -> None:
    """In every state of four nodes that are up, and whether the controller counts those that are down or not: it does
    only where the pods tolerate their taint.
    """
    up, down = [f"up-{number}" for number in range(4)], [f"down-{number}" for number in range(dead)]
    for states in product(("old", "new", "starting", "ending", "none"), repeat=len(up)):
        kube = FakeKube()
        for name in down:
            add_down_node(kube, name)
            add_pod(kube, "agent", waiting(""), node=name, daemon=True)
        for name, state in zip(up, states, strict=True):
            add_node(kube, name)
            if state != "none":
                containers = [waiting("")] if state == "starting" else []
                revision = 2 if state in ("new", "starting") else 1
                more: Any = {"revision": revision, "deleting": state == "ending"}
                add_pod(kube, "agent", *containers, node=name, daemon=True, **more)
        ready = sum(state in ("old", "new") for state in states)
        desired = len(up) + (dead if included else 0)
        add_daemonset(kube, desired=desired, revision=2, numberReady=ready, numberAvailable=ready)
        found: Any = kube.get(WORKLOADS["DaemonSet"], "agent", NAMESPACE)
        found["spec"]["updateStrategy"] = {"rollingUpdate": {"maxUnavailable": allowed}}
        kube.put(WORKLOADS["DaemonSet"], found)
        before = len(kube.list(PODS))
        past_once(kube, PastDownNodes(kube, AGENT, down, lambda _: None))
        deleted = before - len(kube.list(PODS))
        room = max(0, allowed - (len(up) - ready)) if dead >= allowed else 0
        assert deleted == min(room, states.count("old")), (states, included)


def test_a_daemon_sets_pods_are_read_once_in_each_round(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a node is down, what takes the rollout past it and what judges the rollout see the same pods."""
    cluster.change()
    wait = cluster.workers().upgrading(yaml.safe_dump(rolling()), NAMESPACE)
    assert wait is not None
    read, rounds = list[str](), 0
    real = cluster.kube.list

    def listed(kind: Any, namespace: str = "", **more: Any) -> Any:
        read.append(kind.plural)
        return real(kind, namespace, **more)

    def watch() -> None:
        nonlocal rounds
        rounds += 1
        with monkeypatch.context() as away:
            away.setattr(cluster.kube, "list", real)
            cluster.sync()

    monkeypatch.setattr(cluster.kube, "list", listed)
    wait(60.0, watch, cluster.notes.append)
    assert read.count("pods") == read.count("daemonsets") == rounds
    assert cluster.newest() == set(UP)


@pytest.mark.parametrize("dead", [1, 5])
def test_a_manifest_is_read_once_for_all_that_are_down(dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands may be."""
    cluster = Cluster(down={f"dead-{number}" for number in range(dead)})
    read = list[str]()

    def objects(manifest: str) -> Any:
        read.append(manifest)
        return objects_in(manifest)

    monkeypatch.setattr(manifest_workloads, "objects_in", objects)
    assert cluster.workers().upgrading(yaml.safe_dump(rolling()), NAMESPACE) is not None
    assert len(read) == 3


@pytest.mark.parametrize("strategy", [{"maxSurge": 1, "maxUnavailable": 0}, {"maxUnavailable": 1}])
def test_pods_of_a_node_that_came_back_are_its_controllers(cluster: Cluster, strategy: dict[str, Any]) -> None:
    """Its old pod works again, and is replaced like any other: with a surge, only beside its successor."""
    cluster.change(**strategy)
    add_node(cluster.kube, DOWN)
    past = PastDownNodes(cluster.kube, AGENT, [DOWN], cluster.notes.append)
    past_once(cluster.kube, past)
    add_pod(cluster.kube, "agent", node=DOWN, daemon=True)
    past_once(cluster.kube, past)
    add_down_node(cluster.kube, DOWN)
    past_once(cluster.kube, past)
    assert len(cluster.pods()) == len(UP) + 1 and not cluster.notes


def test_rollout_that_its_controller_continues_is_left_to_it(cluster: Cluster) -> None:
    """Where maxUnavailable is larger than the number of dead nodes, nothing is deleted by us: the two might delete more
    than is allowed.
    """
    applied(cluster, cluster.step(), lambda: cluster.change(maxUnavailable=2))
    assert cluster.newest() == set(UP) and cluster.fewest == len(UP) - 1
    assert len(cluster.notes) == 1


def test_surge_gets_past_it(cluster: Cluster) -> None:
    """The new pod beside the dead one is waited for by the controller as long as the dead one isn't deleted; nowhere is
    a pod missing meanwhile.
    """
    applied(cluster, cluster.step(), lambda: cluster.change(maxSurge=1, maxUnavailable=0))
    assert cluster.newest() == set(UP) and cluster.fewest == len(UP)


def test_rollout_on_delete_is_left_alone(cluster: Cluster) -> None:
    """Somebody else decides when these pods are replaced; what is missing in the end is said."""

    def change() -> None:
        cluster.change()
        found: Any = cluster.kube.get(WORKLOADS["DaemonSet"], "agent", NAMESPACE)
        found["spec"]["updateStrategy"] = {"type": "OnDelete"}
        cluster.kube.put(WORKLOADS["DaemonSet"], found)

    step = replace(cluster.step(), watcher=Watch)
    with pytest.raises(WorkloadFailed, match=f"waited 60 s, ignoring {DOWN}"):
        applied(cluster, step, change)
    assert len(cluster.pods()) == len(UP) + 1 and cluster.newest() == set()


def test_new_pods_that_do_not_work_fail_the_step_and_take_one_node_only(cluster: Cluster) -> None:
    """As of Helm's own wait, and no further pod is replaced; then the rollback needs no pod of the dead worker."""
    cluster.broken = True
    step = cluster.step()
    with pytest.raises(WorkloadFailed, match=r"DaemonSet kube-system/agent: .*"):
        applied(cluster, step, cluster.change)
    assert cluster.fewest == len(UP) - 1


def test_worker_that_goes_down_meanwhile_counts(cluster: Cluster) -> None:
    """It was healthy before the run, and so has to be in the end: the step fails, and names its pod."""

    def change() -> None:
        cluster.change()
        cluster.down.add("worker-3")
        add_down_node(cluster.kube, "worker-3")
        cluster.kube.delete(PODS, "agent-1-worker-3", NAMESPACE)
        add_pod(cluster.kube, "agent", waiting(""), node="worker-3", daemon=True)

    with pytest.raises(WorkloadFailed, match="node worker-3 went down in the meantime"):
        applied(cluster, cluster.step(), change)


def test_worker_that_comes_and_goes_does_not_count(cluster: Cluster) -> None:
    """One that wasn't healthy before, and is up at the moment at which the wait begins."""
    step = replace(cluster.step(), down=cluster.workers("worker-1"))

    def change() -> None:
        cluster.change()
        cluster.down.add("worker-3")
        add_down_node(cluster.kube, "worker-3")
        cluster.kube.delete(PODS, "agent-1-worker-3", NAMESPACE)
        add_pod(cluster.kube, "agent", waiting(""), node="worker-3", daemon=True)

    applied(cluster, step, change)
    assert cluster.newest() == {"controller-1", "worker-1"}


def test_undo_does_without_a_worker_that_goes_down_in_it(cluster: Cluster) -> None:
    """Even one that was healthy before the run."""
    cluster.helm.install("app", "v: 2\n")
    cluster.change()
    rollback = cluster.helm.rollback

    def losing(*given: Any, **named: Any) -> Any:
        cluster.down.add("worker-3")
        add_down_node(cluster.kube, "worker-3")
        cluster.kube.delete(PODS, "agent-1-worker-3", NAMESPACE)
        add_pod(cluster.kube, "agent", waiting(""), node="worker-3", daemon=True)
        return rollback(*given, **named)

    cluster.helm.rollback = losing  # type: ignore[method-assign]
    cluster.step().undo(RestorePoint("app", NAMESPACE, 1), cluster.notes.append)
    assert cluster.newest() == {"controller-1", "worker-1"}


def running_out(cluster: Cluster, tainted_after: float, *, lost: str = "worker-3") -> None:
    """Let a worker die as Helm begins to roll back, and so Helm's wait run out; its taint comes later."""
    rollback, dies = cluster.helm.rollback, cluster.clock.monotonic()

    def watched(watch: Callable[[], None]) -> None:
        if cluster.clock.monotonic() - dies >= tainted_after and lost:
            add_down_node(cluster.kube, lost)
        watch()

    def rolling_back(*given: Any, timeout_seconds: float, watch: Callable[[], None], wait: bool = True) -> Any:
        if not wait:
            return rollback(*given, timeout_seconds=timeout_seconds, watch=lambda: watched(watch), wait=False)
        cluster.helm.calls.append("rollback app 1")
        if lost:
            cluster.down.add(lost)
            cluster.kube.delete(PODS, f"agent-1-{lost}", NAMESPACE)
            add_pod(cluster.kube, "agent", waiting(""), node=lost, daemon=True)
        for _ in range(int(timeout_seconds)):
            cluster.clock.sleep(1.0)
            watched(watch)
        cluster.helm.install("app", yaml.safe_dump(rolling()), "failed")
        raise HelmError("Helm failed on release 'app': context deadline exceeded")

    cluster.helm.rollback = rolling_back  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("tainted_after", [45.0, 90.0])
def test_undo_whose_worker_dies_before_its_taint_is_judged_without_it(tainted_after: float) -> None:
    """Helm waits, as nothing says that the worker is down; once its wait has run out, that is known, or soon is. The
    revision that Helm left as failed isn't the last one.
    """
    cluster = Cluster(down=set())
    cluster.helm.install("app", yaml.safe_dump(rolling()))
    cluster.helm.install("app", "v: 2\n")
    cluster.change()
    running_out(cluster, tainted_after)
    died = cluster.clock.monotonic()

    def watch() -> None:
        if cluster.clock.monotonic() - died >= tainted_after:
            add_down_node(cluster.kube, "worker-3")
        cluster.sync()

    step = replace(cluster.step(down=cluster.workers("worker-1", DOWN, "worker-3")), undo_watch=watch)
    step.undo(RestorePoint("app", NAMESPACE, 1), cluster.notes.append)
    assert cluster.helm.calls == ["rollback app 1", "rollback app 1 without waiting"]
    assert cluster.newest() == {"controller-1", "worker-1", DOWN}
    assert cluster.helm.history("app", NAMESPACE)[-1].status == "deployed"
    (told,) = [note for note in cluster.notes if "worker-3 is down" in note and "Helm" in note]
    assert "context deadline exceeded" in told


def test_run_whose_rollback_loses_a_worker_is_rolled_back() -> None:
    """And not failed: the control plane is as it was, with the gates of a rollback behind it; the worker is named."""
    cluster = Cluster(down=set())
    cluster.kube.raw_answers["/readyz"] = "ok"
    secret = {"name": "sh.helm.release.v1.app.v1", "labels": {"owner": "helm", "name": "app"}}
    cluster.kube.put(SECRETS, {"metadata": secret}, NAMESPACE)
    cluster.helm.install("app", yaml.safe_dump(rolling()))
    running_out(cluster, 0.0)
    told = list[str]()

    class Never:
        """A gate that finds the new revision wrong."""

        name = "rollout"

        def check(self) -> Verdict:
            return broken("the new one answers nothing")

    class Told:
        """What the run says."""

        def emit(self, event: Event) -> None:
            told.extend([event.text] if isinstance(event, Note) else [])

    runner = Runner(
        kube=cluster.kube,
        clock=cluster.clock,
        reporter=Told(),
        stop=StopRequest(),
        recovery=FakeRecovery(cluster.kube),
        patience_seconds=60.0,
    )
    before = cluster.helm.manifests["app", 1]
    step = replace(cluster.step(down=cluster.workers(DOWN, *UP[1:])), before=before)
    item = PipelineStep(step, (GateRun(Never(), GatePolicy()),), ())
    upgrade = cluster.helm.upgrade

    def upgraded(*given: Any, **named: Any) -> Any:
        written = upgrade(*given, **named)
        cluster.change()
        return written

    cluster.helm.upgrade = upgraded  # type: ignore[method-assign]
    result = runner.run(Pipeline((item,)), RunStarted("r1", RunKind.UPGRADE, ("app",), "/tmp/r1"))
    assert result.outcome == "rolled-back" and "the new one answers nothing" in result.reason
    assert any("worker-3 is down now" in text for text in told)


@pytest.mark.parametrize(("kind", "dead"), [("DaemonSet", ()), ("Deployment", ()), ("Deployment", (DOWN,))])
def test_undo_that_no_dead_worker_keeps_fails_as_helm_says(kind: str, dead: tuple[str, ...]) -> None:
    """And soon: a worker that has died has its taint within a minute. One that lacks no pod of the release, as the
    Deployment's two run on others, isn't the cause.
    """
    cluster = Cluster(down=set(dead))
    add_deployment(cluster.kube, "agent", replicas=2, readyReplicas=1)
    for name, state in (("worker-1", running()), ("worker-3", waiting("ImagePullBackOff"))):
        add_pod(cluster.kube, "agent", state, node=name, name=f"agent-of-set-{name}")
    cluster.helm.install("app", yaml.safe_dump({**rolling(), "kind": kind}))
    cluster.helm.install("app", "v: 2\n")
    running_out(cluster, 0.0, lost="")
    began = cluster.clock.monotonic()
    with pytest.raises(HelmError, match="context deadline exceeded"):
        replace(cluster.step(), undo_watch=lambda: None).undo(RestorePoint("app", NAMESPACE, 1), cluster.notes.append)
    assert cluster.helm.calls == ["rollback app 1"]
    assert cluster.clock.monotonic() - began <= 60.0 + 65.0


def test_undo_that_helm_refuses_at_once_fails_at_once() -> None:
    """Without a wait that ran out, no worker is to blame."""
    cluster = Cluster(down=set())
    cluster.helm.install("app", yaml.safe_dump(rolling()))
    cluster.helm.install("app", "v: 2\n")
    cluster.helm.fail_rollback["app"] = HelmError("Helm failed on release 'app': no such revision")
    began = cluster.clock.monotonic()
    with pytest.raises(HelmError, match="no such revision"):
        cluster.step().undo(RestorePoint("app", NAMESPACE, 1), cluster.notes.append)
    assert cluster.clock.monotonic() == began and cluster.helm.calls == ["rollback app 1"]


def test_upgrade_that_fails_names_the_worker_that_went_down_in_it(cluster: Cluster) -> None:
    """Helm only says that it waited too long."""
    late = HelmError("Helm failed on release 'app': context deadline exceeded")
    step = replace(cluster.step(), down=cluster.workers(DOWN, *UP[1:]), watcher=Watch)
    cluster.helm.fail_upgrade["app"] = late
    with pytest.raises(StepFailed, match=rf"context deadline exceeded[^$]*node {DOWN} went down in the meantime"):
        step.apply(cluster.notes.append)


def test_worker_that_went_down_in_the_run_is_waited_for_by_helm_as_ever(cluster: Cluster) -> None:
    """Only a rollback does without it."""
    step = replace(cluster.step(), down=cluster.workers(DOWN, *UP[1:]))
    applied(cluster, replace(step, watcher=Watch), cluster.change)
    assert cluster.helm.calls == ["upgrade app"]
    cluster.kube.delete(PODS, f"agent-1-{DOWN}", NAMESPACE)
    step.undo(RestorePoint("app", NAMESPACE, 1), cluster.notes.append)
    assert cluster.helm.calls[-1] == "rollback app 1 without waiting"
    assert f"{DOWN} is down: this step, not Helm, waits for the other pods of release app" in cluster.notes


def test_undo_is_waited_for_without_it(cluster: Cluster) -> None:
    """The rollback's own rollout stops at the dead worker as well, and is taken past it; so it is when an earlier
    process had Helm roll back, and then ended.
    """
    step, point = cluster.step(), RestorePoint("app", NAMESPACE, 1)
    cluster.helm.install("app", "v: 2\n")
    cluster.change()
    step.undo(point, cluster.notes.append)
    assert cluster.newest() == set(UP) and cluster.fewest == len(UP) - 1
    again = Cluster(helm=cluster.helm)
    again.change()
    again.step().undo(point, again.notes.append)
    assert again.newest() == set(UP) and cluster.helm.calls == ["rollback app 1 without waiting"]


def test_release_for_controllers_is_waited_for_by_helm(cluster: Cluster) -> None:
    """What wants no pod on a dead worker is as before; so is everything where nothing is known of the workers."""
    pinned = {"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}
    manifest = rolling()
    manifest["spec"]["template"]["spec"] = pinned
    assert cluster.workers().upgrading(yaml.safe_dump(manifest), NAMESPACE) is None
    assert cluster.workers().upgrading("kind: ConfigMap\nmetadata: {name: a}\n", NAMESPACE) is None
    unknown = DownWorkers(cluster.kube, cluster.clock, {"controller-1"})
    assert unknown.upgrading(yaml.safe_dump(rolling()), NAMESPACE) is None
    controller = DownWorkers(cluster.kube, cluster.clock, {DOWN}, ())
    assert controller.upgrading(yaml.safe_dump(rolling()), NAMESPACE) is None


def test_node_that_is_only_not_ready_is_waited_for(cluster: Cluster) -> None:
    """Its kubelet reports, and can start pods; and a silence that nobody has judged yet is none."""
    for ready in ("False", "Unknown"):
        add_node(cluster.kube, DOWN, conditions={"Ready": ready})
        assert cluster.workers().upgrading(yaml.safe_dump(rolling()), NAMESPACE) is None


def test_refusal_to_delete_is_told_once(cluster: Cluster) -> None:
    """Without the right, a run says so, and its wait ends with what is missing."""
    refused = ApiError("cannot delete pods")
    refused.status = 403
    delete = cluster.kube.delete

    def refuse(kind: Any, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        raise refused

    def sync() -> None:
        cluster.kube.delete = delete  # type: ignore[method-assign]
        cluster.sync()
        cluster.kube.delete = refuse  # type: ignore[method-assign]

    step = replace(cluster.step(), watcher=Watch).watched(sync)
    with pytest.raises(StepFailed):
        applied(cluster, step, cluster.change)
    assert len([note for note in cluster.notes if "cannot delete pods" in note]) == 1


@pytest.mark.parametrize("status", [409, 422, 429, 500])
def test_refusal_that_lasts_is_told_once(cluster: Cluster, status: int) -> None:
    """The server's own words, whatever it refuses by; what passes at once is no news."""
    cluster.change()
    delete = cluster.kube.delete

    def refuse(kind: Any, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        refused = ApiError(f"{name}: a webhook says no")
        refused.status = status
        raise refused

    past = PastDownNodes(cluster.kube, AGENT, [DOWN], cluster.notes.append)
    cluster.kube.delete = refuse  # type: ignore[method-assign]
    past_once(cluster.kube, past)
    assert not cluster.notes
    for _ in range(3):
        past_once(cluster.kube, past)
    (note,) = cluster.notes
    assert note.endswith("can't be deleted: agent-1-controller-1: a webhook says no")
    cluster.kube.delete = delete  # type: ignore[method-assign]
    past_once(cluster.kube, past)
    assert len(cluster.notes) == 2


def test_release_that_helm_left_pending_is_freed_without_it(cluster: Cluster) -> None:
    """Helm's rollback would wait for the dead worker like its upgrade."""
    cluster.helm.install("app", "v: 2\n", "pending-upgrade", updated=cluster.clock.now())
    cluster.clock.sleep(10_000)
    for name in UP:
        add_pod(cluster.kube, "agent", node=name, revision=2, daemon=True, name=f"agent-1-{name}")
    cluster.change()
    free = FreeReleaseStep("app", NAMESPACE, cluster.helm, cluster.clock, 60.0, cluster.workers())
    free.apply(cluster.notes.append)
    assert cluster.helm.calls == ["rollback app 1 without waiting"]


def test_interrupted_step_is_applied_again(cluster: Cluster) -> None:
    """Helm had written all when the process ended that was to wait in its place: nobody knows what became of it."""
    values = rolling()
    spec = ReleaseSpec("app", NAMESPACE, Path("/charts/app"), values)
    point = RestorePoint("app", NAMESPACE, 1)
    inspector = ReleaseInspector(spec, cluster.helm, cluster.clock, 60.0, cluster.workers())
    found = inspector.inspect(point)
    assert not found.applied and f"but {DOWN} is down: Helm hasn't waited" in found.found
    add_node(cluster.kube, DOWN)
    assert inspector.inspect(point).applied


def test_revision_of_a_killed_wait_is_none_to_go_back_to(cluster: Cluster) -> None:
    """Helm calls it deployed from the beginning. A new run plans the change again, from the revision that was healthy,
    and goes back to that one; once the step has passed, to what it made.
    """

    class Killed(BaseException):
        """The process is gone."""

    def kill() -> None:
        raise Killed

    def manifest(spec: ReleaseSpec) -> IntendedRelease:
        return IntendedRelease(spec, yaml.safe_dump(dict(spec.values)))

    step = cluster.step()
    point = step.capture()
    began = StepState("app", "applying", restore_point=point)
    upgrade = cluster.helm.upgrade

    def upgraded(*given: Any, **named: Any) -> Any:
        upgrade(*given, **named)
        kill()

    cluster.helm.upgrade = upgraded  # type: ignore[method-assign]
    with pytest.raises(Killed):
        step.apply(cluster.notes.append)
    assert [each.status for each in cluster.helm.history("app", NAMESPACE)] == ["superseded", "deployed"]
    cases: list[tuple[StepPhase, int, str]] = [
        ("applying", 1, "upgrade"),
        ("undo-failed", 1, "upgrade"),
        ("passed", 2, "unchanged"),
    ]
    for phase, revision, action in cases:
        helm = HelmAsSeen(cluster.helm, partial(tuple, [RunState(run="r", steps=(replace(began, phase=phase),))]))
        observed = Observed(KubernetesVersion(1, 36, 3), {}, {"app": observe_release(helm, step.spec)})
        planned = manifest(step.spec).planned(observed)
        assert (planned.action, planned.revision) == (action, revision)
        again = replace(step, helm=helm, before=planned.before).capture()
        assert again == RestorePoint("app", NAMESPACE, revision)

"""Events on the objects that a run changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.engine.state.run_state import RunState
from upgrader.gates.kubernetes_kinds import EVENTS, NODES, WORKLOADS
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.model.event import Event, StepEnded, StepStarted, UndoEnded, UndoStarted
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.release import NodeBefore, RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import WorkloadRef
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.reporting.observability.object_events import ObjectEvents, workloads_of
from upgrader.steps.verify import VerifyStep

API = WorkloadRef("Deployment", "kube-system", "kube-apiserver")
POINT = RestorePoint("kube-apiserver", "kube-system", 1)
STARTED = StepStarted("kube-apiserver", "v1.36.3 → v1.37.1", POINT)


def cluster(nodes: int = 0) -> FakeKube:
    """With kube-apiserver's Deployment and some nodes."""
    kube = FakeKube()
    metadata = {"name": API.name, "namespace": API.namespace, "uid": "u1"}
    kube.put(WORKLOADS["Deployment"], {"metadata": metadata}, API.namespace)
    for number in range(nodes):
        kube.put(NODES, {"metadata": {"name": f"n{number}", "uid": f"node-{number}"}})
    return kube


def told(kube: FakeKube, events: Sequence[Event], notes: list[str] | None = None) -> list[Any]:
    """The Events in the cluster after a run's, oldest first."""
    observer = ObjectEvents(
        RunState(run="r1"),
        kube,
        {"kube-apiserver": (API,)},
        clock=FakeClock(),
        note=(notes if notes is not None else []).append,
    )
    for event in events:
        observer.emit(event)
    observer.end()
    observer.close(60)
    kube.unavailable = False
    return sorted(kube.list(EVENTS), key=lambda item: int(item["metadata"]["resourceVersion"]))


def test_a_step_that_fails_and_is_undone() -> None:
    """`kubectl describe` of the Deployment shows what was done to it, when and why."""
    failed = StepEnded("kube-apiserver", "failed", 9.0, "unknown flag: --nope")
    found = told(
        cluster(),
        [STARTED, failed, UndoStarted("kube-apiserver", "revision 1"), UndoEnded("kube-apiserver", True, 3.0)],
    )
    assert [(item["reason"], item["type"]) for item in found] == [
        ("UpgradeStarted", "Normal"),
        ("UpgradeFailed", "Warning"),
        ("RollbackStarted", "Normal"),
        ("RollbackPassed", "Normal"),
    ]
    assert found[1]["message"] == "upgrader, run r1: step kube-apiserver failed: unknown flag: --nope"
    about = found[0]["involvedObject"]
    assert about == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "kube-apiserver",
        "namespace": "kube-system",
        "uid": "u1",
    }
    assert found[0]["metadata"]["namespace"] == "kube-system"


def test_nodes() -> None:
    """The nodes of a pool have events too, but never more than twenty of them."""
    version = KubernetesVersion(1, 36, 3)
    point = RestorePoint("", "", nodes=tuple(NodeBefore(f"n{number}", version) for number in range(50)))
    found = told(cluster(50), [StepStarted("nodes-workers", "v1 → v2", point)])
    assert len(found) == 20
    assert {(item["involvedObject"]["kind"], item["metadata"]["namespace"]) for item in found} == {("Node", "default")}


def test_the_same_once_more_is_counted() -> None:
    """A step that is begun again, by a process that resumes the run, has one event with a count."""
    (event,) = told(cluster(), [STARTED, STARTED])
    assert event["count"] == 2


def test_step_without_a_change() -> None:
    """A step that has nothing to undo touches no object, and so tells of none; one that is gone neither."""
    verified = StepStarted("kube-apiserver", "unchanged", None)
    assert told(cluster(), [verified, StepEnded("kube-apiserver", "passed", 1.0)]) == []
    assert told(FakeKube(), [STARTED]) == []


def test_api_that_does_not_answer() -> None:
    """It costs the run one note, and nothing else."""
    kube, notes = cluster(), list[str]()
    kube.unavailable = True
    assert told(kube, [STARTED, StepEnded("kube-apiserver", "failed", 9.0, "x" * 5000)], notes) == []
    assert len(notes) == 1 and "but the run continues" in notes[0]


def test_text_of_others_is_cut() -> None:
    """The API refuses longer messages."""
    found = told(cluster(), [STARTED, StepEnded("kube-apiserver", "failed", 9.0, "x" * 5000)])
    assert len(found[1]["message"]) == 1000


def test_workloads_of_a_pipeline() -> None:
    """Those that a step's undo brings back; of a new release, what it installs; none of a step that changes nothing."""
    kube = cluster()
    old, new = (GateRun(RolloutGate(kube, replace(API, name=name)), GatePolicy()) for name in ("old", "new"))
    steps = (
        PipelineStep(VerifyStep("changed"), (old, new), (old,)),
        PipelineStep(VerifyStep("installed"), (new,), ()),
        PipelineStep(VerifyStep("unchanged"), (new,), (old,), changes=False),
    )
    assert workloads_of(Pipeline(steps)) == {
        "changed": (replace(API, name="old"),),
        "installed": (replace(API, name="new"),),
        "unchanged": (),
    }

"""Events of a run on a real API server: it takes them, and whoever describes the objects finds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from testkit.api_servers import ApiServers, api_servers
from testkit.fakes.clock import FakeClock
from testkit.lab_cluster import OLD
from upgrader.adapters.kube import KubeAdapter
from upgrader.engine.state.run_state import RunState
from upgrader.gates.kubernetes_kinds import EVENTS, NODES, WORKLOADS
from upgrader.model.event import Event, StepEnded, StepStarted, UndoEnded, UndoStarted
from upgrader.model.release import NodeBefore, RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import WorkloadRef
from upgrader.ports import Kube, KubeObject
from upgrader.reporting.observability.object_events import ObjectEvents

pytestmark = pytest.mark.contract

WEB = WorkloadRef("Deployment", "default", "web")
BEFORE = NodeBefore("worker-1", KubernetesVersion(1, 36, 3))
STARTED = StepStarted("web", "v1 → v2", RestorePoint("web", "default", 1, nodes=(BEFORE,)))
STORY = (
    STARTED,
    StepEnded("web", "failed", 9.0, f"unknown flag: --nope {'x' * 5000}"),
    UndoStarted("web", "revision 1"),
    UndoEnded("web", True, 3.0),
)
REASONS = ["UpgradeStarted", "UpgradeFailed", "RollbackStarted", "RollbackPassed"]
NOBODY = "nobody-special"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServers]:
    """With an empty etcd, and a user without any right."""
    with api_servers(tmp_path_factory.mktemp("events"), NOBODY) as found:
        yield found


@pytest.fixture(scope="module")
def kube(servers: ApiServers) -> Iterator[KubeAdapter]:
    """A real API with a Deployment and a node."""
    with servers.serving(OLD) as found:
        labels = {"app": "web"}
        pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
        spec = {"selector": {"matchLabels": labels}, "template": pods}
        found.create(WORKLOADS["Deployment"], _named("apps/v1", "Deployment", WEB.name, spec=spec), WEB.namespace)
        found.create(NODES, _named("v1", "Node", BEFORE.node))
        yield found


def _named(version: str, kind: str, name: str, **more: object) -> KubeObject:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def tell(kube: Kube, run: str, events: Sequence[Event]) -> list[str]:
    """Write the Events of a run; what was noted of failures."""
    notes: list[str] = []
    observer = ObjectEvents(RunState(run=run), kube, {"web": (WEB,)}, clock=FakeClock(), note=notes.append)
    for event in events:
        observer.emit(event)
    observer.end()
    observer.close(60)
    return notes


def described(kube: KubeAdapter, run: str, kind: str, name: str) -> list[KubeObject]:
    """The Events that `kubectl describe` shows of an object, by the same selector: those of a run, oldest first."""
    fields = f"involvedObject.kind={kind},involvedObject.name={name}"
    found = [item for item in kube.list(EVENTS, fields=fields) if f"run {run}:" in item["message"]]
    return sorted(found, key=lambda item: int(item["metadata"]["resourceVersion"]))


def test_whoever_describes_the_objects_finds_them(kube: KubeAdapter) -> None:
    """Each of them on the Deployment and on the node, with the text cut to what the API takes."""
    assert tell(kube, "r1", STORY) == []
    of_web, of_node = described(kube, "r1", "Deployment", "web"), described(kube, "r1", "Node", "worker-1")
    assert [item["reason"] for item in of_web] == [item["reason"] for item in of_node] == REASONS
    uid = (kube.get(WORKLOADS["Deployment"], "web", "default") or {})["metadata"]["uid"]
    assert {item["involvedObject"]["uid"] for item in of_web} == {uid}
    assert [item["type"] for item in of_web] == ["Normal", "Warning", "Normal", "Normal"]


def test_the_same_once_more_is_counted(kube: KubeAdapter) -> None:
    """A step that is begun again, by a process that resumes the run, has one Event with a count."""
    assert tell(kube, "r2", (STARTED,)) == tell(kube, "r2", (STARTED,)) == []
    (event,) = described(kube, "r2", "Deployment", "web")
    assert event["count"] == 2


def test_credentials_without_the_right(kube: KubeAdapter, servers: ApiServers) -> None:
    """The API's refusal costs the run one note, which says what is forbidden, and nothing else."""
    assert kube.raw("/readyz") == "ok"
    powerless = KubeAdapter(servers.kubeconfig(NOBODY))
    try:
        (note,) = tell(powerless, "r3", STORY)
    finally:
        powerless.close()
    assert "but the run continues" in note and "forbidden" in note
    assert described(kube, "r3", "Deployment", "web") == []

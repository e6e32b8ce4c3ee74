"""The step that has nodes which join later configured like the others, and its gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError, ApiUnavailable, StepFailed
from upgrader.gates.kubelet_config_gate import KubeletConfigGate
from upgrader.model.kubelet_config import BEFORE
from upgrader.model.outcome import VerdictKind
from upgrader.model.release import RestorePoint
from upgrader.ports import Kind, KubeObject
from upgrader.steps.kubelet_config.step import KubeletConfigStep

CONFIG_MAPS = Kind("v1", "configmaps")
HEAD = "# kubeadm's\nkind: KubeletConfiguration\n"
TEXT = HEAD + "authentication:\n  anonymous: {enabled: false}\nclusterDNS: [10.96.0.10]\n"
FIELDS = {"maxPods": 150, "authentication": {"webhook": {"enabled": True}}}


class Api(FakeKube):
    """Each patch is refused; or another client writes the ConfigMap right before the first one."""

    refused: ApiError | None = None
    meanwhile: str = ""

    def patch(
        self, kind: Kind, name: str, changes: KubeObject, namespace: str = "", *, subresource: str = ""
    ) -> KubeObject:
        if self.refused is not None:
            raise self.refused
        if self.meanwhile:
            write(self, self.meanwhile)
            self.meanwhile = ""
        return super().patch(kind, name, changes, namespace, subresource=subresource)


def write(kube: FakeKube, text: str, **more: Any) -> None:
    """Let kubeadm's ConfigMap be this; its annotations stay."""
    before = kube.get(CONFIG_MAPS, "kubelet-config", "kube-system") or {"metadata": {}}
    metadata = {**before["metadata"], "name": "kubelet-config", "namespace": "kube-system"}
    kube.put(CONFIG_MAPS, {"metadata": metadata, "data": {"kubelet": text}, **more})


def read(kube: FakeKube) -> str:
    """Its text."""
    found = kube.get(CONFIG_MAPS, "kubelet-config", "kube-system")
    assert found is not None
    return str(found["data"]["kubelet"])


def kept(kube: FakeKube) -> Mapping[str, str]:
    """What it has of ours."""
    found = kube.get(CONFIG_MAPS, "kubelet-config", "kube-system")
    assert found is not None
    return found["metadata"].get("annotations") or {}


@pytest.fixture
def kube() -> Api:
    """A cluster that kubeadm made."""
    made = Api()
    write(made, TEXT)
    return made


def step(kube: FakeKube, fields: Mapping[str, Any] = FIELDS) -> KubeletConfigStep:
    """Of these fields."""
    return KubeletConfigStep(kube, FakeClock(), fields)


def test_it_is_written_undone_and_safe_to_repeat(kube: Api) -> None:
    """Mappings are merged, and all else stays; the undo brings every byte back, comments too, however often either is
    done, and by a process that knows no fields any more.
    """
    notes: list[str] = []
    point = step(kube).capture()
    for _ in range(2):
        step(kube).apply(notes.append)
        assert yaml.safe_load(read(kube)) == {
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
            "clusterDNS": ["10.96.0.10"],
            "maxPods": 150,
        }
    assert notes == ["changed: maxPods, authentication.webhook", "it has all fields"]
    for _ in range(2):
        step(kube, {}).undo(point, notes.append)
        assert read(kube) == TEXT
    assert BEFORE not in kept(kube) or kept(kube)[BEFORE] is None


def test_undo_goes_back_to_its_own_run_only(kube: Api) -> None:
    """An earlier run's text is still kept; a later run that wrote nothing has nothing to bring back."""
    step(kube).apply(lambda line: None)
    now, notes = read(kube), list[str]()
    later = step(kube, {"maxPods": 200})
    point = later.capture()
    later.undo(point, notes.append)
    assert (read(kube), notes) == (now, ["it is unchanged"])
    later.apply(lambda line: None)
    later.undo(point, notes.append)
    assert read(kube) == now


def test_what_somebody_else_wrote_since_is_not_overwritten(kube: Api) -> None:
    """The undo leaves it, and says so: the control plane must not stay at a version that failed for it."""
    point = step(kube).capture()
    step(kube).apply(lambda line: None)
    theirs = read(kube) + "podPidsLimit: 100\n"
    write(kube, theirs)
    notes: list[str] = []
    step(kube).undo(point, notes.append)
    assert read(kube) == theirs
    assert "ConfigMap kube-system/kubelet-config was changed by another client since" in notes[0]
    write(kube, theirs, immutable=True)
    step(kube).apply(notes.append)
    assert notes[-1] == "it has all fields"


def test_what_another_client_writes_at_the_same_moment_is_kept(kube: Api) -> None:
    """Their text is read again, and changed in turn."""
    kube.meanwhile = "kind: KubeletConfiguration\nmaxPods: 10\ntheirs: 1\n"
    step(kube, {"maxPods": 150}).apply(lambda line: None)
    assert read(kube) == "kind: KubeletConfiguration\nmaxPods: 150\ntheirs: 1\n"


@pytest.mark.parametrize("text", [None, "", "a: 1", "kind: [", "[]"])
def test_one_that_is_gone_or_unreadable_fails_the_step_but_not_its_undo(kube: Api, text: str | None) -> None:
    """Nothing is written over what nobody understands."""
    if text is None:
        kube.delete(CONFIG_MAPS, "kubelet-config", "kube-system")
    else:
        write(kube, text)
    for work in (step(kube).capture, lambda: step(kube).apply(lambda line: None)):
        with pytest.raises(StepFailed, match="ConfigMap kube-system/kubelet-config"):
            work()
    notes: list[str] = []
    step(kube).undo(RestorePoint(kubelet="0" * 64), notes.append)
    assert notes[0].startswith("it is not restored: ")


def test_write_that_etcd_has_not_stored_is_repeated(kube: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """While etcd elects a leader, kube-apiserver answers a write with 500."""
    kube.refused = ApiError("HTTP 500 etcdserver: leader changed")
    kube.refused.status = 500
    clock = FakeClock()

    def elected(_: float) -> None:
        kube.refused = None

    monkeypatch.setattr(clock, "sleep", elected)
    KubeletConfigStep(kube, clock, FIELDS).apply(lambda line: None)
    assert yaml.safe_load(read(kube))["maxPods"] == 150


def test_immutable_one_is_refused_before_a_write(kube: Api) -> None:
    """The API server would refuse it."""
    write(kube, TEXT, immutable=True)
    with pytest.raises(StepFailed, match="immutable"):
        step(kube).capture()


def test_refusals_and_silence(kube: Api) -> None:
    """A refused write fails the step; a refused undo is a note, and one without an answer is repeated."""
    point = step(kube).capture()
    step(kube).apply(lambda line: None)
    notes: list[str] = []
    kube.refused = ApiError("denied by policy", remedy="Ask its owner.")
    step(kube).undo(point, notes.append)
    assert notes == ["it is not restored: denied by policy"]
    with pytest.raises(StepFailed, match="denied by policy"):
        step(kube, {"maxPods": 1}).apply(lambda line: None)
    kube.refused = ApiUnavailable("no answer")
    with pytest.raises(ApiUnavailable):
        step(kube).undo(point, notes.append)


def test_gate_holds_only_with_all_fields(kube: Api) -> None:
    """What lacks one, is gone or can't be read is broken; no answer is unknown."""
    gate = KubeletConfigGate(kube, FIELDS)
    assert "lacks maxPods, authentication.webhook" in gate.check().reason
    step(kube).apply(lambda line: None)
    assert gate.check().kind is VerdictKind.HOLDS
    write(kube, "a: 1")
    assert "can't be read" in gate.check().reason
    kube.delete(CONFIG_MAPS, "kubelet-config", "kube-system")
    assert gate.check().reason == "ConfigMap kube-system/kubelet-config is gone"
    kube.unavailable = True
    assert gate.check().kind is VerdictKind.UNKNOWN


@pytest.mark.parametrize("annotation", ["", "None", "[]", "{}", '{"text": "x"}', "[" * 100_000], ids=range(6))
def test_annotation_that_can_not_be_read_brings_nothing_back(kube: Api, annotation: str) -> None:
    """Whoever wrote it, it isn't ours."""
    point = step(kube).capture()
    step(kube).apply(lambda line: None)
    kube.patch(CONFIG_MAPS, "kubelet-config", {"metadata": {"annotations": {BEFORE: annotation}}}, "kube-system")
    now, notes = read(kube), list[str]()
    step(kube).undo(point, notes.append)
    assert read(kube) == now and "was changed by another client" in notes[0]

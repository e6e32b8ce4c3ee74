"""The step that tells kubeadm which version runs, and its gate."""

from __future__ import annotations

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError, ApiUnavailable, Blocked, StepFailed
from upgrader.gates.kubeadm_config_gate import KubeadmConfigGate
from upgrader.model.outcome import VerdictKind
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, KubeObject
from upgrader.steps.kubeadm_config.step import KubeadmConfigStep

CONFIG_MAPS = Kind("v1", "configmaps")
V136, V137 = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
TEXT = "# ours\nkubernetesVersion: v1.36.3\n"


class Api(FakeKube):
    """Another client writes the ConfigMap right before the first of our patches; or each of them is refused."""

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


def write(kube: FakeKube, text: str) -> None:
    """Let kubeadm's ConfigMap be this."""
    data = {"ClusterConfiguration": text, "other": "kept"}
    kube.put(CONFIG_MAPS, {"metadata": {"name": "kubeadm-config", "namespace": "kube-system"}, "data": data})


def read(kube: FakeKube) -> KubeObject:
    """Its data."""
    found = kube.get(CONFIG_MAPS, "kubeadm-config", "kube-system")
    assert found is not None
    data: KubeObject = found["data"]
    return data


@pytest.fixture
def kube() -> Api:
    """A cluster that kubeadm made at v1.36.3."""
    made = Api()
    write(made, TEXT)
    return made


def step(kube: FakeKube) -> KubeadmConfigStep:
    """From v1.36.3 to v1.37.1."""
    return KubeadmConfigStep(kube, FakeClock(), V136, V137)


def test_it_is_written_undone_and_safe_to_repeat(kube: Api) -> None:
    """Only the version changes, and it comes back as it was, however often either is done."""
    notes: list[str] = []
    point = step(kube).capture()
    for _ in range(2):
        step(kube).apply(notes.append)
        assert read(kube) == {"ClusterConfiguration": TEXT.replace("v1.36.3", "v1.37.1"), "other": "kept"}
    assert notes == ["kubernetesVersion: v1.36.3 → v1.37.1", "kubernetesVersion is v1.37.1"]
    assert step(kube).capture() == point  # resumed behind the write: what it goes back to is the same
    for _ in range(2):
        step(kube).undo(point, notes.append)
        assert read(kube)["ClusterConfiguration"] == TEXT


def test_what_another_client_writes_at_the_same_moment_is_kept(kube: Api) -> None:
    """Their text is read again, and changed in turn."""
    kube.meanwhile = f"{TEXT}clusterName: theirs\n"
    step(kube).apply(lambda line: None)
    assert read(kube)["ClusterConfiguration"] == "# ours\nkubernetesVersion: v1.37.1\nclusterName: theirs\n"


def test_another_upgrade_meanwhile_ends_the_run_before_it_writes(kube: Api) -> None:
    """kubeadm may have done it: the run has no restore point that is true."""
    write(kube, "kubernetesVersion: v1.35.4")
    with pytest.raises(Blocked, match=r"has v1\.35\.4, but had v1\.36\.3 when the run was planned"):
        step(kube).capture()


@pytest.mark.parametrize("text", [None, "a: 1"])
def test_one_that_is_gone_or_unreadable_fails_the_step_but_not_its_undo(kube: Api, text: str | None) -> None:
    """The control plane must not stay at a version that failed because of a record that kubeadm keeps."""
    if text is None:
        kube.delete(CONFIG_MAPS, "kubeadm-config", "kube-system")
    else:
        write(kube, text)
    for work in (step(kube).capture, lambda: step(kube).apply(lambda line: None)):
        with pytest.raises(StepFailed, match="ConfigMap kube-system/kubeadm-config"):
            work()
    notes: list[str] = []
    step(kube).undo(RestorePoint(kubeadm=V136), notes.append)
    assert "it is not restored: ConfigMap kube-system/kubeadm-config" in notes[0]


def test_refusal_is_a_failure_that_says_why(kube: Api) -> None:
    """Such as by an admission policy."""
    kube.refused = ApiError("denied by policy", remedy="Ask its owner.")
    with pytest.raises(StepFailed, match="ConfigMap kubeadm-config: denied by policy"):
        step(kube).apply(lambda line: None)


def test_refused_undo_is_a_note_and_one_without_an_answer_is_repeated(kube: Api) -> None:
    """An admission policy for a record holds no control plane at a version that failed; the releases come after it."""
    write(kube, TEXT.replace("v1.36.3", "v1.37.1"))
    notes: list[str] = []
    kube.refused = ApiError("denied by policy")
    step(kube).undo(RestorePoint(kubeadm=V136), notes.append)
    assert notes == ["it is not restored: denied by policy"]
    kube.refused = ApiUnavailable("no answer")
    with pytest.raises(ApiUnavailable):
        step(kube).undo(RestorePoint(kubeadm=V136), notes.append)


def test_immutable_one_fails_the_step_but_not_its_undo(kube: Api) -> None:
    """Somebody froze it after the run was planned."""
    found = kube.get(CONFIG_MAPS, "kubeadm-config", "kube-system")
    assert found is not None
    kube.put(CONFIG_MAPS, {**found, "immutable": True})
    with pytest.raises(StepFailed, match="immutable"):
        step(kube).apply(lambda line: None)
    notes: list[str] = []
    step(kube).undo(RestorePoint(kubeadm=KubernetesVersion(1, 35, 4)), notes.append)
    assert "it is not restored" in notes[0] and "immutable" in notes[0]


def test_gate_holds_only_at_the_version_that_runs(kube: Api) -> None:
    """What says another version, is gone or can't be read is broken; no answer is unknown."""
    gate = KubeadmConfigGate(kube, V136)
    assert gate.check().kind is VerdictKind.HOLDS
    assert "says v1.36.3, not v1.37.1" in KubeadmConfigGate(kube, V137).check().reason
    write(kube, "a: 1")
    assert gate.check().kind is VerdictKind.BROKEN
    kube.delete(CONFIG_MAPS, "kubeadm-config", "kube-system")
    assert gate.check().reason == "ConfigMap kube-system/kubeadm-config is gone, not v1.36.3"
    kube.unavailable = True
    assert gate.check().kind is VerdictKind.UNKNOWN

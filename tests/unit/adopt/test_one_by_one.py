"""kube-apiserver's instances start, and stop, one controller after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.kube import FakeKube
from upgrader.adopt.one_by_one import InTurnStep, WithdrawStep
from upgrader.errors import HelmError, StepFailed
from upgrader.model.outcome import Verdict
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Kind, KubeObject
from upgrader.steps.release.helm_release import ChartStep

NAME, SYSTEM = "kube-apiserver", "kube-system"
VALUES = {"replicas": 3, "rollout": {"minReadySeconds": 5}}


class _Unwatched:
    last: tuple[Verdict, ...] = ()

    def __call__(self) -> None:
        """Find nothing."""


def step(helm: FakeHelm, kube: FakeKube, instances: int = 3) -> InTurnStep:
    """The installation on that many controllers."""
    spec = ReleaseSpec(NAME, SYSTEM, Path("charts/kube-apiserver"), VALUES)
    return InTurnStep(ChartStep(spec, "install", helm, 60.0, _Unwatched), kube, instances)


def installed(helm: FakeHelm) -> list[object]:
    """How many instances each revision has, in their order; None is all."""
    values = [yaml.safe_load(helm.manifest(NAME, SYSTEM, revision.number)) for revision in helm.history(NAME, SYSTEM)]
    assert all(value["replicas"] == 3 and value["rollout"]["minReadySeconds"] == 5 for value in values)
    return [value["rollout"].get("instances") for value in values]


def test_one_instance_more_each_time() -> None:
    """No two new kube-apiservers start at once, and the last revision has exactly the operator's values."""
    helm = FakeHelm()
    step(helm, FakeKube()).apply(lambda _: None)
    assert installed(helm) == [1, 2, None]


def test_one_controller_is_one_installation() -> None:
    """With one controller, the chart is installed once."""
    helm = FakeHelm()
    step(helm, FakeKube(), instances=1).apply(lambda _: None)
    assert installed(helm) == [None]


def test_goes_on_where_it_was_stopped() -> None:
    """Repeating an adoption stops no instance that runs already."""
    helm, kube = FakeHelm(), FakeKube()
    kube.put(Kind("apps/v1", "deployments"), {"metadata": {"name": NAME}, "spec": {"replicas": 2}}, SYSTEM)
    step(helm, kube).apply(lambda _: None)
    assert installed(helm) == [None]


def test_first_instance_that_fails_is_the_last() -> None:
    """What fails on one controller isn't tried on the next."""
    helm = FakeHelm()
    helm.fail_upgrade[NAME] = HelmError("timed out")
    with pytest.raises(StepFailed, match="timed out"):
        step(helm, FakeKube()).apply(lambda _: None)
    assert helm.calls == [f"upgrade {NAME}"]


class _Cluster(FakeKube):
    """A Deployment whose pods are as many as it wants, each an endpoint."""

    def __init__(self, replicas: int, *, obeys: bool = True) -> None:
        super().__init__()
        self._obeys = obeys
        self.scaled: list[int] = []
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": NAME}}}
        self.put(Kind("apps/v1", "deployments"), {"metadata": {"name": NAME}, "spec": spec}, SYSTEM)
        for number in range(replicas):
            self.put(Kind("v1", "pods"), {"metadata": {"name": f"{number}", "labels": {"app": NAME}}}, SYSTEM)

    def apply(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        assert (manifest["apiVersion"], manifest["kind"]) == ("apps/v1", "Deployment")
        self.scaled.append(manifest["spec"]["replicas"])
        if self._obeys:
            self.delete(Kind("v1", "pods"), f"{self.scaled[-1]}", SYSTEM)
        return super().apply(kind, manifest, namespace)


def test_instances_go_one_by_one() -> None:
    """Before an undo uninstalls the release, one instance is left: they never all end at once."""
    cluster = _Cluster(3)
    WithdrawStep(cluster, FakeClock()).apply(lambda _: None)
    assert cluster.scaled == [2, 1]


def test_instance_that_does_not_end_stops_the_undo() -> None:
    """The next instance stays when the previous one doesn't end, and the message says what to check."""
    cluster = _Cluster(3, obeys=False)
    with pytest.raises(StepFailed, match="3 pods are left, not 2"):
        WithdrawStep(cluster, FakeClock()).apply(lambda _: None)
    assert cluster.scaled == [2]

"""The releases, while the number of controllers changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.kube import FakeKube
from upgrader.adopt.counted_values import counted
from upgrader.adopt.joined_steps import GrowStep, SettleEndpointsStep, fixed_endpoints, keeping_endpoints
from upgrader.adopt.node_withdrawal import CONTROL_PLANE, check_chosen_by_label, withdraw
from upgrader.errors import Blocked, HelmError, StepFailed
from upgrader.model.cluster import Host
from upgrader.model.outcome import Verdict
from upgrader.model.release import ReleaseSpec
from upgrader.model.workload import CHECKPOINT_OF
from upgrader.ports import Kind
from upgrader.steps.release.helm_release import ChartStep

NODES, PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")
SLICES, DEPLOYMENTS = Kind("discovery.k8s.io/v1", "endpointslices"), Kind("apps/v1", "deployments")
SYSTEM, COST = "kube-system", "controller.kubernetes.io/pod-deletion-cost"
NEW = (Host("controller-2", "10.0.0.2"), Host("controller-3", "10.0.0.3"))


class _Unwatched:
    last: tuple[Verdict, ...] = ()

    def __call__(self) -> None:
        """Find nothing."""


def chart(helm: FakeHelm, name: str = "kube-apiserver", **values: Any) -> ChartStep:
    """An upgrade of a release."""
    return ChartStep(ReleaseSpec(name, SYSTEM, Path(name), values), "upgrade", helm, 60.0, _Unwatched)


def deployed(helm: FakeHelm) -> list[Any]:
    """The values of each revision."""
    revisions = helm.history("kube-apiserver", SYSTEM)
    return [yaml.safe_load(helm.manifest("kube-apiserver", SYSTEM, item.number)) for item in revisions]


def world() -> FakeKube:
    """Three controllers, each with a pod of kube-apiserver and one of another's."""
    kube = FakeKube()
    for number in (1, 2, 3):
        node = f"controller-{number}"
        kube.put(NODES, {"metadata": {"name": node, "labels": {CONTROL_PLANE: ""}}})
        for name, labels in (
            ("kube-apiserver", {"app.kubernetes.io/name": "kube-apiserver"}),
            ("standby", {"app.kubernetes.io/name": "kube-apiserver", CHECKPOINT_OF: "kube-apiserver"}),
            ("cilium", {"app.kubernetes.io/name": "cilium"}),
        ):
            meta = {"name": f"{name}-{number}", "namespace": SYSTEM, "labels": labels}
            kube.put(PODS, {"metadata": meta, "spec": {"nodeName": node}}, SYSTEM)
    return kube


def labelled(kube: FakeKube) -> list[str]:
    """The nodes that the releases' pods may run on."""
    return [node["metadata"]["name"] for node in kube.list(NODES, labels=CONTROL_PLANE)]


def first_to_go(kube: FakeKube) -> list[str]:
    """The pods that are deleted before others."""
    return [pod["metadata"]["name"] for pod in kube.list(PODS) if COST in (pod["metadata"].get("annotations") or {})]


def test_withdrawn_node_loses_its_label_and_its_pods_go_first() -> None:
    """Only those of the releases: no standby pod, and nobody else's; a node that is gone is fine."""
    kube = world()
    for _ in range(2):
        withdraw(kube, "controller-2")
    withdraw(kube, "controller-9")
    assert labelled(kube) == ["controller-1", "controller-3"]
    assert first_to_go(kube) == ["kube-apiserver-2"]


def test_releases_that_choose_their_nodes_otherwise_are_refused() -> None:
    """A node that loses kubeadm's label would still be one of theirs."""
    kube = FakeKube()
    check_chosen_by_label(kube)  # a Deployment that isn't there has no pods either
    for selector in ({CONTROL_PLANE: "", "zone": "a"}, {"role": "master"}):
        spec = {"template": {"spec": {"nodeSelector": selector}}}
        kube.put(DEPLOYMENTS, {"metadata": {"name": "kube-scheduler"}, "spec": spec}, SYSTEM)
        if CONTROL_PLANE in selector:
            check_chosen_by_label(kube)
    with pytest.raises(Blocked, match="kube-scheduler doesn't select its nodes by the label"):
        check_chosen_by_label(kube)


def test_second_and_third_instance_are_added_one_by_one() -> None:
    """A kube-apiserver that starts takes all the CPU that it gets."""
    helm, kube = FakeHelm(), world()
    kube.put(DEPLOYMENTS, {"metadata": {"name": "kube-apiserver"}, "spec": {"replicas": 2}}, SYSTEM)
    GrowStep(chart(helm, replicas=4), kube, NEW, before=2).apply(lambda _: None)
    assert [values.get("rollout") for values in deployed(helm)] == [{"instances": 3}, None]


def test_from_one_controller_all_start_at_once() -> None:
    """The only controller's pod is replaced too: with fewer pods than controllers, it might get none."""
    helm, kube = FakeHelm(), world()
    kube.put(DEPLOYMENTS, {"metadata": {"name": "kube-apiserver"}, "spec": {"replicas": 1}}, SYSTEM)
    GrowStep(chart(helm, replicas=3), kube, NEW, before=1).apply(lambda _: None)
    assert [values.get("rollout") for values in deployed(helm)] == [None]


def test_undo_takes_the_new_controllers_pods_away_and_no_others() -> None:
    """While Helm rolls back, none is placed there; afterwards the nodes are as kubeadm made them, even if it failed."""
    helm, kube = FakeHelm(), world()
    step = GrowStep(chart(helm, replicas=1), kube, NEW, before=1)
    step.apply(lambda _: None)
    point = step.capture()
    seen: list[list[str]] = []
    watched = GrowStep(chart(helm, replicas=3).undo_watched(lambda: seen.append(labelled(kube))), kube, NEW, before=1)
    watched.apply(lambda _: None)
    watched.undo(point, lambda _: None)
    assert seen == [["controller-1"]]
    assert labelled(kube) == ["controller-1", "controller-2", "controller-3"]
    assert first_to_go(kube) == ["kube-apiserver-2", "kube-apiserver-3"]
    watched.apply(lambda _: None)
    helm.fail_rollback["kube-apiserver"] = HelmError("timed out")
    with pytest.raises(HelmError):
        watched.undo(point, lambda _: None)
    assert labelled(kube) == ["controller-1", "controller-2", "controller-3"]


def test_fixed_endpoint_goes_once_all_have_registered() -> None:
    """Before, Service `kubernetes` would have too few endpoints; an instance that doesn't register is named."""
    helm, kube = FakeHelm(), FakeKube()
    step = SettleEndpointsStep(chart(helm, replicas=2), kube, FakeClock(), ("10.0.0.1", "10.0.0.2"))
    kube.put(SLICES, {"metadata": {"name": "kubernetes"}, "endpoints": [{"addresses": ["10.0.0.2"]}]}, "default")
    with pytest.raises(StepFailed, match=r"10\.0\.0\.1: kube-apiserver did not register"):
        step.apply(lambda _: None)
    assert helm.calls == []
    both = [{"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.1"]}]
    kube.put(SLICES, {"metadata": {"name": "kubernetes"}, "endpoints": both}, "default")
    step.apply(lambda _: None)
    assert helm.calls == ["upgrade kube-apiserver"] and "endpoint" in step.summary()
    helm.install("kube-apiserver", "")
    step.undo(step.capture(), lambda _: None)


def test_fixed_endpoint_of_a_manifest() -> None:
    """It is read from the release, and kept in an upgrade whose values have none any more."""
    meta = {"name": "kube-apiserver", "namespace": "default"}
    slice_ = {"kind": "EndpointSlice", "metadata": meta, "endpoints": [{"addresses": ["10.0.0.1"]}]}
    assert fixed_endpoints(yaml.safe_dump(slice_)) == ("10.0.0.1",)
    assert fixed_endpoints("") == ()
    kept = keeping_endpoints(chart(FakeHelm(), endpoints={"addresses": [], "reconciler": "auto"}), ("10.0.0.1",))
    assert kept.spec.values == {"endpoints": {"addresses": ["10.0.0.1"], "reconciler": "auto"}}


@pytest.mark.parametrize(
    ("addresses", "api", "kubernetes", "changes"),
    [
        (
            ("10.0.0.1", "10.0.0.2"),
            {"endpoints": {"addresses": ["10.0.0.1"]}},
            {"scheduler": {"replicas": 2}},
            {
                "kube-apiserver": {"replicas": 2, "endpoints": {"addresses": []}},
                "kubernetes": {"controllerManager": {"replicas": 2}},
            },
        ),
        (
            ("10.0.0.1",),
            {"replicas": 2},
            {"controllerManager": {"replicas": 2}, "scheduler": {"replicas": 2}},
            {
                "kube-apiserver": {"replicas": 1, "endpoints": {"addresses": ["10.0.0.1"]}},
                "kubernetes": {"controllerManager": {"replicas": 1}, "scheduler": {"replicas": 1}},
            },
        ),
        (
            ("10.0.0.1", "10.0.0.2"),
            {"replicas": 2},
            {"controllerManager": {"replicas": 2}, "scheduler": {"replicas": 2}},
            {},
        ),
    ],
    ids=["one to two", "two to one", "nothing"],
)
def test_what_values_say_of_the_number_of_controllers(
    addresses: tuple[str, ...], api: Any, kubernetes: Any, changes: Any
) -> None:
    """Only what differs; one controller has the endpoint that the chart keeps, several have none."""
    assert counted({"kube-apiserver": api, "kubernetes": kubernetes}, addresses) == changes

"""The step of etcd's members in a run: planned, forward, resumed and undone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.kube import FakeKube
from testkit.fakes.playbooks import FakePlaybooks
from tests.unit.steps.etcd.members import NAMES, NEW, NEXT, OLD, Controllers, settings
from upgrader.engine.journal.decode import event_from
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import UsageError
from upgrader.model.cluster import Cluster, Host
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.event import StepStarted
from upgrader.model.observed import Observed
from upgrader.model.pod_placement import may_run_on
from upgrader.model.release import EtcdBefore, RestorePoint
from upgrader.model.settings import Settings
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Tools
from upgrader.steps.etcd.on_hosts import etcd_images
from upgrader.steps.etcd.plan import EtcdChange, PlannedEtcd, new_minor_of_etcd
from upgrader.steps.images.planned_images import planned_pods
from upgrader.steps.pipeline_builder import PipelineBuilder
from upgrader.steps.plan import Plan, changed_inputs, observed_after, step_inputs
from upgrader.steps.plan_document import PlanDocument

V = KubernetesVersion(1, 37, 1)
POINT = RestorePoint(etcd=tuple(EtcdBefore(name, OLD, "3.6.5") for name in NAMES), image=NEW)


def builder(etcd: EtcdSettings | None, controllers: Controllers | None = None) -> PipelineBuilder:
    """Of a cluster of three controllers, without releases."""
    made = Settings(Path("/c"), V, Path("/c/kubeconfig"), Path("/c/hosts.yml"), (), etcd=etcd)
    hosts = tuple(Host(name, "") for name in NAMES)
    cluster = Cluster(Path("/c"), Path("/c/kubeconfig"), "demo", Path("/c/hosts.yml"), hosts)
    machines = (controllers or Controllers()).hosts
    return PipelineBuilder(made, cluster, Tools(FakeHelm(), FakeKube(), FakePlaybooks(), FakeClock(), machines))


def observed(**images: str) -> Observed:
    """The members' images, OLD where nothing else is said."""
    return Observed(V, {}, {}, etcd={name: images.get(name.replace("-", "_"), OLD) for name in NAMES})


def plan(image: str = NEW, **images: str) -> Plan:
    """A plan to that image."""
    return builder(settings(image)).plan((), observed(**images))


def state(*steps: StepState) -> RunState:
    """A run that has begun these."""
    return RunState(steps=steps, planned=("etcd",), target=V, current=V, rollback_to="")


def test_without_the_section_there_is_no_such_step() -> None:
    """A run is what it was before."""
    assert builder(None).plan((), observed()).steps == ()


def test_a_plan_and_what_follows_from_it() -> None:
    """Which members change, from what to what, and how they go back."""
    (document,) = PlanDocument.of(plan(controller_2=NEW), (), {}).steps
    assert document.summary == "2 members, one at a time: 3.6.5-0 → 3.6.8-0"
    assert [str(image) for image in document.images] == ["registry.k8s.io/etcd: 3.6.5-0 → 3.6.8-0"] * 2
    assert str(document.undo) == "each member returns to its previous image" and document.to_do
    after = observed_after(plan(), observed())
    assert set(after.etcd.values()) == {NEW}
    (again,) = builder(settings()).plan((), after).steps
    assert (again.action, again.summary) == ("unchanged", "nothing to change")
    assert plan().digest != plan(NEXT).digest != plan(NEXT, controller_2=NEW).digest
    elsewhere = PlannedEtcd(settings("example.com/etcd:3.6.8-0"), (EtcdChange("controller-1", OLD),), 1)
    assert elsewhere.summary == f"1 member: {OLD} → example.com/etcd:3.6.8-0"


@pytest.mark.parametrize(
    ("before", "after", "minor"), [(OLD, NEW, False), (OLD, NEXT, True), ("r/etcd@sha256:0", NEW, True)]
)
def test_another_minor_is_the_point_of_no_return(before: str, after: str, minor: bool) -> None:
    """So is one that may be: what a digest is of isn't known."""
    planned = builder(settings(after)).plan((), replace(observed(), etcd={"controller-1": before}))
    assert new_minor_of_etcd(planned) == minor
    assert PlanDocument.of(planned, (), {}).point_of_no_return == ("etcd" if minor else None)


def test_the_image_is_on_the_members_nodes_first() -> None:
    """On those that change, whatever their taints; nobody else needs it."""
    (pods,) = planned_pods(plan(controller_2=NEW))
    assert [image.name for image in pods.images] == [NEW]
    nodes = ({"metadata": {"name": name}, "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}} for name in NAMES)
    assert [may_run_on(pods.spec, node) for node in nodes] == [True, False, True]
    assert planned_pods(plan(OLD)) == ()


def test_forward() -> None:
    """With the gates of the cluster; where nothing changes, these are all."""
    (step,) = builder(settings()).forward(plan()).steps
    assert step.changes and not step.undo_needs_api and step.step.capture() == POINT
    assert [run.gate.name for run in step.gates] == ["nodes", "critical-pods"]
    (verified,) = builder(settings(OLD)).forward(plan(OLD)).steps
    assert not verified.changes and verified.step.name == "etcd"


def test_a_resumed_run_has_the_members_that_it_began_with() -> None:
    """One that has the image already is among what it can put back."""
    now = observed(controller_2=NEW)
    one = builder(settings())
    (step,) = one.replan(state(StepState("etcd", "applying", restore_point=POINT)), (), now).steps
    assert isinstance(step, PlannedEtcd) and step.members == tuple(EtcdChange(name, OLD) for name in NAMES)
    (passed,) = one.replan(state(StepState("etcd", "passed")), (), now).steps
    assert passed.action == "unchanged"
    (new,) = one.replan(state(), (), now).steps
    assert isinstance(new, PlannedEtcd) and len(new.members) == 2
    assert changed_inputs(step_inputs(plan()), step_inputs(plan(NEXT))) == ("etcd",)


def test_undo_is_built_from_the_journal() -> None:
    """Of the members that it names; the controllers say which image comes back."""
    controllers = Controllers(images=dict.fromkeys(NAMES, NEW), kept=dict.fromkeys(NAMES, OLD))
    started = event_from("StepStarted", {"step": "etcd", "summary": "", "restore_point": _plain(POINT)})
    assert isinstance(started, StepStarted) and started.restore_point is not None
    point = started.restore_point
    (step,) = (
        builder(settings(NEXT), controllers).rollback(state(StepState("etcd", "passed", restore_point=point))).steps
    )
    assert step.step.name == "etcd" and str(point) == f"etcd {OLD}"
    step.step.undo(point, lambda text: None)
    assert set(controllers.images.values()) == {OLD}


def test_a_journal_that_names_others_is_not_followed() -> None:
    """Nor is one of a folder that has no section `etcd` any more."""
    begun = state(StepState("etcd", "passed", restore_point=POINT))
    with pytest.raises(UsageError, match="has no section `etcd`"):
        builder(None).rollback(begun)
    stranger = replace(POINT, etcd=(EtcdBefore("controller-9", OLD, ""),))
    with pytest.raises(UsageError, match="controller-9, but they aren't in the inventory"):
        builder(settings()).rollback(state(StepState("etcd", "passed", restore_point=stranger)))


def test_what_is_read_of_the_controllers() -> None:
    """Those without etcd, and those that can't be reached, are left out: checks name them."""
    controllers = Controllers(external={"controller-9"})
    controllers.hosts.down = {"controller-2"}
    hosts = [Host(name, "") for name in (*NAMES, "controller-9")]
    assert etcd_images(controllers.hosts, hosts) == {"controller-1": OLD, "controller-3": OLD}


def _plain(point: RestorePoint) -> dict[str, object]:
    return {"etcd": [vars(member) for member in point.etcd], "image": point.image}

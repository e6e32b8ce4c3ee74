"""From a plan to steps, and where their gates are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.playbooks import FakePlaybooks
from testkit.fakes.prometheus import FakePrometheus
from tests.unit.gates.builders import add_down_node
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import RollbackFailed, UsageError
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.gates.nodes_gate import NodesGate
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.model.bundle_index import BundledImages, BundleIndex
from upgrader.model.cluster import Cluster, Host
from upgrader.model.gate_settings import GatePolicy, MetricGateSettings, WorkloadGate, WorkloadGateKind
from upgrader.model.health_before import HealthBefore
from upgrader.model.image_settings import ImageSettings
from upgrader.model.kubeadm_config import KubeadmConfig
from upgrader.model.observed import Observed, ObservedRelease
from upgrader.model.release import ReleaseSpec, RestorePoint
from upgrader.model.settings import BUILT_IN_CHARTS, PlaybookSettings, ReleaseSettings, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline
from upgrader.ports import Tools
from upgrader.steps.images.import_images import ImportImagesStep
from upgrader.steps.kubeadm_config.plan import PlannedKubeadmConfig
from upgrader.steps.pipeline_builder import PipelineBuilder
from upgrader.steps.plan import Plan
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.release.helm_release import ChartStep
from upgrader.steps.release.kind import ReleaseKind
from upgrader.steps.release.plan import Action, IntendedRelease, PlannedRelease
from upgrader.steps.release.unseen_scheduler import UnseenScheduler

OLD, NEW = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
MANIFEST = "{apiVersion: apps/v1, kind: %s, metadata: {name: %s}}"


def planned(name: str, action: Action) -> PlannedRelease:
    """A release of one workload that has the release's name."""
    manifest = MANIFEST % ("DaemonSet" if name == "pod-checkpointer" else "Deployment", name)
    return PlannedRelease(
        ReleaseSpec(name, "kube-system", Path("/charts") / name), action, "change", manifest, manifest, ()
    )


def assembled(*actions: Action) -> Pipeline:
    """The built-in pipeline, with these actions in its order."""
    return builder().forward(plan(*actions))


def plan(*actions: Action) -> Plan:
    """The plan of the built-in pipeline."""
    return Plan(OLD, NEW, tuple(planned(name, action) for name, action in zip(BUILT_IN_CHARTS, actions, strict=True)))


def builder() -> PipelineBuilder:
    """Of a cluster with one controller."""
    steps = tuple(ReleaseSettings(name, "kube-system") for name in BUILT_IN_CHARTS)
    settings = Settings(Path("/c"), NEW, Path("/c/kubeconfig"), Path("/c/hosts.yml"), steps)
    cluster = Cluster(
        Path("/c"), Path("/c/kubeconfig"), "demo", Path("/c/hosts.yml"), (Host("controller-1", "10.0.0.2"),)
    )
    tools = Tools(FakeHelm(), FakeKube(), FakePlaybooks(), FakeClock(), FakeHosts())
    return PipelineBuilder(settings, cluster, tools)


def gates(pipeline: Pipeline) -> dict[str, list[str]]:
    """The names of each step's gates."""
    return {item.step.name: [run.gate.name for run in item.gates] for item in pipeline.steps}


def test_gates_of_what_does_not_change_are_held_behind_the_first_change() -> None:
    """A checkpointer that isn't Ready because of the crash loop that a run fixes doesn't stop that run."""
    found = gates(assembled("unchanged", "upgrade", "upgrade"))
    assert found["pod-checkpointer"] == []
    assert found["kube-apiserver"] == [
        "deployment/kube-apiserver",
        "apiserver",
        "nodes",
        "critical-pods",
        "daemonset/pod-checkpointer",
        "checkpoint",
    ]


@pytest.mark.parametrize(
    "actions", [("unchanged", "unchanged", "unchanged"), ("upgrade", "unchanged", "upgrade"), ("upgrade",) * 3]
)
def test_after_a_change_every_step_is_gated_where_it_stands(actions: tuple[Action, ...]) -> None:
    """What is unhealthy after a change stops the run; without a change, all gates are checked."""
    found = gates(assembled(*actions))
    assert "checkpoint" in found["pod-checkpointer"]
    assert found["kube-apiserver"][:2] == ["deployment/kube-apiserver", "apiserver"]
    assert "deployment/kubernetes" in found["kubernetes"]


def test_no_gate_is_lost() -> None:
    """However many steps come before the first change, each of their gates is checked after it."""
    every = {name for names in gates(assembled("unchanged", "unchanged", "unchanged")).values() for name in names}
    assert set(gates(assembled("unchanged", "unchanged", "upgrade"))["kubernetes"]) == every


def test_step_whose_gates_are_held_elsewhere_says_so() -> None:
    """The report of such a step says where its gates were checked."""
    first = assembled("unchanged", "upgrade", "upgrade").steps[0]
    assert first.step.summary() == "nothing to change; its gates are checked after step kube-apiserver"


def test_time_for_a_roll_out_grows_with_the_cluster() -> None:
    """One node after the other: Helm waits as long as that takes, and its default where a run knows no better."""
    one_by_one = "{kind: DaemonSet, metadata: {name: a}, spec: {updateStrategy: {rollingUpdate: {maxUnavailable: 1}}}}"
    workers = HealthBefore(tuple(f"worker-{number}" for number in range(99)))
    assert ReleaseKind(builder().context).helm_seconds(one_by_one) == 300
    assert ReleaseKind(builder().since(workers).context).helm_seconds(one_by_one, "") == 3000


@pytest.mark.parametrize("before", [None, "", MANIFEST % ("DaemonSet", "other")])
def test_each_release_is_waited_for_without_workers_that_are_down(before: str | None) -> None:
    """Whatever is in it, and whether it is installed or upgraded; kube-scheduler's is none of its own in this."""
    every = plan("upgrade", "upgrade", "upgrade")
    dns = planned("coredns", "upgrade")
    dns = replace(dns, before=dns.before if before is None else before)
    for item in builder().forward(replace(every, steps=(*every.steps, dns))).steps:
        chart = getattr(item.step, "chart", item.step)
        assert isinstance(chart, ChartStep)
        assert chart.down is not None and chart.after == planned(chart.name, "upgrade").after


def test_gates_know_the_health_before_the_run() -> None:
    """Whoever continues a run compares with the cluster as it was when the run began; a rollback asks no worker."""
    baseline = HealthBefore(("worker-1",))
    step = builder().since(baseline).forward(plan("upgrade", "upgrade", "upgrade")).steps[-1]
    forward = [run.gate for run in step.gates if isinstance(run.gate, NodesGate)]
    back = [run.gate for run in step.undo_gates if isinstance(run.gate, NodesGate)]
    assert [gate.health_before for gate in forward] == [baseline]
    assert [gate.controllers_only for gate in back] == [True]


SCHEDULER = (
    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: kube-scheduler}, "
    "spec: {template: {spec: {containers: [{name: kube-scheduler}]}}}}"
)


@pytest.mark.parametrize(("name", "manifest"), [("kubernetes", SCHEDULER), ("coredns", MANIFEST % ("Deployment", "a"))])
def test_only_a_rollback_of_kube_scheduler_helps_its_pods(name: str, manifest: str) -> None:
    """A run's own, and `rollback`'s: of another release, nobody looks for a scheduler's pod or gives it a node."""
    spec, helm = ReleaseSpec(name, "kube-system", Path("/charts") / name), FakeHelm()
    helm.history = lambda *_: ()  # type: ignore[method-assign]
    helm.manifest = lambda *_: manifest  # type: ignore[method-assign]
    built = builder()
    settings = replace(built.settings, pipeline=(ReleaseSettings(name, "kube-system"),))
    built = replace(built, settings=settings, tools=replace(built.tools, helm=helm))
    release = PlannedRelease(spec, "upgrade", "change", manifest, "{}", ())
    forward = built.forward(Plan(OLD, NEW, (release,))).steps[0].step
    point = RestorePoint(name, "kube-system", 3)
    back = built.rollback(RunState(steps=(StepState(name, "passed", restore_point=point),), rollback_to="")).steps[0]
    for step in (forward, back.step):
        assert isinstance(step, ChartStep)
        assert isinstance(step.undo_help(print), UnseenScheduler) is (name == "kubernetes")


@pytest.mark.parametrize("undo", [Path("/c/undo.yml"), None])
def test_playbook_is_undone_by_what_upgrader_yaml_names(undo: Path | None) -> None:
    """A rollback runs the undo playbook of the file, whatever the journal names; a journal can't make it run another.

    A step without one can't be undone.
    """
    steps = (PlaybookSettings("tune", Path("/c/tune.yml"), undo),)
    settings = Settings(Path("/c"), NEW, Path("/c/kubeconfig"), Path("/c/hosts.yml"), steps)
    cluster = Cluster(Path("/c"), Path("/c/kubeconfig"), "demo", Path("/c/hosts.yml"), ())
    playbooks = FakePlaybooks()
    tools = Tools(FakeHelm(), FakeKube(), playbooks, FakeClock(), FakeHosts())
    point = RestorePoint(playbook="/tmp/evil.yml")
    state = RunState(steps=(StepState("tune", "passed", restore_point=point),), rollback_to="")
    (item,) = PipelineBuilder(settings, cluster, tools).rollback(state).steps
    if undo is None:
        with pytest.raises(RollbackFailed):
            item.step.undo(point, lambda _: None)
    else:
        item.step.undo(point, lambda _: None)
    assert [name for name, *_ in playbooks.ran] == (["undo.yml"] if undo else [])
    assert [run.gate.name for run in item.undo_gates] == ["nodes", "critical-pods"]


PROXY = "{kind: DaemonSet, metadata: {name: kube-proxy}, spec: {template: {spec: {containers: [{image: 'proxy:2'}]}}}}"


def with_images(action: Action) -> Plan:
    """The plan of a release that has an image."""
    spec = ReleaseSpec("kubernetes", "kube-system", Path("/charts/kubernetes"))
    return Plan(OLD, NEW, (PlannedRelease(spec, action, "change", PROXY.replace(":2", ":1"), PROXY, ()),))


def names(pipeline: Pipeline) -> list[str]:
    """Its steps' names."""
    return [item.step.name for item in pipeline.steps]


def test_images_come_first() -> None:
    """They are there before anything changes; where they can't be, nothing needs undoing."""
    first, *_ = builder().upgrade(with_images("upgrade")).steps
    assert (first.step.name, first.changes, first.prepares, first.gates) == ("images", False, True, ())
    assert names(builder().upgrade(with_images("unchanged"))) == ["kubernetes"]


@pytest.mark.parametrize("resumed", [None, ("images", "kube-apiserver", "kubernetes")])
def test_step_behind_kube_apiserver_begins_once_all_nodes_have_their_images(resumed: tuple[str, ...] | None) -> None:
    """Also in the process that resumes the run; not where the site sees to the images itself."""
    both = Plan(OLD, NEW, (planned("kube-apiserver", "upgrade"), *with_images("upgrade").steps))
    on = builder()
    beside = {item.step.name: item.beside for item in on.upgrade(both, resumed).steps}
    assert list(beside) == ["images", "kube-apiserver", "kubernetes"]
    assert beside["images"] is not None and beside["images"].needed_by == "kubernetes"
    assert beside["kube-apiserver"] is beside["kubernetes"] is None
    off = replace(on, settings=replace(on.settings, images=ImageSettings(pull=False)))
    assert not any(item.beside for item in off.upgrade(both).steps)


def test_images_can_be_left_to_the_site() -> None:
    """`images.pull: false`; but a run that is resumed keeps the steps that it began with."""
    on = builder()
    off = replace(on, settings=replace(on.settings, images=ImageSettings(pull=False)))
    assert names(off.upgrade(with_images("upgrade"))) == ["kubernetes"]
    assert names(off.upgrade(with_images("upgrade"), ["images", "kubernetes"])) == ["images", "kubernetes"]
    assert names(on.upgrade(with_images("upgrade"), ["kubernetes"])) == ["kubernetes"]


class EmptyBundle:
    """Without any image."""

    index = BundleIndex(NEW, "1", (), ())

    def content(self, images: BundledImages) -> Iterator[bytes]:
        """There are none."""
        return iter(())


def test_bundle_comes_before_the_pull() -> None:
    """What it brought needs no registry; a resumed run without it asks the nodes what they have."""
    made = builder().upgrade(with_images("upgrade"), bundle=EmptyBundle())
    assert names(made) == ["bundle", "images", "kubernetes"]
    assert [item.prepares for item in made.steps] == [True, True, False]
    assert names(builder().upgrade(with_images("upgrade"), ["images", "kubernetes"], EmptyBundle()))[0] == "images"
    resumed = builder().upgrade(with_images("upgrade"), names(made))
    assert names(resumed) == names(made)
    assert "nothing" in resumed.steps[0].step.summary()


def test_bundle_skips_only_workers_that_were_down_before() -> None:
    """A controller without its images would fail the run later, and a worker that went down since has to be told of."""
    made, kube = builder().since(HealthBefore(("worker-1",))), FakeKube()
    workers = tuple(Host(f"worker-{number}", f"10.0.1.{number}") for number in (1, 2))
    for name in ("controller-1", "worker-1", "worker-2"):
        add_down_node(kube, name)
    made = replace(made, tools=replace(made.tools, kube=kube), cluster=replace(made.cluster, workers=workers))
    first, *_ = made.upgrade(with_images("upgrade"), bundle=EmptyBundle()).steps
    assert isinstance(first.step, ImportImagesStep)
    assert first.step.down() == {"worker-2"}


def test_kubeadm_is_told_before_the_nodes_and_a_run_keeps_that_step() -> None:
    """A run that was begun without it, by an earlier version, is resumed without it."""
    observed = Observed(OLD, {}, {}, kubeadm=KubeadmConfig("kubernetesVersion: v1.36.3"))
    observed = replace(observed, releases={name: ObservedRelease((), "") for name in BUILT_IN_CHARTS})
    intended = [IntendedRelease(planned(name, "upgrade").spec, "") for name in BUILT_IN_CHARTS]
    names = [step.name for step in builder().plan(intended, observed).steps]
    assert names == [*BUILT_IN_CHARTS, "kubeadm-config"]
    old = builder().replan(RunState(planned=BUILT_IN_CHARTS), intended, observed)
    assert [step.name for step in old.steps] == [*BUILT_IN_CHARTS]


def test_interrupted_step_of_kubeadm_is_planned_from_its_restore_point() -> None:
    """What it has written already doesn't make it a step without a change, which nothing would undo."""
    observed = Observed(NEW, {}, {}, kubeadm=KubeadmConfig("kubernetesVersion: v1.37.1"))
    observed = replace(observed, releases={name: ObservedRelease((), "") for name in BUILT_IN_CHARTS})
    intended = [IntendedRelease(planned(name, "upgrade").spec, "") for name in BUILT_IN_CHARTS]
    begun = StepState("kubeadm-config", "applying", restore_point=RestorePoint(kubeadm=OLD))
    state = RunState(planned=(*BUILT_IN_CHARTS, "kubeadm-config"), steps=(begun,), current=OLD)
    assert builder().replan(state, intended, observed).steps[-1] == PlannedKubeadmConfig(OLD, NEW)


@pytest.mark.parametrize("text", [None, "a: 1", "kubernetesVersion: v1.35.4"])
def test_resumed_run_keeps_the_step_of_kubeadm_whatever_became_of_the_config_map(text: str | None) -> None:
    """Nodes that are left must not wait for a record that was deleted behind its step; and a step that had nothing to
    change, and so nothing to undo, writes nothing.
    """
    observed = Observed(NEW, {}, {}, kubeadm=KubeadmConfig(text) if text else None)
    observed = replace(observed, releases={name: ObservedRelease((), "") for name in BUILT_IN_CHARTS})
    intended = [IntendedRelease(planned(name, "upgrade").spec, "") for name in BUILT_IN_CHARTS]
    names = (*BUILT_IN_CHARTS, "kubeadm-config")
    fresh = builder().replan(RunState(planned=names, current=OLD), intended, observed)
    assert tuple(step.name for step in fresh.steps) == names
    passed = StepState("kubeadm-config", "passed", restore_point=RestorePoint(kubeadm=OLD))
    again = builder().replan(RunState(planned=names, steps=(passed,), current=OLD), intended, observed)
    assert again.steps[-1] == PlannedKubeadmConfig(OLD, NEW)
    verified = StepState("kubeadm-config", "gating")
    unchanged = builder().replan(RunState(planned=names, steps=(verified,), current=OLD), intended, observed)
    assert unchanged.steps[-1].action == "unchanged"


def test_bake_does_not_ask_for_kubeadms_record() -> None:
    """Where GitOps writes the old version back, a healthy upgrade isn't rolled back for it."""
    made = builder()
    baking = replace(made, settings=replace(made.settings, bake_seconds=600.0))
    plan = Plan(OLD, NEW, (planned("kube-apiserver", "upgrade"), PlannedKubeadmConfig(OLD, NEW)))
    found = gates(baking.with_bake(baking.forward(plan)))
    assert found["kubeadm-config"] == ["kubeadm-config"]
    assert "nodes" in found["bake"] and "kubeadm-config" not in found["bake"]


def test_step_of_kubeadm_is_gated_and_undone_from_the_journal() -> None:
    """Its gate asks for the version that runs then; a journal that has it under another name is refused."""
    made = builder()
    found = made.forward(Plan(OLD, NEW, (PlannedKubeadmConfig(OLD, NEW),)))
    assert gates(found) == {"kubeadm-config": ["kubeadm-config"]}
    unchanged = made.forward(Plan(NEW, NEW, (PlannedKubeadmConfig(NEW, NEW),))).steps[0]
    assert (unchanged.changes, [run.gate.name for run in unchanged.gates]) == (False, ["kubeadm-config"])
    point = RestorePoint(kubeadm=OLD)
    undo = made.undo(StepState("kubeadm-config", "passed", restore_point=point), OLD, NEW)
    assert undo.step.summary() == "kubernetesVersion: v1.36.3 → v1.37.1"
    with pytest.raises(UsageError, match="no such step"):
        made.undo(StepState("other", "passed", restore_point=point), OLD, NEW)


def test_metric_gates() -> None:
    """They stand behind the step that has them, or behind every step that changes something; never behind an undo."""
    errors, slow = (
        MetricGateSettings(name, "up", GatePolicy(1, 5.0, 180.0), minimum=1.0) for name in ("errors", "slow")
    )
    made = builder()
    own, *others = made.settings.pipeline
    settings = replace(made.settings, pipeline=(replace(own, gates=(errors,)), *others), metric_gates=(slow,))
    made = replace(made, settings=settings, tools=replace(made.tools, prometheus=FakePrometheus()))
    pipeline = made.forward(plan("upgrade", "upgrade", "unchanged"))
    found = {step: [name for name in names if name.startswith("metric/")] for step, names in gates(pipeline).items()}
    assert found == {
        "pod-checkpointer": ["metric/errors", "metric/slow"],
        "kube-apiserver": ["metric/slow"],
        "kubernetes": [],
    }
    behind = [run.gate.name for item in pipeline.steps for run in item.undo_gates]
    assert behind and not any(name.startswith("metric/") for name in behind)


@pytest.mark.parametrize("installed", [True, False])
def test_rollback_waits_for_what_others_replace(installed: bool) -> None:
    """Gates of StatefulSets, groups and protectors stand behind the way back, too; of what was installed before."""
    kinds: tuple[WorkloadGateKind, ...] = ("deployment", "statefulset", "rolloutGroup", "protector")
    given = tuple(WorkloadGate(kind, "shop", "db", GatePolicy()) for kind in kinds)
    made = builder()
    own, *others = made.settings.pipeline
    tune = PlaybookSettings("tune", Path("/c/tune.yml"), Path("/c/undo.yml"), given)
    settings = replace(made.settings, pipeline=(replace(own, gates=given), *others, tune))
    release = planned(own.name, "upgrade")
    release = release if installed else replace(release, before="")
    playbook = PlannedPlaybook(Path("/c/tune.yml"), Path("/c/undo.yml"))
    made = replace(made, settings=settings)
    of_release, of_playbook = made.forward(Plan(OLD, NEW, (release, playbook))).steps
    forward, back = (
        ["deployment/db", "statefulset/db", "rollout-group/shop/db", "protector/shop/db"],
        ["statefulset/db", "rollout-group/shop/db", "protector/shop/db"],
    )
    assert [run.gate.name for run in of_release.gates][-4:] == forward
    assert [run.gate.name for run in of_playbook.gates][-4:] == forward
    names = [run.gate.name for run in of_release.undo_gates]
    assert names[-3:] == back if installed else not {*back} & {*names}
    assert [run.gate.name for run in of_playbook.undo_gates] == ["nodes", "critical-pods", *back]
    assert of_release.groups == of_playbook.groups == {"shop/db"}, "guard holds all others still"


def test_approvals() -> None:
    """A step that changes something waits for its approval; one that changes nothing, and every undo, doesn't."""
    made = builder()
    steps = tuple(replace(item, approval_seconds=60.0) for item in made.settings.pipeline)
    made = replace(made, settings=replace(made.settings, pipeline=steps))
    pending = replace(planned("kube-apiserver", "upgrade"), pending=True)
    steps_of = (planned("pod-checkpointer", "unchanged"), pending, planned("kubernetes", "upgrade"))
    waits = {item.step.name: item.approval_seconds for item in made.forward(Plan(OLD, NEW, steps_of)).steps}
    freed = next(name for name in waits if name not in BUILT_IN_CHARTS)
    assert waits == {freed: 60.0, "pod-checkpointer": None, "kube-apiserver": 60.0, "kubernetes": 60.0}


def test_what_was_read_beside_helm_answers_no_gate_behind_it() -> None:
    """It may be from before Helm's last change: the gate asks itself, even in the same second."""
    made = builder()
    kube = made.tools.kube
    assert isinstance(kube, FakeKube)
    name = "kube-apiserver"
    kube.put(WORKLOADS["Deployment"], {"metadata": {"name": name, "generation": 1}, "spec": {}}, "kube-system")
    item = next(each for each in made.forward(plan("upgrade", "upgrade", "upgrade")).steps if each.step.name == name)
    assert isinstance(item.step, ChartStep)
    item.step.watcher()
    kube.delete(WORKLOADS["Deployment"], name, "kube-system")
    (rollout,) = (run.gate for run in item.gates if run.gate.name == f"deployment/{name}")
    assert "does not exist" in rollout.check().reason


BY_DIGEST = """
kind: Deployment
metadata: {name: kube-scheduler}
spec: {template: {spec: {containers: [{name: kube-scheduler, image: "registry.k8s.io/kube-scheduler@sha256:%s"}]}}}
"""


@pytest.mark.parametrize(("target", "asked"), [(NEW, {"kube-scheduler": NEW}), (OLD, {})])
def test_upgrade_by_digest_is_asked_for_the_targets_version(
    target: KubernetesVersion, asked: dict[str, KubernetesVersion]
) -> None:
    """No tag says which one the new digest is; a run at the same version may change it to whatever the values say."""
    release = replace(planned("kubernetes", "upgrade"), before=BY_DIGEST % 1, after=BY_DIGEST % 2)
    (item,) = (
        each for each in builder().forward(Plan(OLD, target, (release,))).steps if each.step.name == "kubernetes"
    )
    (gate,) = (run.gate for run in item.gates if run.gate.name == "deployment/kube-scheduler")
    assert isinstance(gate, RolloutGate) and gate.asked is not None
    assert dict(gate.asked.brought) == asked
    (back,) = (run.gate for run in item.undo_gates if run.gate.name == "deployment/kube-scheduler")
    assert isinstance(back, RolloutGate) and back.asked is None, "what ran before isn't judged"


GROUP = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %s, namespace: "%s", labels: {rollout-group: %s}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {rollout-group: no-group}}
"""


def test_steps_know_the_groups_that_guard_may_roll() -> None:
    """Those of the manifests before and after, in the release's namespace unless they say another; of a release that
    stays as it is, too, as its gate may wait for them. The control plane has none.
    """
    before, after = GROUP % ("db-a", "", "db"), GROUP % ("db-a", "shop", "store")
    release = planned("shop", "upgrade")
    spec = replace(release.spec, namespace="apps")
    release = replace(release, spec=spec, before=before, after=after)
    control_plane = plan("unchanged", "upgrade", "upgrade")
    built = builder().forward(replace(control_plane, steps=(*control_plane.steps, release)))
    assert [sorted(item.groups) for item in built.steps] == [[], [], [], ["apps/db", "shop/store"]]
    unchanged = replace(release, action="unchanged", before=after)
    first = builder().forward(replace(control_plane, steps=(unchanged, *control_plane.steps)))
    assert [sorted(item.groups) for item in first.steps] == [[], [], ["shop/store"], []]

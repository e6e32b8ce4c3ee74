"""The order in which controllers come and go, and whom the gates ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.playbooks import FakePlaybooks
from tests.unit.adopt.kubeadm_cluster import FLAGS, facts, static_pod
from upgrader.adopt.accept_queues import ResetQueuesStep, SetQueuesStep
from upgrader.adopt.etcd_membership import MemberToRemove
from upgrader.adopt.facts import ControllerFacts
from upgrader.adopt.joined_pipeline import JoinedControllers
from upgrader.adopt.joined_steps import GrowStep
from upgrader.adopt.leaders_api import OwnServer
from upgrader.adopt.one_by_one import WithdrawStep
from upgrader.adopt.pipelines import adopt_pipeline, undo_pipeline
from upgrader.adopt.removal_pipeline import Removal
from upgrader.adopt.running_addons import NOTHING_RUNS
from upgrader.gates.apiserver_gate import ApiServerGate
from upgrader.gates.checkpoint_gate import CheckpointGate
from upgrader.model.cluster import Cluster, Host
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import BUILT_IN_CHARTS, Settings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.ports import Tools
from upgrader.steps.context import StepContext
from upgrader.steps.plan import Plan
from upgrader.steps.release.plan import Action, PlannedRelease

V = KubernetesVersion(1, 36, 3)
HOSTS = tuple(Host(f"controller-{number}", f"10.0.0.{number}") for number in (1, 2, 3))
TOOLS = Tools(FakeHelm(), FakeKube(), FakePlaybooks(), FakeClock(), FakeHosts())
FIXED = {
    "kind": "EndpointSlice",
    "metadata": {"name": "kube-apiserver", "namespace": "default"},
    "endpoints": [{"addresses": ["10.0.0.1"]}],
}


def cluster(*hosts: Host) -> Cluster:
    """With these controllers."""
    return Cluster(Path("/c"), Path("/c/kubeconfig"), "demo", Path("/c/hosts.yml"), hosts)


def builder(of: Cluster) -> StepContext:
    """What makes the releases' steps."""
    return StepContext(Settings(Path("/c"), V, Path("/c/kubeconfig"), Path("/c/hosts.yml"), ()), of, TOOLS)


def plan(*, fixed: bool = False, pending: str = "", checkpointer: Action = "unchanged") -> Plan:
    """The releases; `fixed`: kube-apiserver's has the one endpoint that is to go."""

    def planned(name: str) -> PlannedRelease:
        kind = "DaemonSet" if name == "pod-checkpointer" else "Deployment"
        after = yaml.safe_dump({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}})
        before = yaml.safe_dump_all(
            [*yaml.safe_load_all(after), *([FIXED] if name == "kube-apiserver" and fixed else ())]
        )
        action: Action = checkpointer if name == "pod-checkpointer" else "upgrade"
        spec = ReleaseSpec(name, "kube-system", Path("/charts") / name, {"endpoints": {"addresses": []}})
        return PlannedRelease(spec, action, "change", before, after, (), pending=name == pending)

    return Plan(V, V, tuple(map(planned, BUILT_IN_CHARTS)))


def joined(
    of: Plan,
    *components: str,
    before: int = 1,
    flags: tuple[str, ...] = (),
    kubeconfigs: tuple[OwnServer, ...] = (),
) -> Pipeline:
    """The adoption of those that joined after the first `before`, on which these static pods run still."""
    new = HOSTS[before:] if components else ()
    pods = {each: static_pod(each, *(flags if each == "kube-apiserver" else ())) for each in components}
    static = [ControllerFacts(host, pods, {}) for host in new]
    addresses = tuple(host.address for host in HOSTS)
    made = JoinedControllers(cluster(*HOSTS), new, static, TOOLS, (), addresses, kubeconfigs)
    return made.pipeline(of, builder(cluster(*HOSTS)))


def names(pipeline: Pipeline) -> list[str]:
    """The steps, in their order."""
    return [item.step.name for item in pipeline.steps]


def asked(gates: tuple[GateRun, ...]) -> Iterator[tuple[str, ...]]:
    """The controllers that these gates ask for a kube-apiserver or for checkpoints."""
    for run in gates:
        if isinstance(run.gate, ApiServerGate | CheckpointGate):
            yield tuple(host.name for host in run.gate.cluster.controllers)


def test_static_pods_are_retired_behind_their_successors_and_their_checkpoints() -> None:
    """The checkpointer comes first, and nothing is retired before each controller has a checkpoint."""
    found = joined(plan(), *FLAGS, before=2)
    order = ["pod-checkpointer", "kube-apiserver", "retire kube-apiserver", "kubernetes", "retire controllers"]
    assert names(found) == ["accept-queues", *order]
    queues = found.steps[0].step
    assert isinstance(queues, SetQueuesStep) and queues.controllers == HOSTS[2:]
    every = tuple(host.name for host in HOSTS)
    for item in found.steps[2:]:
        assert {type(run.gate) for run in item.gates} >= {CheckpointGate}, item.step.name
        assert set(asked(item.gates)) == {every}


def test_undo_asks_only_the_controllers_that_were_adopted_before() -> None:
    """The new ones have no pods of the releases then, and that is as it should be."""
    found = joined(plan(checkpointer="upgrade"), *FLAGS, before=2)
    left = tuple(host.name for host in HOSTS[:2])
    assert {each for item in found.steps for each in asked(item.undo_gates)} == {left}
    assert not next(item for item in found.steps if item.step.name == "retire kube-apiserver").undo_needs_api


def test_from_one_controller_its_endpoint_stays_until_the_end() -> None:
    """Service `kubernetes` never is without one; the last step removes it."""
    found = joined(plan(fixed=True), *FLAGS)
    assert names(found)[-1] == "endpoints"
    (api,) = (item.step for item in found.steps if item.step.name == "kube-apiserver")
    assert isinstance(api, GrowStep)
    assert api.chart.spec.values == {"endpoints": {"addresses": ["10.0.0.1"]}}


def test_killed_adoption_goes_on() -> None:
    """Nothing is retired twice; a release that Helm left pending is freed first; a port is shared where it isn't."""
    assert names(joined(plan(fixed=True)))[-1] == "endpoints"
    assert "retire controllers" not in names(joined(plan()))
    pending = names(joined(plan(pending="kubernetes"), "kube-scheduler", before=2))
    assert "kubernetes" in pending[0] and pending[-1] == "retire controllers"
    alone = names(joined(plan(), *FLAGS, before=2, flags=("--permit-port-sharing=false",)))
    assert alone[0] == "port-sharing"


OWN = (OwnServer(HOSTS[2], "/etc/kubernetes/scheduler.conf", "https://127.0.0.1:6443", "https://10.0.0.3:6443"),)


@pytest.mark.parametrize("kubeconfigs", [(), OWN])
def test_kubeconfigs_change_before_the_pods_that_need_it(kubeconfigs: tuple[OwnServer, ...]) -> None:
    """Only where any leads to a loopback address, and not before kube-apiserver was taken over; for all controllers as
    for one that joins.
    """
    order = ["retire kube-apiserver", *(["kubeconfigs"] if kubeconfigs else []), "kubernetes", "retire controllers"]
    assert names(joined(plan(), *FLAGS, before=2, kubeconfigs=kubeconfigs))[-len(order) :] == order
    charts = Pipeline(tuple(PipelineStep(SetQueuesStep(TOOLS.hosts, (), name), (), ()) for name in BUILT_IN_CHARTS))
    first = adopt_pipeline(charts, facts(), cluster(*HOSTS), TOOLS, V, (), kubeconfigs)
    assert names(first)[-len(order) :] == order


def removal(*, dead: bool, member: MemberToRemove) -> Pipeline:
    """The way out of controller-3."""
    staying = cluster(*HOSTS[:2])
    made = Removal(HOSTS[2], dead, staying, TOOLS, member, frozenset({"10.0.0.3"}), "https://api:6443")
    return made.pipeline(dict.fromkeys(("kube-apiserver", "kubernetes"), plan()), builder(staying))


def test_controller_leaves_in_an_order_in_which_the_next_part_is_served() -> None:
    """Its kubelet reports elsewhere first; its etcd goes last. No gate asks it any more."""
    found = removal(dead=False, member=MemberToRemove("c1", "", "controller-1", 2))
    assert names(found) == [
        "healthy",
        "kubelet",
        "withdraw",
        "kubernetes",
        "kube-apiserver",
        "leave",
        "forget-checkpoints",
        "static-pods",
        "accept-queues",
        "etcd",
    ]
    assert {each for item in found.steps for each in asked(item.gates)} == {("controller-1", "controller-2")}
    assert all(item.gates for item in found.steps)
    (queues,) = (item.step for item in found.steps if item.step.name == "accept-queues")
    assert isinstance(queues, ResetQueuesStep) and queues.controllers == HOSTS[2:]


def test_dead_controller_is_asked_for_nothing() -> None:
    """Its member and its node are removed by the others; Helm would wait for a DaemonSet's pod on that node."""
    found = removal(dead=True, member=MemberToRemove("c1", "", "controller-1", 2))
    assert names(found) == ["healthy", "withdraw", "etcd", "node", "kubernetes", "kube-apiserver"]
    assert "etcd" not in names(removal(dead=True, member=MemberToRemove()))


def test_undo_of_an_adoption_starts_each_static_pod_before_its_replacement_goes() -> None:
    """The pod-checkpointer goes before kube-apiserver's release, whose removal it would take for a failure; leaving
    the API's other addresses is a step where there are several controllers."""
    for hosts, withdrawal in ((HOSTS[:1], []), (HOSTS, [WithdrawStep(TOOLS.kube, TOOLS.clock).name])):
        assert names(undo_pipeline(cluster(*hosts), TOOLS, V, (), (), {}, NOTHING_RUNS)) == [
            *("restore controllers", "uninstall kubernetes"),
            *("restore kube-apiserver", "uninstall pod-checkpointer", "forget-checkpoints"),
            *withdrawal,
            *("uninstall kube-apiserver", "accept-queues"),
        ]

"""The steps that add nodes to a pool before its upgrade, and remove them afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.steps.nodes.cloud import Cloud
from tests.unit.steps.nodes.fleet import BUDGETS, NEW, OLD
from upgrader.errors import RollbackFailed, StepFailed
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.node_settings import DrainPolicy
from upgrader.model.release import RestorePoint
from upgrader.model.surge import SURGE
from upgrader.model.version import KubernetesVersion

LABELS = {"pool": "gpu", SURGE: "gpu"}


def add_budget(cloud: Cloud) -> None:
    """A budget that allows no eviction."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "expectedPods": 1}
    cloud.kube.put(BUDGETS, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec, "status": status})


def test_nodes_are_added_and_removed() -> None:
    """The playbook is told how many there are to be and with which labels; the removal drains them first."""
    cloud = Cloud(2)
    assert cloud.add().capture() == RestorePoint(surge="gpu")
    cloud.run_add()
    assert cloud.nodes() == {"gpu-surge-1": "", "gpu-surge-2": ""}
    assert cloud.variables["surge_labels"] == LABELS
    assert cloud.variables["surge_kubernetes_version"] == str(NEW)
    cloud.add_pod("gpu-surge-1")
    cloud.run_remove()
    assert (cloud.nodes(), cloud.machines) == ({}, set())
    assert cloud.ran == [("add-nodes.yml", 2, []), ("remove-nodes.yml", 0, ["gpu-surge-1", "gpu-surge-2"])]


def test_node_counts_when_it_has_shown_that_it_stays() -> None:
    """Ready, with a live heartbeat: the drain of the pool relies on it."""
    cloud = Cloud()
    cloud.joins = False
    with pytest.raises(StepFailed) as caught:
        cloud.run_add()
    assert "after 900 s, pool gpu doesn't have 1 surge node that can take pods" in caught.value.message
    assert f"0 of 1 nodes have joined with the label {SURGE}=gpu" in caught.value.message
    assert f"kubectl get nodes -l {SURGE}=gpu" in caught.value.remedy
    cloud.join("gpu-surge-1", LABELS, ready=False)
    with pytest.raises(StepFailed, match="gpu-surge-1: it is not Ready"):
        cloud.run_add()


@pytest.mark.parametrize(
    ("version", "labels", "told"),
    [
        (KubernetesVersion(1, 38, 0), LABELS, "its kubelet v1.38.0 is newer than kube-apiserver v1.37.1"),
        (KubernetesVersion(1, 33, 9), LABELS, "its kubelet v1.33.9 is too old for kube-apiserver v1.37.1"),
        (NEW, {SURGE: "gpu"}, "it lacks the label pool=gpu of its pool"),
        (NEW, {SURGE: "other"}, "0 of 1 nodes have joined"),
    ],
)
def test_node_that_does_not_help_is_told_of(version: KubernetesVersion, labels: dict[str, str], told: str) -> None:
    """Pods of the pool can't be placed there, or its kubelet is none that the API server supports."""
    cloud = Cloud()
    cloud.version, cloud.labels = version, labels
    with pytest.raises(StepFailed) as caught:
        cloud.run_add()
    assert told in caught.value.message


@pytest.mark.parametrize("status", [{}, {"nodeInfo": {"kubeletVersion": ""}}, {"nodeInfo": {"kubeletVersion": "dev"}}])
def test_node_without_a_version_is_removed(status: dict[str, Any]) -> None:
    """Its kubelet may never have reported, or be somebody's own: that doesn't keep it in the cluster."""
    cloud = Cloud()
    cloud.run_add()
    node = cloud.kube.get(NODES, "gpu-surge-1")
    cloud.kube.put(NODES, {**(node or {}), "status": status})
    cloud.run_remove()
    assert cloud.nodes() == {} and cloud.machines == set()


def test_older_kubelet_is_good_enough() -> None:
    """As far as the API server supports it: the node is there for the upgrade only."""
    cloud = Cloud()
    cloud.version = OLD
    cloud.run_add()
    assert cloud.nodes() == {"gpu-surge-1": ""}


def test_node_that_the_inventory_lists_is_never_a_surge_node() -> None:
    """Its kubelet may have labelled it: it is neither counted nor drained nor removed."""
    cloud = Cloud()
    cloud.join("worker-1", LABELS)
    cloud.joins = False
    with pytest.raises(
        StepFailed, match="worker-1: has the surge label, but the inventory lists it among the cluster's own nodes"
    ):
        cloud.run_add()
    cloud.run_remove()
    assert cloud.ran[-1] == ("remove-nodes.yml", 0, [])
    node = cloud.kube.get(NODES, "worker-1")
    assert node is not None and not node["spec"]


def test_failed_playbook_fails_the_step_and_its_undo_removes_what_it_made() -> None:
    """Also a machine that never became a node: the other playbook runs all the same."""
    cloud = Cloud()
    cloud.joins, cloud.fails = False, {"add-nodes.yml"}
    with pytest.raises(StepFailed, match="quota exceeded"):
        cloud.run_add()
    assert cloud.machines == {"gpu-surge-1"}
    cloud.undo()
    assert cloud.machines == set()
    assert cloud.ran[-1] == ("remove-nodes.yml", 0, [])


def test_node_whose_machine_is_gone_is_deleted() -> None:
    """`kubeadm reset` leaves the Node; one whose kubelet still reports is no such node."""
    cloud = Cloud()
    cloud.run_add()
    cloud.keeps_nodes = True
    cloud.run_remove()
    assert cloud.nodes() == {}
    assert "gpu-surge-1: its kubelet has stopped; deleting its Node" in cloud.notes


def test_node_that_joins_while_the_others_are_removed_is_not_deleted() -> None:
    """It wasn't drained: without its Node, its pods would be started elsewhere while they run on. Another run does."""
    cloud = Cloud()
    cloud.run_add()
    cloud.joins_late = "gpu-surge-2"
    cloud.run_remove()
    assert cloud.nodes() == {"gpu-surge-2": ""}
    assert "gpu-surge-2 joined in the meantime, and was not drained" in cloud.notes[-1]
    cloud.machines = set()
    cloud.kube._objects.pop(("v1", "nodes", "", "gpu-surge-2"))
    with pytest.raises(RollbackFailed, match="gpu-surge-2 joined in the meantime"):
        cloud.undo()
    cloud.joins_late = ""
    cloud.run_remove()
    assert cloud.nodes() == {}


def test_machine_that_stays_is_told_of_and_does_not_fail_the_run() -> None:
    """The pool is upgraded: that isn't taken back for a node too many. Its Node stays as long as its kubelet runs."""
    cloud = Cloud()
    cloud.run_add()
    cloud.keeps_machines = True
    cloud.run_remove()
    assert cloud.nodes() == {"gpu-surge-1": "cordoned marked"}
    assert "gpu-surge-1 is still Ready 900 s after remove-nodes.yml ended" in cloud.notes[-1]
    assert "The next `upgrader run` removes them" in cloud.notes[-1]
    with pytest.raises(RollbackFailed, match="gpu-surge-1 is still Ready"):
        cloud.undo()


def test_failed_removal_leaves_drained_nodes_cordoned() -> None:
    """Nobody knows what the playbook has done to them; another one takes them up."""
    cloud = Cloud()
    cloud.run_add()
    cloud.keeps_machines, cloud.fails = True, {"remove-nodes.yml"}
    cloud.run_remove()
    assert "quota exceeded; still there, drained and cordoned: gpu-surge-1" in cloud.notes[-1]
    cloud.keeps_machines, cloud.fails = False, set()
    cloud.run_remove()
    assert cloud.nodes() == {}


def test_blocked_drain_leaves_all_as_it_is() -> None:
    """No budget is violated: the surge nodes take pods again, and no playbook runs."""
    cloud = Cloud(2)
    cloud.run_add()
    cloud.add_pod("gpu-surge-1")
    add_budget(cloud)
    cloud.run_remove()
    assert cloud.nodes() == {"gpu-surge-1": "", "gpu-surge-2": ""}
    assert "PodDisruptionBudget default/web" in cloud.notes[-1]
    assert "it is uncordoned again" in cloud.notes[-1]
    with pytest.raises(RollbackFailed, match="gpu-surge-1: it was not drained within 60 s") as caught:
        cloud.undo()
    assert "upgrader resume" in caught.value.remedy
    assert [name for name, *_ in cloud.ran] == ["add-nodes.yml"]


def test_force_drains_surge_nodes_as_any_other() -> None:
    """`onBlocked: force`: pods are deleted after the deadline."""
    cloud = Cloud(drain=DrainPolicy(30.0, "force"))
    cloud.run_add()
    cloud.add_pod("gpu-surge-1")
    add_budget(cloud)
    cloud.run_remove()
    assert cloud.nodes() == {}


def test_what_an_earlier_run_left_is_taken_up() -> None:
    """A node that is there is used, and its cordon lifted where a removal that didn't end has made it."""
    cloud = Cloud()
    cloud.run_add()
    cloud.keeps_machines = True
    cloud.run_remove()
    cloud.run_add()
    assert cloud.nodes() == {"gpu-surge-1": ""}
    assert [name for name, *_ in cloud.ran] == ["add-nodes.yml", "remove-nodes.yml"], "there was nothing to add"


def test_cordon_of_somebody_else_stays() -> None:
    """A surge node that an administrator has cordoned doesn't count, and another one is added."""
    cloud = Cloud()
    cloud.join("gpu-surge-9", LABELS, cordoned=True)
    cloud.run_add()
    assert cloud.nodes() == {"gpu-surge-9": "cordoned", "gpu-surge-1": ""}
    assert cloud.ran == [("add-nodes.yml", 1, ["gpu-surge-9"])]


@pytest.mark.parametrize("nodes", [1, 2])
def test_process_that_dies_at_any_request_leaves_nothing_behind(nodes: int) -> None:
    """Killed and resumed, the step has as many nodes as it wants and never more; killed and rolled back, none."""
    deaths = 0
    for lives in range(200):
        resumed, undone = Cloud(nodes), Cloud(nodes)
        if not resumed.dies(lives, resumed.run_add):
            break
        deaths += 1
        resumed.run_add()
        assert len(resumed.nodes()) == resumed.most_machines == nodes
        undone.dies(lives, undone.run_add)
        undone.undo()
        assert (undone.nodes(), undone.machines) == ({}, set())
    assert deaths > 10


@pytest.mark.parametrize("keeps_nodes", [True, False])
def test_process_that_dies_while_it_removes_them_is_taken_up(keeps_nodes: bool) -> None:
    """By the same run, by a rollback, or by another run that wants them again."""
    deaths = 0
    for lives in range(200):
        clouds = [Cloud(2) for _ in range(3)]
        for cloud in clouds:
            cloud.run_add()
            cloud.add_pod("gpu-surge-2")
            cloud.keeps_nodes = keeps_nodes
        died = [cloud.dies(lives, cloud.run_remove) for cloud in clouds]
        assert len(set(died)) == 1
        if not died[0]:
            break
        deaths += 1
        resumed, undone, again = clouds
        resumed.run_remove()
        undone.undo()
        again.run_add()
        assert (resumed.nodes(), resumed.machines) == (undone.nodes(), undone.machines) == ({}, set())
        assert again.nodes() == {"gpu-surge-1": "", "gpu-surge-2": ""}
        assert again.machines == set(again.nodes())
    assert deaths > 10


def test_check_ends_the_wait() -> None:
    """Clients that lose the API end the step, whichever way it goes."""

    def check() -> None:
        raise StepFailed("clients lost 100 requests")

    cloud = Cloud()
    with pytest.raises(StepFailed, match="clients lost"):
        cloud.add().watched(check).apply(cloud.notes.append)
    cloud.run_add()
    cloud.add_pod("gpu-surge-1")
    with pytest.raises(StepFailed, match="clients lost"):
        cloud.remove().watched(check).apply(cloud.notes.append)


def test_steps_say_what_they_do() -> None:
    """In one line each."""
    cloud = Cloud()
    assert cloud.add().summary() == "1 more node during nodes-gpu (add-nodes.yml)"
    assert cloud.remove().summary() == "drain and remove the surge nodes (remove-nodes.yml)"
    assert (cloud.add().name, cloud.remove().name) == ("surge-gpu", "end-surge-gpu")
    cloud.remove().undo(RestorePoint(), cloud.notes.append)
    assert cloud.ran == []

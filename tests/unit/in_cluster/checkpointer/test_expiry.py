"""Which workloads may have a checkpoint, beside what their standby pods don't run, and when a checkpoint goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, pod
from tests.unit.in_cluster.checkpointer.cluster import Cluster, instance, own_pod, passes, sandbox, standby_of
from upgrader.contract.checkpoints import CHECKPOINT_OF
from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiAway
from upgrader.in_cluster.checkpointer.observation.scope import Scope
from upgrader.in_cluster.checkpointer.observation.static_manifests import StaticManifests
from upgrader.in_cluster.checkpointer.observed_values import Owner
from upgrader.in_cluster.checkpointer.reporting.metrics import render
from upgrader.onhost.node.workload_policy import Workload

SETTLED = Owner(settled=True, release="kube-apiserver", revision="2")
EXPIRED = 140
"""Seconds: `expire_after` is 100 in these tests, and the API must have answered for 10 before."""


@pytest.fixture
def cluster() -> Cluster:
    """A node with one Ready pod of kube-apiserver."""
    return Cluster(found=[pod()], sandboxes=[sandbox()])


def foreign(namespace: str, name: str, uid: str = "f") -> dict[str, object]:
    """A pod of another namespace that asks for a checkpoint."""
    found = pod(name=f"{name}-abc-x1", owner=("ReplicaSet", f"{name}-abc"), uid=uid)
    found["metadata"]["namespace"] = namespace
    return found


def test_pods_of_other_namespaces_are_ignored_and_told(tmp_path: Path, cluster: Cluster) -> None:
    """An annotation in a tenant's namespace makes no static pod, and doesn't keep the node from being ready."""
    cluster.found.append(foreign("tenant", "web"))
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 14)
    report, counters = loop.board.get()
    assert report is not None and report.unready() == [] and report.ignored == 1
    assert "upgrader_checkpointer_ignored_pods 1.0" in render(report, counters, cluster.now)
    assert list(loop.store.read()) == [API]
    assert "web-abc-x1" not in cluster.conditions


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        (Scope(), {"kube-system/kube-apiserver", "kube-system/web"}),
        (Scope(workloads=frozenset({"kube-system/web"})), {"kube-system/web"}),
        (Scope(frozenset({"tenant"})), {"tenant/web"}),
    ],
)
def test_scope(scope: Scope, allowed: set[str]) -> None:
    """Namespaces are named, and workloads of them where not all of these may have a checkpoint."""
    pods = [pod(), foreign("kube-system", "web"), foreign("tenant", "web")]
    names = ("kube-system/kube-apiserver", "kube-system/web", "tenant/web")
    assert {name for name, found in zip(names, pods, strict=True) if scope.admits(found)} == allowed


def test_a_pod_without_an_owner_is_refused_only_where_all_are_allowed() -> None:
    """It is told why, unless the workloads are named: then it is none of them."""
    bare = pod()
    bare["metadata"]["ownerReferences"] = []
    assert Scope().admits(bare)
    assert not Scope(workloads=frozenset({"kube-system/web"})).admits(bare)


def test_what_may_no_longer_have_a_checkpoint_neither_starts_nor_stays(tmp_path: Path, cluster: Cluster) -> None:
    """A workload that was taken from the list keeps no standby pod, and its checkpoint goes after a while."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 14)
    loop.observer.scope = Scope(frozenset({"other"}))
    cluster.error, cluster.sandboxes = ApiAway("refused"), []
    passes(loop, cluster, 60)
    assert not loop.store.manifest_path(API).exists()
    loop.store.activate(API, 1)
    cluster.error = None
    passes(loop, cluster, 16)
    assert not loop.store.manifest_path(API).exists()
    assert list(loop.store.read()) == [API]
    passes(loop, cluster, EXPIRED)
    assert list(loop.store.read()) == []


def test_no_standby_pod_beside_kubeadms_static_pod(tmp_path: Path, cluster: Cluster) -> None:
    """After an adoption that was rolled back, or `kubeadm upgrade`, the kubelet starts kubeadm's: one of ours would
    take its port.
    """
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 14)
    cluster.manifests = {API}
    cluster.error, cluster.sandboxes = ApiAway("refused"), []
    passes(loop, cluster, 200)
    assert not loop.store.manifest_path(API).exists()


def test_a_standby_pod_makes_room_for_kubeadms(tmp_path: Path, cluster: Cluster) -> None:
    """One that serves already ends once the API has answered for a while; the checkpoint goes with its workload."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 14)
    loop.store.activate(API, 1)
    cluster.found, cluster.sandboxes = [], [standby_of(1)]
    cluster.manifests, cluster.owners = {API}, {"kube-apiserver": None}
    passes(loop, cluster, 24)
    assert not loop.store.manifest_path(API).exists()
    assert list(loop.store.read()) == [API]
    passes(loop, cluster, EXPIRED)
    assert list(loop.store.read()) == []


@pytest.mark.parametrize("owner", [SETTLED, None], ids=["fewer replicas", "the owner is gone"])
@pytest.mark.parametrize("others", [True, False], ids=["another serves", "nothing else serves"])
def test_a_node_that_is_no_longer_meant_to_have_one(
    tmp_path: Path, cluster: Cluster, owner: Owner | None, others: bool
) -> None:
    """A standby pod of a demoted controller ends, and its checkpoint goes, while another instance serves the API; where
    what answers may be that standby pod itself, both stay.
    """
    loop = instance(tmp_path, cluster)
    cluster.owners = {"kube-apiserver": SETTLED}
    passes(loop, cluster, 14)
    loop.store.activate(API, 1)
    cluster.found, cluster.sandboxes = [], [standby_of(1)]
    cluster.owners, cluster.others_serve = {"kube-apiserver": owner}, others
    passes(loop, cluster, 80)
    assert loop.store.manifest_path(API).exists()
    passes(loop, cluster, EXPIRED)
    assert loop.store.manifest_path(API).exists() is (not others)
    assert list(loop.store.read()) == ([] if others else [API])


def test_the_only_api_that_a_kubelet_knows_stays(tmp_path: Path, cluster: Cluster) -> None:
    """A controller that was left out is back: its kubelet finds the API at its own address, where only the standby pod
    serves. That stays, also while others serve, until the kubelet has another address; one in reserve needn't.
    """
    loop = instance(tmp_path, cluster)
    cluster.owners = {"kube-apiserver": SETTLED}
    passes(loop, cluster, 14)
    loop.store.activate(API, 1)
    cluster.found, cluster.sandboxes = [], [standby_of(1)]
    cluster.others_serve, cluster.here = True, True
    passes(loop, cluster, 16 + EXPIRED)
    assert loop.store.manifest_path(API).exists() and list(loop.store.read()) == [API]
    cluster.here = False
    passes(loop, cluster, EXPIRED)
    assert list(loop.store.read()) == []


def test_load_balancer_on_the_node_keeps_no_standby_pod(tmp_path: Path, cluster: Cluster) -> None:
    """The kubelet of a demoted controller finds the API at its own node, where a load balancer leads to the others as
    well: the standby pod isn't needed.
    """
    loop = instance(tmp_path, cluster)
    cluster.owners = {"kube-apiserver": SETTLED}
    passes(loop, cluster, 14)
    loop.store.activate(API, 1)
    cluster.found, cluster.sandboxes = [], [standby_of(1)]
    cluster.others_serve, cluster.here, cluster.balanced = True, True, True
    passes(loop, cluster, 16 + EXPIRED)
    assert list(loop.store.read()) == []


def test_a_checkpoint_that_does_not_run_is_no_api(tmp_path: Path, cluster: Cluster) -> None:
    """A demoted controller's load balancer of its own leads to others: the checkpoint that doesn't run goes."""
    loop = instance(tmp_path, cluster)
    cluster.owners = {"kube-apiserver": SETTLED}
    passes(loop, cluster, 14)
    cluster.found, cluster.sandboxes = [], []
    cluster.others_serve, cluster.here = True, True
    passes(loop, cluster, 16 + EXPIRED)
    assert list(loop.store.read()) == []


def test_a_pod_that_is_being_replaced_keeps_its_checkpoint(tmp_path: Path, cluster: Cluster) -> None:
    """While the owner's rollout isn't complete, a node without a pod waits for one."""
    loop = instance(tmp_path, cluster)
    cluster.owners = {"kube-apiserver": Owner(settled=False, release="", revision="")}
    passes(loop, cluster, 14)
    cluster.found, cluster.sandboxes, cluster.others_serve = [], [], True
    passes(loop, cluster, 2 * EXPIRED)
    assert list(loop.store.read()) == [API]


def test_what_can_not_be_read_keeps_its_checkpoint(tmp_path: Path, cluster: Cluster) -> None:
    """Not knowing whether a workload still exists removes nothing."""
    loop = instance(tmp_path, cluster)
    cluster.owners = {"kube-apiserver": SETTLED}
    passes(loop, cluster, 14)
    cluster.found, cluster.sandboxes, cluster.owners = [], [], {}
    passes(loop, cluster, 2 * EXPIRED)
    assert list(loop.store.read()) == [API]


def test_a_checkpoint_that_can_not_be_removed_is_told(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure has the folder's name, and the next pass tries again."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 14)
    loop.observer.scope = Scope(frozenset({"other"}))

    def broken(_: Path) -> None:
        raise OSError("Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr("upgrader.in_cluster.checkpointer.storage.files.remove_folder", broken)
        passes(loop, cluster, EXPIRED)
        report, _ = loop.board.get()
        assert report is not None and "workloads/kube-system.kube-apiserver can't be removed" in report.failure
    passes(loop, cluster, 2)
    assert list(loop.store.read()) == []


def test_images_that_no_static_pod_can_use_are_refused(tmp_path: Path, cluster: Cluster) -> None:
    """A checkpoint that the kubelet wouldn't start is none: the pod says why, and it is asked again after a while."""
    cluster.locked = {"example/main:v1": "it needs credentials"}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 20)
    condition = cluster.conditions["kube-apiserver-abc-x1"]
    assert condition == ("False", "ImageNeedsCredentials", "it needs credentials")
    assert list(loop.store.read()) == []
    cluster.locked = {}
    passes(loop, cluster, 60)
    assert cluster.conditions["kube-apiserver-abc-x1"][0] == "True"
    cluster.found, cluster.sandboxes = [], []
    passes(loop, cluster, 70)


def test_the_own_image_is_told_as_well(tmp_path: Path) -> None:
    """Where the checkpointer's own image can't be used by a static pod, that is why the node isn't ready."""
    own = sandbox("pod-checkpointer-abcde")
    cluster = Cluster(found=[own_pod()], sandboxes=[own], locked={"example/main:v1": "it needs credentials"})
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 14)
    report, _ = loop.board.get()
    assert report is not None
    (reason,) = report.unready()
    assert "its own standby pod is not in place yet: it needs credentials" in reason


def test_static_pods_of_others(tmp_path: Path) -> None:
    """Manifests in YAML or JSON count by namespace and name; ours, hidden, damaged and other files don't."""
    kubeadm = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: kube-apiserver\n  namespace: kube-system\n"
    ours = {"kind": "Pod", "metadata": {"name": "x-checkpoint", "labels": {CHECKPOINT_OF: "x"}}}
    (tmp_path / "kube-apiserver.yaml").write_text(kubeadm)
    (tmp_path / "web.json").write_text(json.dumps({"kind": "Pod", "metadata": {"name": "web"}}))
    (tmp_path / "checkpoint-kube-system.x.json").write_text(json.dumps(ours))
    (tmp_path / ".kube-scheduler.yaml").write_text(kubeadm.replace("apiserver", "scheduler"))
    (tmp_path / "list.yaml").write_text("kind: List\nitems: []\n")
    (tmp_path / "half.yaml").write_text("kind: [")
    (tmp_path / "text").write_text("just text")
    (tmp_path / "folder").mkdir()
    found = StaticManifests(tmp_path)
    assert found.workloads() == {API, Workload("default", "web")}
    (tmp_path / "kube-apiserver.yaml").unlink()
    (tmp_path / "web.json").write_text(json.dumps({"kind": "Pod", "metadata": {"name": "web-2"}}))
    assert found.workloads() == {Workload("default", "web-2")}


def test_no_folder_of_manifests(tmp_path: Path) -> None:
    """Where there is none, there are no static pods."""
    assert StaticManifests(tmp_path / "none").workloads() == frozenset()

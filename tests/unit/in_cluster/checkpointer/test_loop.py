"""Whole passes: a fake API server and runtime in front of a real disk."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, pod
from tests.unit.in_cluster.checkpointer.cluster import OWN, Cluster, instance, own_pod, passes, sandbox, standby_of
from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiAway, ApiUnknown
from upgrader.in_cluster.checkpointer.loop import Loop
from upgrader.in_cluster.checkpointer.observed_values import ApiState, Content, Owner
from upgrader.onhost.node.workload_policy import Workload


@pytest.fixture
def cluster() -> Cluster:
    """A healthy one."""
    return Cluster(found=[pod()], sandboxes=[sandbox()])


def test_a_ready_pod_gets_a_checkpoint_and_is_told(tmp_path: Path, cluster: Cluster) -> None:
    """After the set time there is a generation, the instance is ready, and the pod's condition names it."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 8)
    assert cluster.conditions["kube-apiserver-abc-x1"][:2] == ("False", "Proving")
    report = loop.board.get()[0]
    assert report is not None and "waiting until" in report.unready()[0]
    passes(loop, cluster, 4)
    assert cluster.conditions["kube-apiserver-abc-x1"] == ("True", "Current", "generation 1")
    report = loop.board.get()[0]
    assert report is not None and report.unready() == []


def test_ready_as_soon_as_the_checkpoint_is_there(tmp_path: Path, cluster: Cluster) -> None:
    """The pass that makes the checkpoint is the one that reports it: upgrades wait for it."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 0)
    while API not in loop.store.read():
        assert unready(loop)
        passes(loop, cluster, 0)
    assert unready(loop) == []
    assert cluster.conditions["kube-apiserver-abc-x1"] == ("True", "Current", "generation 1")


def test_power_cut_and_back(tmp_path: Path, cluster: Cluster) -> None:
    """A fresh process on an empty node starts the last-known-good at its second look, which it takes at once, and lets
    go for the parent.
    """
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    loop.lock.release()
    cluster.error, cluster.sandboxes = ApiAway("refused"), []
    reborn = instance(tmp_path, cluster)
    assert reborn.once().urgent
    assert not reborn.store.manifest_path(API).exists()
    cluster.now += 0.2
    assert not reborn.once().urgent
    assert reborn.store.read()[API].active_number == 1
    cluster.error, cluster.sandboxes = None, [sandbox()]
    passes(reborn, cluster, 8)
    assert reborn.store.manifest_path(API).exists()
    passes(reborn, cluster, 4)
    assert not reborn.store.manifest_path(API).exists()


def test_the_own_standby_pod_is_in_place_with_its_own_port(tmp_path: Path, cluster: Cluster) -> None:
    """The checkpointer's first generation of itself becomes a static pod at once; until it has, the node isn't safe."""
    cluster.found = [own_pod()]
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 0)
    assert unready(loop) == ["kube-system/pod-checkpointer-abcde: its own standby pod is not in place yet"]
    passes(loop, cluster, 14)
    assert loop.store.read()[OWN].active_number == 1
    assert unready(loop) == []


def test_the_first_own_standby_pod_waits_for_nobody(tmp_path: Path, cluster: Cluster) -> None:
    """While one pod after the other begins to ask for a checkpoint, the checkpointer is never Ready: a power cut then
    must find its standby pod all the same. Later standby pods have a predecessor to lose, and wait until it is Ready.
    """
    never_ready = own_pod()
    for condition in never_ready["status"]["conditions"]:
        condition["status"] = "False"
    cluster.found = [never_ready]
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 14)
    assert loop.store.read()[OWN].active_number == 1
    never_ready["spec"]["containers"][0]["image"] = "registry/other:v2"
    passes(loop, cluster, 60)
    assert loop.store.read()[OWN].active_number == 1
    assert set(loop.store.read()[OWN].records) == {1}


def unready(loop: Loop) -> list[str]:
    """Why it reports itself as not ready."""
    report = loop.board.get()[0]
    assert report is not None
    return report.unready()


def test_a_new_version_is_captured_only_by_itself(tmp_path: Path, cluster: Cluster) -> None:
    """The old version's standby pod doesn't capture its successor, however long that is Ready: it has to act well
    first.
    """
    cluster.found = [own_pod()]
    standby = instance(tmp_path, cluster, "pod-checkpointer-checkpoint-controller-1", standby=True)
    passes(standby, cluster, 60)
    assert OWN not in standby.store.read()
    assert cluster.conditions["pod-checkpointer-abcde"][:2] == ("False", "Proving")


def test_the_standby_pod_lets_the_daemonset_act(tmp_path: Path, cluster: Cluster) -> None:
    """A Ready pod of the DaemonSet gets the lock; when it doesn't take it, the standby pod acts again."""
    cluster.found = [own_pod()]
    standby = instance(tmp_path, cluster, "pod-checkpointer-checkpoint-controller-1", standby=True)
    passes(standby, cluster, 0)
    pod_of_daemon_set = instance(tmp_path, cluster)
    assert pod_of_daemon_set.once().acting
    passes(standby, cluster, 20)
    assert not standby.once().acting
    pod_of_daemon_set.lock.release()
    cluster.now += 10
    assert standby.once().acting


def test_the_standby_pod_stays_while_it_has_something_active(tmp_path: Path, cluster: Cluster) -> None:
    """What it started it sees through: a change of the actor would begin every grace again."""
    first = instance(tmp_path, cluster)
    passes(first, cluster, 12)
    first.store.activate(API, 1)
    first.lock.release()
    cluster.found, cluster.sandboxes = [own_pod()], []
    standby = instance(tmp_path, cluster, "pod-checkpointer-checkpoint-controller-1", standby=True)
    passes(standby, cluster, 20)
    assert not instance(tmp_path, cluster).once().acting


def test_only_one_instance_acts_and_the_other_takes_over(tmp_path: Path, cluster: Cluster) -> None:
    """The lock decides; when its holder goes, the standby acts at its next pass."""
    first, second = instance(tmp_path, cluster), instance(tmp_path, cluster)
    assert first.once().acting
    assert not second.once().acting
    first.lock.release()
    assert second.once().acting
    assert not first.once().acting


def test_run_lets_the_lock_go(tmp_path: Path, cluster: Cluster) -> None:
    """A stopped instance releases the lock for the next one."""
    first, stop = instance(tmp_path, cluster), threading.Event()
    stop.set()
    first.once()
    first.run(stop)
    assert instance(tmp_path, cluster).once().acting


def test_unknown_sources_change_nothing_and_are_said(tmp_path: Path, cluster: Cluster) -> None:
    """Neither a failing runtime nor an unusable answer starts, removes or captures; the instance is not ready."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name != "manifests"}
    cluster.error, cluster.sandboxes = ApiUnknown("401"), None
    passes(loop, cluster, 200)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name != "manifests"} == before
    report = loop.board.get()[0]
    assert report is not None
    assert report.api is ApiState.UNKNOWN
    assert report.unready() == ["the API server is unknown", "the container runtime doesn't answer"]


def test_a_refused_pod_is_told_why(tmp_path: Path, cluster: Cluster) -> None:
    """A pod that needs a token never becomes a generation; its condition and the readiness name the reason."""
    token = {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    cluster.found = [pod(volumes=[token])]
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 60)
    assert cluster.conditions["kube-apiserver-abc-x1"][:2] == ("False", "VolumeNeedsApi")
    assert loop.store.read() == {}


def test_content_that_was_changed_under_a_running_pod_is_not_proven(tmp_path: Path, cluster: Cluster) -> None:
    """A pod that stays Ready proves nothing about a ConfigMap that it hasn't started with; after a restart it does."""
    key = ("ConfigMap", "kube-system", "c")
    cluster.found = [pod(volumes=[{"name": "c", "configMap": {"name": "c"}}])]
    cluster.contents = {key: Content({"k": b"good"}, "2025-01-01T00:00:00Z")}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    cluster.contents[key] = Content({"k": b"broken"}, "2026-01-01T01:00:00Z")
    passes(loop, cluster, 120)
    newest = loop.store.read()[API].newest
    report = loop.board.get()[0]
    assert newest is not None and newest.number == 1
    assert report is not None and report.unready() == []
    passes(loop, cluster, 60)
    (again,) = cluster.found[0]["status"]["containerStatuses"]
    again["state"]["running"]["startedAt"] = "2026-01-01T01:30:00Z"
    again["containerID"] = "containerd://c-again"
    cluster.sandboxes = [sandbox("again")]
    passes(loop, cluster, 12)
    newest = loop.store.read()[API].newest
    assert newest is not None and newest.number == 2


def test_content_that_no_pod_was_started_with_leaves_the_node_unready(tmp_path: Path, cluster: Cluster) -> None:
    """Where no checkpoint of the pod's template exists, unproven content is reported."""
    cluster.found = [pod(volumes=[{"name": "c", "configMap": {"name": "c"}}])]
    cluster.contents = {("ConfigMap", "kube-system", "c"): Content({}, "2026-01-01T01:00:00Z")}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 120)
    assert loop.store.read() == {}
    assert cluster.conditions["kube-apiserver-abc-x1"][:2] == ("False", "ContentChanged")


def test_a_crash_looping_successor_never_replaces_the_good_one(tmp_path: Path, cluster: Cluster) -> None:
    """A bad rollout doesn't change the last-known-good, and makes the instance unready."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    bad = pod(name="kube-apiserver-bad-x1", uid="bad", ready=False, image_id="sha256:bad", hostNetwork=True)
    cluster.found, cluster.sandboxes = [bad], [sandbox("kube-apiserver-bad-x1")]
    for _ in range(20):  # Ready now and then, as a crash-looper may be
        bad["status"]["conditions"][0]["status"] = "True"
        passes(loop, cluster, 6)
        bad["status"]["conditions"][0]["status"] = "False"
        passes(loop, cluster, 0)
    newest = loop.store.read()[API].newest
    assert newest is not None and newest.number == 1
    report = loop.board.get()[0]
    assert report is not None and list(report.pending) == ["kube-system/kube-apiserver-bad-x1"]


def test_a_lease_decides_over_a_controller_manager(tmp_path: Path, cluster: Cluster) -> None:
    """Its standby pod starts only once the API answers and its lease has gone stale, and is recognised as the
    holder.
    """
    annotations = {"checkpointer.upgrader.io/lease": "kube-controller-manager"}
    name = "kube-controller-manager-abc-x1"
    owner = ("ReplicaSet", "kube-controller-manager-abc")
    cluster.found = [pod(name=name, owner=owner, annotations=annotations)]
    cluster.sandboxes = [sandbox(name)]
    cluster.leases = {"kube-controller-manager": ("2026-01-01T00:00:00Z", f"{name}_1")}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    cluster.found, cluster.sandboxes = [], []
    manifest = loop.store.manifest_path(Workload("kube-system", "kube-controller-manager"))
    passes(loop, cluster, 28)
    assert not manifest.exists()
    passes(loop, cluster, 4)
    assert manifest.exists()
    for second in range(30):
        cluster.leases = {"kube-controller-manager": (str(second), "kube-controller-manager-checkpoint-controller-1_2")}
        passes(loop, cluster, 0)
    assert manifest.exists()


def leader(cluster: Cluster, tmp_path: Path) -> Loop:
    """A node that keeps a controller-manager of a known Deployment, from which pod and container are gone."""
    name, owner = "kube-controller-manager-abc-x1", ("ReplicaSet", "kube-controller-manager-abc")
    annotations = {"checkpointer.upgrader.io/lease": "kube-controller-manager"}
    cluster.found, cluster.sandboxes = [pod(name=name, owner=owner, annotations=annotations)], [sandbox(name)]
    cluster.owners = {"kube-controller-manager": Owner(settled=True, release="kubernetes", revision="4")}
    cluster.leases = {"kube-controller-manager": ("2026-01-01T00:00:00Z", f"{name}_1")}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    cluster.found, cluster.sandboxes = [], []
    return loop


def test_a_workload_that_no_longer_exists_needs_no_standby_pod(tmp_path: Path, cluster: Cluster) -> None:
    """Who deletes controller-manager's Deployment gets no standby pod of it; its checkpoint stays for a while."""
    loop = leader(cluster, tmp_path)
    cluster.owners = {"kube-controller-manager": None}
    passes(loop, cluster, 80)
    manager = Workload("kube-system", "kube-controller-manager")
    assert not loop.store.manifest_path(manager).exists()
    assert set(loop.store.read()[manager].records) == {1}
    cluster.owners = {}  # no word of it is not a word against it
    passes(loop, cluster, 40)
    assert loop.store.manifest_path(manager).exists()
    cluster.owners = {"kube-controller-manager": None}
    passes(loop, cluster, 6)
    assert loop.store.manifest_path(manager).exists()
    passes(loop, cluster, 8)
    assert not loop.store.manifest_path(manager).exists()


def test_the_standby_pod_of_kube_apiserver_stays_on_such_a_word(tmp_path: Path, cluster: Cluster) -> None:
    """It may be the standby pod that answers so, of a cluster whose Deployment was lost."""
    cluster.owners = {"kube-apiserver": Owner(settled=True, release="kube-apiserver", revision="2")}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    loop.store.activate(API, 1)
    cluster.found, cluster.sandboxes, cluster.owners = [], [standby_of(1)], {"kube-apiserver": None}
    passes(loop, cluster, 120)
    assert loop.store.manifest_path(API).exists()


@pytest.mark.parametrize(("settled", "revision"), [(True, "4"), (False, "")])
def test_a_generation_says_which_revision_it_is_of(
    tmp_path: Path, cluster: Cluster, settled: bool, revision: str
) -> None:
    """Helm's revision is noted where it is certain: in the middle of a rollout a pod may be of the one before."""
    cluster.owners = {"kube-apiserver": Owner(settled, release="kube-apiserver", revision="4")}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    newest = loop.store.read()[API].newest
    assert newest is not None
    assert (newest.origin.helm_release, newest.origin.helm_revision) == ("kube-apiserver", revision)


@pytest.mark.parametrize("why", ["another container runs", "runtime unknown", "probe fails"])
def test_a_stale_ready_proves_nothing(tmp_path: Path, cluster: Cluster, why: str) -> None:
    """What the API calls Ready is asked for again: at the runtime, and at the pod's own probe."""
    if why == "another container runs":
        cluster.found[0]["status"]["containerStatuses"][0]["containerID"] = "containerd://older"
    elif why == "runtime unknown":
        cluster.sandboxes = None
    else:
        cluster.unready = "the readiness probe of container main, asked at 10.0.0.1:443: HTTP 500"
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 60)
    assert loop.store.read() == {}
    report = loop.board.get()[0]
    assert report is not None and report.pending
    assert cluster.conditions["kube-apiserver-abc-x1"][:2] == ("False", "PodNotReady")


def test_a_new_instance_that_does_not_serve_beside_the_old_one(tmp_path: Path, cluster: Cluster) -> None:
    """It has the old one's port, and so its answers: it isn't kept, however long it is Ready, before it is alone."""
    new = pod("kube-apiserver-abc-x2", uid="new", containers=[{"name": "main", "image": "example/main:v2"}])
    new["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    cluster.shared_port = True
    cluster.found.append(new)
    cluster.sandboxes = [sandbox(), sandbox("kube-apiserver-abc-x2")]
    passes(loop, cluster, 60)
    newest = loop.store.read()[API].newest
    assert newest is not None and newest.origin.uid == "uid-1"
    cluster.found, cluster.sandboxes = [new], [sandbox("kube-apiserver-abc-x2")]
    passes(loop, cluster, 12)
    newest = loop.store.read()[API].newest
    assert newest is not None and newest.origin.uid == "new"


def test_a_standby_pod_stays_while_its_pod_does_not_serve(tmp_path: Path, cluster: Cluster) -> None:
    """The pod is Ready by the answers of the standby pod, which would leave nothing that serves if it ended."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    assert loop.store.activate(API, 1)
    cluster.shared_port = True
    cluster.sandboxes = [sandbox(), standby_of(1)]
    passes(loop, cluster, 120)
    assert loop.store.read()[API].active
    cluster.shared_port = False
    passes(loop, cluster, 14)
    assert not loop.store.read()[API].active


def test_a_settled_pod_is_not_probed_at_each_look(tmp_path: Path, cluster: Cluster) -> None:
    """Once its content is kept, nothing hangs on the pod's readiness, so that asking would be for nothing."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    cluster.unready = "the readiness probe would not pass"
    passes(loop, cluster, 12)
    report = loop.board.get()[0]
    assert report is not None and report.unready() == []


def test_a_pod_that_is_not_understood_stops_nobody(tmp_path: Path, cluster: Cluster) -> None:
    """A field of a later Kubernetes costs its own pod the checkpoint, not the others theirs."""
    odd = pod(name="odd-abc-x1", owner=("ReplicaSet", "odd-abc"), uid="odd", volumes=[{"name": "v", "secret": None}])
    cluster.found.append(odd)
    cluster.sandboxes = [sandbox(), sandbox("odd-abc-x1")]
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    assert set(loop.store.read()) == {API}
    assert cluster.conditions["odd-abc-x1"][:2] == ("False", "NotUnderstood")


def test_nothing_secret_is_logged(tmp_path: Path, cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """No log line of a pass that keeps a Secret has its value."""
    cluster.found = [pod(volumes=[{"name": "s", "secret": {"secretName": "s"}}])]
    cluster.contents = {("Secret", "kube-system", "s"): Content({"k": b"swordfish"}, "2025-01-01T00:00:00Z")}
    loop = instance(tmp_path, cluster)
    with caplog.at_level("DEBUG"):
        passes(loop, cluster, 12)
    assert "generation captured" in caplog.text
    assert "swordfish" not in caplog.text


def test_a_disk_that_fails_is_reported_and_tried_again(tmp_path: Path, cluster: Cluster) -> None:
    """A pass that can't read the store doesn't end the process: it says why, counts, and the next one may work."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    folder = loop.store.workloads_folder
    folder.rename(tmp_path / "old")
    folder.write_text("a file in its place")
    cluster.now += 2
    report = loop.once()
    assert str(folder) in report.failure and report.unready()
    assert loop.board.get()[1].failures == 1
    folder.unlink()
    (tmp_path / "old").rename(folder)
    cluster.now += 2
    assert loop.once().unready() == []


def test_a_workload_whose_disk_fails_leaves_the_others_alone(tmp_path: Path, cluster: Cluster) -> None:
    """Nothing is written where nothing can be read; the node is unready, and other pods are kept all the same."""
    web = pod(name="web-abc-x1", owner=("ReplicaSet", "web-abc"), uid="web")
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    loop.store.manifest_path(API).mkdir()
    cluster.found = [pod(uid="newer", image_id="sha256:bb"), web]
    cluster.sandboxes = [sandbox(), sandbox("web-abc-x1")]
    passes(loop, cluster, 20)
    assert any("kube-system.kube-apiserver can't be read" in why for why in unready(loop))
    loop.store.manifest_path(API).rmdir()
    disk = loop.store.read()
    assert list(disk[API].records) == [1]
    assert list(disk[Workload("kube-system", "web")].records) == [1]
    passes(loop, cluster, 20)
    assert list(loop.store.read()[API].records) == [1, 2]


def test_a_secret_that_may_not_be_read_keeps_the_node_unready(tmp_path: Path, cluster: Cluster) -> None:
    """Without a Secret's content there is no checkpoint, and the pod's condition and the readiness say so."""
    cluster.found = [pod(volumes=[{"name": "s", "secret": {"secretName": "s"}}])]
    cluster.contents = {("Secret", "kube-system", "s"): Content({"k": b"v"}, "2025-01-01T00:00:00Z")}
    cluster.unreadable = {"s"}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 20)
    assert loop.store.read() == {}
    assert cluster.conditions["kube-apiserver-abc-x1"][:2] == ("False", "Unreadable")
    assert "can't be read" in unready(loop)[0]
    cluster.unreadable = set()
    passes(loop, cluster, 12)
    assert unready(loop) == []


def test_a_pod_that_is_being_deleted_is_not_waited_for(tmp_path: Path, cluster: Cluster) -> None:
    """A terminating pod neither keeps the node unready nor gets a condition."""
    cluster.found = [pod()]
    cluster.found[0]["metadata"]["deletionTimestamp"] = "2026-01-01T02:00:00Z"
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 20)
    assert unready(loop) == []
    assert cluster.conditions == {}
    assert loop.store.read() == {}


def test_a_condition_that_may_not_be_written_stops_nothing(
    tmp_path: Path, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The condition only informs: without it the pod is kept all the same, and the log says so once."""
    cluster.unreadable = {"kube-apiserver-abc-x1"}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 20)
    assert set(loop.store.read()) == {API}
    assert unready(loop) == []
    assert caplog.text.count("the condition of pod kube-apiserver-abc-x1 can't be written") == 1


def test_the_newest_of_two_proven_pods_is_kept(tmp_path: Path, cluster: Cluster) -> None:
    """In the middle of a rollout the newer pod is the checkpoint, in whatever order the API lists them."""
    newer = pod(name="kube-apiserver-abc-x2", uid="u2", containers=[{"name": "main", "image": "example/main:v2"}])
    newer["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    cluster.found = [newer, pod()]
    cluster.sandboxes = [sandbox(), sandbox("kube-apiserver-abc-x2")]
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    newest = loop.store.read()[API].newest
    assert newest is not None and newest.origin.pod == "kube-apiserver-abc-x2"


def test_a_lease_that_may_not_be_read_starts_nothing(tmp_path: Path, cluster: Cluster) -> None:
    """Of an unknown lease nothing follows, as a second controller-manager could act; the log says what is missing."""
    loop = leader(cluster, tmp_path)
    manifest = loop.store.manifest_path(Workload("kube-system", "kube-controller-manager"))
    cluster.unreadable = {"kube-controller-manager"}
    passes(loop, cluster, 120)
    assert not manifest.exists()
    assert "its lease can't be read" in loop._logged["complaints"]
    cluster.unreadable = set()
    passes(loop, cluster, 40)
    assert manifest.exists()


def test_contents_are_not_held_longer_than_needed(tmp_path: Path, cluster: Cluster) -> None:
    """A Secret of a pod that is gone leaves the process's memory within a minute."""
    cluster.found = [pod(volumes=[{"name": "s", "secret": {"secretName": "s"}}])]
    key = ("Secret", "kube-system", "s")
    cluster.contents = {key: Content({"k": b"swordfish"}, "2025-01-01T00:00:00Z")}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    assert key in loop.observer._contents
    cluster.found = []
    passes(loop, cluster, 60)
    assert loop.observer._contents == {}


def test_a_pass_comes_soon_while_the_api_is_unreachable(tmp_path: Path, cluster: Cluster) -> None:
    """Between passes a process waits its interval; with nothing standing in for the API a tenth of it."""
    loop, waits = instance(tmp_path, cluster), list[float]()

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            cluster.error = ApiAway("refused")
            if len(waits) == 2:
                self.set()
            return True

    loop.run(Stop())
    assert waits == [2, 0.2]

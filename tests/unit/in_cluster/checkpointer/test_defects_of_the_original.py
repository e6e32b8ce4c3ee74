"""What the first pod-checkpointer is known to have got wrong, one test for each: here it is otherwise."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, Json, pod
from tests.unit.in_cluster.checkpointer.cluster import OWN, Cluster, instance, own_pod, passes, sandbox, standby_of
from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiAway, ApiUnknown
from upgrader.in_cluster.checkpointer.loop import Loop
from upgrader.in_cluster.checkpointer.observation.kubelet_kubeconfig import load
from upgrader.in_cluster.checkpointer.observed_values import Content
from upgrader.in_cluster.checkpointer.reporting.health_server import Health
from upgrader.in_cluster.checkpointer.reporting.metrics import render
from upgrader.in_cluster.checkpointer.static_pods.pods import asks
from upgrader.onhost.node.workload_policy import Workload

OLD = "2025-01-01T00:00:00Z"


@pytest.fixture
def cluster() -> Cluster:
    """A healthy one, with one Ready kube-apiserver."""
    return Cluster(found=[pod()], sandboxes=[sandbox()])


def kept(tmp_path: Path, cluster: Cluster) -> Loop:
    """An instance that has kept what there is."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    return loop


def report(loop: Loop) -> list[str]:
    """Why the instance is not ready."""
    found = loop.board.get()[0]
    assert found is not None
    return found.unready()


def files(root: Path) -> dict[Path, bytes]:
    """Every file on the node, except the one that only names the acting instance."""
    return {p: p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name not in ("lock", "change")}


def test_keyed_by_pod_name_and_overwritten_by_a_crash_looper(tmp_path: Path, cluster: Cluster) -> None:
    """Generations belong to the workload; a new one needs a pod that was Ready for the set time, and old ones stay."""
    loop = kept(tmp_path, cluster)
    bad = pod(name="kube-apiserver-bad-z9", uid="bad", ready=False, image_id="sha256:bad")
    cluster.found, cluster.sandboxes = [bad], [sandbox("kube-apiserver-bad-z9")]
    passes(loop, cluster, 60)
    newest = loop.store.read()[API].newest
    assert newest is not None and newest.images == {"main": "sha256:aa"}
    for number in range(2, 6):
        cluster.found = [pod(uid=f"u{number}", image_id=f"sha256:{number}")]
        cluster.sandboxes = [sandbox()]
        passes(loop, cluster, 14)
    assert set(loop.store.read()[API].records) == {3, 4, 5}


@pytest.mark.parametrize("health", ["not ready", "other container", "own request"])
def test_checkpoints_regardless_of_health(tmp_path: Path, cluster: Cluster, health: str) -> None:
    """Only a pod that the API calls Ready, whose containers the runtime runs and whose probe answers us, is kept."""
    if health == "not ready":
        cluster.found = [pod(ready=False)]
    elif health == "other container":
        cluster.sandboxes = [sandbox("kube-apiserver-abc-x2")]
    else:
        cluster.unready = "HTTP 500"
    assert kept(tmp_path, cluster).store.read() == {}


def test_an_error_reads_as_nothing_is_running(tmp_path: Path, cluster: Cluster) -> None:
    """With the API unreachable and the runtime unknown, nothing starts: unknown isn't "not running"."""
    loop = kept(tmp_path, cluster)
    cluster.error, cluster.sandboxes = ApiAway("refused"), None
    passes(loop, cluster, 120)
    assert not loop.store.manifest_path(API).exists()
    assert "the container runtime doesn't answer" in report(loop)


def test_its_own_roll_out_deletes_everything(tmp_path: Path, cluster: Cluster) -> None:
    """The store is the node's: under another pod's name, as the static pod, without any pod of its own in sight and
    with sources unknown, nothing of it goes.
    """
    cluster.found.append(own_pod())
    first = kept(tmp_path, cluster)
    passes(first, cluster, 4)
    before = files(tmp_path)
    assert {p.name for p in first.store.manifests.iterdir()} == {first.store.manifest_path(OWN).name}
    first.lock.release()
    standby = instance(tmp_path, cluster, "pod-checkpointer-checkpoint-controller-1", standby=True)
    cluster.found = [pod()]  # the DaemonSet's pod is being replaced
    cluster.sandboxes = [sandbox(), standby_of(1, "pod-checkpointer")]
    passes(standby, cluster, 60)
    for error in (ApiUnknown("401"), ApiAway("refused")):
        cluster.error = error
        passes(standby, cluster, 60)
    assert files(tmp_path) == before


def test_failed_writes_are_never_retried(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a full disk refused is written by the next pass that can; until then the node is unready, with a reason."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 8)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        passes(loop, cluster, 8)
        assert "No space left" in "; ".join(report(loop))
        assert loop.store.read()[API].records == {}
    passes(loop, cluster, 0)
    assert set(loop.store.read()[API].records) == {1}
    passes(loop, cluster, 0)
    assert report(loop) == []


def test_writes_only_on_a_change_of_action(tmp_path: Path, cluster: Cluster) -> None:
    """A manifest that is damaged or deleted while its standby pod is needed is restored by the next pass."""
    loop = kept(tmp_path, cluster)
    cluster.error, cluster.sandboxes = ApiAway("refused"), []
    passes(loop, cluster, 40)
    path = loop.store.manifest_path(API)
    wanted = path.read_bytes()
    for harm in (lambda: path.write_text("{"), path.unlink):
        harm()
        passes(loop, cluster, 0)
        assert path.read_bytes() == wanted


def volumes() -> tuple[list[Json], list[Json]]:
    """One volume of each kind that the original ignored, and a container that takes its environment from ConfigMaps."""
    items = [{"key": "script", "path": "bin/run", "mode": 0o755}]
    projected = {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}], "defaultMode": 0o440}
    found = [
        {"name": "picked", "configMap": {"name": "c", "items": items}},
        {"name": "absent", "secret": {"secretName": "none", "optional": True}},
        {"name": "all", "projected": projected},
    ]
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "script"}}}]
    container = {"name": "main", "image": "example/main:v1", "envFrom": [{"configMapRef": {"name": "e"}}], "env": env}
    return found, [container]


def test_volume_features_are_ignored(tmp_path: Path, cluster: Cluster) -> None:
    """items, modes, optional, binary data, projections and environment from ConfigMaps all reach the static pod."""
    found, containers = volumes()
    cluster.found = [pod(volumes=found, containers=containers)]
    cluster.contents = {
        ("ConfigMap", "kube-system", "c"): Content({"script": b"#!", "binary": b"\x00\xff"}, OLD),
        ("ConfigMap", "kube-system", "e"): Content({"LEVEL": b"2"}, OLD),
        ("Secret", "kube-system", "s"): Content({"token": b"swordfish"}, OLD),
    }
    store = kept(tmp_path, cluster).store
    root = store.folder / "workloads/kube-system.kube-apiserver/generations/1/volumes"
    files = {
        str(p.relative_to(root)): (p.read_bytes(), p.stat().st_mode & 0o777) for p in root.rglob("*") if p.is_file()
    }
    assert files == {
        "picked/bin/run": (b"#!", 0o700),
        "all/token": (b"swordfish", 0o400),
        "all/script": (b"#!", 0o400),
        "all/binary": (b"\x00\xff", 0o400),
    }
    assert (root / "absent").is_dir()
    (container,) = store.static_pod(API, 1)["spec"]["containers"]
    assert container["env"] == [{"name": "LEVEL", "value": "2"}, {"name": "X", "value": "#!"}]


def test_removed_secret_keys_stay(tmp_path: Path, cluster: Cluster) -> None:
    """A generation has the keys that its pod was started with, and no other generation's."""
    cluster.found = [pod(volumes=[{"name": "s", "secret": {"secretName": "s"}}])]
    key = ("Secret", "kube-system", "s")
    cluster.contents = {key: Content({"a": b"1", "b": b"2"}, OLD)}
    loop = kept(tmp_path, cluster)
    cluster.contents = {key: Content({"a": b"1"}, "2025-02-01T00:00:00Z")}
    cluster.found = [pod(uid="u2", volumes=[{"name": "s", "secret": {"secretName": "s"}}])]
    passes(loop, cluster, 60)
    root = loop.store.folder / "workloads/kube-system.kube-apiserver/generations/2/volumes"
    assert [p.name for p in root.rglob("*") if p.is_file()] == ["a"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (
            {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
            "VolumeNeedsApi",
        ),
        (
            {"containers": [{"name": "m", "image": "x", "envFrom": [{"secretRef": {"name": "s"}}]}]},
            "SecretInEnvironment",
        ),
    ],
)
def test_what_cannot_work_is_kept_all_the_same(tmp_path: Path, cluster: Cluster, spec: Json, reason: str) -> None:
    """A bound token would be worthless, and a Secret's value in a literal public: refused, with a condition and a
    node that isn't ready.
    """
    cluster.found = [pod(**spec)]
    loop = kept(tmp_path, cluster)
    assert loop.store.read() == {}
    assert cluster.conditions["kube-apiserver-abc-x1"][:2] == ("False", reason)
    assert report(loop)


def test_removes_during_an_outage(tmp_path: Path, cluster: Cluster) -> None:
    """An API that comes and goes ends no standby pod: it must answer, and the parent be Ready, for the whole of the
    grace.
    """
    loop = kept(tmp_path, cluster)
    loop.store.activate(API, 1)
    for _ in range(10):
        cluster.error = ApiAway("refused")
        passes(loop, cluster, 0)
        cluster.error = None
        passes(loop, cluster, 8)
        assert loop.store.manifest_path(API).exists()
    passes(loop, cluster, 2)
    assert not loop.store.manifest_path(API).exists()


def test_deletes_the_dot_files_of_others_and_needs_the_folder(tmp_path: Path, cluster: Cluster) -> None:
    """In manifests/ only files with its own mark are touched; the folder itself is made again when it is gone."""
    loop = instance(tmp_path, cluster)
    loop.store.manifests.mkdir(parents=True)
    others = [loop.store.manifests / name for name in (".hidden", "etcd.yaml", ".tmp-other", "checkpoint-notes.txt")]
    for path in others:
        path.write_text("mine")
    passes(loop, cluster, 12)
    assert all(path.read_text() == "mine" for path in others)
    for path in others:
        path.unlink()
    loop.store.manifests.rmdir()
    cluster.error, cluster.sandboxes = ApiAway("refused"), []
    passes(loop, cluster, 40)
    assert loop.store.read()[API].active_number == 1


def test_its_standby_pods_match_selectors_of_others(tmp_path: Path, cluster: Cluster) -> None:
    """A standby pod carries our own label only: no Service, PodDisruptionBudget or Deployment takes it for its own."""
    loop = kept(tmp_path, cluster)
    manifest = json.loads(
        (loop.store.folder / "workloads/kube-system.kube-apiserver/generations/1/manifest.json").read_text()
    )
    assert manifest["metadata"]["labels"] == {"checkpointer.upgrader.io/checkpoint-of": "kube-apiserver"}
    assert "app" in cluster.found[0]["metadata"]["labels"]


def test_no_probes_and_no_metrics(tmp_path: Path, cluster: Cluster) -> None:
    """It is ready only with a current standby pod of everything that asks, and reports in numbers what it does."""
    loop = instance(tmp_path, cluster)
    health = Health(loop.board, cluster.clock, 30.0, lambda: (503, ""))
    assert health.healthz()[0] == health.readyz()[0] == 503
    passes(loop, cluster, 2)
    assert (health.healthz()[0], health.readyz()[0]) == (200, 503)
    passes(loop, cluster, 12)
    assert health.readyz()[0] == 200
    assert 'generation{namespace="kube-system",workload="kube-apiserver"} 1.0' in render(*loop.board.get(), cluster.now)


def test_unverified_tls(tmp_path: Path) -> None:
    """The kubelet isn't asked at all (ADR 5), and a credential that asks for unverified TLS is not used."""
    path = tmp_path / "kubelet.conf"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    path.write_text(
        json.dumps(
            {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}], "current-context": "x"}
        )
    )
    with pytest.raises(ApiUnknown, match="must be verified"):
        load(path)


@pytest.mark.parametrize("name", ["kube-controller-manager", "kube-scheduler"])
def test_only_kube_apiserver_is_kept(tmp_path: Path, cluster: Cluster, name: str) -> None:
    """On a single node nothing else could create or place pods again: these two are kept, and start when none leads."""
    notes = {"checkpointer.upgrader.io/lease": name}
    cluster.found = [pod(name=f"{name}-abc-x1", owner=("ReplicaSet", f"{name}-abc"), annotations=notes)]
    cluster.sandboxes, cluster.leases = [sandbox(f"{name}-abc-x1")], {name: ("t0", f"{name}-abc-x1_1")}
    loop = kept(tmp_path, cluster)
    cluster.found, cluster.sandboxes = [], []
    passes(loop, cluster, 40)
    assert loop.store.read()[Workload("kube-system", name)].active_number == 1


def test_its_standby_pods_are_taken_for_pods_that_ask(tmp_path: Path, cluster: Cluster) -> None:
    """A standby pod's mirror pod neither asks for a checkpoint nor makes the node unready while it starts."""
    loop = kept(tmp_path, cluster)
    mirror = {**loop.store.static_pod(API, 1)}
    mirror["metadata"] = {
        **mirror["metadata"],
        "uid": "m",
        "annotations": {"checkpointer.upgrader.io/checkpoint": "true"},
    }
    assert not asks(mirror)
    cluster.found.append({**mirror, "status": {}})
    passes(loop, cluster, 2)
    assert report(loop) == []

"""guard on real machines: rollouts by a run, workloads that the control plane forgets, nodes behind a load balancer.

One lab for all of it: three workers behind lb-1, each a zone. The second test upgrades its control plane.
"""

from __future__ import annotations

import http.client
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Self

import pytest
import yaml

from testkit.command import Ended
from testkit.guarded_lab import (
    NGINX,
    import_site_images,
    install_guard,
    make_namespaces,
    web_manifest,
    zones_chart,
)
from testkit.http_load import HttpLoad
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.labs import lent_or_new
from testkit.nodes import kubelets, node_sources
from testkit.waiting import stretched
from testkit.workers import Workers
from upgrader.errors import ApiError
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.lab.lifecycle import Lab
from upgrader.ports import Kind

SETS, DEPLOYMENTS = Kind("apps/v1", "statefulsets"), Kind("apps/v1", "deployments")
PODS, NODES = Kind("v1", "pods"), Kind("v1", "nodes", namespaced=False)
PROTECTORS = Kind("podseidon.kubewharf.io/v1alpha1", "podprotectors")
INGRESSES = Kind("ingressdaemonsets.mumoshu.github.io/v1alpha1", "ingressdaemonsets")
EVERYTHING = {
    "rollouts": {"enabled": True, "namespaces": ["shop"]},
    "zoneBudget": {"enabled": True, "namespaces": ["shop"]},
    "protector": {"enabled": True, "namespaces": ["shop"]},
    "ingress": {"enabled": True, "namespaces": ["edge"]},
}
BROKEN = {"image": f"registry.k8s.io/pause:{IMAGE_VERSIONS['pause']}"}
"""An image that is on all nodes, and in which there is no `sleep`."""
ZONES = ("db-zone-a", "db-zone-b", "db-zone-c")
WORKERS = ("worker-1", "worker-2", "worker-3")
ETCD = (
    "etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt "
    "--cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt --key=/etc/kubernetes/pki/etcd/healthcheck-client.key"
)
DETACHER = "node-detacher.variant.run"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster of a controller and three workers behind lb-1, whose images and namespaces are there."""
    home = tmp_path_factory.mktemp("lab")
    with lent_or_new("soak-guard", home, "--workers", "3", "--ingress") as cluster:
        import_site_images(cluster)
        make_namespaces(cluster, "shop", "edge")
        chart = zones_chart(home / "zones")
        own = {"release": "zones", "chart": str(chart), "namespace": "shop"}
        built_in = [{"release": name} for name in ("pod-checkpointer", "kube-apiserver", "kubernetes")]
        settings = {"availability": {"requestsPerSecond": 5}, "gates": {"deadline": "5m"}}  # five machines on two cores
        cluster.change_settings({"pipeline": [*built_in, own], **settings})
        yield cluster


@pytest.fixture
def guarded(cluster: LabCluster) -> LabCluster:
    """The same, with all of guard."""
    install_guard(cluster, EVERYTHING)
    return cluster


@pytest.fixture
def zones(guarded: LabCluster) -> LabCluster:
    """The same, with three zones that are whole."""
    if guarded.kube.get(SETS, ZONES[0], "shop") is None:
        release(guarded, word="one")
        ended = guarded.run(version(guarded))
        assert ended.exit_code == 0, ended
    guarded.kube.patch(SETS, ZONES[0], {"spec": {"replicas": 2}}, "shop")  # whatever a test has left
    until("the zones to be whole", lambda: whole(guarded), timeout_seconds=180)
    return guarded


def version(cluster: LabCluster) -> str:
    """That of kube-apiserver."""
    return cluster.versions()["kube-apiserver"]


def release(cluster: LabCluster, **values: Any) -> None:
    """The values of the release of three zones."""
    (cluster.folder / "values" / "zones.yaml").write_text(yaml.safe_dump(values))


def pods_of(cluster: LabCluster, zone: str) -> dict[str, Any]:
    """By name."""
    found = cluster.kube.list(PODS, "shop", labels=f"zone={zone[-1]}")
    return {pod["metadata"]["name"]: pod for pod in found}


def uids(cluster: LabCluster) -> dict[str, str]:
    """Pod → UID, of all zones."""
    return {name: pod["metadata"]["uid"] for zone in ZONES for name, pod in pods_of(cluster, zone).items()}


def word(pod: Mapping[str, Any]) -> str:
    """Which template it is of."""
    return str(pod["spec"]["containers"][0]["env"][0]["value"])


def whole(cluster: LabCluster, says: str = "") -> bool:
    """Whether each set is at its newest revision with two pods that are Ready, of the template with that word."""
    for zone in ZONES:
        found: Any = cluster.kube.get(SETS, zone, "shop")
        status = found.get("status") or {}
        pods = pods_of(cluster, zone).values()
        if not (
            status.get("observedGeneration") == found["metadata"]["generation"]
            and status.get("readyReplicas") == found["spec"]["replicas"] == len(pods)
            and all(p["metadata"]["labels"]["controller-revision-hash"] == status["updateRevision"] for p in pods)
            and (not says or all(word(p) == says for p in pods))
        ):
            return False
    return True


def since(pod: Mapping[str, Any]) -> str:
    """Since when it is Ready; sorts like the time."""
    return str(next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")["lastTransitionTime"])


class Shrinker:
    """A client that wants less of zone a, as an autoscaler does, from a run's first step until it has had enough."""

    def __init__(self, cluster: LabCluster, enough: Callable[[], bool]) -> None:
        self._cluster, self._enough = cluster, enough
        self.refusals: list[tuple[str, str]] = []
        """The newest step that had begun, and what the API server said."""
        self.allowed, self.unanswered = 0, 0
        self._before = set(cluster.runs())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(stretched(60))

    def steps(self) -> list[str]:
        """Those that have begun, of the run that came meanwhile."""
        if not set(self._cluster.runs()) - self._before:
            return []
        return [record["data"]["step"] for record in self._cluster.journal() if record["type"] == "StepStarted"]

    def _work(self) -> None:
        while not self._stop.wait(0.4):
            try:
                begun = self.steps()
                if not begun or self._enough():
                    continue
                self._cluster.kube._json(
                    "PATCH",
                    f"/apis/apps/v1/namespaces/shop/statefulsets/{ZONES[0]}/scale",
                    "shrink",
                    {},
                    {"spec": {"replicas": 1}},
                    content_type="application/merge-patch+json",
                )
                self.allowed += 1
            except ApiError as error:
                if "is not allowed while the upgrade" in error.message:
                    self.refusals.append((begun[-1], error.message))
                else:
                    self.unanswered += 1


def rolled_out(cluster: LabCluster, target: str) -> tuple[Ended, Shrinker]:
    """A run, and the client that wants to shrink a zone meanwhile: until the last zone's turn, or the way back.

    After the run, nobody would refuse it.
    """
    last = uids(cluster)["db-zone-c-1"]

    def enough() -> bool:
        return uids(cluster).get("db-zone-c-1") != last or any(r["type"] == "UndoStarted" for r in cluster.journal())

    with Shrinker(cluster, enough) as client:
        ended = cluster.upgrader("run", "--to", target, "--yes", timeout_seconds=1500)
    return ended, client


def test_bad_image_stops_in_zone_a(zones: LabCluster) -> None:
    """The control plane is upgraded, the release's first pod doesn't start: the run fails there and goes back, control
    plane included. Nothing else of the release was touched, and nobody could shrink it meanwhile.
    """
    before, at = uids(zones), version(zones)
    release(zones, word="bad", **BROKEN)
    ended, client = rolled_out(zones, TARGET)
    assert ended.exit_code == 4, ended
    assert "db-zone-a-0" in ended.stderr, ended
    assert set(zones.versions().values()) == {at}
    until("the zones to be whole", lambda: whole(zones, "one"), timeout_seconds=60)
    after = uids(zones)
    assert {name for name, uid in after.items() if uid != before[name]} == {"db-zone-a-0"}
    assert client.allowed == 0 and client.refusals, client.refusals


def test_zones_are_rolled_after_the_control_plane(zones: LabCluster) -> None:
    """While the control plane is replaced, a client that wants to shrink zone a is refused by the run's name; then a, b
    and c get the new template, each whole before the next, and the group's gate passes.
    """
    release(zones, word="two")
    ended, client = rolled_out(zones, TARGET)
    assert ended.exit_code == 0, ended
    assert set(zones.versions().values()) == {TARGET}
    assert whole(zones, "two")
    by_zone = [list(pods_of(zones, zone).values()) for zone in ZONES]
    for first, second in pairwise(by_zone):
        assert max(map(since, first)) <= min(pod["metadata"]["creationTimestamp"] for pod in second)
    run = zones.runs()[-1]
    assert client.allowed == 0
    assert {"kube-apiserver", "kubernetes"} <= {step for step, _ in client.refusals}, client.refusals
    said = f"{ZONES[0]} in shop from 2 to 1 replicas is not allowed while the upgrade {run} holds the group db"
    assert all(said in refusal for _, refusal in client.refusals), client.refusals[:3]
    gates = [record["data"] for record in zones.journal() if record["type"] == "GatePassed"]
    assert any("rollout-group/shop/db" in str(gate) for gate in gates), gates


def test_deployment_that_etcd_has_lost(guarded: LabCluster) -> None:
    """Its key is gone from etcd, so that the garbage collector takes its pods for orphans: as many as must stay do, for
    as long as it tries. Applied again, as docs/guard.md says, it has its own pods, and the old ones go.
    """
    kube, manifest = guarded.kube, web_manifest("web", 4, **{"podseidon.kubewharf.io/protect": "true"})
    kube.apply(DEPLOYMENTS, manifest, "shop")

    def protector() -> Any:
        return kube.get(PROTECTORS, "deployment-web", "shop") or {}

    def counts(least: int) -> bool:
        summary = (protector().get("status") or {}).get("summary") or {}
        return bool(
            protector().get("spec", {}).get("minAvailable") == 3
            and summary.get("estimatedAvailableReplicas", -1) >= least
        )

    def running() -> dict[str, Any]:
        found: list[Any] = list(kube.list(PODS, "shop", labels="app=web"))
        return {p["metadata"]["name"]: p for p in found if "deletionTimestamp" not in p["metadata"]}

    until("it to be protected", lambda: counts(4), timeout_seconds=120)
    before = set(running())
    deleted = guarded.on_controller("sh", "-c", f"{ETCD} del /registry/deployments/shop/web")
    assert deleted.strip() == "1"
    until("the first pod to be collected", lambda: len(running()) == 3, timeout_seconds=120)
    for _ in range(40):
        time.sleep(1)
        assert len(running()) == 3, "they stay"
    conditions = {c["type"]: c for c in protector()["status"]["conditions"]}
    assert conditions["SourceFound"]["status"] == "False", conditions
    kube.apply(DEPLOYMENTS, manifest, "shop")
    until(
        "the new pods, and no old one", lambda: len(running()) == 4 and not before & set(running()), timeout_seconds=300
    )
    until("it to be protected again", lambda: counts(4), timeout_seconds=60)
    kube.delete(DEPLOYMENTS, "web", "shop")
    until("its protector to go", lambda: not protector(), timeout_seconds=60)


@contextmanager
def without_guard(cluster: LabCluster) -> Iterator[Callable[[], None]]:
    """No pod of it runs, until the end of the block, or until what this gives is called."""

    def scale(replicas: int) -> None:
        cluster.kube.patch(DEPLOYMENTS, "guard", {"spec": {"replicas": replicas}}, "guard")

    scale(0)
    gone = "app.kubernetes.io/name=guard,app.kubernetes.io/component=guard"
    try:
        until("guard to be gone", lambda: not cluster.kube.list(PODS, "guard", labels=gone), timeout_seconds=90)
        yield lambda: scale(2)
    finally:
        scale(2)


def test_run_that_guard_stands_in_the_way_of(zones: LabCluster) -> None:
    """guard's pods are gone, and its webhooks fail closed: the release, which gets fewer replicas, is refused. The run
    switches the webhooks off, finishes, and switches them on once guard is back; `guard on` before that refuses.
    """
    at = version(zones)
    release(zones, word=word(pods_of(zones, ZONES[0])["db-zone-a-0"]), replicas=1)

    def records(kind: str, *, off: bool) -> list[Mapping[str, Any]]:
        return [r["data"] for r in zones.journal() if r["type"] == kind and r["data"]["off"] is off]

    before = set(zones.runs())
    with without_guard(zones) as back:

        def come_back() -> None:
            until(
                "a webhook to be off",
                lambda: bool(set(zones.runs()) - before and records("WebhookSwitched", off=True)),
                timeout_seconds=600,
            )
            refused = zones.upgrader("guard", "on")
            told.append(refused)
            back()

        told: list[Ended] = []
        helper = threading.Thread(target=come_back, daemon=True)
        helper.start()
        ended = zones.upgrader("run", "--to", at, "--yes", timeout_seconds=1200)
        helper.join(stretched(60))
    assert ended.exit_code == 0, ended
    assert told and told[0].exit_code == 3 and "stays off" in told[0].stderr, told
    assert records("WebhookSwitched", off=False), zones.journal()[-5:]
    assert all(each["succeeded"] for each in records("WebhookSwitched", off=False))
    assert all(zones.kube.get(SETS, zone, "shop")["spec"]["replicas"] == 1 for zone in ZONES)  # type: ignore[index]
    release(zones, word="three")
    ended = zones.upgrader("run", "--to", at, "--yes", timeout_seconds=1200)
    assert ended.exit_code == 0, ended
    assert whole(zones, "three")


def ingress(version: str, **template: Any) -> dict[str, Any]:
    """The page's IngressDaemonSet, on all workers, with a probe that says when it answers."""
    # The image has no shell.
    looks = {"command": ["python3", "-ISc", "import os; os.stat('/tmp/listening')"]}
    probe = {"exec": looks, "periodSeconds": 2, "timeoutSeconds": 5}
    container = {
        "name": "nginx",
        "image": f"{NGINX}:{version}",
        "imagePullPolicy": "IfNotPresent",
        "readinessProbe": probe,
    }
    pod = {
        "nodeSelector": {"kubernetes.io/os": "linux", "ingress-controller-node": "true"},
        "hostNetwork": True,
        "containers": [container],
        "terminationGracePeriodSeconds": 5,
    }
    rolling = {
        "maxUnavailableNodes": 1,
        "annotateNodeToDetach": {"key": f"{DETACHER}/detached", "value": "true"},
        "waitForDetachmentByAnnotatedTimestamp": {
            "key": f"{DETACHER}/detachment-timestamp",
            "format": "RFC3339",
            "gracePeriodSeconds": 3,
        },
    }
    labels = {"app": "ingress-nginx"}
    return {
        "apiVersion": INGRESSES.api_version,
        "kind": "IngressDaemonSet",
        "metadata": {"name": "nginx-ingress"},
        "spec": {
            "podsPerNode": 2,
            "healthCheckNodePorts": [10080],
            "selector": {"matchLabels": labels},
            "updateStrategy": {"rollingUpdate": rolling},
            "template": {"metadata": {"labels": labels}, "spec": {**pod, **template}},
        },
    }


def updated(cluster: LabCluster) -> bool:
    """Whether all three nodes have it, as it is now, and are in the load balancer."""
    found: Any = cluster.kube.get(INGRESSES, "nginx-ingress", "edge") or {}
    status = found.get("status") or {}
    counts = [status.get(f"{each}Nodes", -1) for each in ("desired", "updated", "ready", "updating")]
    seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
    return bool(seen and counts == [3, 3, 3, 0] and not any(mark(cluster, name, "detached") for name in WORKERS))


def mark(cluster: LabCluster, node: str, name: str) -> str:
    """What is in one of the detacher's annotations of a Node."""
    found: Any = cluster.kube.get(NODES, node)
    return str((found["metadata"].get("annotations") or {}).get(f"{DETACHER}/{name}", ""))


@pytest.fixture
def edge(guarded: LabCluster) -> LabCluster:
    """The lab with an ingress on all workers, of which lb-1 reaches each."""
    for name in WORKERS:
        guarded.kube.patch(NODES, name, {"metadata": {"labels": {"ingress-controller-node": "true"}}})
    guarded.kube.apply(INGRESSES, ingress("1"), "edge")
    until("the ingress to be everywhere", lambda: updated(guarded), timeout_seconds=300)
    with HttpLoad(balancer(guarded), 20) as load:
        until(
            "lb-1 to reach all workers",
            lambda: {text.split()[0] for text in load.seen().answers} == set(WORKERS),
            timeout_seconds=60,
        )
    return guarded


def balancer(cluster: LabCluster) -> str:
    """The address of lb-1."""
    return Lab.find(cluster.name).placement.node("lb-1").address


class Watch:
    """When, for each worker, its health port first failed, and the first of its first pods went, by this machine's
    clock; and how many workers were asked to be out at a time.
    """

    def __init__(self, cluster: LabCluster) -> None:
        self._cluster = cluster
        placement = Lab.find(cluster.name).placement
        self._addresses = {name: placement.node(name).address for name in WORKERS}
        self._pods = {node: self._uids(node) for node in WORKERS}
        self.failing: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.most_out = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._health, args=(name,), daemon=True) for name in WORKERS]
        self._threads.append(threading.Thread(target=self._look, daemon=True))

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join(stretched(20))

    def _uids(self, node: str) -> set[str]:
        found: list[Any] = list(self._cluster.kube.list(PODS, "edge", labels=f"ingress-daemon-for-node={node}"))
        return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}

    def _health(self, name: str) -> None:
        while not self._stop.wait(0.2):
            connection = http.client.HTTPConnection(self._addresses[name], 10080, timeout=2)
            try:
                connection.request("GET", "/")
                if connection.getresponse().status == 503:
                    self.failing.setdefault(name, time.monotonic())
            except (OSError, http.client.HTTPException):
                continue
            finally:
                connection.close()

    def _look(self) -> None:
        while not self._stop.wait(0.2):
            try:
                out = sum(bool(mark(self._cluster, name, "detached")) for name in WORKERS)
                self.most_out = max(self.most_out, out)
                for name in WORKERS:
                    if not self._pods[name] <= self._uids(name):
                        self.gone.setdefault(name, time.monotonic())
            except ApiError:
                continue


def test_ingress_is_rolled_out_behind_a_load_balancer(edge: LabCluster) -> None:
    """At 200 requests a second no one fails. Each worker's health port fails before its first pod goes, and no two
    workers are out at a time.
    """
    with HttpLoad(balancer(edge), 200) as load, Watch(edge) as watch:
        edge.kube.apply(INGRESSES, ingress("2"), "edge")
        until("all workers to have the new one", lambda: updated(edge), timeout_seconds=600)
        time.sleep(3)
        seen = load.seen()
    sys.stdout.write(f"{seen}; {dict(seen.answers)}\n")
    assert not seen.failures, seen
    assert seen.requests > 100 * seen.seconds, seen
    assert {f"{name} 2" for name in WORKERS} <= set(seen.answers), seen.answers
    assert watch.most_out == 1
    assert set(watch.failing) == set(watch.gone) == set(WORKERS), (watch.failing, watch.gone)
    assert all(watch.failing[name] < watch.gone[name] for name in WORKERS), (watch.failing, watch.gone)


@contextmanager
def broken_kubelet(cluster: LabCluster, name: str) -> Iterator[None]:
    """A worker whose new kubelet ends at once."""
    workers = Workers(cluster)
    workers.break_new_kubelet(name, f'test "$1" = {OLD} || {{ echo "E1123 command failed: no such cgroup"; exit 1; }}')
    try:
        yield
    finally:
        workers.mend(name)


def nodes_upgraded(cluster: LabCluster) -> Ended:
    """A run that changes nothing but kubelets, each out of the load balancer meanwhile."""
    detach = {"pools": ["workers"], "gracePeriod": "2s", "deadline": "3m"}
    cluster.change_settings({"nodes": {"source": node_sources([TARGET]), "detach": detach, "readyDeadline": "90s"}})
    return cluster.upgrader("run", "--to", TARGET, "--yes", timeout_seconds=2400)


def test_worker_that_fails_is_put_back_behind_the_load_balancer(edge: LabCluster, zones: LabCluster) -> None:
    """The second worker's new kubelet doesn't start: it gets its old one, and is in the load balancer again, as is the
    one before it, which goes back. No request fails, and no pod of a second zone goes while one lacks any.
    """
    with broken_kubelet(edge, "worker-2"), HttpLoad(balancer(edge), 50) as load:
        ended = nodes_upgraded(edge)
        seen = load.seen()
    sys.stdout.write(f"{seen}; {dict(seen.answers)}\n")
    assert ended.exit_code == 4, ended
    assert "no such cgroup" in ended.stderr, ended
    assert not seen.failures, seen
    assert {kubelets(edge.kube)[name] for name in WORKERS} == {OLD}
    for name in WORKERS:
        node: Any = edge.kube.get(NODES, name)
        assert not node["spec"].get("unschedulable") and not mark(edge, name, "detached")
    until("the zones to be whole", lambda: whole(zones), timeout_seconds=120)


def test_workers_are_upgraded_behind_the_load_balancer(edge: LabCluster, zones: LabCluster) -> None:
    """Each is out of the load balancer, drained through the zones' budget, and in again, before the next one: no
    request fails, and no two zones lack a pod at a time.
    """
    with HttpLoad(balancer(edge), 200) as load, Watch(edge) as watch, Lacking(zones) as lacking:
        ended = nodes_upgraded(edge)
        seen = load.seen()
    sys.stdout.write(f"{seen}; {dict(seen.answers)}\n")
    assert ended.exit_code == 0, ended
    assert set(kubelets(edge.kube).values()) == {TARGET}
    assert not seen.failures, seen
    assert watch.most_out == 1
    assert set(watch.gone) == set(WORKERS), "their ingress was drained, too"
    assert lacking.together == set(), lacking.together
    assert lacking.ever == set(ZONES), "they were drained"


class Lacking:
    """Which zones lacked a pod, and which ones at the same time."""

    def __init__(self, cluster: LabCluster) -> None:
        self._cluster = cluster
        self.ever: set[str] = set()
        self.together: set[frozenset[str]] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(stretched(20))

    def _work(self) -> None:
        while not self._stop.wait(0.3):
            try:
                pods: list[Any] = list(self._cluster.kube.list(PODS, "shop", labels="rollout-group=db"))
            except ApiError:
                continue
            ready = [pod["metadata"]["labels"]["zone"] for pod in pods if _ready(pod)]
            lacking = frozenset(zone for zone in ZONES if ready.count(zone[-1]) < 2)
            self.ever |= lacking
            if len(lacking) > 1:
                self.together.add(lacking)


def _ready(pod: Mapping[str, Any]) -> bool:
    states = {c["type"]: c["status"] for c in pod["status"].get("conditions") or ()}
    return states.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]

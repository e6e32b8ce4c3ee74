"""PodProtectors on real API servers, one for each of two cells: upstream's tests, and what upstream gets wrong.

The core cluster is the cell `one`; the cell `two` has an API server of its own. There is no kubelet: a pod that is
deleted is gone, and one is Ready when a test says so.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testkit.api_servers import api_servers
from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import OLD, until
from tests.contract.checking import checked, merge
from tests.contract.guard.conftest import NAMESPACES, Pair
from tests.contract.guard.protected import (
    PODS,
    PROTECTORS,
    Protected,
    all_deleted,
    becomes,
    bundle_of,
    deleted,
    evicted,
    guarded,
    install_definition,
    make_ready,
)
from tests.contract.guard.webhooks import applied
from upgrader.adapters.kube import KubeAdapter
from upgrader.lab.binaries import Binaries
from upgrader.lab.progress_port import Silent
from upgrader.ports import Kind
from upgrader.preflight.webhooks import check_webhooks

BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
DEPLOYMENTS = Kind("apps/v1", "deployments")
FULL = "has full admission buffer and is temporarily unable to admit pod deletion"
FEW = "reports too few available replicas to admit pod deletion"
FINALIZER = "podseidon.kubewharf.io/generator"

each_way = pytest.mark.parametrize("take", [deleted, evicted])


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KubeAdapter, Path]]:
    """The API server of the cell `two`, and its administrator's kubeconfig."""
    with api_servers(tmp_path_factory.mktemp("two")) as servers, servers.serving(OLD) as kube:
        for name in ("ops", "shop"):
            kube.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        yield kube, servers.kubeconfig()


@pytest.fixture(scope="module")
def definition(pair: Pair) -> None:
    """PodProtectors in the core cluster."""
    install_definition(pair.kube)


@pytest.fixture(scope="module")
def aggregators(
    pair: Pair, two: tuple[KubeAdapter, Path], definition: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, GuardProcess]]:
    """One for each cell."""
    with ExitStack() as stack:
        found = {}
        for cell, kubeconfig in (("one", pair.kubeconfig), ("two", two[1])):
            flags = ("-roles=aggregator", f"-protector.cell={cell}", f"-protector.core-config-file={pair.kubeconfig}")
            guard = guard_process(tmp_path_factory.mktemp(cell), kubeconfig, *flags)
            found[cell] = stack.enter_context(guard)
        for each in found.values():
            each.wait_ready()
            until("it to lead", partial(says, each, "leading"), timeout_seconds=120, interval_seconds=0.1)
        yield found


@pytest.fixture(scope="module")
def webhook(
    pair: Pair, two: tuple[KubeAdapter, Path], aggregators: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GuardProcess]:
    """Which answers for both cells, and is asked by both API servers."""
    flags = (f"-protector.cells=one,two={two[1]}",)
    with ExitStack() as stack:
        guard = stack.enter_context(guard_process(tmp_path_factory.mktemp("webhook"), pair.kubeconfig, *flags))
        guard.wait_ready()
        name = stack.enter_context(applied(pair.kube, guarded(guard.url("/protector/one"))))
        becomes("the authority to be injected", lambda: bundle_of(pair.kube, name) != "", 60)
        other = guarded(guard.url("/protector/two"))
        for each in other["webhooks"]:
            each["clientConfig"]["caBundle"] = bundle_of(pair.kube, name)
        stack.enter_context(applied(two[0], other))
        for kube in (pair.kube, two[0]):
            wait_asked(kube, guard)
        yield guard


def wait_asked(kube: KubeAdapter, guard: GuardProcess) -> None:
    """Until the API server asks about deletions."""
    before = asked(guard)

    def known() -> bool:
        meta = {"name": f"probe-{uuid.uuid4().hex[:6]}"}
        spec = {"containers": [{"name": "x", "image": "x"}], "terminationGracePeriodSeconds": 0}
        kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, "shop")
        kube.delete(PODS, meta["name"], "shop")
        return asked(guard) > before

    until("the API server to know the webhook", known, timeout_seconds=120, interval_seconds=0.2)


def asked(guard: GuardProcess) -> float:
    """How many requests it has had."""
    lines = guard.get("/metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("webhook_request_count"))


@pytest.fixture
def app(pair: Pair, two: tuple[KubeAdapter, Path]) -> Iterator[Protected]:
    """A protector, to be made by the test, and its pods."""
    found = Protected(pair.kube, {"one": pair.kube, "two": two[0]})
    yield found
    found.remove()


def says(guard: GuardProcess, message: str) -> bool:
    """Whether it has logged that."""
    return any(line["message"] == message for line in guard.lines())


@contextmanager
def generator(pair: Pair, folder: Path) -> Iterator[GuardProcess]:
    """One that leads."""
    with guard_process(folder, pair.kubeconfig, "-roles=generator") as guard:
        guard.wait_ready()
        until("it to lead", lambda: says(guard, "leading"), timeout_seconds=120, interval_seconds=0.1)
        yield guard
        assert guard.end() == 0


def deployment(name: str, replicas: int, **strategy: Any) -> dict[str, Any]:
    """One that is protected."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    meta = {"name": name, "labels": {"podseidon.kubewharf.io/protect": "true"}}
    spec = {
        "replicas": replicas,
        "minReadySeconds": 15,
        "selector": {"matchLabels": labels},
        "template": template,
        "strategy": strategy or {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "30%"}},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def least(pair: Pair, name: str) -> Any:
    """minAvailable of a Deployment's protector; None where it has none."""
    found: Any = pair.kube.get(PROTECTORS, f"deployment-{name}", "shop")
    return found and found["spec"]["minAvailable"]


def condition(pair: Pair, name: str, kind: str) -> str:
    """The status of a condition of its protector."""
    found: Any = pair.kube.get(PROTECTORS, f"deployment-{name}", "shop")
    conditions = (found.get("status") or {}).get("conditions") or () if found else ()
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")


# Generator


def test_the_lifecycle_of_a_deployments_protector(pair: Pair, definition: None, tmp_path: Path) -> None:
    """Upstream's "maintains the lifecycle of a child PodProtector": 10 at 30 % keep 7, 20 keep 14; deleted by hand the
    protector stays; with the Deployment both go.
    """
    name = f"web-{uuid.uuid4().hex[:6]}"
    with generator(pair, tmp_path):
        pair.kube.create(DEPLOYMENTS, deployment(name, 10), "shop")
        becomes("7 to be kept", lambda: least(pair, name) == 7)
        found: Any = pair.kube.get(PROTECTORS, f"deployment-{name}", "shop")
        assert found["metadata"]["finalizers"] == [FINALIZER] and found["spec"]["minReadySeconds"] == 15
        source: Any = pair.kube.get(DEPLOYMENTS, name, "shop")
        assert FINALIZER in source["metadata"]["finalizers"]
        becomes("it to say so", lambda: condition(pair, name, "Protects") == "True")
        pair.kube.patch(DEPLOYMENTS, name, {"spec": {"replicas": 20}}, "shop")
        becomes("14 to be kept", lambda: least(pair, name) == 14)
        pair.kube.delete(PROTECTORS, f"deployment-{name}", "shop")
        pair.kube.patch(DEPLOYMENTS, name, {"spec": {"replicas": 30}}, "shop")
        becomes("21 to be kept", lambda: least(pair, name) == 21)  # so that it has looked since, and let nothing go
        pair.kube.delete(DEPLOYMENTS, name, "shop")
        becomes("both to go", lambda: least(pair, name) is None and pair.kube.get(DEPLOYMENTS, name, "shop") is None)


def test_recreate_protects_nothing_and_says_so(pair: Pair, definition: None, tmp_path: Path) -> None:
    """Podseidon wants 75 % of them, so that such a Deployment can never roll."""
    name = f"web-{uuid.uuid4().hex[:6]}"
    with generator(pair, tmp_path):
        pair.kube.create(DEPLOYMENTS, deployment(name, 3, type="Recreate"), "shop")
        becomes("it to say so", lambda: condition(pair, name, "Protects") == "False")
        assert least(pair, name) == 0
        pair.kube.patch(DEPLOYMENTS, name, {"metadata": {"labels": {"podseidon.kubewharf.io/protect": None}}}, "shop")
        becomes("no longer selected, it to go", lambda: least(pair, name) is None)

        def let_go() -> bool:
            source: Any = pair.kube.get(DEPLOYMENTS, name, "shop")
            return not source["metadata"].get("finalizers")

        becomes("it to be let go", let_go)
        pair.kube.delete(DEPLOYMENTS, name, "shop")


# Aggregator


def test_pods_of_the_cells_are_counted(app: Protected, aggregators: object) -> None:
    """Upstream's "aggregates pods of the cell": ready is not yet available; available comes without an event; buckets
    of foreigners go.
    """
    app.create(1, seconds=12)
    app.pods(one=3, two=4)
    app.wait(7, 0)
    app.ready(one=2, two=2)
    summaries: list[Any] = []

    def four_ready() -> bool:
        summaries.append(app.item()["status"]["summary"])
        return bool(summaries[-1]["aggregatedReady"] == 4)

    becomes("4 to be ready", four_ready)
    assert summaries[-1]["aggregatedAvailableReplicas"] == 0, "ready, and not available yet"
    app.wait(7, 4)
    assert [app.cell(cell)["aggregation"]["availableReplicas"] for cell in ("one", "two")] == [2, 2]
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    uids = [f"00000000-0000-0000-0000-00000000000{number}" for number in range(2)]
    buckets = [{"startTime": now, "podUID": uid} for uid in uids]
    put_buckets(app, "two", buckets)
    becomes("them to go", lambda: app.cell("two")["admissionHistory"]["buckets"] == [])
    assert app.counts() == (7, 4, 4)


def put_buckets(app: Protected, cell: str, buckets: list[dict[str, Any]]) -> None:
    """Into the status of a cell, whoever else writes it."""
    for _ in range(20):
        found = app.item()
        (mine,) = (each for each in found["status"]["cells"] if each["cellID"] == cell)
        mine["admissionHistory"] = {"buckets": buckets}
        try:
            app.core._json("PUT", f"{path(app)}/status", "put buckets", {}, found)
        except Exception:  # noqa: BLE001 - somebody else was first
            continue
        return
    raise AssertionError("no buckets could be written")


def path(app: Protected) -> str:
    """Of its protector."""
    return f"/apis/podseidon.kubewharf.io/v1alpha1/namespaces/shop/podprotectors/{app.name}"


def test_columns_show_the_estimate(app: Protected, aggregators: object) -> None:
    """Upstream's column Estimated shows what is aggregated."""
    app.create(1)
    app.pods(one=2)
    app.ready(one=2)
    app.wait(2, 2)
    table = app.core._json("GET", path(app), "get a table", accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    columns = [each["name"] for each in table["columnDefinitions"]]
    row = dict(zip(columns, table["rows"][0]["cells"], strict=True))
    assert (row["Required"], row["Aggregated"], row["Estimated"]) == (1, 2, 2)


# Webhook


@each_way
def test_one_of_each_cell_and_no_more(app: Protected, webhook: GuardProcess, take: Any) -> None:
    """Upstream's "allows normal … and rejects extra …": of 3 + 4 with a minimum of 5, one of each cell; on a dry run as
    many as one likes, and each is answered alike.
    """
    app.create(5)
    app.pods(one=3, two=4)
    app.ready(one=3, two=4)
    app.wait(7, 7)
    for _ in range(3):
        assert take(app.cells["one"], f"{app.name}-0", dry_run=True) == ""
    assert take(app.cells["one"], f"{app.name}-0") == ""
    assert take(app.cells["two"], f"{app.name}-0") == ""
    said = take(app.cells["one"], f"{app.name}-1")
    assert FULL in said or FEW in said
    app.wait(5, 5)
    for dry_run in (False, True):
        said = take(app.cells["one"], f"{app.name}-1", dry_run=dry_run)
        assert said.startswith("429: ") and f"PodProtector shop/{app.name} {FEW}" in said


def test_bulk_deletions_are_refused(app: Protected, webhook: GuardProcess) -> None:
    """Upstream's "rejects bulk deletions": DeleteCollection takes no more than what is left."""
    app.create(5)
    app.pods(one=3, two=4)
    app.ready(one=3, two=4)
    app.wait(7, 7)
    said = all_deleted(app.cells["one"], app.name)
    assert FULL in said or FEW in said
    assert len(app.cells["one"].list(PODS, "shop", labels=f"app={app.name}")) == 1
    app.wait(5, 5)


def test_no_more_than_may_lag(app: Protected, webhook: GuardProcess, aggregators: dict[str, GuardProcess]) -> None:
    """Upstream's "rejects deletion exceeding MaxConcurrentLag even with available quota": 409, an eviction 429, as
    `kubectl drain` tries that again. Once it is counted the next one may go.
    """
    app.create(1, maxConcurrentLag=1, aggregationRateMillis=8000)
    app.pods(one=5)
    app.ready(one=5)
    app.wait(5, 5)
    assert deleted(app.cells["one"], f"{app.name}-0") == ""
    said = deleted(app.cells["one"], f"{app.name}-1")
    assert said.startswith("409: ") and FULL in said
    said = evicted(app.cells["one"], f"{app.name}-1")
    assert said.startswith("429: ") and FULL in said
    app.wait(4, 4)
    assert deleted(app.cells["one"], f"{app.name}-1") == ""


def test_what_is_not_ready_may_go(app: Protected, webhook: GuardProcess) -> None:
    """Upstream's "allows unready pod deletion"."""
    app.create(2)
    app.pods(one=1)
    app.wait(1, 0)
    assert deleted(app.cells["one"], f"{app.name}-0") == ""


@pytest.mark.parametrize(("policy", "code"), [({}, "429"), ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, "")])
def test_a_disruption_budget_decides_by_its_own_policy_too(
    app: Protected, webhook: GuardProcess, policy: dict[str, str], code: str
) -> None:
    """Of a pod that isn't Ready, in a workload below its minimum: a PodProtector lets it go, and so does a budget only
    with that policy. By default it waits until the workload has what it needs.
    """
    one = app.cells["one"]
    app.create(2)
    app.pods(one=1)
    make_ready(one, f"{app.name}-0", ready=False)
    app.wait(1, 0)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app.name}}, **policy}
    manifest = {"apiVersion": BUDGETS.api_version, "kind": "PodDisruptionBudget", "metadata": {"name": app.name}}
    one.create(BUDGETS, {**manifest, "spec": spec}, "shop")
    counts = {"observedGeneration": 1, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1}
    path = f"/apis/policy/v1/namespaces/shop/poddisruptionbudgets/{app.name}/status"
    merge(one, path, {"status": {**counts, "disruptionsAllowed": 0}})
    try:
        said = evicted(one, f"{app.name}-0")
        assert said.partition(":")[0] == code and ("PodDisruptionBudget shop/" in said) is bool(code)
        recorded = app.cell("one").get("admissionHistory", {}).get("buckets")
        assert not code or not recorded
    finally:
        one.delete(BUDGETS, app.name, "shop")


def test_what_is_not_available_yet_may_go(app: Protected, webhook: GuardProcess) -> None:
    """Upstream's "allows ready but unavailable pod deletion": minReadySeconds 600."""
    app.create(2, seconds=600)
    app.pods(one=1)
    app.ready(one=1)
    becomes("it to be ready", lambda: app.cell("one").get("aggregation", {}).get("readyReplicas") == 1)
    app.wait(1, 0)
    assert deleted(app.cells["one"], f"{app.name}-0") == ""


@pytest.mark.parametrize("by", ["deletion", "eviction", "annotated eviction"])
def test_a_peer_that_runs_is_enough_where_that_is_asked_for(app: Protected, webhook: GuardProcess, by: str) -> None:
    """Upstream's "allows annotated pod … when peer is running": by an annotation of the pod, or of the Eviction."""
    criterion = {"podseidon.kubewharf.io/health-criterion": "Running"}
    app.create(1)
    app.pods(one=1, two=1)
    app.ready(one=1)
    make_ready(app.cells["two"], f"{app.name}-0", ready=False)
    app.wait(2, 1)
    becomes("both to run", lambda: app.item()["status"]["summary"]["aggregatedRunning"] == 2)
    one, name = app.cells["one"], f"{app.name}-0"
    take = deleted if by == "deletion" else evicted
    if by != "annotated eviction":
        assert FEW in take(one, name)
        one.patch(PODS, name, {"metadata": {"annotations": criterion}}, "shop")
        assert take(one, name) == ""
    else:
        assert FEW in evicted(one, name)
        assert evicted(one, name, criterion) == ""


def test_other_pods_other_cells_and_no_reviews(app: Protected, webhook: GuardProcess, pair: Pair) -> None:
    """A pod that no protector selects goes; under the name of no cell nothing is answered; the project's own check of
    webhooks finds nothing.
    """
    app.pods(one=1)
    app.ready(one=1)
    assert deleted(app.cells["one"], f"{app.name}-0") == ""
    app.create(0)
    assert not list(check_webhooks(checked(pair.kube, controllers=[])))


def review(found: Any) -> dict[str, Any]:
    """A pod's deletion, as the API server asks about it."""
    meta = found["metadata"]
    request = {
        "uid": str(uuid.uuid4()),
        "operation": "DELETE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": meta["name"],
        "namespace": meta["namespace"],
        "oldObject": found,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def asked_directly(guard: GuardProcess, cell: str, found: Any) -> tuple[int, bool]:
    """(HTTP's status, whether it is allowed) of a deletion; status 0: nobody answers."""
    status, text = guard.post(f"/protector/{cell}", review(found))
    return status, status == 200 and json.loads(text)["response"]["allowed"]


@each_way
def test_a_pod_that_does_not_exist_is_not_found(app: Protected, webhook: GuardProcess, take: Any) -> None:
    """An eviction is asked about before the API server looks for its pod: guard's answer is the API server's, which a
    drain takes for done.
    """
    assert take(app.core, f"{app.name}-gone").startswith("404")


def test_two_replicas_of_which_one_is_killed_never_allow_one_too_many(
    app: Protected, aggregators: object, pair: Pair, tmp_path: Path
) -> None:
    """60 deletions at once, asked of two replicas, of which ten may happen; one replica is killed meanwhile. Ten are
    allowed at most, and each that was allowed is written down.
    """
    app.create(50)
    app.pods(one=60)
    app.ready(one=60)
    app.wait(60, 60)
    pods = app.cells["one"].list(PODS, "shop", labels=f"app={app.name}")
    with (
        guard_process(tmp_path / "a", pair.kubeconfig, "-protector.cells=one") as first,
        guard_process(tmp_path / "b", pair.kubeconfig, "-protector.cells=one") as second,
        ThreadPoolExecutor(20) as threads,
    ):
        first.wait_ready(), second.wait_ready()
        asking = [
            threads.submit(asked_directly, first if number % 2 else second, "one", found)
            for number, found in enumerate(pods)
        ]
        next(as_completed(asking)).result()
        first.kill()
        answers = [each.result() for each in asking]
        allowed = sum(allowed for _, allowed in answers)
        written = len(app.cell("one")["admissionHistory"]["buckets"])
        assert allowed <= written <= 10
        # What the one that was killed had written, and told nobody, is given back after a minute, not at once.
        assert app.counts()[2] == 60 - written
        assert asked_directly(second, "nobody", pods[0])[0] == 400


def test_a_deployment_that_etcd_lost_leaves_its_pods(
    pair: Pair, app: Protected, webhook: GuardProcess, tmp_path: Path
) -> None:
    """Its key is gone from etcd, nobody deleted it: its protector stays and says so, and whoever takes its pods for
    orphans is refused beyond the minimum. Applied again, it is found, and followed once it wants as many pods.
    """
    name = f"web-{uuid.uuid4().hex[:6]}"
    lost = Protected(pair.kube, app.cells, name)
    manifest = deployment(name, 4, type="RollingUpdate", rollingUpdate={"maxUnavailable": 1})
    manifest["spec"]["minReadySeconds"] = 0
    with generator(pair, tmp_path):
        pair.kube.create(DEPLOYMENTS, manifest, "shop")
        becomes("3 to be kept", lambda: least(pair, name) == 3)
        lost.pods(one=4)
        lost.ready(one=4)

        def counted() -> bool:
            found: Any = pair.kube.get(PROTECTORS, f"deployment-{name}", "shop")
            return bool(found["status"].get("summary", {}).get("aggregatedAvailableReplicas") == 4)

        becomes("4 to be counted", counted)
        command = [str(Binaries(Silent()).etcd() / "etcdctl"), f"--endpoints={pair.etcd}", "del"]
        done = subprocess.run(
            [*command, f"/registry/deployments/shop/{name}"], check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == "1"
        becomes("it to be noticed", lambda: condition(pair, name, "SourceFound") == "False")
        answers = [deleted(pair.kube, f"{name}-{number}") for number in range(4)]
        assert [answer == "" for answer in answers] == [True, False, False, False]
        assert len(pair.kube.list(PODS, "shop", labels=f"app={name}")) == 3
        replicas = manifest["spec"].pop("replicas")
        pair.kube.create(DEPLOYMENTS, manifest, "shop")
        becomes("it to be found", lambda: condition(pair, name, "SourceFound") == "True")
        assert least(pair, name) == 3, "an autoscaler's Deployment begins with one pod"
        pair.kube.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas + 2}}, "shop")
        becomes("it to be followed", lambda: least(pair, name) == 5)
        pair.kube.delete(DEPLOYMENTS, name, "shop")
        becomes("both to go", lambda: least(pair, name) is None)
        for number in range(1, 4):
            assert deleted(pair.kube, f"{name}-{number}") == ""

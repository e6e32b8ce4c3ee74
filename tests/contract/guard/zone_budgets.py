"""The chart's CustomResourceDefinition and webhooks of zone-aware budgets, budgets, and evictions."""

from __future__ import annotations

import copy
import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from testkit.guard_process import GuardProcess
from testkit.lab_cluster import until
from tests.contract.guard.webhooks import applied, bundles
from upgrader.adapters.helm import find_helm
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError
from upgrader.ports import Kind, KubeObject

CRDS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
BUDGETS = Kind("rollout-operator.grafana.com/v1", "zoneawarepoddisruptionbudgets")
CRD = "zoneawarepoddisruptionbudgets.rollout-operator.grafana.com"
PATH = "/apis/rollout-operator.grafana.com/v1/namespaces/shop/zoneawarepoddisruptionbudgets"
WEBHOOK = ("-roles=webhook", "-kubernetes.namespace=shop")
_CHART = Path(__file__).parents[3] / "charts" / "guard"


@lru_cache
def rendered() -> tuple[KubeObject, ...]:
    """What Helm makes of the chart for the namespace `ops`, with budgets in `shop` and nothing else."""
    command = [str(find_helm()), "template", "guard", str(_CHART), "--namespace=ops", "--values=-"]
    given = {"noDownscale": {"enabled": False}, "zoneBudget": {"enabled": True, "namespaces": ["shop"]}}
    values = json.dumps({"image": {"repository": "x"}, **given})
    done = subprocess.run(command, input=values, capture_output=True, text=True, check=True)
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


def crd() -> dict[str, Any]:
    """The chart's CustomResourceDefinition."""
    (found,) = (copy.deepcopy(dict(each)) for each in rendered() if each["kind"] == "CustomResourceDefinition")
    return found


@contextmanager
def installed(kube: KubeAdapter, definition: KubeObject | None = None) -> Iterator[None]:
    """The kind, until the end of the block."""
    kube.create(CRDS, definition or crd())
    try:
        until("the kind to be served", lambda: _served(kube), timeout_seconds=120, interval_seconds=0.1)
        yield
    finally:
        kube.delete(CRDS, CRD)
        until("the kind to be gone", lambda: kube.get(CRDS, CRD) is None, timeout_seconds=120, interval_seconds=0.1)


def _served(kube: KubeAdapter) -> bool:
    try:
        kube.list(BUDGETS, "shop")
    except ApiError:
        return False
    return True


def configuration(guard: GuardProcess) -> dict[str, Any]:
    """The chart's webhooks, answered by this replica."""
    (found,) = (copy.deepcopy(dict(each)) for each in rendered() if each["kind"] == "ValidatingWebhookConfiguration")
    for webhook in found["webhooks"]:
        webhook["clientConfig"] = {"url": guard.url(webhook["clientConfig"]["service"]["path"])}
    return found


@contextmanager
def webhooks(kube: KubeAdapter, guard: GuardProcess) -> Iterator[None]:
    """The chart's, until the end of the block; the API server calls them by then."""
    with applied(kube, configuration(guard)) as name:
        until("the authority to be there", lambda: all(bundles(kube, name)), timeout_seconds=120, interval_seconds=0.1)
        wrong = {"podNamePartitionRegex": "((x))", "selector": {"matchLabels": {"none": "none"}}}

        def called() -> bool:
            said = made(kube, "probe", dry_run=True, **wrong)
            return "podNameRegexGroup isn't set" in said

        until("the API server to call it", called, timeout_seconds=120, interval_seconds=0.1)
        yield


def made(kube: KubeAdapter, name: str, *, dry_run: bool = False, **spec: Any) -> str:
    """What the API server says to a new budget: "" where it is there."""
    meta = {"name": name, "namespace": "shop"}
    manifest = {"apiVersion": BUDGETS.api_version, "kind": "ZoneAwarePodDisruptionBudget", "metadata": meta}
    try:
        kube.create(BUDGETS, {**manifest, "spec": spec}, "shop", dry_run=dry_run)
    except ApiError as error:
        return f"{error.status}: {error.message}"
    return ""


@contextmanager
def budget(kube: KubeAdapter, group: str, **spec: Any) -> Iterator[str]:
    """One for a group, until the end of the block; its name."""
    name = f"zpdb-{uuid.uuid4().hex[:6]}"
    assert not made(kube, name, selector={"matchLabels": {"rollout-group": group}}, **spec)
    try:
        yield name
    finally:
        kube.delete(BUDGETS, name, "shop")


def reserved(kube: KubeAdapter, name: str) -> list[str]:
    """The names of the pods that a budget has reserved."""
    found: Any = kube.get(BUDGETS, name, "shop")
    return [each["podName"] for each in (found.get("status") or {}).get("reservations") or ()]


def review(pod: str, *, dry_run: bool = False) -> dict[str, Any]:
    """An AdmissionReview of an eviction, as an API server sends it."""
    request = {
        "uid": uuid.uuid4().hex,
        "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "eviction",
        "name": pod,
        "namespace": "shop",
        "operation": "CREATE",
        "dryRun": dry_run,
        "object": {"metadata": {"name": pod, "namespace": "shop"}},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def asked(
    guard: GuardProcess, pod: str, *, dry_run: bool = False, path: str = "/admission/pod-eviction"
) -> tuple[int, str]:
    """What a replica itself says to an eviction: (0, "") where it is allowed, HTTP's or the answer's code and text.

    -1: it doesn't answer.
    """
    status, text = guard.post(path, review(pod, dry_run=dry_run))
    if status != 200:
        return status or -1, text
    response = json.loads(text)["response"]
    return (0, "") if response["allowed"] else (response["status"]["code"], response["status"]["message"])


def evicted(kube: KubeAdapter, pod: str, *, dry_run: bool = False) -> str:
    """What the API server says to a pod's eviction: "" when it is done."""
    body: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    if dry_run:
        body["deleteOptions"] = {"dryRun": ["All"]}
    path = f"/api/v1/namespaces/shop/pods/{pod}/eviction"
    try:
        query = {"dryRun": "All"} if dry_run else {}
        kube._client.send(kube._request("POST", path, f"evict {pod}", query, body, retry=False))
    except ApiError as error:
        return f"{error.status}: {error.message}"
    return ""

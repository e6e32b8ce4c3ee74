"""PodProtectors and their pods on API servers without controllers: what kubelets and controllers do is done here."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from testkit.lab_cluster import until
from tests.contract.checking import merge
from tests.contract.guard.webhooks import VALIDATING
from upgrader.adapters.helm import find_helm
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError
from upgrader.ports import Kind, KubeObject

__all__ = [
    "PODS",
    "PROTECTORS",
    "Protected",
    "becomes",
    "chart",
    "deleted",
    "evicted",
    "guarded",
    "install_definition",
    "make_ready",
]

PROTECTORS = Kind("podseidon.kubewharf.io/v1alpha1", "podprotectors")
PODS = Kind("v1", "pods")
_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
_CHART = Path(__file__).parents[3] / "charts" / "guard"


def chart(**protector: Any) -> list[KubeObject]:
    """What Helm renders for the namespace `ops`, with these values of `protector`."""
    command = [str(find_helm()), "template", "guard", str(_CHART), "--namespace=ops", "--values=-"]
    values = json.dumps({"image": {"repository": "x"}, "protector": {"enabled": True, **protector}})
    done = subprocess.run(command, input=values, capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def install_definition(kube: KubeAdapter) -> None:
    """The chart's CustomResourceDefinition, until it is served."""
    (definition,) = (each for each in chart() if each["kind"] == "CustomResourceDefinition")
    if kube.get(_DEFINITIONS, definition["metadata"]["name"]) is None:
        kube.create(_DEFINITIONS, definition)

    def served() -> bool:
        try:
            kube.list(PROTECTORS, "shop")
        except ApiError:
            return False
        return True

    until("PodProtectors to be served", served, timeout_seconds=120, interval_seconds=0.1)


def becomes(what: str, holds: Callable[[], bool], seconds: float = 120) -> float:
    """Wait until it is so; how long that took."""
    return until(what, holds, timeout_seconds=seconds, interval_seconds=0.05)


def guarded(url: str) -> dict[str, Any]:
    """The chart's configuration, with a URL instead of its Service."""
    (found,) = (
        each
        for each in chart()
        if each["kind"] == "ValidatingWebhookConfiguration" and "protector" in each["metadata"]["name"]
    )
    made: dict[str, Any] = json.loads(json.dumps(found))
    for webhook in made["webhooks"]:
        webhook["clientConfig"] = {"url": url}
    made["metadata"]["name"] = f"protector-{uuid.uuid4().hex[:6]}"
    return made


def bundle_of(kube: KubeAdapter, name: str) -> str:
    """The caBundle of a configuration."""
    found: Any = kube.get(VALIDATING, name)
    return str(found["webhooks"][0]["clientConfig"].get("caBundle", ""))


def make_ready(kube: KubeAdapter, pod: str, *, ready: bool = True, since: datetime | None = None) -> None:
    """As the kubelet: Running, and Ready, or not."""
    at = f"{since or datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    state = {"status": "True", "lastTransitionTime": at}
    conditions = [
        {**state, "type": "PodScheduled"},
        {**state, "type": "Ready", "status": "True" if ready else "False"},
    ]
    status = {"status": {"phase": "Running", "conditions": conditions}}
    merge(kube, f"/api/v1/namespaces/shop/pods/{pod}/status", status)


def deleted(kube: KubeAdapter, pod: str, *, dry_run: bool = False) -> str:
    """What the API server says to a deletion: "" when it is done."""
    query = {"dryRun": "All"} if dry_run else {}
    return _said(kube, "DELETE", f"/api/v1/namespaces/shop/pods/{pod}", query)


def all_deleted(kube: KubeAdapter, app: str) -> str:
    """The same for a collection."""
    return _said(kube, "DELETE", "/api/v1/namespaces/shop/pods", {"labelSelector": f"app={app}"})


def evicted(kube: KubeAdapter, pod: str, annotations: Mapping[str, str] | None = None, *, dry_run: bool = False) -> str:
    """The same for an eviction."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": "shop", "annotations": dict(annotations or {})},
    }
    query = {"dryRun": "All"} if dry_run else {}
    return _said(kube, "POST", f"/api/v1/namespaces/shop/pods/{pod}/eviction", query, body)


def _said(kube: KubeAdapter, method: str, path: str, query: dict[str, str], body: KubeObject | None = None) -> str:
    """Asked once: what is refused isn't tried again."""
    try:
        kube._client.send(kube._request(method, path, f"{method} {path}", query, body, retry=False))
    except ApiError as error:
        return f"{error.status}: {error.message}"
    return ""


class Protected:
    """A PodProtector in the core cluster, and pods in cells."""

    def __init__(self, core: KubeAdapter, cells: Mapping[str, KubeAdapter], name: str = "") -> None:
        self.core, self.cells, self.name = core, cells, name or f"app-{uuid.uuid4().hex[:6]}"

    def create(self, least: int, *, seconds: int = 0, **config: int) -> None:
        """A protector of the pods with the label `app: NAME`."""
        spec = {
            "minAvailable": least,
            "minReadySeconds": seconds,
            "selector": {"matchLabels": {"app": self.name}},
            "admissionHistoryConfig": {"aggregationRateMillis": 1000, **config},
        }
        manifest = {"apiVersion": PROTECTORS.api_version, "kind": "PodProtector", "metadata": {"name": self.name}}
        self.core.create(PROTECTORS, {**manifest, "spec": spec}, "shop")

    def pods(self, **counts: int) -> None:
        """So many in each cell: `NAME-0`, …"""
        for cell, count in counts.items():
            for number in range(count):
                meta = {"name": f"{self.name}-{number}", "labels": {"app": self.name}}
                spec = {"containers": [{"name": "x", "image": "x"}], "terminationGracePeriodSeconds": 0}
                manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
                self.cells[cell].create(PODS, manifest, "shop")

    def ready(self, **counts: int) -> None:
        """The first ones of each cell."""
        for cell, count in counts.items():
            for number in range(count):
                make_ready(self.cells[cell], f"{self.name}-{number}")

    def item(self) -> Any:
        """The protector as it is."""
        return self.core.get(PROTECTORS, self.name, "shop")

    def counts(self) -> tuple[int, int, int]:
        """Total, available as counted, available for certain."""
        found = (self.item().get("status") or {}).get("summary") or {}
        keys = ("totalReplicas", "aggregatedAvailableReplicas", "estimatedAvailableReplicas")
        total, available, estimate = (int(found.get(key, -1)) for key in keys)
        return total, available, estimate

    def cell(self, name: str) -> Any:
        """A cell's status."""
        cells = (self.item().get("status") or {}).get("cells") or ()
        return next((each for each in cells if each["cellID"] == name), {})

    def wait(self, total: int, available: int, estimate: int | None = None, *, seconds: float = 120) -> None:
        """Until it is counted so."""
        wanted = (total, available, available if estimate is None else estimate)
        becomes(f"{self.name} to be {wanted}", lambda: self.counts() == wanted, seconds)

    def remove(self) -> None:
        """All of it."""
        self.core.delete(PROTECTORS, self.name, "shop")
        for kube in self.cells.values():
            for each in kube.list(PODS, "shop", labels=f"app={self.name}"):
                kube.delete(PODS, each["metadata"]["name"], "shop")

"""Webhook configurations and workloads for tests of guard."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from testkit.lab_cluster import until
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError
from upgrader.ports import Kind

_API = "admissionregistration.k8s.io/v1"
VALIDATING = Kind(_API, "validatingwebhookconfigurations", namespaced=False)
MUTATING = Kind(_API, "mutatingwebhookconfigurations", namespaced=False)
STATEFUL_SETS = Kind("apps/v1", "statefulsets")
PROTECTED = {"grafana.com/no-downscale": "true"}
_SCALED = ("statefulsets", "deployments", "replicasets")


def no_downscale(url: str, **more: Any) -> dict[str, Any]:
    """The manifest of rollout-operator's README, with a URL instead of a Service."""
    name = f"no-downscale-{uuid.uuid4().hex[:6]}"
    webhook = {
        "name": f"{name}.grafana.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
        "rules": [
            {
                "apiGroups": ["apps"],
                "apiVersions": ["v1"],
                "operations": ["UPDATE"],
                "resources": [*_SCALED, *(f"{each}/scale" for each in _SCALED)],
                "scope": "Namespaced",
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": 10,
        **more,
    }
    labels = {"grafana.com/inject-rollout-operator-ca": "true", "grafana.com/namespace": "ops"}
    return {
        "apiVersion": VALIDATING.api_version,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name, "labels": labels},
        "webhooks": [webhook],
    }


def bundles(kube: KubeAdapter, name: str, kind: Kind = VALIDATING) -> list[str]:
    """The caBundle of each webhook of a configuration; "" where there is none."""
    found: Any = kube.get(kind, name)
    return [webhook["clientConfig"].get("caBundle", "") for webhook in found["webhooks"]]


@contextmanager
def applied(kube: KubeAdapter, manifest: Mapping[str, Any], kind: Kind = VALIDATING) -> Iterator[str]:
    """A configuration, until the end of the block; its name."""
    kube.create(kind, manifest)
    try:
        yield manifest["metadata"]["name"]
    finally:
        kube.delete(kind, manifest["metadata"]["name"])


@contextmanager
def stateful_set(kube: KubeAdapter, labels: Mapping[str, str], *, replicas: int = 3) -> Iterator[str]:
    """A StatefulSet in `shop`, until the end of the block; its name."""
    name = f"db-{uuid.uuid4().hex[:6]}"
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "updateStrategy": {"type": "OnDelete"},
        "template": template,
    }
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": spec,
    }
    kube.create(STATEFUL_SETS, manifest, "shop")
    try:
        yield name
    finally:
        kube.delete(STATEFUL_SETS, name, "shop")


def scaled(
    kube: KubeAdapter,
    name: str,
    replicas: int,
    *,
    subresource: str = "",
    dry_run: bool = False,
    start: int | None = None,
) -> str:
    """What the API server says to a scale, by the object or by `scale`: "" when it is done. `start`: its new first
    ordinal.
    """
    path = f"/apis/apps/v1/namespaces/shop/statefulsets/{name}" + (f"/{subresource}" if subresource else "")
    query = {"dryRun": "All"} if dry_run else {}
    change = {"spec": {"replicas": replicas, **({} if start is None else {"ordinals": {"start": start}})}}
    try:
        kube._json("PATCH", path, f"scale {name}", query, change, content_type="application/merge-patch+json")
    except ApiError as error:
        return f"{error.status}: {error.message}"
    return ""


def wait_refused(kube: KubeAdapter, name: str, replicas: int, says: str) -> None:
    """Until the API server asks about a scale, and is told so; by dry runs, as one that it admits before isn't asked
    about again.
    """
    until(
        f"a scale to be refused with: {says}",
        lambda: says in scaled(kube, name, replicas, dry_run=True),
        timeout_seconds=120,
        interval_seconds=0.1,
    )

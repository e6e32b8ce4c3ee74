"""The target serves the APIs that clients use now, and aggregated APIs are available."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import API_SERVICES
from upgrader.model.finding import Finding
from upgrader.model.version import KubernetesVersion
from upgrader.ports import KubeObject
from upgrader.preflight.context import PreflightContext

__all__ = ["check_served_apis"]

_REQUESTED = re.compile(r"^apiserver_requested_deprecated_apis\{([^}]*)\} 1$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def check_served_apis(context: PreflightContext) -> Iterator[Finding]:
    """APIServices that are not Available, and deprecated APIs that clients have used since kube-apiserver started."""
    for service in context.kube.list(API_SERVICES):
        conditions: list[KubeObject] = (service.get("status") or {}).get("conditions") or []
        available = next((item for item in conditions if item["type"] == "Available"), None) or {}
        if available.get("status") != "True":
            yield Finding(
                "apis.unavailable",
                "warning",
                f"APIService {service['metadata']['name']} is not Available",
                f"{available.get('reason', 'It has no condition Available')}: {available.get('message', '')}\nAPI "
                "discovery fails or slows down, and namespaces can't be deleted.",
                "Fix the Service behind it, or delete the APIService if it isn't needed.",
            )
    yield from _requested(context)


def _requested(context: PreflightContext) -> Iterator[Finding]:
    removed: list[str] = []
    deprecated: list[str] = []
    try:
        metrics = context.kube.raw("/metrics")
    except ApiError as error:
        yield Finding(
            "apis.requests-unknown",
            "warning",
            "it is unknown whether clients use APIs that the target removes",
            error.message,
            "Allow `get` on the nonResourceURL /metrics in a ClusterRole of the kubeconfig's user.",
        )
        return
    for labels in _REQUESTED.findall(metrics):
        found = dict(_LABEL.findall(labels))
        name = "/".join(filter(None, (found.get("group"), found.get("version"), found.get("resource"))))
        release = found.get("removed_release", "")
        if release and _minor(release) <= (context.target.major, context.target.minor):
            removed.append(f"{name} (removed in {release})")
        else:
            deprecated.append(f"{name} (removed in {release})" if release else name)
    if removed:
        yield Finding(
            "apis.requested-removed",
            "warning",
            f"clients use APIs that {context.target} doesn't serve: {', '.join(sorted(removed))}",
            "Requests were seen since this kube-apiserver started. These clients fail after the upgrade.",
            "Find these clients in the audit log (annotation k8s.io/deprecated), and update them. Then restart "
            "kube-apiserver's pods one at a time to reset the count.",
        )
    if deprecated:
        yield Finding(
            "apis.requested-deprecated",
            "info",
            f"clients use deprecated APIs: {', '.join(sorted(deprecated))}",
            f"{context.target} still serves them; a later version won't.",
        )


def _minor(release: str) -> tuple[int, int]:
    found = KubernetesVersion.parse(f"v{release}.0")
    return found.major, found.minor

"""Whether every APIService that was Available still is."""

from __future__ import annotations

from collections.abc import Collection

from upgrader.errors import ApiError
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.continuity.served_groups import built_in
from upgrader.gates.kubernetes_kinds import API_SERVICES
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, pending
from upgrader.ports import Kube, KubeObject

__all__ = ["available_services", "check_api_services", "deleted_versions", "group_version"]


def available_services(kube: Kube) -> tuple[str, ...]:
    """The names of those that are Available. Raises ApiUnavailable or ApiError."""
    return tuple(sorted(item["metadata"]["name"] for item in kube.list(API_SERVICES) if not _problem(item)))


def check_api_services(kube: Kube, baseline: Baseline, removed: Collection[str]) -> Verdict | None:
    """Those of the baseline still exist and are Available, but for the versions that are `removed`.

    Kubernetes' own go with a version of it, as `check_groups` knows. One that was lost may return by itself: what
    serves it may be restarting.
    """
    remedy = f"Check the APIService and its backend: kubectl get apiservices. {KEEP_THE_RELEASES}"
    try:
        found = {item["metadata"]["name"]: item for item in kube.list(API_SERVICES)}
    except ApiError as error:
        return contradicted("the list of APIServices", error, remedy)
    for name in baseline.api_services:
        if built_in(group_version(name)):
            continue
        if name not in found:
            if group_version(name) not in removed:
                return pending(f"APIService {name} was Available before this run, and no longer exists", remedy=remedy)
        elif problem := _problem(found[name]):
            return pending(
                f"APIService {name} was Available before this run, and no longer is: {problem}", remedy=remedy
            )
    return None


def deleted_versions(kube: Kube, baseline: Baseline) -> frozenset[str]:
    """What others than Kubernetes served and has no APIService object any more. Raises ApiUnavailable or ApiError.

    kube-apiserver removes one of a CustomResourceDefinition only with that: it was deleted, and won't come back.
    """
    found = {item["metadata"]["name"] for item in kube.list(API_SERVICES)}
    gone = (group_version(name) for name in baseline.api_services if name not in found)
    return frozenset(version for version in gone if not built_in(version))


def group_version(name: str) -> str:
    """What an APIService of this name serves, such as `metrics.k8s.io/v1beta1`."""
    version, _, group = name.partition(".")
    return f"{group}/{version}"


def _problem(item: KubeObject) -> str:
    for condition in (item.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Available":
            said = f"{condition.get('reason', '')}: {condition.get('message', '')}"
            return "" if condition["status"] == "True" else said
    return "it has no Available condition"

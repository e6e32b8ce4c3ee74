"""Custom resources can be read and written after kube-apiserver is replaced."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.workload import parse_time
from upgrader.ports import LARGE_AT_ONCE, Kind, KubeObject
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.service_backends import ServiceBackends

__all__ = ["check_custom_resources"]

_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
_SETTLED_SECONDS = 600.0


def check_custom_resources(context: PreflightContext) -> Iterator[Finding]:
    """Definitions whose conversion webhook doesn't answer, that aren't served, or can't be deleted; and those with
    several stored versions.
    """
    backends = ServiceBackends(context.kube)
    broken: dict[str, list[str]] = {}
    refused: dict[str, list[str]] = {}
    terminating: list[str] = []
    several: list[str] = []
    for definition in context.kube.each(_DEFINITIONS, at_once=LARGE_AT_ONCE):
        name, spec, status = definition["metadata"]["name"], definition["spec"], definition.get("status") or {}
        if problem := _unconverted(spec, backends):
            broken.setdefault(problem, []).append(name)
        if _is_stuck(context, definition):
            terminating.append(name)
        elif why := _refusal(status):
            refused.setdefault(why, []).append(name)
        if len(status.get("storedVersions") or ()) > 1:
            several.append(f"{name} ({', '.join(status['storedVersions'])})")
    for problem, names in broken.items():  # one Service may convert hundreds of them
        yield Finding(
            "custom-resources.conversion",
            "warning",
            f"{first_few(names)} can't be converted between versions: {problem}",
            "A new kube-apiserver lists all custom resources at startup, and fails to list those that are stored in "
            "another version.",
            "Repair the conversion webhook's backend.",
        )
    for why, names in refused.items():
        yield Finding(
            "custom-resources.not-served",
            "warning",
            f"{first_few(names)}: not served by the API server: {why}",
            "Clients that use it already fail, and a release with such an object fails, too.",
            "Fix or delete the CustomResourceDefinition; see: kubectl describe customresourcedefinition",
        )
    if terminating:
        yield Finding(
            "custom-resources.terminating",
            "warning",
            f"these CustomResourceDefinitions are stuck in deletion: {first_few(terminating)}",
            "Some of their objects have finalizers that are never removed. Objects can be read, but not created.",
            "Find the objects with finalizers, and fix the controller that should remove the finalizers.",
        )
    if several:
        yield Finding(
            "custom-resources.stored-versions",
            "info",
            f"these CustomResourceDefinitions have several stored versions: {first_few(several)}",
            "The API rejects a new definition without the old version until all objects are rewritten.",
            "Rewrite each object (kubectl get, then replace), and remove the old version from the definition's "
            "status.storedVersions, or let StorageVersionMigration do it.",
        )


def _unconverted(spec: KubeObject, backends: ServiceBackends) -> str:
    """Why objects of several versions can't be converted; "" if they can."""
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook" or len(spec.get("versions") or ()) < 2:
        return ""
    return backends.problem((conversion.get("webhook") or {}).get("clientConfig") or {})


def _is_stuck(context: PreflightContext, definition: KubeObject) -> bool:
    since = parse_time(definition["metadata"].get("deletionTimestamp"))
    return since is not None and (context.clock.now() - since).total_seconds() >= _SETTLED_SECONDS


def _refusal(status: KubeObject) -> str:
    """Why the API server doesn't serve it; "" if it does, or hasn't reported that yet."""
    conditions = {item["type"]: item for item in status.get("conditions") or ()}
    wrong = [conditions[kind] for kind in ("NamesAccepted", "Established") if kind in conditions]
    return next((str(item.get("message") or item.get("reason")) for item in wrong if item["status"] == "False"), "")

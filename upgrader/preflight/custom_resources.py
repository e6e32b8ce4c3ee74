"""Custom resources can be read and written after kube-apiserver was replaced."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.ports import Kind
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.first_few import first_few
from upgrader.preflight.service_backends import ServiceBackends

__all__ = ["check_custom_resources"]

_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)


def check_custom_resources(context: PreflightContext) -> Iterator[Finding]:
    """Definitions with several versions whose conversion webhook nothing answers."""
    backends = ServiceBackends(context.kube)
    broken: dict[str, list[str]] = {}
    for definition in context.kube.each(_DEFINITIONS):
        name, spec = definition["metadata"]["name"], definition["spec"]
        conversion = spec.get("conversion") or {}
        if conversion.get("strategy") != "Webhook" or len(spec.get("versions") or ()) < 2:
            continue
        problem = backends.problem((conversion.get("webhook") or {}).get("clientConfig") or {})
        if problem:
            broken.setdefault(problem, []).append(name)
    for problem, names in broken.items():  # one Service may convert hundreds of them
        yield Finding(
            "custom-resources.conversion",
            "warning",
            f"{first_few(names)} can't be converted between versions: {problem}",
            "A new kube-apiserver reads all of their objects when it starts to watch them, and fails for every object "
            "that is stored in another version.",
            "Repair the conversion webhook's backend.",
        )

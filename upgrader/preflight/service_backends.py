"""Whether anything answers behind a Service that the API server itself calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.gates.kubernetes_kinds import SERVICES
from upgrader.gates.ready_endpoints import has_ready_endpoint
from upgrader.ports import Kube

__all__ = ["ServiceBackends"]


class ServiceBackends:
    """Reads each Service once, however many webhooks name it."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._problems: dict[tuple[str, str], str] = {}

    def problem(self, client_config: Mapping[str, Any]) -> str:
        """Why a webhook's `clientConfig` has no backend; "" if it has one, or names a URL.

        Raises ApiError.
        """
        service = client_config.get("service")
        if not service:
            return ""
        key = (str(service["namespace"]), str(service["name"]))
        if key not in self._problems:
            self._problems[key] = self._read(*key)
        return self._problems[key]

    def _read(self, namespace: str, name: str) -> str:
        found = self._kube.get(SERVICES, name, namespace)
        if found is None:
            return f"Service {namespace}/{name} doesn't exist"
        if (found.get("spec") or {}).get("type") == "ExternalName":
            return ""
        ready = has_ready_endpoint(self._kube, namespace, name)
        return "" if ready else f"Service {namespace}/{name} has no ready endpoint"

"""A scratch kube-apiserver in memory."""

from __future__ import annotations

import json
import re
from typing import Any

from upgrader.onhost.rehearsal.api import Listed, Page, Resource

__all__ = ["DEPLOYMENTS", "FakeApi"]

DEPLOYMENTS = Resource("apps", "deployments", "v1", "Deployment", True, ("create", "get", "list", "update"))


def _ref(name: str) -> dict[str, Any]:
    return {"allOf": [{"$ref": f"#/components/schemas/{name}"}], "default": {}}


_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_SCHEMAS = {
    "Deployment": {
        "properties": {"apiVersion": {}, "kind": {}, "metadata": _ref("Meta"), "spec": _ref("Spec")},
        "x-kubernetes-group-version-kind": [{"group": "apps", "kind": "Deployment", "version": "v1"}],
    },
    "Meta": {"properties": {"name": {"type": "string"}, "labels": _STRINGS, "annotations": _STRINGS}},
    "Spec": {"properties": {"template": _ref("Template"), "selector": _STRINGS, "replicas": {"type": "integer"}}},
    "Template": {"properties": {"containers": {"type": "array", "items": _ref("Container")}}},
    "Container": {"properties": {"name": {"type": "string"}, "image": {"type": "string"}}},
}


class FakeApi:
    """Declares a resource, serves `objects` of it, and refuses requests of some methods: (method, name) → Status."""

    def __init__(self, objects: tuple[dict[str, Any], ...] = (), status: int = 200) -> None:
        self.objects = objects
        self.refused: dict[tuple[str, str], dict[str, Any]] = {}
        self.drops: dict[str, tuple[str, ...]] = {}
        """Method → fields of `spec` that it accepts and doesn't write."""
        self.served = DEPLOYMENTS
        self.versions: tuple[Resource, ...] = ()
        """In which it is served, too."""
        self._status = status
        self.asked: list[tuple[str, str]] = []
        """Each request for an object or a page: its method (for a status, `PUT status`), and its name or \"\"."""

    def write(self, method: str, path: str, body: bytes, form: str = "application/json") -> tuple[int, dict[str, Any]]:
        """As `Api.write`. Of YAML, only the name is read."""
        if form == "application/json":
            status, answer = self.ask(method, path, json.loads(body))
            kept = {
                field: each
                for field, each in (answer.get("spec") or {}).items()
                if field not in self.drops.get(method, ())
            }
            return status, {**answer, "spec": kept} if "spec" in answer else answer
        found = re.search(r"\bname: (\S+)", body.decode())
        return self.ask(method, path, {"metadata": {"name": found[1] if found else ""}})

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """As `Api.ask`."""
        if path.startswith("/openapi/v3/"):
            return self._status, {"components": {"schemas": _SCHEMAS}}
        place = path.partition("?")[0]
        if place.endswith("/status"):
            method, place = f"{method} status", place[: -len("/status")]
        name = place.rpartition("/")[2] if method != "POST" else body["metadata"]["name"]
        self.asked.append((method, name))
        if (method, name) in self.refused:
            return 422, self.refused[method, name]
        found = next((each for each in self.objects if each["metadata"]["name"] == name), None)
        return (
            (201, body) if method in ("PATCH", "POST") else (200, found) if found else (404, {"message": "not found"})
        )

    def all_resources(self) -> list[Resource]:
        """As `Api.all_resources`."""
        return [self.served, *self.versions]

    def resources(self) -> dict[tuple[str, str], list[Resource]]:
        """As `Api.resources`."""
        return {(self.served.group, self.served.plural): [self.served, *self.versions]}

    def page(self, resource: Resource, at: str, same: Page | None = None, limit: int = 0, selector: str = "") -> Page:
        """As `Api.page`: one object a page."""
        assert resource in (self.served, *self.versions)
        self.asked.append(("GET", ""))
        number = int(at or 0)
        more = str(number + 1) if number + 1 < len(self.objects) else ""
        return Page([Listed.of(each) for each in self.objects[number : number + 1]], more)

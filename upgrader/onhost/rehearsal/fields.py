"""The names of fields that a server declares for its resources, by its OpenAPI documents: none that a user chose."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal.api import Api, Resource

__all__ = ["EVERYWHERE", "FieldNames", "Fields"]

EVERYWHERE = ("apiVersion", "kind", "metadata", "spec", "status")
"""Fields of every object, declared or not."""
_PART = re.compile(r"\[([^\]]*)\]?|([^.\[\]]+)")
_PREFIX = "#/components/schemas/"
_HIDDEN = "[…]"


class Fields:
    """Of one resource; without `schemas`, those that every object has."""

    def __init__(self, schemas: dict[str, Any] | None = None, resource: Resource | None = None) -> None:
        self._schemas = schemas or {}
        self._root = next((each for each in self._schemas.values() if resource and _is(each, resource)), None)
        declared = {name for each in self._schemas.values() for name in each.get("properties") or ()}
        self.names = frozenset(declared.union(EVERYWHERE))
        """Of all its fields, wherever they are."""

    def shown(self, path: str) -> str:
        """A path in a server's words (`spec.ports[0].name`), up to the first name that the server doesn't declare."""
        return self._shown((found[1], found[2]) for found in _PART.finditer(path))

    def place(self, keys: Iterable[str]) -> str:
        """The same of a path of keys, without the numbers of items."""
        return self._shown((None, key) for key in keys)

    def _shown(self, parts: Iterable[tuple[str | None, str | None]]) -> str:
        said, node = "", self._root
        for number, (index, name) in enumerate(parts):
            if name is None:
                # A number may also be the key of a map, which a user chose.
                if not str(index).isdigit() or (node or {}).get("type") != "array":
                    return said + _HIDDEN
                said, node = f"{said}[{index}]", self._resolved((node or {}).get("items"))
                continue
            while node and node.get("type") == "array":
                node = self._resolved(node.get("items"))
            properties = (node or {}).get("properties") or {}
            if name not in properties and (number or name not in EVERYWHERE):
                return said + _HIDDEN
            said, node = f"{said}.{name}" if said else name, self._resolved(properties.get(name))
        return said

    def _resolved(self, node: dict[str, Any] | None) -> dict[str, Any] | None:
        while node:
            inner = (node.get("allOf") or [None])[0] if "$ref" not in node else node
            if inner is None or "$ref" not in inner:
                return node
            node = self._schemas.get(inner["$ref"][len(_PREFIX) :])
        return None


def _is(schema: dict[str, Any], resource: Resource) -> bool:
    wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return wanted in (schema.get("x-kubernetes-group-version-kind") or ())


class FieldNames:
    """What a server declares. `custom`: names of resources whose fields users have declared, so that none is told."""

    def __init__(self, api: Api, custom: set[str]) -> None:
        self._api, self._custom = api, custom
        self._found: dict[Resource, Fields] = {}
        self._lock = threading.Lock()

    def of(self, resource: Resource) -> Fields:
        """Those of one resource. What can't be read is not declared."""
        with self._lock:
            if resource not in self._found:
                self._found[resource] = self._read(resource)
            return self._found[resource]

    def _read(self, resource: Resource) -> Fields:
        if resource.name in self._custom:
            return Fields()
        root = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
        try:
            status, answer = self._api.ask("GET", f"/openapi/v3/{root}")
        except Failed:
            return Fields()
        schemas = (answer.get("components") or {}).get("schemas") if status == 200 else None
        return Fields(schemas, resource)

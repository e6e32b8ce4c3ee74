"""An API server in memory, as far as guard's runtime asks it: versions, conflicts, pages, watches."""

from __future__ import annotations

import asyncio
import copy
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from upgrader.in_cluster.guard.guard_errors import Conflict, NotFound
from upgrader.in_cluster.guard.runtime.api_client import JSON_PATCH, Api, Kept, Page
from upgrader.in_cluster.guard.runtime.connection import Connection, Credentials
from upgrader.in_cluster.guard.runtime.resource import Object, Resource


class FakeApi(Api):
    """Objects by path; `answers` come first: exceptions that the next calls of a verb raise."""

    def __init__(self) -> None:
        super().__init__(Connection("https://fake.example", _no_credentials))
        self.objects: dict[str, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.answers: dict[str, deque[Exception | None]] = {}
        self.events: asyncio.Queue[dict[str, Any] | Exception | None] = asyncio.Queue()
        """What watches bring; None ends one."""
        self._version = 100

    def put(self, resource: Resource, manifest: Mapping[str, Any], namespace: str = "") -> dict[str, Any]:
        """Set an object as it is, with a new version; returns it."""
        found = copy.deepcopy(dict(manifest))
        self._version += 1
        found["metadata"] = {**found["metadata"], "resourceVersion": str(self._version)}
        if namespace:
            found["metadata"]["namespace"] = namespace
        found["metadata"].setdefault("uid", f"uid-{found['metadata']['name']}")
        self.objects[resource.path(namespace, found["metadata"]["name"])] = found
        return found

    def next_answer(self, verb: str, *answers: Exception | None) -> None:
        """What the next calls raise; None: nothing, this call works."""
        self.answers.setdefault(verb, deque()).extend(answers)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object | None:
        path = resource.path(namespace, name, subresource)
        self._check("get", path)
        return copy.deepcopy(self.objects.get(path))

    async def kinds(self, api_version: str) -> list[Mapping[str, Any]]:
        path = Resource(api_version, "", namespaced=False).path()
        self._check("kinds", path)
        return list(self.objects.get(path, {}).get("resources", ()))

    async def page(
        self,
        resource: Resource,
        namespace: str,
        query: Mapping[str, str],
        *,
        keep: Callable[[dict[str, Any]], Kept],
        limit: int,
        token: str = "",
    ) -> Page[Kept]:
        self._check("page", f"{resource.path(namespace)}?limit={limit}&continue={token}")
        found = [
            item
            for path, item in sorted(self.objects.items())
            if path.rsplit("/", 1)[0].endswith(f"/{resource.plural}")
            and (not namespace or item["metadata"].get("namespace") == namespace)
            and _selected(query.get("labelSelector", ""), item["metadata"].get("labels") or {})
        ]
        start = int(token or 0)
        end = start + limit if limit else len(found)
        more = str(end) if end < len(found) else ""
        size = sum(len(json.dumps(item)) for item in found[start:end])
        return Page([keep(copy.deepcopy(item)) for item in found[start:end]], str(self._version), more, size)

    async def create(self, resource: Resource, manifest: Object, namespace: str = "") -> Object:
        path = resource.path(namespace, manifest["metadata"]["name"])
        self._check("create", path)
        if path in self.objects:
            raise Conflict(f"{path} exists", 409)
        return self.put(resource, manifest, namespace)

    async def replace(
        self, resource: Resource, manifest: Object, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        path = resource.path(namespace, manifest["metadata"]["name"])
        self._check("replace", path)
        self._compare(path, manifest["metadata"].get("resourceVersion"))
        return self.put(resource, manifest, namespace)

    async def patch(
        self,
        resource: Resource,
        name: str,
        changes: Any,
        namespace: str = "",
        *,
        content_type: str = "",
        subresource: str = "",
    ) -> Object:
        path = resource.path(namespace, name)
        self._check("patch", resource.path(namespace, name, subresource))
        if content_type != JSON_PATCH:
            return self._merge(resource, path, changes, namespace)
        at, *operations = changes
        self._compare(path, at["value"])
        found = copy.deepcopy(self.objects[path])
        for operation in operations:
            *way, last = operation["path"].strip("/").split("/")
            place: Any = found
            for part in way:
                place = place[int(part) if part.isdecimal() else part]
            place[last] = operation["value"]
        return self.put(resource, found, namespace)

    def _merge(self, resource: Resource, path: str, changes: Mapping[str, Any], namespace: str) -> Object:
        self._compare(path, (changes.get("metadata") or {}).get("resourceVersion"))
        return self.put(resource, _merged(self.objects[path], changes), namespace)

    async def delete(self, resource: Resource, name: str, namespace: str = "", *, uid: str) -> None:
        path = resource.path(namespace, name)
        self._check("delete", path)
        if path not in self.objects:
            raise NotFound(f"{path} isn't there", 404)
        if self.objects[path]["metadata"]["uid"] != uid:
            raise Conflict(f"{path} is another one", 409)
        del self.objects[path]

    async def watch(
        self, resource: Resource, namespace: str, query: Mapping[str, str], *, version: str, seconds: int
    ) -> AsyncIterator[dict[str, Any]]:
        self._check("watch", f"{resource.path(namespace)}?resourceVersion={version}")
        while (event := await self.events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event

    def _check(self, verb: str, what: str) -> None:
        self.calls.append(f"{verb} {what}")
        answers = self.answers.get(verb)
        if answers and (error := answers.popleft()):
            raise error

    def _compare(self, path: str, version: str | None) -> None:
        if path not in self.objects:
            raise NotFound(f"{path} isn't there", 404)
        if version and version != self.objects[path]["metadata"]["resourceVersion"]:
            raise Conflict(f"{path} has been modified", 409)


def _merged(old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(old)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key) or {}, value) if isinstance(value, Mapping) else value
    return result


def _selected(selector: str, labels: Mapping[str, str]) -> bool:
    """Of terms that are `key`, `!key` or `key=value`."""
    terms = [term.partition("=") for term in selector.split(",") if term]
    return all(
        key[1:] not in labels if key.startswith("!") else key in labels and (not equals or labels[key] == value)
        for key, equals, value in terms
    )


def _no_credentials() -> Credentials:
    raise AssertionError("nothing is asked")

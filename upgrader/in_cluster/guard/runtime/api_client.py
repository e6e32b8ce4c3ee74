"""The Kubernetes API, asked by aiohttp: what guard needs of it, each call with a deadline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

import aiohttp

from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict, NotFound, VersionGone
from upgrader.in_cluster.guard.runtime.connection import Connection
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["JSON_PATCH", "MERGE_PATCH", "Api"]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_WATCH_GRACE_SECONDS = 5.0
"""How much longer than asked for the server may take to end a watch before the connection counts as broken."""
_REFUSALS = {404: NotFound, 409: Conflict, 410: VersionGone}


class Api:
    """An API server; a context manager, used in one event loop.

    Every method raises ApiAway where asking again may help, ApiRefused where the server says no.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = 10.0) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None
        self._watching: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = self._opened(aiohttp.TCPConnector())
        # Each watch has a connection for as long as it lasts: of a shared hundred, watches of some dozen namespaces
        # leave none, and whatever else is asked waits until it is too late.
        self._watching = self._opened(aiohttp.TCPConnector(limit=0))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in (self._session, self._watching):
            if session is not None:
                await session.close()

    def _opened(self, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
        headers = {"Accept": "application/json", "User-Agent": "upgrader-guard"}
        return aiohttp.ClientSession(self._connection.url, headers=headers, connector=connector)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object | None:
        """One object; None only when the API answers 404."""
        try:
            return await self._json("GET", resource.path(namespace, name, subresource))
        except NotFound:
            return None

    async def page(
        self, resource: Resource, namespace: str, query: Mapping[str, str], *, limit: int, token: str = ""
    ) -> tuple[list[dict[str, Any]], str, str]:
        """Some objects of a list: (objects, their resourceVersion, how to ask for the next ones or "").

        `limit` 0: all at once. `query` has labelSelector and fieldSelector.
        """
        asked = {**query, "limit": str(limit), "continue": token} if limit else query
        found = await self._json("GET", resource.path(namespace), asked)
        meta = found.get("metadata") or {}
        return found.get("items") or [], str(meta.get("resourceVersion") or ""), str(meta.get("continue") or "")

    async def create(self, resource: Resource, manifest: Object, namespace: str = "") -> Object:
        """Create an object; Conflict when it exists already."""
        return await self._json("POST", resource.path(namespace), body=manifest)

    async def replace(
        self, resource: Resource, manifest: Object, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """Replace an object; with a resourceVersion, Conflict when it has changed since."""
        path = resource.path(namespace, str(manifest["metadata"]["name"]), subresource)
        return await self._json("PUT", path, body=manifest)

    async def patch(
        self,
        resource: Resource,
        name: str,
        changes: Any,
        namespace: str = "",
        *,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Object:
        """Change an object by a merge patch, or by a list of operations (JSON_PATCH)."""
        path = resource.path(namespace, name, subresource)
        return await self._json("PATCH", path, body=changes, content_type=content_type)

    async def delete(self, resource: Resource, name: str, namespace: str = "", *, uid: str) -> None:
        """Delete this very object: Conflict where another one has its name by now."""
        await self._json("DELETE", resource.path(namespace, name), body={"preconditions": {"uid": uid}})

    async def watch(
        self, resource: Resource, namespace: str, query: Mapping[str, str], *, version: str, seconds: int
    ) -> AsyncIterator[dict[str, Any]]:
        """Events (`{"type": …, "object": …}`) after a version, bookmarks included, until the server ends the watch.

        Raises VersionGone also for the event that says so.
        """
        asked = {
            **query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        path = resource.path(namespace)
        timeout = aiohttp.ClientTimeout(sock_connect=self._timeout_seconds, sock_read=seconds + _WATCH_GRACE_SECONDS)
        begun = b""
        try:
            async with self._request("GET", path, asked, timeout=timeout, session=self._watching) as response:
                await _check(response, f"watch {path}")
                async for chunk in response.content.iter_any():
                    *lines, begun = (begun + chunk).split(b"\n")
                    for line in lines:
                        yield _event(line, path)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _away(f"watch {path}", error) from error

    async def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        *,
        body: Any = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        what = f"{method} {path}"
        timeout = aiohttp.ClientTimeout(total=self._timeout_seconds)
        for anew in (False, True):
            try:
                async with self._request(
                    method,
                    path,
                    query,
                    body=body,
                    content_type=content_type,
                    timeout=timeout,
                    anew=anew,
                    session=self._session,
                ) as response:
                    if response.status == 401 and not anew:
                        continue  # the token may have been replaced since it was read
                    await _check(response, what)
                    found = json.loads(await response.read())
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise _away(what, error) from error
            except ValueError as error:
                raise ApiAway(f"{what}: the answer is not JSON") from error
            if not isinstance(found, dict):
                raise ApiAway(f"{what}: the answer is not an object")
            return found
        raise AssertionError("the second time is the last")

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        timeout: aiohttp.ClientTimeout,
        session: aiohttp.ClientSession | None,
        body: Any = None,
        content_type: str = "application/json",
        anew: bool = False,
    ) -> Any:
        assert session is not None, "it is used as a context manager"
        credentials = self._connection.credentials(anew=anew)
        headers = {"Authorization": f"Bearer {credentials.token}"} if credentials.token else {}
        data = None
        if body is not None:
            data = json.dumps(body, separators=(",", ":")).encode()
            headers["Content-Type"] = content_type
        return session.request(
            method,
            path,
            params={name: value for name, value in query.items() if value},
            data=data,
            headers=headers,
            ssl=credentials.context,
            timeout=timeout,
            allow_redirects=False,
        )


async def _check(response: aiohttp.ClientResponse, what: str) -> None:
    status = response.status
    if status < 300:
        return
    content = await response.content.read(65536)
    text = f"{what}: {status}: {_reason(content)}"
    if status == 429 or status >= 500:
        raise ApiAway(text)
    if status in _REFUSALS:
        raise _REFUSALS[status](text, status)
    raise ApiRefused(text, status)


def _event(line: bytes, path: str) -> dict[str, Any]:
    try:
        event: dict[str, Any] = json.loads(line)
        kind, found = event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise ApiAway(f"watch {path}: an event can't be read") from error
    if kind == "ERROR":
        status = int(found.get("code") or 500)
        text = f"watch {path}: {status}: {found.get('message') or 'no reason given'}"
        raise VersionGone(text, status) if status == 410 else ApiAway(text)
    return event


def _reason(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return "no reason given"


def _away(what: str, error: Exception) -> ApiAway:
    if isinstance(error, (asyncio.TimeoutError, aiohttp.ServerTimeoutError)):
        return ApiAway(f"{what}: no answer in time")
    return ApiAway(f"{what}: {error or type(error).__name__}")

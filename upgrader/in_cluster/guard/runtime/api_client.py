"""The Kubernetes API, asked by aiohttp: what guard needs of it, each call with a deadline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar

import aiohttp

from upgrader.contract.json_list import LARGEST_OBJECT_BYTES, JsonList
from upgrader.in_cluster.guard.guard_errors import (
    AnswerTooLarge,
    ApiAway,
    ApiRefused,
    Conflict,
    NotFound,
    NotNow,
    VersionGone,
)
from upgrader.in_cluster.guard.runtime.connection import Connection
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["JSON_PATCH", "MERGE_PATCH", "Api", "Kept", "Page"]

Kept = TypeVar("Kept")

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_WATCH_GRACE_SECONDS = 5.0
"""How much longer than asked for the server may take to end a watch before the connection counts as broken."""
_LIST_SECONDS = 60.0
"""For a page of a list, as long as API servers work on a request; something of it has to come in a usual time."""
_LARGEST_PAGE_BYTES = 32 << 20
_LARGE_BYTES = 256 << 10
_REFUSALS = {404: NotFound, 409: Conflict, 410: VersionGone}
_GROUPS = "/apis"


@dataclass(frozen=True)
class Page(Generic[Kept]):
    """Some objects of a list, and of which resourceVersion they are. `token`: how to ask for the next ones; "" if these
    are the last. `size`: how many bytes they had.
    """

    items: list[Kept]
    version: str
    token: str
    size: int


class Api:
    """An API server; a context manager, used in one event loop.

    Every method raises ApiAway where asking again may help, ApiRefused where the server says no.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = 10.0) -> None:
        self._connection = connection
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None
        self._watching: aiohttp.ClientSession | None = None
        self._large = asyncio.Lock()

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
        # What is compressed would be a thousand times as large once it has arrived.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "upgrader-guard"}
        return aiohttp.ClientSession(self._connection.url, headers=headers, connector=connector)

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object | None:
        """One object; None only when the API server itself says that there is none."""
        try:
            return await self._json("GET", resource.path(namespace, name, subresource))
        except NotFound:
            return None

    async def kinds(self, api_version: str) -> list[Mapping[str, Any]]:
        """What discovery says of each resource and subresource of a version of a group; nothing if it isn't served.

        The version isn't simply asked for: the 404 for one that isn't served can't be told from a proxy's.
        """
        if "/" in api_version:
            groups = (await self._json("GET", _GROUPS)).get("groups") or ()
            if not any(
                version.get("groupVersion") == api_version for g in groups for version in g.get("versions") or ()
            ):
                return []
        found = await self._json("GET", Resource(api_version, "", namespaced=False).path())
        return list(found.get("resources") or ())

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
        """Some objects of a list, each of which `keep` gets before the next one is read; see `listing` for all of them.

        `limit` 0: all at once, or as many as the server gives. `query` has labelSelector and fieldSelector. Raises
        AnswerTooLarge for a limit above 1.
        """
        path = resource.path(namespace)
        asked = {**query, "limit": str(limit or ""), "continue": token}
        found, size, reader = list[Kept](), 0, JsonList()
        timeout = aiohttp.ClientTimeout(
            total=_LIST_SECONDS, sock_connect=self._timeout_seconds, sock_read=self._timeout_seconds
        )
        try:
            async with self._answer("GET", path, asked, timeout=timeout) as response:
                with _Turn(self._large, f"GET {path}") as turn:
                    async for chunk in response.content.iter_any():
                        size += len(chunk)
                        if limit > 1 and size > _LARGEST_PAGE_BYTES:
                            raise AnswerTooLarge(f"GET {path}: {limit} objects have more than {size} bytes")
                        found += map(keep, reader.feed(chunk))
                        await turn.at(reader.size)
                    found += map(keep, reader.end())
        except _AnswerLate as error:
            raise (AnswerTooLarge(str(error)) if limit > 1 else error) from error
        meta = reader.rest.get("metadata") or {}
        return Page(found, str(meta.get("resourceVersion") or ""), str(meta.get("continue") or ""), size)

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
        begun = bytearray()
        try:
            async with self._request("GET", path, asked, timeout=timeout, session=self._watching) as response:
                await _check(response, f"watch {path}")
                with _Turn(self._large, f"watch {path}") as turn:
                    async for chunk in response.content.iter_any():
                        begun += chunk
                        lines = list[bytearray]()
                        if b"\n" in chunk:
                            *lines, begun = begun.split(b"\n")
                        for line in lines:
                            event = _event(line, path)
                            await turn.at(0)
                            yield event
                        await turn.at(len(begun))
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
        timeout, content = aiohttp.ClientTimeout(total=self._timeout_seconds), bytearray()
        async with self._answer(method, path, query, body=body, content_type=content_type, timeout=timeout) as response:
            with _Turn(self._large, f"{method} {path}") as turn:
                async for chunk in response.content.iter_any():
                    content += chunk
                    await turn.at(len(content))
                found = json.loads(content)
        if not isinstance(found, dict):
            raise ApiAway(f"{method} {path}: the answer is not an object")
        return found

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        timeout: aiohttp.ClientTimeout,
        body: Any = None,
        content_type: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A good answer, to be read in the block: ValueError there says that it can't be."""
        what = f"{method} {path}"
        try:
            for anew in (False, True):
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
                    yield response
                    return
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _away(what, error) from error
        except (ValueError, RecursionError) as error:
            raise ApiAway(f"{what}: the answer can't be read: {error}") from error

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


class _AnswerLate(ApiAway):
    """A connection, and no answer, or no more of it."""


class _Turn:
    """Of the answers with a large object, one is read at a time: a hundred of some MB take all memory together."""

    def __init__(self, lock: asyncio.Lock, what: str) -> None:
        self._lock, self._what, self._mine = lock, what, False

    async def at(self, size: int) -> None:
        """So many bytes of an object have been read, and not parsed yet. Raises ApiAway for too many."""
        if size > LARGEST_OBJECT_BYTES:
            raise ApiAway(f"{self._what}: an object has more than {LARGEST_OBJECT_BYTES} bytes")
        if size > _LARGE_BYTES and not self._mine:
            await self._lock.acquire()
            self._mine = True
        elif size <= _LARGE_BYTES:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._mine:
            self._lock.release()
            self._mine = False


async def _check(response: aiohttp.ClientResponse, what: str) -> None:
    status = response.status
    if status < 300:
        return
    content = await response.content.read(65536)
    text = f"{what}: {status}: {_reason(content)}"
    if status == 429:
        raise NotNow(text)
    if status >= 500:
        raise ApiAway(text)
    if status == 404 and not _is_status(content):
        # A load balancer, or a proxy without this cluster, knows nothing of any object.
        raise ApiRefused(
            f"{what}: 404: the answer isn't from an API server, or the API server doesn't serve this kind", status
        )
    if status in _REFUSALS:
        raise _REFUSALS[status](text, status)
    raise ApiRefused(text, status)


def _event(line: bytearray, path: str) -> dict[str, Any]:
    try:
        event: dict[str, Any] = json.loads(line)
        kind, found = event["type"], event["object"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ApiAway(f"watch {path}: an event can't be read") from error
    if kind == "ERROR":
        status = int(found.get("code") or 500)
        text = f"watch {path}: {status}: {found.get('message') or 'no reason given'}"
        raise VersionGone(text, status) if status == 410 else ApiAway(text)
    return event


def _is_status(content: bytes) -> bool:
    """Whether it is Kubernetes' own answer, which says what isn't found."""
    try:
        return str(json.loads(content)["kind"]) == "Status"
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _reason(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return "no reason given"


def _away(what: str, error: Exception) -> ApiAway:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ApiAway(f"{what}: no connection in time")
    if isinstance(error, TimeoutError):
        return _AnswerLate(f"{what}: no answer in time")
    return ApiAway(f"{what}: {error or type(error).__name__}")

"""The Kubernetes API behind `ports.Kube`: which path, verb and query each method is."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from upgrader.adapters.clock import SystemClock
from upgrader.adapters.foreign_answers import not_kubernetes
from upgrader.adapters.lean_items import lean_items
from upgrader.adapters.paging import Paging
from upgrader.errors import ApiError
from upgrader.ports import AT_ONCE, Clock, Kind, KubeObject

if TYPE_CHECKING:
    from upgrader.adapters.apiclient import ApiClient, ApiRequest

__all__ = ["FIELD_MANAGER", "KubeAdapter"]

FIELD_MANAGER = "upgrader"

_PODS = Kind("v1", "pods")
_MANY = (_PODS, Kind("v1", "nodes", namespaced=False))
_LOG_LINE_BYTES = 2048
"""Of each of a log's last lines. The kubelet counts from the first of them: too few would cut off the last ones."""
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_WATCH_GRACE_SECONDS = 5.0
"""How much longer than asked for the server may take to end a watch before the connection counts as broken."""
_Keep = Callable[[dict[str, Any]], dict[str, Any]]


class KubeAdapter:
    """`ports.FollowedKube` of the cluster that a kubeconfig's context names; nothing is read before the first call."""

    def __init__(
        self, kubeconfig: Path, context: str = "", *, timeout_seconds: float = 10.0, clock: Clock | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._kubeconfig = kubeconfig
        self._context = context
        self._timeout_seconds = timeout_seconds

    @cached_property
    def _client(self) -> ApiClient:
        from upgrader.adapters.apiclient import ApiClient

        return ApiClient(self._kubeconfig, self._context, timeout_seconds=self._timeout_seconds, clock=self._clock)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        if "_client" in self.__dict__:
            self._client.close()

    def reconnect(self) -> None:
        self.close()

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        try:
            return self._json("GET", _path(kind, namespace, name), _what("get", kind, namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        path, what = _path(kind, namespace), _what("list", kind, namespace)
        pages = self._of_one_moment(kind, path, what, {"labelSelector": labels, "fieldSelector": fields})
        return tuple(item for page in pages for item in page.get("items") or ())

    def each(
        self, kind: Kind, namespace: str = "", *, labels: str = "", at_once: int = AT_ONCE, metadata_only: bool = False
    ) -> Iterator[KubeObject]:
        path, what = _path(kind, namespace), _what("list", kind, namespace)
        accept = _METADATA_ONLY if metadata_only else ""
        seen, paging = set[str](), self._paging(what, at_once)
        while True:
            try:
                for items in self._pages(kind, path, what, {"labelSelector": labels}, paging, accept):
                    while items:
                        item = items.popleft()  # what was handed out is not kept while the next page is read
                        key = f"{item['metadata'].get('namespace', '')}/{_name(item)}"
                        if key not in seen:
                            seen.add(key)
                            yield item
                return
            except ApiError as error:
                # The moment of the first page is forgotten: once more from the start, of another moment.
                if error.status != HTTPStatus.GONE or not paging.begins_again(len(seen)):
                    raise

    def _pages(
        self, kind: Kind, path: str, what: str, query: dict[str, str], paging: Paging, accept: str = ""
    ) -> Iterator[deque[KubeObject]]:
        """The items of a list, page by page; the caller may empty a page."""
        for page in self._whole_pages(kind, path, what, query, paging, accept):
            yield deque(page.pop("items", None) or ())

    def _whole_pages(
        self,
        kind: Kind,
        path: str,
        what: str,
        query: dict[str, str],
        paging: Paging,
        accept: str = "",
        keep: _Keep | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The pages of a list, with the list's metadata."""
        token, query = "", {**query, "limit": str(paging.size)}
        while True:
            page = self._page(kind, path, what, {**query, "continue": token}, accept, keep)
            token = paging.after(page)
            yield page
            if not token:
                return

    def _of_one_moment(
        self,
        kind: Kind,
        path: str,
        what: str,
        query: dict[str, str],
        accept: str = "",
        keep: _Keep | None = None,
    ) -> Sequence[dict[str, Any]]:
        """The pages of a whole list, all of one moment. Once the API has forgotten that: one page with everything."""
        try:
            return [*self._whole_pages(kind, path, what, query, self._paging(what), accept, keep)]
        except ApiError as error:
            if error.status != HTTPStatus.GONE:
                raise
            return [self._page(kind, path, what, query, accept, keep)]

    def _paging(self, what: str, size: int = AT_ONCE) -> Paging:
        return Paging(lambda: self._client.server, what, size)

    def count(self, kind: Kind, namespace: str = "", *, labels: str = "") -> int:
        path, what = _path(kind, namespace), _what("count", kind, namespace)
        if not labels:
            page = self._page(kind, path, what, {"limit": "1"}, _METADATA_ONLY, _nothing)
            meta, counted = page.get("metadata") or {}, len(page.get("items") or ())
            if not meta.get("continue") or "remainingItemCount" in meta:
                return counted + int(meta.get("remainingItemCount") or 0)
        # With a selector, the server never says how many are left: one object alone would tell nothing.
        pages = self._of_one_moment(kind, path, what, {"labelSelector": labels}, _METADATA_ONLY, _nothing)
        return sum(len(page.get("items") or ()) for page in pages)

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        what = _what("create", kind, namespace, str(manifest["metadata"].get("name", "")))  # a review has none
        query = {"fieldManager": FIELD_MANAGER, "dryRun": "All" if dry_run else ""}
        return self._json("POST", _path(kind, namespace), what, query, manifest)

    def apply(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        name = _name(manifest)
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        what = _what("apply", kind, namespace, name)
        return self._json(
            "PATCH", _path(kind, namespace, name), what, query, manifest, content_type="application/apply-patch+yaml"
        )

    def replace(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        name = _name(manifest)
        what = _what("replace", kind, namespace, name)
        return self._json("PUT", _path(kind, namespace, name), what, {"fieldManager": FIELD_MANAGER}, manifest)

    def patch(
        self, kind: Kind, name: str, changes: KubeObject, namespace: str = "", *, subresource: str = ""
    ) -> KubeObject:
        what = _what("patch", kind, namespace, name)
        query = {"fieldManager": FIELD_MANAGER}
        path = _path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return self._json("PATCH", path, what, query, changes, content_type="application/merge-patch+json")

    def dry_patch(self, kind: Kind, name: str, changes: KubeObject, namespace: str = "") -> KubeObject:
        what = _what("patch", kind, namespace, name)
        query = {"fieldManager": FIELD_MANAGER, "dryRun": "All"}
        path = _path(kind, namespace, name)
        return self._json("PATCH", path, what, query, changes, content_type="application/merge-patch+json")

    def delete(self, kind: Kind, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        query = {"gracePeriodSeconds": "0"} if at_once else {}
        try:
            self._json("DELETE", _path(kind, namespace, name), _what("delete", kind, namespace, name), query)
        except ApiError as error:
            if error.status != 404:
                raise

    def evict(self, pod: str, namespace: str, *, uid: str) -> None:
        # With another pod of that name, the API server itself would try for ten seconds, as after any conflict.
        found = self.get(_PODS, pod, namespace)
        if found is None or found["metadata"]["uid"] != uid:
            return
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        path = _path(_PODS, namespace, pod) + "/eviction"
        # Not tried again at once: a budget's 429 lasts until another pod is Ready.
        request = self._request("POST", path, f"evict pod {namespace}/{pod}", body=body, retry=False)
        try:
            self._client.send(request)
        except ApiError as error:
            if error.status not in (404, 409) or (error.status == 409 and self._stays(pod, namespace, uid)):
                raise

    def _stays(self, pod: str, namespace: str, uid: str) -> bool:
        """Whether this pod (same UID) exists and isn't terminating: a conflict then is a webhook's answer about it."""
        meta = (self.get(_PODS, pod, namespace) or {}).get("metadata") or {}
        return meta.get("uid") == uid and "deletionTimestamp" not in meta

    def logs(self, namespace: str, pod: str, container: str, *, previous: bool = False, lines: int = 20) -> str:
        query = {"container": container, "tailLines": str(lines), "limitBytes": str(lines * _LOG_LINE_BYTES)}
        if previous:
            query["previous"] = "true"
        path = _path(_PODS, namespace, pod) + "/log"
        what = f"logs {namespace}/{pod} -c {container}"
        try:
            text = self._client.send(self._request("GET", path, what, query)).body.decode(errors="replace")
        except ApiError as error:
            # 400: the container hasn't started yet, or has no previous instance, or isn't in the pod.
            if error.status in (400, 404):
                return ""
            raise
        # The kubelet answers 200 with this text when the container was removed meanwhile.
        return "" if text.startswith("unable to retrieve container logs") else text

    def watch(self, kind: Kind, namespace: str, name: str, *, timeout_seconds: int) -> Iterator[KubeObject]:
        query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": str(timeout_seconds)}
        what = _what("watch", kind, namespace, name)
        return self._events(_path(kind, namespace), what, query, timeout_seconds)

    def listed(
        self, kind: Kind, namespace: str = "", *, labels: str = "", keep: Callable[[dict[str, Any]], KubeObject]
    ) -> tuple[tuple[KubeObject, ...], str]:
        path, what = _path(kind, namespace), _what("list", kind, namespace)
        pages = self._of_one_moment(kind, path, what, {"labelSelector": labels}, keep=lambda item: dict(keep(item)))
        items = tuple(item for page in pages for item in page.get("items") or ())
        return items, str(pages[-1]["metadata"]["resourceVersion"])  # the same one in all pages

    def changes(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        version: str,
        timeout_seconds: int,
        silent_seconds: float,
    ) -> Iterator[KubeObject]:
        query = {"watch": "true", "allowWatchBookmarks": "true", "labelSelector": labels, "resourceVersion": version}
        query["timeoutSeconds"] = str(timeout_seconds)
        what = _what("watch", kind, namespace)
        return self._events(_path(kind, namespace), what, query, timeout_seconds, silent_seconds)

    def _events(
        self, path: str, what: str, query: dict[str, str], timeout_seconds: int, silent_seconds: float = float("inf")
    ) -> Iterator[KubeObject]:
        """The events of a watch. Raises ApiError, with the server's code, if the server ends it for a reason."""
        request = self._request("GET", path, what, query)
        for line in self._client.lines(request, timeout_seconds + _WATCH_GRACE_SECONDS, silent_seconds):
            event = _event(line, what)
            if event.get("type") == "ERROR":
                found = event.get("object") or {}
                error = ApiError(f"the API server ended '{what}': {found.get('message', event)}")
                error.status = int(found.get("code") or 0)
                raise error
            yield event

    def raw(self, path: str, *, server: str = "", token: str = "") -> str:
        request = self._request("GET", path, f"get {path}", retry=not server)
        if not server and not token:
            return self._client.send(request).body.decode(errors="replace")
        client = self._client.at(server, token)
        try:
            return client.send(request).body.decode(errors="replace")
        finally:
            client.close()

    def server_time(self) -> datetime:
        what = "get /version"
        date = self._client.send(self._request("GET", "/version", what)).headers.get("Date", "")
        try:
            return parsedate_to_datetime(date).astimezone(UTC)
        except ValueError as error:
            raise ApiError(f"{what}: the response has an invalid Date header: {date!r}") from error

    def request_token(self, service_account: str, namespace: str, *, seconds: int, bound_to: KubeObject) -> str:
        account = Kind("v1", "serviceaccounts")
        meta = bound_to["metadata"]
        bound = {"apiVersion": "v1", "kind": "Secret", "name": meta["name"], "uid": meta["uid"]}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds, "boundObjectRef": bound},
        }
        what = _what("request a token of", account, namespace, service_account)
        found = self._json("POST", _path(account, namespace, service_account) + "/token", what, {}, body)
        return str(found["status"]["token"])

    def _json(
        self,
        method: str,
        path: str,
        what: str,
        query: dict[str, str] | None = None,
        body: KubeObject | None = None,
        content_type: str = "application/json",
        accept: str = "",
        keep: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        request = self._request(
            method, path, what, query, body, content_type, wants_object=True, accept=accept, keep=keep
        )
        answer = self._client.send(request)
        # Every answer of the API names its kind: a proxy's own words to whom it doesn't know are no empty list.
        found = answer.found
        if found is None or not isinstance(found.get("kind"), str):
            raise not_kubernetes(answer.body, what)
        return found

    def _page(
        self, kind: Kind, path: str, what: str, query: dict[str, str], accept: str = "", keep: _Keep | None = None
    ) -> dict[str, Any]:
        keep = keep or (lean_items() if kind in _MANY else _whole)
        page = self._json("GET", path, what, query, accept=accept, keep=keep)
        if not page["kind"].endswith("List") and "items" not in page:  # a custom resource may call its list otherwise
            raise not_kubernetes(json.dumps(page).encode(), what)
        return page

    @staticmethod
    def _request(
        method: str,
        path: str,
        what: str,
        query: dict[str, str] | None = None,
        body: KubeObject | None = None,
        content_type: str = "application/json",
        retry: bool = True,
        wants_object: bool = False,
        accept: str = "",
        keep: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> ApiRequest:
        from upgrader.adapters.apiclient import ApiRequest

        asked = {key: value for key, value in (query or {}).items() if value}
        return ApiRequest(method, path, what, asked, body, content_type, retry, wants_object, accept, keep)


def _whole(item: dict[str, Any]) -> dict[str, Any]:
    return item


def _nothing(_item: dict[str, Any]) -> dict[str, Any]:
    """Of objects that are only counted."""
    return {}


def _path(kind: Kind, namespace: str, name: str = "") -> str:
    group = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace and kind.namespaced else ""
    return f"{group}{scope}/{kind.plural}" + (f"/{quote(name, safe='')}" if name else "")


def _what(verb: str, kind: Kind, namespace: str, name: str = "") -> str:
    """The request as an operator would type it: `get deployments kube-system/kube-apiserver`."""
    return f"{verb} {kind.plural} {namespace}{'/' if namespace and name else ''}{name}".rstrip()


def _event(line: bytes, what: str) -> dict[str, Any]:
    """One event of a watch."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise not_kubernetes(line, what)
    return found


def _name(manifest: KubeObject) -> str:
    return str(manifest["metadata"]["name"])

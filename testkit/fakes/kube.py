"""An in-memory API server: objects by kind, namespace and name, and a switch that makes it unreachable."""

from __future__ import annotations

import base64
import json
import marshal
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.model.workload import selects
from upgrader.ports import AT_ONCE, Kind, KubeObject

__all__ = ["FakeKube"]

_HEARTBEATS = "kube-node-lease"
_PODS = Kind("v1", "pods")

RawAnswer = str | Exception

_T = TypeVar("_T")


class FakeKube:
    """`ports.FollowedKube` in memory, with the behaviour that callers rely on: uids, versions, generations, …"""

    def __init__(self) -> None:
        self.unavailable = False
        """While true, every call raises ApiUnavailable."""
        self.refuses_all: ApiError | None = None
        """What each request is answered with, as where credentials have ended."""
        self.raw_answers: dict[str, RawAnswer | Iterator[RawAnswer]] = {}
        """Path, or server and path → the answer, an error to raise, or an iterator of those."""
        self.log_texts: dict[tuple[str, str, bool], str] = {}
        """(Pod, container, previous instance) → what `logs` returns."""
        self.denied: set[tuple[str, str]] = set()
        """(Verb, resource) that the operator's credentials lack; ("*", "*"): all rights."""
        self.users: dict[str, set[tuple[str, str]]] = {}
        """User → the only (verb, resource) pairs that it has; users that aren't in here have all rights."""
        self.mute_watch = False
        """While true, watches end without an event."""
        self.silent_kubelets: set[str] | None = None
        """The nodes whose kubelets don't renew their Leases; all others do, before every read. None: none does."""
        self.refuses_dry_run: ApiError | None = None
        """The error that a dry run of a creation raises, as from admission; but of a ConfigMap."""
        self.refuses_dry_patch: dict[str, ApiError] = {}
        """Object's name → a policy's answer to a dry run of a change of it."""
        self.lingering: set[str] = set()
        """Pods that don't end once they are evicted."""
        self.refused_evictions: dict[str, ApiError] = {}
        """Pod → the error that its eviction raises, as from a webhook."""
        self.all_asked: list[str] = []
        """Verb, resource and name of each; a watch is one."""
        self.forgotten = 0
        """Watches from before this version are refused."""
        self.tells_progress = True
        """Whether etcd tells the API server also of changes of other kinds, as kubeadm's does every five seconds. If
        not, a watch of a kind of which nothing has changed has no bookmark.
        """
        self.ahead_seconds = 0.0
        """How far the API server's clock is ahead of this machine's."""
        self._version = 0
        self._objects: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        self._tokens: dict[str, tuple[tuple[str, str, str, str], str]] = {}
        """Token → the Secret that it is bound to, and that Secret's uid."""
        self._events: list[tuple[tuple[str, str, str, str], str, dict[str, Any]]] = []

    def put(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> None:
        """Set an object as it is, including its status, which no client could do."""
        key = self._key(kind, manifest["metadata"]["name"], namespace or manifest["metadata"].get("namespace", ""))
        found = _plain(dict(manifest))
        found["metadata"].setdefault("uid", self._objects[key]["metadata"]["uid"] if key in self._objects else _uid())
        found["metadata"]["resourceVersion"] = self._next_version()
        self._record("MODIFIED" if key in self._objects else "ADDED", key, found)
        self._objects[key] = found

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        self._check(f"get {kind.plural} {name}")
        self._renew(kind)
        return _copied(self._objects.get(self._key(kind, name, namespace)))

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        self._check(f"list {kind.plural}")
        self._renew(kind)
        of_kind = [
            (key, item)
            for key, item in self._objects.items()
            if key[:2] == (kind.api_version, kind.plural) and (not namespace or key[2] == namespace)
        ]
        return tuple(
            _copied(item)
            for _, item in sorted(of_kind)
            if _matches(item["metadata"].get("labels") or {}, labels)
            and all(_field(item, *term.split("=")) for term in fields.split(",") if term)
        )

    def each(
        self, kind: Kind, namespace: str = "", *, labels: str = "", at_once: int = AT_ONCE, metadata_only: bool = False
    ) -> Iterator[KubeObject]:
        self._allowed("list", kind)
        for item in self.list(kind, namespace, labels=labels):
            yield {"metadata": item["metadata"]} if metadata_only else item

    def count(self, kind: Kind, namespace: str = "", *, labels: str = "") -> int:
        return len(self.list(kind, namespace, labels=labels))

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        if kind.plural == "selfsubjectaccessreviews":
            self._check(f"create {kind.plural}")
            asked = manifest["spec"]["resourceAttributes"]
            denied = {("*", "*")} & self.denied or {(asked["verb"], asked["resource"])} & self.denied
            # As with RBAC: "everything" is allowed if nothing is denied.
            allowed = not denied and not (asked["verb"] == "*" and self.denied)
            return {**manifest, "status": {"allowed": allowed}}
        if kind.plural == "subjectaccessreviews":
            self._check(f"create {kind.plural}")
            asked = manifest["spec"]["resourceAttributes"]
            right = asked["verb"], "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
            user = manifest["spec"]["user"]
            return {**manifest, "status": {"allowed": user not in self.users or right in self.users[user]}}
        name = manifest["metadata"]["name"]
        self._check(f"create {kind.plural} {name}")
        if self._key(kind, name, namespace) in self._objects:
            error = ApiError(f"{kind.plural} {name} already exists")
            error.status = 409
            raise error
        if dry_run:
            if self.refuses_dry_run is not None and kind.plural != "configmaps":
                raise self.refuses_dry_run
            return _plain(dict(manifest))
        return self._store(kind, dict(manifest), namespace)

    def apply(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        name = manifest["metadata"]["name"]
        self._check(f"apply {kind.plural} {name}")
        old = self._objects.get(self._key(kind, name, namespace), {})
        return self._store(kind, _merged(old, manifest), namespace)

    def replace(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        name = manifest["metadata"]["name"]
        self._check(f"replace {kind.plural} {name}")
        if self._key(kind, name, namespace) not in self._objects:
            error = ApiError(f"{kind.plural} {name} not found")
            error.status = 404
            raise error
        read_at = manifest["metadata"].get("resourceVersion")
        if read_at and read_at != self._objects[self._key(kind, name, namespace)]["metadata"]["resourceVersion"]:
            error = ApiError(f"{kind.plural} {name}: the object has been modified")
            error.status = 409
            raise error
        return self._store(kind, dict(manifest), namespace)

    def patch(
        self, kind: Kind, name: str, changes: KubeObject, namespace: str = "", *, subresource: str = ""
    ) -> KubeObject:
        self._check(f"patch {kind.plural} {name}")
        old = self._objects.get(self._key(kind, name, namespace))
        if old is None:
            raise _error(404, f"{kind.plural} {name} not found")
        given = changes.get("metadata") or {}
        read_at = given.get("resourceVersion")
        if read_at and read_at != old["metadata"]["resourceVersion"]:
            raise _error(409, f"{kind.plural} {name}: the object has been modified")
        if given.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise _error(422, f"{kind.plural} {name}: metadata.uid: Invalid value: field is immutable")
        if subresource:
            changes = {subresource: changes.get(subresource) or {}}
        return self._store(kind, _patched(old, changes), namespace)

    def evict(self, pod: str, namespace: str, *, uid: str) -> None:
        self._check(f"evict pod {namespace}/{pod}")
        key = self._key(_PODS, pod, namespace)
        found = self._objects.get(key)
        if found is None or found["metadata"]["uid"] != uid:
            return
        if pod in self.refused_evictions:
            raise self.refused_evictions[pod]
        labels = found["metadata"].get("labels") or {}
        budgets = [
            item
            for (_, plural, where, _), item in self._objects.items()
            if plural == "poddisruptionbudgets" and where == namespace and selects(item["spec"]["selector"], labels)
        ]
        if len(budgets) > 1:
            raise _error(500, "This pod has more than one PodDisruptionBudget")
        if budgets and not budgets[0]["status"]["disruptionsAllowed"]:
            raise _error(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        if pod in self.lingering:
            found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            return
        self.delete(_PODS, pod, namespace)

    def dry_patch(self, kind: Kind, name: str, changes: KubeObject, namespace: str = "") -> KubeObject:
        self._check(f"patch {kind.plural} {name}")
        old = self._objects.get(self._key(kind, name, namespace))
        if old is None:
            raise _error(404, f"{kind.plural} {name} not found")
        if name in self.refuses_dry_patch:
            raise self.refuses_dry_patch[name]
        return _plain(_patched(old, changes))

    def delete(self, kind: Kind, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        self._check(f"delete {kind.plural} {name}")
        key = self._key(kind, name, namespace)
        found = self._objects.pop(key, None)
        if found is not None:
            found["metadata"]["resourceVersion"] = self._next_version()
            self._record("DELETED", key, found)

    def logs(self, namespace: str, pod: str, container: str, *, previous: bool = False, lines: int = 20) -> str:
        self._check(f"logs {pod}")
        return "".join(self.log_texts.get((pod, container, previous), "").splitlines(keepends=True)[-lines:])

    def watch(self, kind: Kind, namespace: str, name: str, *, timeout_seconds: int) -> Iterator[KubeObject]:
        self._check(f"watch {kind.plural} {name}")
        key = self._key(kind, name, namespace)
        seen = len(self._events)
        if self.mute_watch:
            return
        if key in self._objects:
            yield {"type": "ADDED", "object": _copied(self._objects[key])}
        # There is no other client: an event that has not happened yet never will.
        while seen < len(self._events):
            self._reach(f"watch {kind.plural} {name}")
            of, what, item = self._events[seen]
            seen += 1
            if of == key:
                yield {"type": what, "object": _copied(item)}

    def listed(
        self, kind: Kind, namespace: str = "", *, labels: str = "", keep: Callable[[dict[str, Any]], KubeObject]
    ) -> tuple[tuple[KubeObject, ...], str]:
        self._allowed("list", kind)
        return tuple(keep(dict(item)) for item in self.list(kind, namespace, labels=labels)), str(self._version)

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
        self._check(f"watch {kind.plural}")
        self._allowed("watch", kind)
        if int(version) < self.forgotten:
            raise _error(410, f"too old resource version: {version} ({self.forgotten})")
        seen, passed = 0, self.tells_progress
        while seen < len(self._events):
            self._reach(f"watch {kind.plural}")
            of, what, item = self._events[seen]
            seen += 1
            if of[:2] != (kind.api_version, kind.plural) or int(item["metadata"]["resourceVersion"]) <= int(version):
                continue
            passed = True
            if namespace in ("", of[2]) and _matches(item["metadata"].get("labels") or {}, labels):
                yield {"type": what, "object": _copied(item)}
        # As a real one does before the timeout; an event that has not happened yet never will.
        if passed:
            yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self._version)}}}

    def reconnect(self) -> None:
        """It has no connections."""

    def server_time(self) -> datetime:
        self._check("get /version")
        return (datetime.now(UTC) + timedelta(seconds=self.ahead_seconds)).replace(microsecond=0)

    def raw(self, path: str, *, server: str = "", token: str = "") -> str:
        self._check(f"get {path}")
        if token and not self._token_lives(token):
            error = ApiError(f"get {path}: Unauthorized")
            error.status = 401
            raise error
        answer = self.raw_answers.get(server + path, self.raw_answers.get(path))
        if isinstance(answer, Iterator):
            answer = next(answer)
        if answer is None:
            answer = self._at_path(path)
        if answer is None:
            error = ApiError(f"get {path}: not found")
            error.status = 404
            raise error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _at_path(self, path: str) -> str | None:
        """The JSON of the object whose path in the API this is."""
        for (api_version, plural, namespace, name), item in self._objects.items():
            scope = f"/namespaces/{namespace}" if namespace else ""
            if path == f"/{'apis' if '/' in api_version else 'api'}/{api_version}{scope}/{plural}/{name}":
                return json.dumps(item)
        return None

    def request_token(self, service_account: str, namespace: str, *, seconds: int, bound_to: KubeObject) -> str:
        accounts = Kind("v1", "serviceaccounts")
        self._check(f"request a token of {service_account}")
        if self._key(accounts, service_account, namespace) not in self._objects:
            error = ApiError(f"serviceaccounts {service_account} not found")
            error.status = 404
            raise error
        meta = bound_to["metadata"]
        token = _token(seconds)
        self._tokens[token] = self._key(Kind("v1", "secrets"), meta["name"], namespace), meta["uid"]
        return token

    def revoke_tokens(self) -> None:
        """Accept none of the tokens that were issued, as after a change of the issuer."""
        self._tokens.clear()

    def _token_lives(self, token: str) -> bool:
        key, uid = self._tokens.get(token, (None, ""))
        secret = self._objects.get(key) if key else None
        return secret is not None and secret["metadata"]["uid"] == uid

    def _renew(self, kind: Kind) -> None:
        if kind.plural != "leases" or self.silent_kubelets is None:
            return
        for (_, plural, namespace, name), item in self._objects.items():
            if plural == "leases" and namespace == _HEARTBEATS and name not in self.silent_kubelets:
                renewed = datetime.fromisoformat(item["spec"]["renewTime"]) + timedelta(seconds=10)
                item["spec"]["renewTime"] = renewed.isoformat()

    def _allowed(self, verb: str, kind: Kind) -> None:
        if (verb, kind.plural) in self.denied:
            raise _error(403, f"{verb} {kind.plural}: Forbidden")

    def _check(self, what: str) -> None:
        self.all_asked.append(what)
        self._reach(what)

    def _reach(self, what: str) -> None:
        if self.unavailable:
            raise ApiUnavailable(f"the API server did not answer: Connection refused ({what})")
        if self.refuses_all is not None:
            raise self.refuses_all

    def _store(self, kind: Kind, manifest: dict[str, Any], namespace: str) -> KubeObject:
        key = self._key(kind, manifest["metadata"]["name"], namespace)
        old = self._objects.get(key)
        found = _plain(manifest)
        meta = found["metadata"]
        if namespace:
            meta["namespace"] = namespace
        meta["uid"] = old["metadata"]["uid"] if old else _uid()
        if "spec" in found:
            generation = old["metadata"].get("generation", 1) if old else 0
            meta["generation"] = generation + (not old or old.get("spec") != found["spec"])
        meta["resourceVersion"] = old["metadata"]["resourceVersion"] if old else ""
        if old == found:
            return _copied(found)
        meta["resourceVersion"] = self._next_version()
        self._objects[key] = found
        self._record("MODIFIED" if old else "ADDED", key, found)
        return _copied(found)

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def _record(self, what: str, key: tuple[str, str, str, str], item: dict[str, Any]) -> None:
        self._events.append((key, what, _copied(item)))

    @staticmethod
    def _key(kind: Kind, name: str, namespace: str) -> tuple[str, str, str, str]:
        return kind.api_version, kind.plural, namespace if kind.namespaced else "", name


def _plain(value: _T) -> _T:
    """A copy of a value that JSON can hold, as dictionaries and lists alone."""
    found: Any = value
    if isinstance(value, Mapping):
        found = {key: _plain(each) for key, each in value.items()}
    elif isinstance(value, list | tuple):
        found = [_plain(each) for each in value]
    plain: _T = found
    return plain


def _copied(value: _T) -> _T:
    """A copy of what is already plain, in a fraction of the time: gates read thousands of objects in a test."""
    plain: Any = value
    copied: _T = marshal.loads(marshal.dumps(plain))
    return copied


def _token(seconds: int) -> str:
    """Like a real token, it contains when it was issued and when it expires."""
    claims = base64.urlsafe_b64encode(json.dumps({"iat": 0, "exp": seconds, "jti": _uid()}).encode())
    return f"e30.{claims.rstrip(b'=').decode()}.c2lnbmF0dXJl"


def _uid() -> str:
    return str(uuid.uuid4())


def _merged(old: KubeObject, new: KubeObject) -> dict[str, Any]:
    """Maps are merged, everything else is replaced: near enough to server-side apply for one owner of all fields."""
    result = dict(old)
    for key, value in new.items():
        before = result.get(key)
        result[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return result


def _patched(old: KubeObject, changes: KubeObject) -> dict[str, Any]:
    """RFC 7386: maps are merged, None removes a key, everything else is replaced."""
    result = dict(old)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            before = result.get(key)
            result[key] = _patched(before if isinstance(before, dict) else {}, value)
        else:
            result[key] = value
    return result


def _error(status: int, message: str) -> ApiError:
    error = ApiError(message)
    error.status = status
    return error


def _matches(labels: dict[str, str], selector: str) -> bool:
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def _field(item: dict[str, Any], path: str, value: str) -> bool:
    found: Any = item
    for part in path.split("."):
        found = (found or {}).get(part)
    return str(found or "") == value

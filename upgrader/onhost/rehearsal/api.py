"""A client of a scratch kube-apiserver at this host's loopback, and what that serves."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal.busy_host import busy_host
from upgrader.onhost.rehearsal.nested import outer_levels
from upgrader.onhost.rehearsal.unwatched import first

_SECONDS = 60.0
_PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Between attempts at a server that has no time."""
_BUSY = (429, 503, 504)
_SERVER_TIMEOUT = b'"reason":"ServerTimeout"'
"""The same with the status of an error that may be an object's."""
_FIRST, _MOST = 25, 100
_PAGE_CHARACTERS = 4 << 20
"""Of a page after the first one, more or less: Secrets may have a megabyte each."""
_MOST_BYTES = 4 * _PAGE_CHARACTERS
"""Of a page of several objects: large ones may come after small ones."""
_PARTS = 8
"""How many pages are to replace one that has more."""
_PIECE_BYTES = 1 << 20
_ESCAPED = re.compile("[<>&\u2028\u2029]")
"""What Go's encoder escapes; outside of strings, JSON has none of them."""


ACCEPTED = (200, 201)
"""The status of a write that was accepted."""
_JSON = "application/json"
_ITEMS = '"items":['
_SCAN = json.JSONDecoder().raw_decode


class Resource(NamedTuple):
    """A resource as a version of its group serves it."""

    group: str
    plural: str
    version: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    status: bool = False
    """Whether its objects' status is updated by requests of its own (`pods/status`)."""

    @property
    def name(self) -> str:
        """`deployments.apps`"""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "") -> str:
        """Of one object, of a namespace's, or of all."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        inside = f"/namespaces/{quote(namespace)}" if namespace else ""
        return f"{root}{inside}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


def as_go_has_it(body: Any) -> bytes:
    """JSON as a server writes it: what an object has in a raw form, such as a ControllerRevision's data, is compared
    byte by byte with what is stored.
    """
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", text).encode("utf-8", "surrogatepass")


class Listed(NamedTuple):
    """An object as a server has it."""

    item: dict[str, Any]
    """With its `apiVersion` and `kind`, which lists leave out."""
    body: bytes
    """The same in JSON, as the server wrote it."""
    nested: bool = False
    """Whether it is nested too deeply to be read: `item` has only its outer levels."""

    @classmethod
    def of(cls, item: dict[str, Any]) -> Listed:
        """One that no list had."""
        return cls(item, as_go_has_it(item))


class Page(NamedTuple):
    """A part of a list."""

    found: list[Listed]
    at: str = ""
    """Where to go on; "": that was all."""
    refused: dict[str, Any] | None = None
    """The server's Status where it can't list them."""
    text: str = ""
    """The JSON of all that was `found`, as the server wrote it."""

    @property
    def next_limit(self) -> int:
        """How many objects the next page should have at most, for the size of these."""
        fitting = _PAGE_CHARACTERS * len(self.found) // max(1, len(self.text))
        return max(1, min(_MOST, fitting)) if self.found else _FIRST


def _objects(text: str, at: int, resource: Resource) -> tuple[list[Listed], int]:
    """Those of a JSON array that begins at a place of the text, and where it ends. Servers write no blanks."""
    named = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
    found = []  # type: list[Listed]
    at += 1
    while text[at] != "]":
        try:
            (item, end), nested = _SCAN(text, at), False
        except RecursionError:
            (item, end), nested = outer_levels(text, at), True
        body = text[at:end] if "kind" in item else named + text[at + 1 : end]
        item["apiVersion"], item["kind"] = resource.api_version, resource.kind
        found.append(Listed(item, body.encode("utf-8", "surrogatepass"), nested))
        at = end + (text[end] == ",")
    return found, at + 1


class _TooLarge(Exception):
    """A page has more bytes than it may have."""


def _read(response: http.client.HTTPResponse, most: int) -> bytes:
    """Its body. Raises _TooLarge if that has more than so many bytes, which are not read then."""
    pieces, size = [], 0  # type: list[bytes], int
    while True:
        piece = response.read(_PIECE_BYTES)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise _TooLarge


class Api:
    """One server. Each thread has a connection of its own. Every method raises Failed if it doesn't answer, or has no
    time again and again: it has neither read, accepted nor refused anything then.

    `revision`: of its etcd, with what `unwatched` has written there. `unbroken`: raises Failed once that etcd ended,
    so that no answer is waited for again, each of which takes a minute then.
    """

    def __init__(
        self,
        name: str,
        port: int,
        token: str,
        certificate: str,
        revision: int = 0,
        unbroken: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._revision, self._unbroken = revision, unbroken
        self._port = port
        self._authorization = f"Bearer {token}"
        self._tls = ssl.create_default_context(cafile=certificate)
        self._tls.check_hostname = False
        self._tls.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        self._own = threading.local()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Status and answer."""
        status, text = self._exchange(method, path, None if body is None else as_go_has_it(body))
        return status, _answer(text)

    def write(self, method: str, path: str, body: bytes, form: str = _JSON) -> tuple[int, dict[str, Any]]:
        """Status and answer; {} where the server has accepted the `body` and returned just that. `form`: its media
        type.
        """
        status, text = self._exchange(method, path, body, form)
        return status, {} if status in ACCEPTED and text.rstrip() == body else _answer(text)

    def get_as(self, path: str, user: str, groups: Sequence[str]) -> tuple[int, dict[str, Any]]:
        """Status and answer to what another user asks for; status 0 where a name can't be in a header."""
        status, text = self._while_busy(lambda: self._once_as(path, user, groups))
        return status, _answer(text) if status else {}

    def _once_as(self, path: str, user: str, groups: Sequence[str]) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=_SECONDS, context=self._tls)
        try:
            connection.putrequest("GET", path)
            connection.putheader("Authorization", self._authorization)
            connection.putheader("Impersonate-User", user.encode())
            for each in groups:
                connection.putheader("Impersonate-Group", each.encode())
            connection.endheaders()
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            self._unbroken()
            raise self._silent(error) from error
        except ValueError:
            return 0, b""
        finally:
            connection.close()

    def _exchange(self, method: str, path: str, sent: bytes | None, form: str = _JSON) -> tuple[int, bytes]:
        return self._while_busy(lambda: self._once(method, path, sent, form, None))

    def _while_busy(self, request: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        status, text = self._retried(request)
        if _is_busy(status, text):
            raise Failed(f"the {self.name} kube-apiserver is overloaded: it keeps answering {status}{busy_host()}")
        return status, text

    def _retried(self, request: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        status, text = request()
        for pause in _PAUSES:
            if not _is_busy(status, text):
                break
            self._unbroken()
            time.sleep(pause)
            status, text = request()
        return status, text

    def _once(self, method: str, path: str, sent: bytes | None, form: str, most: int | None) -> tuple[int, bytes]:
        headers = {"Authorization": self._authorization, "Content-Type": form}
        for last in (False, True):
            connection = getattr(self._own, "connection", None)
            if connection is None:
                connection = self._own.connection = http.client.HTTPSConnection(
                    "127.0.0.1", self._port, timeout=_SECONDS, context=self._tls
                )
            try:
                connection.request(method, path, body=sent, headers=headers)
                response = connection.getresponse()
                return response.status, response.read() if most is None else _read(response, most)
            except _TooLarge:
                connection.close()
                self._own.connection = None
                raise
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._own.connection = None
                self._unbroken()
                if last:
                    raise self._silent(error) from error
        raise AssertionError("the last attempt returns or raises")

    def _silent(self, error: Exception) -> Failed:
        late = isinstance(error, socket.timeout)
        said = f"no answer within {_SECONDS:.0f} s{busy_host()}" if late else str(error)
        return Failed(f"the {self.name} kube-apiserver no longer answers: {said}")

    def resources(self) -> dict[tuple[str, str], list[Resource]]:
        """What can be listed, by group and plural; the version that clients get by default comes first."""
        found: dict[tuple[str, str], list[Resource]] = {}
        served = list(self.all_resources())
        statuses = {(each.api_version, each.plural) for each in served if "update" in each.verbs}
        for each in served:
            if "/" not in each.plural and "list" in each.verbs:
                status = (each.api_version, f"{each.plural}/status") in statuses
                found.setdefault((each.group, each.plural), []).append(each._replace(status=status))
        return found

    def all_resources(self) -> Iterator[Resource]:
        """What it serves, also subresources (`pods/status`), and what can't be listed; preferred versions first."""
        for group, version in self._versions():
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            status, answer = self.ask("GET", root)
            if status != 200:
                raise Failed(f"the {self.name} kube-apiserver answers {status} to {root}")
            for each in answer["resources"]:
                verbs = tuple(each["verbs"])
                yield Resource(group, each["name"], version, each["kind"], bool(each["namespaced"]), verbs)

    def _versions(self) -> list[tuple[str, str]]:
        status, answer = self.ask("GET", "/apis")
        if status != 200:
            raise Failed(f"the {self.name} kube-apiserver answers {status} to /apis")
        found = [("", "v1")]
        for group in answer["groups"]:
            preferred = group["preferredVersion"]["version"]
            versions = [each["version"] for each in group["versions"]]
            versions.sort(key=lambda version: version != preferred)
            found += [(group["name"], version) for version in versions]
        return found

    def page(
        self, resource: Resource, at: str, same: Page | None = None, limit: int = _FIRST, selector: str = ""
    ) -> Page:
        """Objects from `at` on ("": from the first one), at most `limit`. `same`: the same page of the other server at
        the same version, whose objects are not read twice where both servers have written them alike. `selector`: of
        labels: such a list is refused, too, if the server has no time for it. It is from a cache, which a server never
        has if it can't read one of the objects.
        """
        selected = f"&labelSelector={quote(selector)}" if selector else ""
        at = at or first(resource.group, resource.plural, self._revision)
        path = f"{resource.path()}?limit={limit}&continue={quote(at)}{selected}"
        ask, most = self._retried if selector else self._while_busy, _MOST_BYTES if limit > 1 else None
        try:
            status, answer = ask(lambda: self._once("GET", path, None, _JSON, most))
        except _TooLarge:
            return self.page(resource, at, same, max(1, limit // _PARTS), selector)
        if status != 200:
            return Page([], refused=_answer(answer))
        text = answer.decode("utf-8", "surrogatepass")
        start = text.find(_ITEMS) + len(_ITEMS) - 1
        if start < len(_ITEMS):  # null: there is none
            return Page([], _next(text))
        if same and same.text and text.startswith(same.text, start):
            found, end = same.found, start + len(same.text)
        else:
            found, end = _objects(text, start, resource)
        return Page(found, _next(f"{text[:start]}null{text[end:]}"), text=text[start:end])


def _is_busy(status: int, text: bytes) -> bool:
    return status in _BUSY or (status == 500 and _SERVER_TIMEOUT in text)


def _next(text: str) -> str:
    """Where the next page of a list begins."""
    return str((json.loads(text).get("metadata") or {}).get("continue") or "")


def _answer(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    # `/readyz` answers in plain text.
    return answer if isinstance(answer, dict) else {"message": text.decode("utf-8", "replace")}

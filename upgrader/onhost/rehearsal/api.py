"""A client of a scratch kube-apiserver at this host's loopback, and what that serves."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
from typing import Any, NamedTuple
from urllib.parse import quote

from upgrader.onhost.common.questions import Failed

_SECONDS = 60.0
_PAGE = 250
_ESCAPED = re.compile("[<>&\u2028\u2029]")
"""What Go's encoder escapes; outside of strings, JSON has none of them."""


class Resource(NamedTuple):
    """A resource as a version of its group serves it."""

    group: str
    plural: str
    version: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]

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


class Api:
    """One server. Each thread has a connection of its own. Every method raises Failed if it doesn't answer."""

    def __init__(self, name: str, port: int, token: str, certificate: str) -> None:
        self.name = name
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._tls = ssl.create_default_context(cafile=certificate)
        self._tls.check_hostname = False
        self._tls.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        self._own = threading.local()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Status and answer."""
        sent = None if body is None else as_go_has_it(body)
        for last in (False, True):
            connection = getattr(self._own, "connection", None)
            if connection is None:
                connection = self._own.connection = http.client.HTTPSConnection(
                    "127.0.0.1", self._port, timeout=_SECONDS, context=self._tls
                )
            try:
                connection.request(method, path, body=sent, headers=self._headers)
                response = connection.getresponse()
                text = response.read()
                break
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._own.connection = None
                if last:
                    said = "no answer in time" if isinstance(error, socket.timeout) else str(error)
                    raise Failed(f"the {self.name} kube-apiserver no longer answers: {said}") from error
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        # `/readyz` answers in plain text.
        return response.status, answer if isinstance(answer, dict) else {"message": text.decode("utf-8", "replace")}

    def resources(self) -> dict[tuple[str, str], list[Resource]]:
        """What can be listed, by group and plural; the version that clients get by default comes first."""
        found: dict[tuple[str, str], list[Resource]] = {}
        for group, version in self._versions():
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            status, answer = self.ask("GET", root)
            if status != 200:
                raise Failed(f"the {self.name} kube-apiserver answers {status} to {root}")
            for each in answer["resources"]:
                if "/" not in each["name"] and "list" in each["verbs"]:
                    verbs = tuple(each["verbs"])
                    made = Resource(group, each["name"], version, each["kind"], bool(each["namespaced"]), verbs)
                    found.setdefault((group, made.plural), []).append(made)
        return found

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

    def page(self, resource: Resource, at: str) -> tuple[list[dict[str, Any]], str, dict[str, Any] | None]:
        """Objects, where to go on ("": that was all), and the server's Status where it can't list them."""
        status, answer = self.ask("GET", f"{resource.path()}?limit={_PAGE}&continue={quote(at)}")
        if status != 200:
            return [], "", answer
        items = answer.get("items") or []
        for item in items:
            item["apiVersion"], item["kind"] = resource.api_version, resource.kind
        return items, (answer.get("metadata") or {}).get("continue") or "", None

"""The manifests of Helm's records, tried with both versions: what an upgrade or a rollback of a release would send."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from upgrader.onhost.rehearsal.api import Resource
from upgrader.onhost.rehearsal.helm_records import Document, documents, record
from upgrader.onhost.rehearsal.objects import key_of
from upgrader.onhost.rehearsal.requests import Outcome, Pair, Requests

__all__ = ["RECORDED_IN", "RECORDS", "Manifests", "Tried"]

RECORDED_IN = (("", "secrets"), ("", "configmaps"))
RECORDS = "manifests in Helm's records"


class Tried(NamedTuple):
    """What a document has shown, or an object that should have some."""

    resource: str
    name: str
    """Of the object, and of the release."""
    outcomes: list[Outcome]


class _Work(NamedTuple):
    release: str
    """ "": the record itself can't be read, and `text` is its name."""
    namespace: str
    text: str
    about: Document | None


class Manifests:
    """`before` and `after`: what both versions serve, by group and plural; `skipped`: names of resources that can't be
    tried.
    """

    def __init__(
        self,
        requests: Requests,
        before: dict[tuple[str, str], list[Resource]],
        after: dict[tuple[str, str], list[Resource]],
        skipped: set[str],
    ) -> None:
        self._requests = requests
        self._before, self._after = _by_kind(before, skipped), _by_kind(after, skipped)
        self._skipped = {(each.api_version, each.kind) for each in _all(before) if each.name in skipped}
        self._seen: set[bytes] = set()

    def new(self, item: dict[str, Any]) -> Iterator[_Work]:
        """The documents of a Secret or a ConfigMap, without those that another one had in the same namespace."""
        try:
            found = record(item)
        except ValueError:
            yield _Work("", "", "/".join(key_of(item)), None)
            return
        if found is None:
            return
        for text, about in documents(found):
            digest = hashlib.sha256(f"{found.namespace}\0{text}".encode("utf-8", "surrogatepass")).digest()
            if digest not in self._seen and not (about and (about.api_version, about.kind) in self._skipped):
                self._seen.add(digest)
                yield _Work(found.release, found.namespace, text, about)

    def tried(self, work: _Work) -> Tried:
        """What one shows."""
        about = work.about
        kind = (about.api_version, about.kind) if about else ("", "")
        old, new = self._before.get(kind), self._after.get(kind)
        # Helm sends each item of a list, of whatever kind it is.
        if about is None or (old is None and about.kind.endswith("List")):
            name = f"a document of release {work.release}" if work.release else work.text
            return Tried(RECORDS, name, [Outcome("", "manifest-unread")])
        if old is None:  # neither Helm nor anyone else can send it today
            return Tried("", "", [Outcome("", "unproven")])
        namespace = (about.namespace or work.namespace) if old.namespaced else ""
        name = f"{'/'.join(part for part in (namespace, about.name) if part)} of release {work.release}"
        if new is None:
            return Tried(old.name, name, [Outcome("", "manifest-gone", about.api_version)])
        text = work.text.encode("utf-8", "surrogatepass")
        return Tried(old.name, name, self._requests.manifest(Pair(old, new, True), text, namespace, about.name))


def _all(served: dict[tuple[str, str], list[Resource]]) -> Iterator[Resource]:
    return (each for versions in served.values() for each in versions)


def _by_kind(served: dict[tuple[str, str], list[Resource]], skipped: set[str]) -> dict[tuple[str, str], Resource]:
    """By version and kind."""
    return {(each.api_version, each.kind): each for each in _all(served) if each.name not in skipped}

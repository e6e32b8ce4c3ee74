"""One object's requests to both versions: what the target does with it that the running version doesn't."""

from __future__ import annotations

from typing import Any, NamedTuple

from upgrader.onhost.rehearsal.api import Api, Resource
from upgrader.onhost.rehearsal.fields import FieldNames
from upgrader.onhost.rehearsal.objects import differences, key_of, like
from upgrader.onhost.rehearsal.words import reason

__all__ = ["Item", "Outcome", "Pair", "Requests"]

_CONFLICT = 409
_ALSO_OTHERS = ("events.events.k8s.io",)
"""The same objects as another resource's: those of this one that clients made by the other can't be created by it."""

Item = Any
"""An object in its JSON form."""


class Outcome(NamedTuple):
    """What one request for an object has shown."""

    request: str
    """`read`, `update` or `create`."""
    what: str = ""
    """The kind of finding, or `unproven`: the current version refuses it, too. "": both versions do the same."""
    why: str = ""


class Pair(NamedTuple):
    """A resource as both versions serve it, at the same version where there is one."""

    old: Resource
    new: Resource
    write: bool


class Requests:
    """`revision`: that of the copies before a server had written anything at its start, such as roles."""

    def __init__(self, current: Api, target: Api, custom: set[str], revision: int) -> None:
        self._current, self._target, self._revision = current, target, revision
        self._old_names, self._new_names = FieldNames(current, custom), FieldNames(target, custom)

    def why(self, resource: Resource, answer: dict[str, Any]) -> str:
        """Why the current version refuses a request for many objects."""
        return reason(answer, None, self._old_names.of(resource))

    def outcomes(self, pair: Pair, key: tuple[str, str], item: Item, other: Item | None, create: bool) -> list[Outcome]:
        """Of one object, as the current version has listed it; `other`: as the target has, None where it hasn't."""
        old, new, write = pair
        if other is None:
            status, other = self._target.ask("GET", new.path(*key))
            if status != 200:
                # What the server itself has written since its start, or what expires with a lease, as Events do.
                if not self.stored(item) or self._current.ask("GET", old.path(*key))[0] != 200:
                    return []
                return [Outcome("", "unreadable", reason(other, item, self._new_names.of(new)))]
        found = [Outcome("read")]
        if old.version == new.version and self.stored(item) and self.stored(other):
            found += self._read_differently(old, new, item, other)
        if write and "update" in old.verbs and "update" in new.verbs:
            found.append(self._tried("update", pair, item, other))
        create = create and old.name not in _ALSO_OTHERS
        if write and create and "create" in old.verbs and "create" in new.verbs:
            found.append(self._tried("create", pair, like(item), like(other)))
        return found

    def stored(self, item: Item) -> bool:
        """Whether the copy had it like this from the beginning."""
        return int(item["metadata"].get("resourceVersion") or 0) <= self._revision

    def _read_differently(self, old: Resource, new: Resource, item: Item, other: Item) -> list[Outcome]:
        found, read = [], differences(item, other)
        for what, paths in (("changed", read.lost), ("added", read.added)):
            if paths:
                names = self._old_names.of(old), self._new_names.of(new)
                # A field may be declared by one version alone.
                places = {max((each.place(path) for each in names), key=len) for path in paths}
                found.append(Outcome("", what, ", ".join(sorted(places))))
        return found

    def _tried(self, request: str, pair: Pair, item: Item, other: Item) -> Outcome:
        why = self._refused(request, self._current, pair.old, item, self._old_names)
        if why is not None:
            return Outcome(request, "unproven", why)
        why = self._refused(request, self._target, pair.new, other, self._new_names)
        return Outcome(request) if why is None else Outcome(request, request, why)

    def _refused(self, request: str, api: Api, resource: Resource, item: Item, names: FieldNames) -> str | None:
        """The reason, or None where a dry run of the request passes."""
        namespace, name = key_of(item)
        if request == "create":
            status, answer = api.ask("POST", f"{resource.path(namespace)}?dryRun=All", item)
        else:
            path = resource.path(namespace, name)
            status, answer = api.ask("PUT", f"{path}?dryRun=All", item)
            if status == _CONFLICT:  # a server's own object, such as its lease
                status, newer = api.ask("GET", path)
                status, answer = api.ask("PUT", f"{path}?dryRun=All", newer)
        return None if status in (200, 201) else reason(answer, item, names.of(resource))

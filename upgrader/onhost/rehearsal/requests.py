"""One object's requests to both versions: what the target does with it that the running version doesn't."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from upgrader.onhost.rehearsal.api import Api, Listed, Resource, as_go_has_it
from upgrader.onhost.rehearsal.fields import FieldNames
from upgrader.onhost.rehearsal.objects import differences, key_of, like
from upgrader.onhost.rehearsal.words import reason

__all__ = ["Outcome", "Pair", "Requests"]

_CONFLICT = 409
_APPLY, _YAML = "application/apply-patch+yaml", "application/yaml"
_DRY_RUN = "dryRun=All&fieldValidation=Ignore"
"""Unknown fields are no reason to refuse a request, but by default a server looks for them, to warn of them."""
_ALSO_OTHERS = ("events.events.k8s.io",)
"""The same objects as another resource's: those of this one that clients made by the other can't be created by it."""


class Outcome(NamedTuple):
    """What one request for an object has shown."""

    request: str
    """`read`, `update` or `create`."""
    what: str = ""
    """The kind of finding, or `unproven`: both versions refuse it. "": the target does what the current one does."""
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

    def why(self, resource: Resource | None, answer: dict[str, Any]) -> str:
        """Why a version refuses a request for many objects."""
        return reason(answer, None, self._old_names.of(resource) if resource else None)

    def outcomes(
        self, pair: Pair, key: tuple[str, str], before: Listed, after: Listed | None, create: bool
    ) -> list[Outcome]:
        """Of one object, as the current version has listed it; `after`: as the target has, None where it hasn't."""
        old, new, write = pair
        if after is None:
            status, other = self._target.ask("GET", new.path(*key))
            if status != 200:
                # What the server itself has written since its start, or what expires with a lease, as Events do.
                if not self.stored(before) or self._current.ask("GET", old.path(*key))[0] != 200:
                    return []
                return [Outcome("", "unreadable", reason(other, before.item, self._new_names.of(new)))]
            after = Listed.of(other)
        found = [Outcome("read")]
        if old.version == new.version and self.stored(before) and self.stored(after):
            found += self._read_differently(old, new, before, after)
        if write and "update" in old.verbs and "update" in new.verbs:
            found.append(self._tried("update", pair, before, after))
        create = create and old.name not in _ALSO_OTHERS
        if write and create and "create" in old.verbs and "create" in new.verbs:
            found.append(self._tried("create", pair, before, after))
        return found

    def stored(self, listed: Listed) -> bool:
        """Whether the copy had it like this from the beginning."""
        return int(listed.item["metadata"].get("resourceVersion") or 0) <= self._revision

    def _read_differently(self, old: Resource, new: Resource, before: Listed, after: Listed) -> list[Outcome]:
        if before.body == after.body:
            return []
        found, read = [], differences(before.item, after.item)
        for what, paths in (("changed", read.lost), ("added", read.added)):
            if paths:
                names = self._old_names.of(old), self._new_names.of(new)
                # A field may be declared by one version alone.
                places = {max((each.place(path) for each in names), key=len) for path in paths}
                found.append(Outcome("", what, ", ".join(sorted(places))))
        return found

    def manifest(self, pair: Pair, text: bytes, namespace: str, name: str) -> list[Outcome]:
        """Of a document of a release's manifest, in YAML: applied as Helm 4 does it, and created; `name` "": the server
        gives it one.
        """

        def refused(request: str, api: Api, resource: Resource, names: FieldNames) -> str | None:
            if request == "update":
                path = f"{resource.path(namespace, name)}?{_DRY_RUN}&fieldManager=helm&force=true"
                status, answer = api.write("PATCH", path, text, _APPLY)
            else:
                status, answer = api.write("POST", f"{resource.path(namespace)}?{_DRY_RUN}", text, _YAML)
            # Only what is valid, and admitted, is compared with what is stored.
            if status in (200, 201) or answer.get("reason") == "AlreadyExists":
                return None
            # All of the text's words are the object's own.
            return reason(answer, {"manifest": text.decode("utf-8", "replace")}, names.of(resource))

        requests = (("update", "patch"), ("create", "create")) if name else (("create", "create"),)
        return [
            self._compared(partial(refused, request), pair, request, "manifest")
            for request, verb in requests
            if verb in pair.old.verbs and verb in pair.new.verbs
        ]

    def _tried(self, request: str, pair: Pair, before: Listed, after: Listed) -> Outcome:
        def refused(api: Api, resource: Resource, names: FieldNames) -> str | None:
            return self._refused(request, api, resource, after if api is self._target else before, names)

        return self._compared(refused, pair, request, request)

    def _compared(
        self, refused: Callable[[Api, Resource, FieldNames], str | None], pair: Pair, request: str, what: str
    ) -> Outcome:
        """The target is asked first: what it accepts is no finding, whatever the current version does with it.
        `refused`: why one refuses a dry run, or None.
        """
        why = refused(self._target, pair.new, self._new_names)
        if why is None:
            return Outcome(request)
        today = refused(self._current, pair.old, self._old_names)
        return Outcome(request, what, why) if today is None else Outcome(request, "unproven", today)

    def _refused(self, request: str, api: Api, resource: Resource, listed: Listed, names: FieldNames) -> str | None:
        """The reason, or None where a dry run of the request passes."""
        item, (namespace, name) = listed.item, key_of(listed.item)
        if request == "create":
            item = like(item)
            status, answer = api.write("POST", f"{resource.path(namespace)}?{_DRY_RUN}", as_go_has_it(item))
        else:
            path = resource.path(namespace, name)
            status, answer = api.write("PUT", f"{path}?{_DRY_RUN}", listed.body)
            if status == _CONFLICT:  # a server's own object, such as its lease
                status, newer = api.ask("GET", path)
                status, answer = api.write("PUT", f"{path}?{_DRY_RUN}", as_go_has_it(newer))
        return None if status in (200, 201) else reason(answer, item, names.of(resource))

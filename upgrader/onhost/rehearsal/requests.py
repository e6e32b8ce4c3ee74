"""One object's requests to both versions: what the target does with it that the running version doesn't."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from upgrader.onhost.rehearsal.api import ACCEPTED, Api, Listed, Resource, as_go_has_it
from upgrader.onhost.rehearsal.fields import FieldNames, Fields
from upgrader.onhost.rehearsal.objects import differences, key_of, like, not_written
from upgrader.onhost.rehearsal.words import reason

__all__ = ["Outcome", "Pair", "Requests"]

_NOT_FOUND, _CONFLICT = 404, 409
_APPLY, _YAML = "application/apply-patch+yaml", "application/yaml"
_DRY_RUN = "dryRun=All&fieldValidation=Ignore"
"""Unknown fields are no reason to refuse a request, but by default a server looks for them, to warn of them."""
_MOST_FIELDS = 3
"""That are named, of those that only the target calls invalid."""
_ALSO_OTHERS = ("events.events.k8s.io",)
"""The same objects as another resource's: those of this one that clients made by the other can't be created by it."""


class Outcome(NamedTuple):
    """What one request for an object has shown."""

    request: str
    """`read`, `update`, `status` or `create`."""
    what: str = ""
    """The kind of finding, or `unproven`: both versions refuse it. "": the target does what the current one does."""
    why: str = ""


_NESTED = Outcome("", "nested")


class Pair(NamedTuple):
    """A resource as both versions serve it, at the same version where there is one."""

    old: Resource
    new: Resource
    write: bool


class _Tried(NamedTuple):
    """What became of a dry run."""

    refused: str | None = None
    """Why it was refused; None: it was accepted."""
    lost: frozenset[tuple[str, ...]] = frozenset()
    """What was accepted, and not written as it was sent: paths of keys, without the numbers of items."""
    invalid: Mapping[str, Callable[[], str]] = MappingProxyType({})
    """Field → what says why, if it was refused for its content: before policies, quotas and the object's name were
    looked at.
    """


class Requests:
    """`revision`: that of the copies before a server had written anything at its start, such as roles."""

    def __init__(self, current: Api, target: Api, custom: set[str], revision: int) -> None:
        self._current, self._target, self._revision = current, target, revision
        self._old_names, self._new_names = FieldNames(current, custom), FieldNames(target, custom)
        self.undecodable: set[str] = set()
        """Names of resources of which the target has objects that it can't decode."""

    def why(self, resource: Resource | None, answer: dict[str, Any]) -> str:
        """Why a version refuses a request for many objects."""
        return reason(answer, None, self._old_names.of(resource) if resource else None)

    def outcomes(
        self, pair: Pair, key: tuple[str, str], before: Listed, after: Listed | None, create: bool
    ) -> list[Outcome]:
        """Of one object, as the current version has listed it; `after`: as the target has, None where it hasn't;
        `create`: whether it is the first one of those that are made alike, so that its creation and its status are
        tried.
        """
        if before.nested or (after is not None and after.nested):
            return [_NESTED]
        try:
            return self._outcomes(pair, key, before, after, create)
        except RecursionError:  # it could just be read, but not compared, or sent
            return [_NESTED]

    def _outcomes(
        self, pair: Pair, key: tuple[str, str], before: Listed, after: Listed | None, create: bool
    ) -> list[Outcome]:
        old, new, write = pair
        if after is None:
            status, other = self._target.ask("GET", new.path(*key))
            if status != 200:
                # What the server itself has written since its start, or what expires with a lease, as Events do.
                if not self.stored(before) or self._current.ask("GET", old.path(*key))[0] != 200:
                    return []
                if status != _NOT_FOUND:
                    self.undecodable.add(new.name)
                return [Outcome("", "unreadable", reason(other, before.item, self._new_names.of(new)))]
            after = Listed.of(other)
        found = [Outcome("read")]
        if old.version == new.version and self.stored(before) and self.stored(after):
            found += self._read_differently(pair, before, after)
        # What the target doesn't let anyone write, it refuses (405).
        if write and "update" in old.verbs:
            found += self._of_object("update", pair, before, after)
        # A controller writes it, or a kubelet, often at a time when no one changes the rest.
        if write and create and old.status and new.status and before.item.get("status"):
            found += [each for each in self._of_object("status", pair, before, after) if each not in found]
        create = create and old.name not in _ALSO_OTHERS
        if write and create and "create" in old.verbs:
            created = self._of_object("create", pair, before, after)
            if any(each.what == "unproven" for each in created):
                # Its name may be why: there may be only one object of its kind, or a part of it may name its signer.
                alike = self._of_object("create", pair, before, after, named_alike=True)
                created = created if any(each.what == "unproven" for each in alike) else alike
            # What both requests show is one difference.
            found += [each for each in created if each not in found]
        return found

    def stored(self, listed: Listed) -> bool:
        """Whether the copy had it like this from the beginning."""
        return int(listed.item["metadata"].get("resourceVersion") or 0) <= self._revision

    def _read_differently(self, pair: Pair, before: Listed, after: Listed) -> list[Outcome]:
        if before.body == after.body:
            return []
        found, read = [], differences(before.item, after.item)
        for what, paths in (("changed", read.lost), ("added", read.added)):
            if paths:
                found.append(Outcome("", what, self._places(pair, paths)))
        return found

    def _places(self, pair: Pair, paths: Iterable[tuple[str, ...]]) -> str:
        names = self._old_names.of(pair.old), self._new_names.of(pair.new)
        # A field may be declared by one version alone.
        return ", ".join(sorted({max((each.place(path) for each in names), key=len) for path in paths}))

    def manifest(self, pair: Pair, text: bytes, namespace: str, name: str) -> list[Outcome]:
        """Of a document of a release's manifest, in YAML: applied as Helm 4 does it, and created; `name` "": the server
        gives it one.
        """

        def tried(request: str, api: Api, resource: Resource, names: FieldNames) -> _Tried:
            if request == "update":
                path = f"{resource.path(namespace, name)}?{_DRY_RUN}&fieldManager=helm&force=true"
                status, answer = api.write("PATCH", path, text, _APPLY)
            else:
                status, answer = api.write("POST", f"{resource.path(namespace)}?{_DRY_RUN}", text, _YAML)
            # Only what is valid, and admitted, is compared with what is stored.
            if status in ACCEPTED or answer.get("reason") == "AlreadyExists":
                return _Tried()
            # All of the text's words are the object's own.
            return _refused(answer, {"manifest": text.decode("utf-8", "replace")}, names.of(resource))

        requests = (("update", "patch"), ("create", "create")) if name else (("create", "create"),)
        return [
            outcome
            for request, verb in requests
            if verb in pair.old.verbs
            for outcome in self._compared(partial(tried, request), pair, request, "manifest")
        ]

    def _compared(
        self,
        tried: Callable[[Api, Resource, FieldNames], _Tried],
        pair: Pair,
        request: str,
        what: str,
        *,
        own_name: bool = True,
    ) -> list[Outcome]:
        """The target is asked first: what it accepts and writes as it is, is no finding, whatever the current version
        does with it. `own_name`: whether it is an object as the cluster has it, so that no other name may be why both
        refuse it.
        """
        new = tried(self._target, pair.new, self._new_names)
        if new == _Tried():
            return [Outcome(request)]
        old = tried(self._current, pair.old, self._old_names)
        if new.refused is not None:
            if old.refused is None or (new.invalid and not old.invalid):
                return [Outcome(request, what, new.refused)]
            # What refuses it today may be fixed by then, or be the other name, and must not hide what will.
            only = [why for field, why in new.invalid.items() if not any(map(partial(_same, field), old.invalid))]
            if only and own_name:
                return [Outcome(request, what, "; ".join(dict.fromkeys(why() for why in only[:_MOST_FIELDS])))]
            return [Outcome(request, "unproven", old.refused)]
        lost = new.lost - old.lost if old.refused is None else frozenset()
        return [Outcome(request), *([Outcome("", "dropped", self._places(pair, lost))] if lost else ())]

    def _of_object(
        self, request: str, pair: Pair, before: Listed, after: Listed, *, named_alike: bool = False
    ) -> list[Outcome]:
        def tried(api: Api, resource: Resource, names: FieldNames) -> _Tried:
            listed = after if api is self._target else before
            if request == "create":
                return self._created(api, resource, like(listed.item, named_alike=named_alike), names)
            return self._updated(request, api, resource, listed, names)

        return self._compared(tried, pair, request, request, own_name=named_alike or request != "create")

    def _created(self, api: Api, resource: Resource, item: dict[str, Any], names: FieldNames) -> _Tried:
        path = resource.path(key_of(item)[0])
        status, answer = api.write("POST", f"{path}?{_DRY_RUN}", as_go_has_it(item))
        # Only what is valid, and admitted, is compared with what is stored.
        if answer.get("reason") == "AlreadyExists":
            return _Tried()
        return _accepted(item, answer) if status in ACCEPTED else _refused(answer, item, names.of(resource))

    def _updated(self, request: str, api: Api, resource: Resource, listed: Listed, names: FieldNames) -> _Tried:
        path, sent = resource.path(*key_of(listed.item)), listed.item
        place = f"{path}/status" if request == "status" else path
        status, answer = api.write("PUT", f"{place}?{_DRY_RUN}", listed.body)
        if status == _CONFLICT:  # a server's own object, such as its lease
            status, sent = api.ask("GET", path)
            status, answer = api.write("PUT", f"{place}?{_DRY_RUN}", as_go_has_it(sent))
        return _accepted(sent, answer) if status in ACCEPTED else _refused(answer, listed.item, names.of(resource))


def _accepted(sent: dict[str, Any], answer: dict[str, Any]) -> _Tried:
    """`answer`: {} where it is just what was sent."""
    return _Tried(lost=not_written(sent, answer) if answer else frozenset())


def _refused(answer: dict[str, Any], about: dict[str, Any], fields: Fields) -> _Tried:
    return _Tried(reason(answer, about, fields), invalid=_invalid(answer, about, fields))


def _invalid(answer: dict[str, Any], about: dict[str, Any], fields: Fields) -> dict[str, Callable[[], str]]:
    """Fields that a Status calls invalid, with what says why. That of an admission policy has the same reason, and
    none.
    """
    causes = (answer.get("details") or {}).get("causes") or () if answer.get("reason") == "Invalid" else ()
    named = (each for each in causes if each.get("field"))
    return {each["field"]: partial(reason, {**answer, "details": {"causes": [each]}}, about, fields) for each in named}


def _same(one: str, other: str) -> bool:
    """Whether two fields are the same one, or one has the other in it: versions may name it more or less exactly."""
    shorter, longer = sorted((one, other), key=len)
    return longer.startswith(shorter) and longer[len(shorter) : len(shorter) + 1] in ("", ".", "[")

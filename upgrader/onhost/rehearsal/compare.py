"""Compares two versions of kube-apiserver on copies of one cluster's data: only differences are findings."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from upgrader.onhost.rehearsal.api import Api, Resource
from upgrader.onhost.rehearsal.objects import changed_fields, key_of, like, owner
from upgrader.onhost.rehearsal.words import reason, stripped

_AT_ONCE = 4
_NAMES = 10
_CONFLICT = 409
_SERVERS_OWN = ("apiregistration.k8s.io", "apiservices")
"""Removed from the copies, as others than the server would serve some of them; it makes its own again."""
_CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")

Item = Any
"""An object in its JSON form."""


class Comparison:
    """`current` is the version that runs, `target` the planned one; it ends at `until` (monotonic seconds).

    `revision`: that of the copies before a server had written anything at its start, such as roles.
    """

    def __init__(self, current: Api, target: Api, revision: int, until: float) -> None:
        self._current, self._target, self._revision, self._until = current, target, revision, until
        self._found: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.counts = {"objects": 0, "read": 0, "updated": 0, "created": 0, "unproven": 0}
        """`unproven`: what the current version refused, too, so that it says nothing about the target."""

    def findings(self) -> list[dict[str, Any]]:
        """Each with `what`, `resource`, `reason`, how many objects (`count`), and the `names` of some."""
        return [
            {"what": what, "resource": resource, "reason": why, **found}
            for (what, resource, why), found in sorted(self._found.items())
        ]

    def run(self, *, write: bool) -> None:
        """Read everything, and write it. Raises Failed where a server ends."""
        before, after = self._current.resources(), self._target.resources()
        skipped = self._converted(before)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for key in sorted(before.keys() - {_SERVERS_OWN}):
                name = before[key][0].name
                if time.monotonic() >= self._until:
                    self._add("unfinished", name, "")
                elif name not in skipped:
                    self._compare(pool, before[key], after.get(key), write=write)

    def _converted(self, served: dict[tuple[str, str], list[Resource]]) -> set[str]:
        """Custom resources that a webhook converts, which can't be asked here."""
        at, names = "", set()
        if _CRDS not in served:
            return set()
        while True:
            items, at, refused = self._current.page(served[_CRDS][0], at)
            if refused is not None:
                self._add("unlisted", served[_CRDS][0].name, reason(refused, None))
            for item in items:
                spec = item["spec"]
                if (spec.get("conversion") or {}).get("strategy") == "Webhook":
                    name = f"{spec['names']['plural']}.{spec['group']}"
                    names.add(name)
                    self._add("conversion", name, "", ("", item["metadata"]["name"]))
            if not at:
                return names

    def _compare(
        self, pool: ThreadPoolExecutor, before: list[Resource], after: list[Resource] | None, *, write: bool
    ) -> None:
        if after is None:
            self._gone(before[0])
            return
        there = {each.version: each for each in after}
        both = [(each, there[each.version]) for each in before if each.version in there]
        for number, (old, new) in enumerate(both or [(before[0], after[0])]):
            if not self._each_page(pool, old, new, first=not number, write=write and not number):
                return

    def _gone(self, resource: Resource) -> None:
        at = ""
        while True:
            items, at, refused = self._current.page(resource, at)
            if refused is not None:
                self._add("unlisted", resource.name, reason(refused, None))
            for item in items:
                self._add("gone", resource.name, "", key_of(item))
            if not at:
                return

    def _each_page(self, pool: ThreadPoolExecutor, old: Resource, new: Resource, *, first: bool, write: bool) -> bool:
        """Compare all objects at one version; False if that is impossible."""
        at, there, known, owners = "", "", {}, set()  # type: str, str, dict[tuple[str, str], Item], set[str]
        more = True
        while True:
            items, at, refused = self._current.page(old, at)
            if refused is not None:
                self._add("unlisted", old.name, reason(refused, None))
                return False
            if more:
                found, there, failed = self._target.page(new, there)
                # What comes after an object that can't be read isn't listed: each is asked for by its name.
                more = bool(there) and failed is None
                known.update((key_of(each), each) for each in found)
            work = []
            for item in items:
                key, group = key_of(item), owner(item)
                work.append((key, item, known.pop(key, None), not group or group not in owners))
                owners.add(group)
            self.counts["objects"] += len(items) if first else 0
            for key, results in pool.map(lambda one: (one[0], self._one(old, new, *one, write=write)), work):
                for what, why in results:
                    self._add(what, old.name, why, key)
            if not at:
                return True
            if time.monotonic() >= self._until:
                self._add("unfinished", old.name, "")
                return False

    def _one(
        self,
        old: Resource,
        new: Resource,
        key: tuple[str, str],
        item: Item,
        other: Item | None,
        create: bool,
        *,
        write: bool,
    ) -> list[tuple[str, str]]:
        """What of one object differs: (what, why)."""
        if other is None:
            status, other = self._target.ask("GET", new.path(*key))
            if status != 200:
                # What the server itself has written since its start, or what expires with a lease, as Events do.
                own = int(item["metadata"].get("resourceVersion") or 0) > self._revision
                if own or self._current.ask("GET", old.path(*key))[0] != 200:
                    return []
                return [("unreadable", reason(other, item))]
        self.counts["read"] += 1
        found = []
        stored = max(int(each["metadata"].get("resourceVersion") or 0) for each in (item, other)) <= self._revision
        if stored and old.version == new.version and (changed := changed_fields(item, other)):
            found.append(("changed", ", ".join(sorted(_places(changed, custom="." in old.group)))))
        if write and "update" in old.verbs and "update" in new.verbs:
            found += self._tried("update", [(self._current, old, item), (self._target, new, other)])
        if write and create and "create" in old.verbs and "create" in new.verbs:
            found += self._tried("create", [(self._current, old, like(item)), (self._target, new, like(other))])
        return found

    def _tried(self, what: str, tries: list[tuple[Api, Resource, Item]]) -> list[tuple[str, str]]:
        refused = [self._refused(what, *each) for each in tries]
        self.counts[f"{what}d"] += 1
        if refused[0] is not None:
            self.counts["unproven"] += 1
            return []
        return [] if refused[1] is None else [(what, refused[1])]

    def _refused(self, what: str, api: Api, resource: Resource, item: Item) -> str | None:
        """The reason, or None where a dry run of the request passes."""
        namespace, name = key_of(item)
        if what == "create":
            status, answer = api.ask("POST", f"{resource.path(namespace)}?dryRun=All", item)
        else:
            path = resource.path(namespace, name)
            status, answer = api.ask("PUT", f"{path}?dryRun=All", item)
            if status == _CONFLICT:  # a server's own object, such as its lease
                status, newer = api.ask("GET", path)
                status, answer = api.ask("PUT", f"{path}?dryRun=All", newer)
        return None if status in (200, 201) else reason(answer, item)

    def _add(self, what: str, resource: str, why: str, key: tuple[str, str] | None = None) -> None:
        found = self._found.setdefault((what, resource, why), {"count": 0, "names": []})
        found["count"] += 1
        if key is not None and len(found["names"]) < _NAMES:
            found["names"].append("/".join(part for part in key if part))


def _places(changed: set[str], *, custom: bool) -> set[str]:
    """Fields; of custom resources, whose schema is a user's, only the uppermost."""
    return {stripped(".".join(path.split(".")[: 1 if custom else None])) for path in changed}

"""Compares two versions of kube-apiserver on copies of one cluster's data: only differences are findings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal.api import Api, Listed, Page, Resource
from upgrader.onhost.rehearsal.clients import Request, compared, denied
from upgrader.onhost.rehearsal.discovery import custom_resources, served, versions
from upgrader.onhost.rehearsal.helm_records import SELECTOR
from upgrader.onhost.rehearsal.objects import key_of, owner
from upgrader.onhost.rehearsal.releases import RECORDED_IN, RECORDS, Manifests
from upgrader.onhost.rehearsal.requests import Outcome, Pair, Requests
from upgrader.onhost.rehearsal.service_ranges import SERVICE_CIDRS, SERVICES, Ranges, outside
from upgrader.onhost.rehearsal.tokens import SERVICE_ACCOUNTS, refused_tokens, sample
from upgrader.onhost.rehearsal.unwatched import withheld

_AT_ONCE = 4
_NAMES = 10
_CIDRS = 100
_SERVERS_OWN = ("apiregistration.k8s.io", "apiservices")
"""Removed from the copies, as others than the server would serve some of them; it makes its own again."""
_CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
_POLICIES = (
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
)
_NOT_SERVED = "it does not serve them, although their CustomResourceDefinition is established"
_COUNTED = {"read": "read", "update": "updated", "status": "updated", "create": "created"}


class _Why(NamedTuple):
    """What is one finding, of however many objects."""

    what: str
    resource: str
    reason: str


class _Found:
    """Findings, each with how many objects it is about, and the names of some."""

    def __init__(self) -> None:
        self.all: dict[_Why, dict[str, Any]] = {}

    def add(self, what: str, resource: str, why: str, key: tuple[str, str] | None = None, *, count: int = 1) -> None:
        found = self.all.setdefault(_Why(what, resource, why), {"count": 0, "names": []})
        found["count"] += count
        name = "/".join(part for part in key or () if part)
        if name and name not in found["names"] and len(found["names"]) < _NAMES:
            found["names"].append(name)


class Comparison:
    """`current` is the version that runs, `target` the planned one; it ends at `until` (monotonic seconds).

    `revision`: that of the copies before a server had written anything at its start, such as roles. `requests`: what
    clients send. `ranges`: those of both versions' flags. `unbroken`: raises Failed once the servers' answers say
    nothing about the data, as without their etcd; `unhurried`, if they had too little time on a processor to serve what
    they are asked for.
    """

    def __init__(
        self,
        current: Api,
        target: Api,
        revision: int,
        until: float,
        requests: Sequence[Request] = (),
        *,
        ranges: tuple[Ranges, Ranges] | None = None,
        unbroken: Callable[[], None] = lambda: None,
        unhurried: Callable[[], None] = lambda: None,
    ) -> None:
        self._current, self._target, self._until, self._unbroken = current, target, until, unbroken
        self._unhurried, self._ranges = unhurried, ranges
        self._custom: set[str] = set()
        self._requests = Requests(current, target, self._custom, revision)
        self.undecodable = self._requests.undecodable
        """Names of resources of which the target has objects that it can't decode."""
        self._of_clients = requests
        self._found, self._unproven = _Found(), _Found()
        self._proven: set[tuple[str, str]] = set()
        """Request and resource, where one object has shown what the target does."""
        self._of_copy = 0
        """How many objects were in the copy before a server started."""
        self.counts = {
            "objects": 0,
            "read": 0,
            "updated": 0,
            "created": 0,
            "manifests": 0,
            "requests": 0,
            "unserved": 0,
            "unproven": 0,
        }
        """`unserved`: requests of clients that the running version doesn't serve here. `unproven`: what both versions
        refused, so that it says nothing about the upgrade.
        """

    def findings(self) -> list[dict[str, Any]]:
        """Each with `what`, `resource`, `reason`, how many objects (`count`), and the `names` of some."""
        found = dict(self._found.all)
        for (request, resource, why), objects in self._unproven.all.items():
            if (request, resource) not in self._proven:
                found[_Why(f"no-{request}", resource, why)] = objects
        return [{**why._asdict(), **objects} for why, objects in sorted(found.items(), key=lambda each: each[0])]

    def run(self, *, write: bool) -> None:
        """Read everything, and write it. Raises Failed where a server ends, or doesn't serve the copy."""
        definitions = self._definitions(self._current.resources())
        skipped, custom = self._converted(definitions), custom_resources(definitions)
        before, after = (served(api, custom, self._until) for api in (self._current, self._target))
        if custom - (versions(before) & versions(after)):
            self._unhurried()  # else it may only come later
        for group, plural in sorted({(each.group, each.plural) for each in custom} - before.keys()):
            self._found.add("unlisted", f"{plural}.{group}", _NOT_SERVED)
        self._undecided(before, skipped)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for key in sorted(before.keys() - {_SERVERS_OWN}):
                name = before[key][0].name
                if time.monotonic() >= self._until:
                    self._found.add("unfinished", name, "")
                elif name not in skipped:
                    self._compare(pool, before[key], after.get(key), write=write)
            for key in sorted(after.keys() - before.keys()):
                self._left(after[key][0])
            self._clients()
            self._outside(before, after)
            if write:
                self._denied()
                self._tokens(before, after)
                self._releases(pool, Manifests(self._requests, before, after, skipped), before)
        if self.counts["objects"] and not self._of_copy:
            raise Failed(
                "the running version serves none of the copy's objects, only those that it created at its start: check "
                "its --etcd-prefix. Nothing was compared"
            )

    def _clients(self) -> None:
        """Compare what clients send."""
        self.counts["unserved"] = sum(len(each.verbs) for each in self._of_clients)
        for each in compared(self._current, self._target, self._of_clients):
            self.counts["requests"] += 1
            self.counts["unserved"] -= 1
            if not each.served:
                why = "" if each.why is None else self._requests.why(None, each.why)
                self._found.add("client", f"{each.api_version} {each.resource} {each.verb}", why)

    def _denied(self) -> None:
        """Compare who may connect to pods: a server without its informers knows no roles, and permits no one that."""
        for one in denied(self._current, self._target, self._of_clients):
            why = self._requests.why(None, one.why)
            self._found.add("denied", f"{one.api_version} {one.resource}", why, (one.namespace, one.user))

    def _tokens(
        self, before: dict[tuple[str, str], list[Resource]], after: dict[tuple[str, str], list[Resource]]
    ) -> None:
        """Compare which tokens are accepted."""
        if SERVICE_ACCOUNTS in before and SERVICE_ACCOUNTS in after:
            accounts = before[SERVICE_ACCOUNTS][0]
            keys = sample(key_of(each.item) for each in self._listed(accounts))
            for what, why, key in refused_tokens(self._current, self._target, accounts, keys):
                self._found.add(what, accounts.name, self._requests.why(None, {"message": why}), key)

    def _outside(
        self, before: dict[tuple[str, str], list[Resource]], after: dict[tuple[str, str], list[Resource]]
    ) -> None:
        """Note Services that the target's ranges don't have."""
        if self._ranges is None or SERVICES not in before:
            return
        current = self._ranges[0].with_cidrs(_cidrs(self._current, before))
        target = self._ranges[1].with_cidrs(_cidrs(self._target, after))
        if (current.ports, current.networks) == (target.ports, target.networks):
            return
        for each in self._listed(before[SERVICES][0]):
            namespace, name = key_of(each.item)
            for lost in outside(each.item, current, target):
                key = namespace, f"{name} ({', '.join(lost.of_service)})"
                self._found.add(lost.what, "services", lost.why, key)

    def _definitions(self, known: dict[tuple[str, str], list[Resource]]) -> list[dict[str, Any]]:
        """All CustomResourceDefinitions; `known`: what is served."""
        return [each.item for each in self._listed(known[_CRDS][0])] if _CRDS in known else []

    def _listed(self, resource: Resource, selector: str = "") -> Iterator[Listed]:
        """All objects that the current version has; notes it where they can't be listed."""
        page = self._current.page(resource, "", selector=selector)
        while True:
            if page.refused is not None:
                self._unlisted(resource, page.refused)
            yield from page.found
            if not page.at:
                return
            page = self._current.page(resource, page.at, limit=page.next_limit, selector=selector)

    def _converted(self, definitions: list[dict[str, Any]]) -> set[str]:
        """Custom resources that a webhook converts, which can't be asked here; notes all that are custom."""
        names = set()
        for item in definitions:
            spec = item["spec"]
            name = f"{spec['names']['plural']}.{spec['group']}"
            self._custom.add(name)
            if (spec.get("conversion") or {}).get("strategy") == "Webhook":
                names.add(name)
                self._found.add("conversion", name, "", ("", item["metadata"]["name"]))
        return names

    def _undecided(self, served: dict[tuple[str, str], list[Resource]], skipped: set[str]) -> None:
        """Note the policies that decide nothing here; `skipped`: what a webhook converts, so no server reads it."""
        there = {
            (each.api_version, each.kind)
            for versions in served.values()
            for each in versions
            if each.name not in skipped
        }
        for resource in (served[key][0] for key in _POLICIES if key in served):
            for each in self._listed(resource):
                if withheld(each.item["spec"].get("paramKind"), there):
                    self._found.add("parameters", resource.name, "", key_of(each.item))

    def _unlisted(self, resource: Resource, refused: dict[str, Any]) -> None:
        self._found.add("unlisted", resource.name, self._requests.why(resource, refused))

    def _compare(
        self, pool: ThreadPoolExecutor, before: list[Resource], after: list[Resource] | None, *, write: bool
    ) -> None:
        if after is None:
            self._gone(before[0], "gone")
            return
        there = {each.version: each for each in after}
        for each in before:
            if each.version not in there:  # the objects can be read, but not by clients that ask for this version
                self._gone(each, "version", each.version)
        both = [(each, there[each.version]) for each in before if each.version in there]
        for number, (old, new) in enumerate(both or [(before[0], after[0])]):
            if not self._each_page(pool, Pair(old, new, write and not number), first=not number):
                return

    def _gone(self, resource: Resource, what: str, why: str = "") -> None:
        """Note the objects of what the target doesn't serve. A custom resource is one to its controllers without any,
        too: its definition is there, and no release of Kubernetes has removed it.
        """
        if resource.name in self._custom:
            self._found.add(what, resource.name, why, count=0)
        for each in self._listed(resource):
            self._found.add(what, resource.name, why, key_of(each.item))

    def _left(self, resource: Resource) -> None:
        """Note objects of a resource that only the target serves, such as those of an alpha version that was enabled
        once, if it can't read them.
        """
        page = Page([])
        while time.monotonic() < self._until:
            page = self._target.page(resource, page.at, limit=page.next_limit)
            if page.refused is not None:
                self._found.add("left", resource.name, self._requests.why(resource, page.refused))
            if not page.at:
                return
        self._found.add("unfinished", resource.name, "")

    def _each_page(self, pool: ThreadPoolExecutor, pair: Pair, *, first: bool) -> bool:
        """Compare all objects at one version; False if that is impossible."""
        known, owners = {}, set()  # type: dict[tuple[str, str], Listed], set[str]
        refused, unreadable = None, False  # type: dict[str, Any] | None, bool
        for before, after in self._pages(pool, pair):
            refused = after.refused or refused
            if before.refused is not None:
                self._unlisted(pair.old, before.refused)
                if after.refused is not None:
                    self.undecodable.add(pair.new.name)
                return False
            known.update((key_of(each.item), each) for each in after.found)
            work: list[tuple[tuple[str, str], Listed, Listed | None, bool]] = []
            for each in before.found:
                key, group = key_of(each.item), owner(each.item)
                work.append((key, each, known.pop(key, None), not group or group not in owners))
                owners.add(group)
            self.counts["objects"] += len(work) if first else 0
            self._of_copy += sum(map(self._requests.stored, before.found))
            for key, outcomes in pool.map(lambda one: (one[0], self._requests.outcomes(pair, *one)), work):
                self._unbroken()
                for outcome in outcomes:
                    unreadable = unreadable or outcome.what == "unreadable"
                    self._note(pair.old.name, key, outcome)
            if before.at and time.monotonic() >= self._until:
                self._found.add("unfinished", pair.old.name, "")
                return False
        if refused is not None and not unreadable:  # each object can be read, or there is none
            self.undecodable.add(pair.new.name)
            self._found.add("list", pair.new.name, self._requests.why(pair.new, refused))
        return True

    def _pages(self, pool: ThreadPoolExecutor, pair: Pair) -> Iterator[tuple[Page, Page]]:
        """Each page of both versions. The next one is read while the objects of one are tried."""

        def read(last: Page, there: Page) -> tuple[Page, Page]:
            limit = last.next_limit
            before = self._current.page(pair.old, last.at, limit=limit)
            # What comes after an object that can't be read isn't listed: each is asked for by its name.
            if there.refused is not None or (last.at and not there.at):
                return before, there._replace(found=[], at="")
            same = before if pair.old.version == pair.new.version else None
            return before, self._target.page(pair.new, there.at, same, limit)

        reading = pool.submit(read, Page([]), Page([]))
        while True:
            before, after = reading.result()
            if before.at:
                reading = pool.submit(read, before, after)
            yield before, after
            if not before.at:
                return

    def _releases(
        self, pool: ThreadPoolExecutor, manifests: Manifests, served: dict[tuple[str, str], list[Resource]]
    ) -> None:
        """Try all that Helm's records have."""
        for key in RECORDED_IN:
            for each in self._listed(served[key][0], SELECTOR) if key in served else ():
                if time.monotonic() >= self._until:
                    self._found.add("unfinished", RECORDS, "")
                    return
                for tried in pool.map(manifests.tried, manifests.new(each.item)):
                    self.counts["manifests"] += 1
                    for outcome in tried.outcomes:
                        if outcome.what == "unproven":
                            self.counts["unproven"] += 1
                        elif outcome.what:
                            self._found.add(outcome.what, tried.resource, outcome.why, ("", tried.name))

    def _note(self, resource: str, key: tuple[str, str], outcome: Outcome) -> None:
        if outcome.request:
            self.counts[_COUNTED[outcome.request]] += 1
        if outcome.what == "unproven":
            self.counts["unproven"] += 1
            self._unproven.add(outcome.request, resource, outcome.why, key)
            return
        self._proven.add((outcome.request, resource))
        if outcome.what:
            self._found.add(outcome.what, resource, outcome.why, key)


def _cidrs(api: Api, served: dict[tuple[str, str], list[Resource]]) -> list[dict[str, Any]]:
    """All ServiceCIDRs of a server: few, in one page."""
    resources = served.get(SERVICE_CIDRS) or ()
    return [each.item for resource in resources[:1] for each in api.page(resource, "", limit=_CIDRS).found]

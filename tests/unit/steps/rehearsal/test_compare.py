"""What of two versions' answers is a finding, and what says nothing about the target."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.steps.rehearsal.fake_api import DEPLOYMENTS, FakeApi
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal import discovery
from upgrader.onhost.rehearsal.api import Listed, Page, Resource, as_go_has_it
from upgrader.onhost.rehearsal.compare import Comparison
from upgrader.onhost.rehearsal.discovery import Served
from upgrader.steps.rehearsal.differences import Difference, findings_of

INVALID = {"reason": "Invalid", "details": {"causes": [{"field": "spec.template", "message": "Required value"}]}}
WHY = "spec.template: Required value"


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    """As a server lists it."""
    metadata = {"name": name, "namespace": "default", "resourceVersion": "5"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def compared(
    current: FakeApi, target: FakeApi
) -> tuple[dict[tuple[str, str], tuple[str, int, list[str]]], dict[str, int]]:
    """(What, resource) → (reason, how many, names); and the counts."""
    comparison = Comparison(current, target, 10, float("inf"))  # type: ignore[arg-type]
    comparison.run(write=True)
    found = {
        (each["what"], each["resource"]): (each["reason"], each["count"], each["names"])
        for each in comparison.findings()
    }
    return found, comparison.counts


def servers(*objects: dict[str, Any]) -> tuple[FakeApi, FakeApi]:
    """Both versions, with the same objects."""
    return FakeApi(objects), FakeApi(objects)


WIDGETS = Resource("example.com", "widgets", "v1", "Widget", True, ("create", "get", "list", "update"))
DEFINITIONS = Resource("apiextensions.k8s.io", "customresourcedefinitions", "v1", "CustomResourceDefinition", False, ())


class LateApi(FakeApi):
    """Has a CustomResourceDefinition, and serves its resource from the third time on that it is asked what it serves,
    if at all.
    """

    def __init__(self, *objects: dict[str, Any], ever: bool = True, versions: tuple[str, ...] = ("v1",)) -> None:
        super().__init__(objects)
        self._ever, self._asked, self._versions = ever, 0, versions
        self.late = self.never = ""
        """A version that is served later than the others, or not at all."""

    def resources(self) -> dict[tuple[str, str], list[Resource]]:
        self._asked += 1
        found = {("apiextensions.k8s.io", "customresourcedefinitions"): [DEFINITIONS]}
        missing = (self.never, *([self.late] if self._asked < 6 else []))
        there = [WIDGETS._replace(version=each) for each in self._versions if each not in missing]
        return found | ({("example.com", "widgets"): there} if self._ever and self._asked > 2 else {})

    def page(self, resource: Resource, at: str, same: Page | None = None, limit: int = 0, selector: str = "") -> Page:
        if resource.plural == "widgets":
            return Page(list(map(Listed.of, self.objects)))
        versions, names = [{"name": each, "served": True} for each in self._versions], {"plural": "widgets"}
        status = {"conditions": [{"type": "Established", "status": "True"}]}
        spec = {"group": "example.com", "names": names, "versions": versions}
        metadata = {"name": "widgets.example.com", "resourceVersion": "5"}
        return Page([Listed.of({"kind": DEFINITIONS.kind, "metadata": metadata, "spec": spec, "status": status})])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time: only waiting takes some."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(discovery, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


@pytest.mark.usefixtures("clock")
def test_custom_resources_are_waited_for() -> None:
    """A server is ready before it serves them: asked at once, the running version had none, and all seemed fine; or the
    target had none, and all seemed to be gone.
    """
    widget = {**deployment("one"), "apiVersion": "example.com/v1", "kind": "Widget"}
    current, target = LateApi(widget), LateApi(widget)
    target.refused = {("POST", "r-one"): INVALID}
    found, counts = compared(current, target)
    assert found.keys() == {("create", "widgets.example.com")} and counts["created"] == 1


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("late", ["current", "target"])
def test_custom_resources_are_not_gone_where_the_servers_had_no_processor(late: str) -> None:
    """On a busy host, a server may need more than a minute for the next one: that says nothing about the target."""

    def unhurried() -> None:
        raise Failed("busy")

    widget = {**deployment("one"), "apiVersion": "example.com/v1", "kind": "Widget"}
    current, target = (LateApi(widget, ever=late != name) for name in ("current", "target"))
    comparison = Comparison(current, target, 10, float("inf"), unhurried=unhurried)  # type: ignore[arg-type]
    with pytest.raises(Failed, match="busy"):
        comparison.run(write=True)


def test_many_custom_resources_are_waited_for_as_long_as_more_are_served(clock: list[float]) -> None:
    """A server that has little processor time needs minutes for a thousand: those that come last are not gone."""

    class SlowApi(FakeApi):
        def resources(self) -> dict[tuple[str, str], list[Resource]]:
            there = sorted(wanted)[: int(clock[0] / 50)]
            return {each[:2]: [WIDGETS._replace(plural=each.plural)] for each in there}

    def found(of: set[Served], until: float = 1000.0) -> set[Served]:
        return discovery.versions(discovery.served(SlowApi(), of, until))  # type: ignore[arg-type]

    wanted = {Served("example.com", f"widgets{number}", "v1") for number in range(5)}
    assert found(wanted) == wanted
    assert clock[0] == 250.0
    more = wanted | {Served("example.com", "never", "v1")}
    assert found(more) == wanted
    assert clock[0] == 310.0
    assert len(found(more, 0.0)) == 5


@pytest.mark.usefixtures("clock")
def test_each_version_of_a_custom_resource_is_waited_for() -> None:
    """Each has an APIService of its own: the target may serve one before the other, which is not gone."""
    widget = {**deployment("one"), "apiVersion": "example.com/v1", "kind": "Widget"}
    current, target = (LateApi(widget, versions=("v1", "v1beta1")) for _ in range(2))
    target.late = "v1beta1"
    assert not compared(current, target)[0]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("what", ["gone", "version"])
def test_a_custom_resource_without_objects_that_the_target_does_not_serve_is_a_finding(what: str) -> None:
    """Its controller fails all the same. A target that has an API of the same group and version itself hides it."""
    current, target = LateApi(versions=("v1", "v1beta1")), LateApi(versions=("v1", "v1beta1"), ever=what != "gone")
    target.never = "v1beta1"
    found, _ = compared(current, target)
    assert found == {(what, "widgets.example.com"): ("v1beta1" if what == "version" else "", 0, [])}
    older, newer = servers()
    older.served = DEPLOYMENTS._replace(version="v1beta1")
    assert not compared(older, newer)[0], "a version that a release removes, and that has no objects"


@pytest.mark.usefixtures("clock")
def test_custom_resources_that_are_never_served_are_told() -> None:
    """By the running version: nothing is known of them. By the target alone: they are gone."""
    widget = {**deployment("one"), "apiVersion": "example.com/v1", "kind": "Widget"}
    found, _ = compared(LateApi(widget, ever=False), LateApi(widget))
    assert found.keys() == {("unlisted", "widgets.example.com")}
    found, _ = compared(LateApi(widget), LateApi(widget, ever=False))
    assert found.keys() == {("gone", "widgets.example.com")}


def test_what_only_the_target_refuses_is_a_finding() -> None:
    """With its reason, and the object's name."""
    current, target = servers(deployment("one"), deployment("two"))
    target.refused = {("POST", "r-one"): INVALID, ("PUT", "two"): INVALID}
    found, counts = compared(current, target)
    assert found == {
        ("create", "deployments.apps"): (WHY, 1, ["default/one"]),
        ("update", "deployments.apps"): (WHY, 1, ["default/two"]),
    }
    assert counts == {
        "objects": 2,
        "read": 2,
        "updated": 2,
        "created": 2,
        "manifests": 0,
        "requests": 0,
        "unserved": 0,
        "unproven": 0,
    }


def test_the_running_version_is_asked_only_about_what_the_target_refuses() -> None:
    """What the target accepts is no finding, whatever the running version does: per object, there is one update and one
    creation, both at the target, and a page of each list.
    """
    current, target = servers(*map(deployment, ("one", "two", "three")))
    target.refused = {("PUT", "two"): INVALID}
    assert compared(current, target)[0].keys() == {("update", "deployments.apps")}
    names = ("one", "two", "three")
    assert sorted(target.asked) == sorted(
        [("GET", "")] * 3 + [("PUT", name) for name in names] + [("POST", f"r-{name}") for name in names]
    )
    assert sorted(current.asked) == [("GET", "")] * 3 + [("PUT", "two")]


GROUPS = Resource("scheduling.k8s.io", "podgroups", "v1beta1", "PodGroup", True, ("get", "list"))


class NewApi(FakeApi):
    """Serves a resource, too, of which it can list the first `readable` objects."""

    def __init__(self, *objects: dict[str, Any], readable: int = 0) -> None:
        super().__init__(objects)
        self._readable = readable

    def resources(self) -> dict[tuple[str, str], list[Resource]]:
        return super().resources() | {(GROUPS.group, GROUPS.plural): [GROUPS]}

    def page(self, resource: Resource, at: str, same: Page | None = None, limit: int = 0, selector: str = "") -> Page:
        if resource != GROUPS:
            return super().page(resource, at, same, limit, selector)
        if int(at or 0) == self._readable:
            return Page([], refused={"message": "no kind is registered"})
        return Page([Listed.of(deployment("group"))], str(int(at or 0) + 1))


@pytest.mark.parametrize("readable", [0, 1])
def test_stored_objects_of_a_resource_that_only_the_target_serves(readable: int) -> None:
    """Such as those of an alpha version that was enabled once: the target serves a later one, and can't read them."""
    found, _ = compared(FakeApi((deployment("one"),)), NewApi(deployment("one"), readable=readable))
    assert found == {("left", "podgroups.scheduling.k8s.io"): ("no kind is registered", 1, [])}


def test_stored_objects_that_were_not_read_in_time_are_told() -> None:
    """That the target can read them is unknown, whatever it could read until then."""
    target = NewApi(deployment("one"), readable=1)
    comparison = Comparison(FakeApi((deployment("one"),)), target, 10, 0.0)  # type: ignore[arg-type]
    comparison.run(write=True)
    found = {(each["what"], each["resource"]) for each in comparison.findings()}
    assert found == {("unfinished", "deployments.apps"), ("unfinished", "podgroups.scheduling.k8s.io")}


def test_a_comparison_ends_with_the_etcd_that_it_needs() -> None:
    """As each answer takes long without it, and none is a result; its copies stay on a disk that may be full of them
    meanwhile.
    """
    current, target = servers(*map(deployment, ("one", "two", "three", "four")))

    def require_unbroken() -> None:
        if ("PUT", "two") in target.asked:
            raise Failed("etcd-target exited with code 1")

    comparison = Comparison(current, target, 10, float("inf"), unbroken=require_unbroken)  # type: ignore[arg-type]
    with pytest.raises(Failed, match="etcd-target exited"):
        comparison.run(write=True)
    assert ("PUT", "one") in target.asked and ("PUT", "three") not in target.asked


BOTH_NAMES = (("POST", "r-one"), ("POST", "one"))
"""As which an object is created: as another one, and as itself."""
FULL = {"reason": "Forbidden", "message": "exceeded quota"}
DENIED = {"reason": "Invalid", "details": {"causes": [{"message": "policy 'few' denied request: no"}]}}
TAKEN = {"reason": "AlreadyExists", "message": "it already exists"}


@pytest.mark.parametrize("refusal", [FULL, DENIED, TAKEN, {"message": "the request timed out"}])
def test_what_only_the_target_calls_invalid_is_a_finding_whatever_else_refuses_it_today(
    refusal: dict[str, Any],
) -> None:
    """A quota is full of the objects that are there. Validation comes before quotas, policies and names, so the running
    version takes the content for valid. Another object of the resource, which is accepted, must not hide that.
    """
    current, target = servers(deployment("one"), deployment("two"))
    target.refused, current.refused = {("POST", "r-one"): INVALID}, {("POST", "r-one"): refusal}
    assert compared(current, target)[0] == {("create", "deployments.apps"): (WHY, 1, ["default/one"])}


@pytest.mark.parametrize(("refused", "today"), [(INVALID, INVALID), (FULL, FULL), (DENIED, FULL), (FULL, INVALID)])
def test_what_both_versions_refuse_for_one_reason_proves_nothing(
    refused: dict[str, Any], today: dict[str, Any]
) -> None:
    """Or for reasons of which none is the object's content."""
    current, target = servers(deployment("one"), deployment("two"))
    target.refused = dict.fromkeys(BOTH_NAMES, refused)
    current.refused = dict.fromkeys(BOTH_NAMES, today)
    found, counts = compared(current, target)
    assert found == {} and counts["unproven"] == 1


def invalid(*fields: str) -> dict[str, Any]:
    """As a server refuses an object for its fields."""
    return {
        "reason": "Invalid",
        "details": {"causes": [{"field": each, "message": "Required value"} for each in fields]},
    }


@pytest.mark.parametrize(("names", "what"), [(BOTH_NAMES, "create"), ((("PUT", "one"),), "update")])
@pytest.mark.parametrize(
    ("later", "new"),
    [
        (("spec.template", "spec.selector"), "spec.selector: Required value"),
        (("spec.template.containers[0].image", "spec"), ""),  # the same, by another name
        (("spec.template",), ""),
    ],
)
def test_a_refusal_of_today_hides_no_other_one(
    names: tuple[tuple[str, str], ...], what: str, later: tuple[str, ...], new: str
) -> None:
    """Both versions refuse an object, and only the target also for another field: that one alone is the finding."""
    current, target = servers(deployment("one"), deployment("two"))
    current.refused, target.refused = dict.fromkeys(names, INVALID), dict.fromkeys(names, invalid(*later))
    found, _ = compared(current, target)
    assert found == ({(what, "deployments.apps"): (new, 1, ["default/one"])} if new else {})


def test_what_no_other_object_may_be_called_is_no_refusal() -> None:
    """Neither version takes the other name, for whatever fields; by its own, the target would take the object."""
    current, target = servers(deployment("one"))
    current.refused = {("POST", "r-one"): INVALID, ("POST", "one"): TAKEN}
    target.refused = {("POST", "r-one"): invalid("spec.template", "spec.selector"), ("POST", "one"): TAKEN}
    assert compared(current, target)[0] == {}


@pytest.mark.parametrize(("method", "prefix", "request_"), [("POST", "r-", "create"), ("PUT", "", "update")])
def test_a_resource_of_which_both_versions_refuse_every_request_is_told(
    method: str, prefix: str, request_: str
) -> None:
    """Nothing is known of the upgrade then, which is not the same as nothing being wrong. Where the target accepts
    them, nothing is.
    """
    current, target = servers(deployment("one"), deployment("two"))
    current.refused = {(method, f"{start}{name}"): INVALID for name in ("one", "two") for start in ("", prefix)}
    assert compared(current, target)[0] == {}
    target.refused = {key: {"message": "never"} for key in current.refused}
    found, counts = compared(current, target)
    assert found == {(f"no-{request_}", "deployments.apps"): (WHY, 2, ["default/one", "default/two"])}
    assert counts["unproven"] == 2


def test_a_server_that_does_not_serve_the_copy_is_no_comparison() -> None:
    """With another prefix in etcd, both versions make the same objects at their start, and do the same with them."""
    own = deployment("own")
    own["metadata"]["resourceVersion"] = "11"
    with pytest.raises(Failed, match="serves none of the copy's objects"):
        compared(*servers(own))
    compared(*servers(own, deployment("one")))


def test_one_request_that_passes_speaks_for_its_resource() -> None:
    """Some objects can't be made twice, such as one with a name of its own: that is only counted."""
    current, target = servers(deployment("one"), deployment("two"))
    current.refused = target.refused = dict.fromkeys(BOTH_NAMES, INVALID)
    found, counts = compared(current, target)
    assert found == {} and counts["unproven"] == 1


@pytest.mark.parametrize(
    ("today", "later", "expected"),
    [
        (TAKEN, TAKEN, {}),
        (None, None, {}),
        (TAKEN, INVALID, {("create", "deployments.apps"): (WHY, 1, ["default/one"])}),
        (INVALID, TAKEN, {}),
        (INVALID, INVALID, {("no-create", "deployments.apps"): (WHY, 1, ["default/one"])}),
    ],
)
def test_an_object_whose_name_must_be_its_own_is_created_as_itself(
    today: dict[str, Any] | None, later: dict[str, Any] | None, expected: dict[tuple[str, str], Any]
) -> None:
    """Some kinds have one object in a cluster, and the name of a ClusterTrustBundle begins with its signer's: neither
    version takes another name. That an object exists, a server says only of one that it would take.
    """
    current, target = servers(deployment("one"))
    for api, said in ((current, today), (target, later)):
        api.refused = {("POST", "r-one"): INVALID, **({("POST", "one"): said} if said else {})}
    found, counts = compared(current, target)
    assert found == expected and counts["created"] == 1


def test_a_version_that_goes_is_a_finding_though_the_objects_stay() -> None:
    """They are compared at the other version; who asks for the one that goes gets nothing."""
    current, target = servers(deployment("one"))
    current.versions = (DEPLOYMENTS._replace(version="v1beta9"),)
    found, counts = compared(current, target)
    assert found == {("version", "deployments.apps"): ("v1beta9", 1, ["default/one"])}
    assert counts["created"] == 1
    current, target = servers()
    current.versions = (DEPLOYMENTS._replace(version="v1beta9"),)
    assert compared(current, target)[0] == {}


def test_added_fields_are_told_from_changed_ones() -> None:
    """By the names that a server declares, not by a user's keys."""
    current = FakeApi((deployment("one", replicas=1, selector={"hunter2": "a"}),))
    target = FakeApi((deployment("one", replicas=1, selector={"hunter2": "b"}, template={"containers": []}),))
    found, _ = compared(current, target)
    assert found == {
        ("changed", "deployments.apps"): ("spec.selector[…]", 1, ["default/one"]),
        ("added", "deployments.apps"): ("spec.template", 1, ["default/one"]),
    }


def with_status(*names: str, **metadata: Any) -> tuple[FakeApi, FakeApi]:
    """Both versions, with objects that have a status, which is updated by itself."""
    objects = [{**deployment(name), "status": {"replicas": 1}} for name in names]
    for each in objects:
        each["metadata"].update(metadata)
    both = servers(*objects)
    for api in both:
        api.served = DEPLOYMENTS._replace(status=True)
    return both


@pytest.mark.parametrize("today", [None, {"message": "never"}])
def test_a_status_that_the_target_refuses_is_a_finding(today: dict[str, Any] | None) -> None:
    """No other request shows it: an update keeps the stored status, and what is created has none. If both versions
    refuse it, nothing is known.
    """
    current, target = with_status("one")
    target.refused = {("PUT status", "one"): INVALID}
    current.refused = {("PUT status", "one"): today} if today else {}
    found, counts = compared(current, target)
    assert found == {("status", "deployments.apps"): (WHY, 1, ["default/one"])}
    assert (counts["updated"], counts["created"]) == (2, 1)
    current.refused = {("PUT status", "one"): INVALID}
    assert compared(current, target)[0] == {("no-status", "deployments.apps"): (WHY, 1, ["default/one"])}


def test_a_status_is_only_sent_where_there_is_one_that_both_versions_update() -> None:
    """The running version gets none that the target accepts. Of what a workload makes from one template, one is tried:
    of 100,000 pods, this is the difference between minutes.
    """
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "u", "controller": True}
    current, target = with_status("one", "two", ownerReferences=[owner])
    assert compared(current, target)[0] == {}
    assert [each for each in target.asked if each[0] == "PUT status"] == [("PUT status", "one")]
    assert not [each for each in current.asked if each[0] == "PUT status"]
    for without in range(2):
        both = with_status("one")
        both[without].served = DEPLOYMENTS
        assert compared(*both)[0] == {}
        assert not [each for each in both[1].asked if each[0] == "PUT status"]
    current, target = with_status("one")
    del current.objects[0]["status"]
    assert compared(current, target)[0] == {}
    assert not [each for each in target.asked if each[0] == "PUT status"]


@pytest.mark.parametrize("methods", [("POST",), ("PUT",), ("POST", "PUT")])
def test_a_field_that_only_the_target_drops_when_it_writes_is_told(methods: tuple[str, ...]) -> None:
    """It accepts the object and reads what is stored as before, so that neither shows it. An object is told once."""
    current, target = servers(deployment("one", replicas=1, template={}), deployment("two", replicas=1))
    target.drops = dict.fromkeys(methods, ("template",))
    found, counts = compared(current, target)
    assert found == {("dropped", "deployments.apps"): ("spec.template", 1, ["default/one"])}
    assert (counts["updated"], counts["created"]) == (2, 2)


def test_a_field_that_both_versions_drop_is_no_finding() -> None:
    """A server sets some by itself. What the running version refuses isn't compared, and custom fields aren't named."""
    current, target = servers(deployment("one", replicas=1, template={}))
    current.drops, target.drops = {"POST": ("template", "replicas")}, {"POST": ("template",)}
    assert compared(current, target)[0] == {}
    current.drops, current.refused = {}, {("POST", "r-one"): INVALID}
    assert compared(current, target)[0] == {}
    current, target = servers(deployment("one", hunter2=1))
    target.drops = {"POST": ("hunter2",)}
    assert compared(current, target)[0] == {("dropped", "deployments.apps"): ("spec[…]", 1, ["default/one"])}


def test_an_object_that_only_the_target_can_not_read() -> None:
    """It isn't in the target's list, and not there by its name either."""
    current, target = FakeApi((deployment("one"),)), FakeApi()
    assert compared(current, target)[0] == {("unreadable", "deployments.apps"): ("not found", 1, ["default/one"])}


def test_an_object_that_is_missing_is_told_from_one_that_can_not_be_decoded() -> None:
    """Only the latter can keep a server from getting ready."""
    for refused, undecodable in (({}, set()), ({("GET", "one"): {"message": "no matching key"}}, {"deployments.apps"})):
        current, target = FakeApi((deployment("one"),)), FakeApi()
        target.refused = refused
        comparison = Comparison(current, target, 10, float("inf"))  # type: ignore[arg-type]
        comparison.run(write=True)
        assert comparison.undecodable == undecodable
        assert [each["what"] for each in comparison.findings()] == ["unreadable"]


def test_what_neither_version_can_list_keeps_the_target_from_getting_ready() -> None:
    """The running version has been ready since before there was such an object; what the target can list doesn't."""

    class Undecodable(FakeApi):
        def page(self, resource: Resource, at: str, *_: Any, **__: Any) -> Page:
            return Page([], refused={"message": "no matching key"})

    for target, undecodable in ((Undecodable(), {"deployments.apps"}), (FakeApi((deployment("one"),)), set())):
        comparison = Comparison(Undecodable(), target, 10, float("inf"))  # type: ignore[arg-type]
        comparison.run(write=True)
        assert comparison.undecodable == undecodable
        assert [each["what"] for each in comparison.findings()] == ["unlisted"]


class WithParameters(FakeApi):
    """Serves other resources, too, without objects, but for one CustomResourceDefinition, whose objects a webhook
    converts.
    """

    def resources(self) -> dict[tuple[str, str], list[Resource]]:
        return super().resources() | {(each.group, each.plural): [each] for each in PARAMETERS}

    def page(self, resource: Resource, at: str, same: Page | None = None, limit: int = 0, selector: str = "") -> Page:
        if resource == DEFINITIONS:
            names = {"plural": "converteds", "kind": "Converted"}
            spec = {"group": "example.com", "names": names, "conversion": {"strategy": "Webhook"}}
            return Page([Listed.of({"kind": DEFINITIONS.kind, "metadata": {"name": "c"}, "spec": spec})])
        return Page([]) if resource in PARAMETERS else super().page(resource, at, same, limit, selector)


PARAMETERS = (
    DEFINITIONS,
    *(DEPLOYMENTS._replace(group="", plural=f"{kind.lower()}s", kind=kind) for kind in ("ConfigMap", "Pod", "Secret")),
    *(WIDGETS._replace(plural=f"{kind.lower()}s", kind=kind) for kind in ("Secret", "Converted")),
)


@pytest.mark.parametrize(
    ("api_version", "kind", "unknown"),
    [
        ("v1", "Secret", True),
        ("v1", "Pod", True),
        ("v1", "ConfigMap", False),
        ("example.com/v1", "Secret", False),
        ("example.com/v1", "Converted", True),
        ("metrics.example.com/v1", "OfAnotherServer", True),
    ],
)
def test_a_policy_whose_parameters_no_server_has_is_unknown(api_version: str, kind: str, unknown: bool) -> None:
    """Both versions refuse what it selects, or both admit it: neither says what the target would decide. They have no
    pods and Secrets, nothing that a webhook converts, and nothing of another server.
    """
    policy = deployment("limits", paramKind={"apiVersion": api_version, "kind": kind})
    current, target = (WithParameters((policy, deployment("without parameters"))) for _ in range(2))
    for group, plural, known in (
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", unknown),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies", unknown),
        ("example.com", "validatingadmissionpolicies", False),
    ):
        current.served = target.served = DEPLOYMENTS._replace(group=group, plural=plural)
        expected = {("parameters", f"{plural}.{group}"): ("", 1, ["default/limits"])} if known else {}
        found = compared(current, target)[0]
        assert found.pop(("conversion", "converteds.example.com")) and found == expected


def test_events_are_created_as_what_they_were_made_as() -> None:
    """The newer API of Events lists those of the older one, too, and refuses to create them."""
    events = DEPLOYMENTS._replace(group="events.k8s.io", plural="events", kind="Event")
    current, target = servers(deployment("one"))
    current.served = target.served = events
    current.refused = {("POST", "r-one"): INVALID}
    found, counts = compared(current, target)
    assert found == {} and (counts["updated"], counts["created"]) == (1, 0)


def test_objects_are_sent_as_a_server_writes_them() -> None:
    """What an object has in a raw form is compared byte by byte, such as a ControllerRevision's data: without spaces,
    and with the signs escaped that Go's encoder escapes.
    """
    assert as_go_has_it({"a": ["<é&>", 1, None]}) == '{"a":["\\u003cé\\u0026\\u003e",1,null]}'.encode()


class NestingApi(FakeApi):
    """Has an object that is nested too deeply to be read, or for which each answer is."""

    def __init__(self, *objects: dict[str, Any], name: str, listed: bool) -> None:
        super().__init__(objects)
        self._name, self._listed = name, listed

    def page(self, *asked: Any, **more: Any) -> Page:
        page = super().page(*asked, **more)
        return page._replace(found=[each._replace(nested=self._nests(each.item)) for each in page.found])

    def write(self, method: str, path: str, body: bytes, form: str = "application/json") -> tuple[int, dict[str, Any]]:
        if b'"name":"deep"' in body:
            raise RecursionError
        return super().write(method, path, body, form)

    def _nests(self, item: dict[str, Any]) -> bool:
        return self._listed and item["metadata"]["name"] == self._name


@pytest.mark.parametrize("listed", [True, False])
def test_an_object_that_is_nested_too_deeply_is_unknown(listed: bool) -> None:
    """It is named, whether it can't be read or only not be sent, and all others are compared as without it."""
    objects = [deployment(name) for name in ("a", "deep", "z")]
    current, target = (NestingApi(*objects, name="deep", listed=listed) for _ in range(2))
    target.refused["PUT", "z"] = INVALID
    found, counts = compared(current, target)
    assert found.keys() == {("nested", "deployments.apps"), ("update", "deployments.apps")}
    assert found["nested", "deployments.apps"] == ("", 1, ["default/deep"])
    assert found["update", "deployments.apps"] == (WHY, 1, ["default/z"])
    assert (counts["objects"], counts["read"], counts["updated"]) == (3, 2, 2)


class Counted(dict[str, Any]):
    """An object that can be seen to be there still."""


class CountingApi(FakeApi):
    """Makes its objects when they are listed; `most`: of how many something was kept at one time."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        super().__init__(objects)
        self._made: list[weakref.ref[Counted]] = []
        self.most = 0

    def page(self, resource: Resource, at: str, same: Page | None = None, limit: int = 0, selector: str = "") -> Page:
        page = super().page(resource, at, same, limit, selector)
        made = [Counted(each.item) for each in page.found]
        self._made += map(weakref.ref, made)
        self.most = max(self.most, sum(each() is not None for each in self._made))
        return page._replace(found=list(map(Listed.of, made)))


def test_an_object_is_kept_only_as_long_as_its_page() -> None:
    """So memory doesn't grow with the number of objects, or with what each has: a page is tried while the next one is
    read.
    """
    objects = [deployment(f"web-{number}", template={"containers": [{}, {}]}) for number in range(60)]
    current, target = CountingApi(*objects), CountingApi(*objects[:30], *objects[31:])
    _, counts = compared(current, target)
    assert counts["objects"] == 60
    assert 0 < current.most <= 4 and 0 < target.most <= 4


@pytest.mark.parametrize(("verb", "method", "name"), [("update", "PUT", "one"), ("create", "POST", "r-one")])
def test_a_verb_that_only_the_running_version_serves_is_a_refusal(verb: str, method: str, name: str) -> None:
    """Whatever the target declares, it is asked: with 405, no client could write these objects any more."""
    current, target = FakeApi((deployment("one"),)), FakeApi((deployment("one"),))
    target.served = DEPLOYMENTS._replace(verbs=tuple(each for each in DEPLOYMENTS.verbs if each != verb))
    target.refused[method, name] = {"reason": "MethodNotAllowed", "message": "the server does not allow this method"}
    found, _ = compared(current, target)
    assert [each for each in found if verb in str(each)], found


class UnlistedApi(FakeApi):
    """Has each object, and refuses lists."""

    def page(self, resource: Resource, at: str, same: Page | None = None, limit: int = 0, selector: str = "") -> Page:
        """As `Api.page`."""
        return Page([], refused={"message": "the server was not able to list"})


@pytest.mark.parametrize("objects", [(), (deployment("a"), deployment("b"))])
def test_a_list_that_only_the_target_refuses_is_a_finding(objects: tuple[dict[str, Any], ...]) -> None:
    """Though each object can be read, or there is none: no controller has its informer then."""
    found, counts = compared(FakeApi(objects), UnlistedApi(objects))
    assert found == {("list", "deployments.apps"): ("the server was not able to list", 1, [])}
    assert counts["read"] == len(objects)
    (finding,) = findings_of([Difference("list", "deployments.apps", "no", 1, ())])
    assert (finding.id, finding.severity) == ("rehearsal.unreadable", "error")
    assert "deployments.apps" in finding.title and "no" in finding.diagnosis


def test_a_list_that_is_refused_for_an_object_is_told_once() -> None:
    """With the object's name."""
    current, target = FakeApi((deployment("a"), deployment("b"))), UnlistedApi((deployment("a"),))
    found, _ = compared(current, target)
    assert found.keys() == {("unreadable", "deployments.apps")}

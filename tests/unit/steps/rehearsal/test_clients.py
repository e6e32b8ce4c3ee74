"""Requests of clients in an audit log: what only the running version serves, and who sends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.steps.rehearsal.fake_api import DEPLOYMENTS, FakeApi
from upgrader.model.audit_log import Requests
from upgrader.onhost.rehearsal.api import Page, Resource
from upgrader.onhost.rehearsal.clients import Request
from upgrader.onhost.rehearsal.compare import Comparison
from upgrader.steps.rehearsal.client_requests import NO_REQUESTS, ClientRequests
from upgrader.steps.rehearsal.differences import Difference, findings_of

READS = ["get", "list"]


class Server(FakeApi):
    """Serves Deployments, and more of them by name: resources → verbs."""

    def __init__(self, more: Mapping[str, tuple[str, ...]], refused: dict[str, Any] | None = None) -> None:
        metadata = {"name": "own", "namespace": "default", "resourceVersion": "5"}
        super().__init__(({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata},))
        self.more = [DEPLOYMENTS._replace(plural=name, verbs=verbs) for name, verbs in more.items()]
        self.no = refused

    def all_resources(self) -> list[Resource]:
        """As `Api.all_resources`."""
        return [DEPLOYMENTS, *self.more]

    def page(self, resource: Resource, at: str, same: Page | None = None, limit: int = 0, selector: str = "") -> Page:
        if resource in self.more:
            self.asked.append(("LIST", resource.plural))
            return Page([], refused=self.no)
        return super().page(resource, at, same, limit, selector)


class Permitting(Server):
    """Permits some to connect to its pods."""

    def __init__(self, *permitted: tuple[str, tuple[str, ...], str]) -> None:
        super().__init__({"pods/exec": ("create", "get")})
        self.permitted = permitted

    def get_as(self, path: str, user: str, groups: tuple[str, ...]) -> tuple[int, dict[str, Any]]:
        """As `Api.get_as`."""
        assert path.startswith("/api/v1/namespaces/") and path.endswith("/pods/rehearsal.invalid/exec")
        namespace = path.split("/")[4]
        may = (user, groups, namespace) in self.permitted
        return (404, {}) if may else (403, {"message": 'pods "x" is forbidden: "jane" cannot create'})


JANE, ANN = ("jane", ("people",), "shop"), ("ann", (), "shop")


def test_users_who_could_not_connect_to_pods_any_more_are_named() -> None:
    """Each request is sent as its user, as who sends them may do everything; what both refuse fails today."""
    request = Request("v1", "pods/exec", ["get"], (JANE, ANN, ("jane", ("people",), "kube-system")))
    comparison = Comparison(Permitting(JANE, ANN), Permitting(ANN), 10, float("inf"), (request,))  # type: ignore[arg-type]
    comparison.run(write=True)
    found = next(each for each in comparison.findings() if each["what"] == "denied")
    assert found["names"] == ["shop/jane"] and "is forbidden" in found["reason"]
    differences = [Difference("denied", found["resource"], found["reason"], 1, ("shop/jane",))]
    (finding,) = findings_of(differences)
    assert finding.id == "rehearsal.denied" and "pods/exec" in finding.title and "shop/jane" in finding.diagnosis
    comparison = Comparison(Permitting(), Permitting(), 10, float("inf"), (request,))  # type: ignore[arg-type]
    comparison.run(write=True)
    assert not any(each["what"] == "denied" for each in comparison.findings())


def test_a_server_without_its_informers_is_not_asked_who_may_connect_to_pods() -> None:
    """It knows no roles yet, and would refuse everyone."""
    request = Request("v1", "pods/exec", ["get"], (JANE,))
    comparison = Comparison(Permitting(JANE), Permitting(), 10, float("inf"), (request,))  # type: ignore[arg-type]
    comparison.run(write=False)
    assert comparison.findings() == []


def test_only_who_connects_to_pods_is_asked_for_by_name() -> None:
    """As the user whom it impersonates, in each namespace; SPDY needs the permission to create already."""
    sent = (
        Requests("robot, as jane", "x/1", "v1", "pods/exec", ("create", "get"), 1, "", ("people",), ("a", "b")),
        Requests("ann", "x/1", "v1", "pods/exec", ("create",), 1, "", (), ("a",)),
        Requests("ann", "x/1", "v1", "pods", ("get",), 1, "", (), ("a",)),
    )
    assert ClientRequests(sent).asked() == [
        ("v1", "pods", ["get"], []),
        ("v1", "pods/exec", ["create", "get"], [("jane", ("people",), "a"), ("jane", ("people",), "b")]),
    ]


def compared(current: Server, target: Server, *requests: Request) -> tuple[dict[str, str], dict[str, int]]:
    """What no client gets any more → why; and the counts."""
    comparison = Comparison(current, target, 10, float("inf"), requests)  # type: ignore[arg-type]
    comparison.run(write=False)
    assert all(each["what"] == "client" for each in comparison.findings())
    return {each["resource"]: each["reason"] for each in comparison.findings()}, comparison.counts


def test_what_the_target_does_not_serve_is_found() -> None:
    """A resource, a subresource, and a verb; whatever fails today is nothing new."""
    current = Server({"webs": ("get", "list"), "webs/scale": ("get", "update"), "deployments/x": ("create", "get")})
    target = Server({"deployments/x": ("get",)})
    requests = (
        Request("apps/v1", "webs", READS),
        Request("apps/v1", "webs/scale", ["patch", "update"]),
        Request("apps/v1", "deployments/x", ["create", "get"]),
        Request("apps/v1", "deployments", READS),
        Request("apps/v1", "unknown", READS),
    )
    found, counts = compared(current, target, *requests)
    assert found.keys() == {
        "apps/v1 webs get",
        "apps/v1 webs list",
        "apps/v1 webs/scale update",
        "apps/v1 deployments/x create",
    }
    assert (counts["requests"], counts["unserved"]) == (7, 3), "what isn't served here may be another server's"
    assert compared(current, target)[1]["requests"] == 0


def test_a_read_is_sent_once_and_only_the_targets_refusal_counts() -> None:
    """With the server's words; what both refuse fails today."""
    webs = {"webs": ("get", "list", "watch")}
    refused = {"message": "admission refused: not found"}
    request = Request("apps/v1", "webs", ["get", "list", "watch"])
    target = Server(webs, refused)
    found, _ = compared(Server(webs), target, request)
    assert found == {f"apps/v1 webs {verb}": "admission …: not found" for verb in request.verbs}
    assert target.asked.count(("LIST", "webs")) == 1
    assert compared(Server(webs, refused), Server(webs, refused), request)[0] == {}


SENT = (
    Requests("jane", "kubectl/v1", "apps/v1", "webs", ("get", "list"), 3, "now"),
    Requests("operator", "op/1\n", "apps/v1", "webs", ("list",), 9, "now"),
    Requests("operator", "", "v1", "pods", ("get",), 9, "now"),
)


def test_no_client_leaves_this_machine() -> None:
    """The unit gets apiVersions, resources and verbs, each once."""
    assert ClientRequests(SENT).asked() == [("apps/v1", "webs", ["get", "list"], []), ("v1", "pods", ["get"], [])]
    assert NO_REQUESTS.asked() == []


@pytest.mark.parametrize("reason", ["", "not found"])
def test_a_finding_names_the_clients(reason: str) -> None:
    """Those that send such a request, the most active ones first."""
    answered = Difference("client", "apps/v1 webs list", reason, 1, ())
    (found,) = findings_of([ClientRequests(SENT).named(answered)])
    assert (found.id, found.severity) == ("rehearsal.client", "error") and found.remedy
    assert found.title == "clients send list for webs of apps/v1, which the target does not serve"
    names = "op/1 (user operator)\nkubectl/v1 (user jane)"
    assert found.diagnosis == (f"{names}\nThe target says: {reason}" if reason else names)
    other = Difference("gone", "webs", "", 1, ("a",))
    assert ClientRequests(SENT).named(other) == other
    many = ClientRequests([Requests(f"user-{number}", "a", "v1", "pods", ("get",), 1, "") for number in range(20)])
    (found,) = findings_of([many.named(Difference("client", "v1 pods get", "", 1, ()))])
    assert found.diagnosis.count("\n") == 10 and found.diagnosis.endswith("…")

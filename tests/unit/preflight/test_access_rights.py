"""Whether the operator's credentials are enough, also for a rollback, is known before a run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.errors import ApiError, ApiUnavailable
from upgrader.model.check_ids import READ_BY_CHECKS_ONLY
from upgrader.model.plan import PlannedRelease
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Kind
from upgrader.preflight.access_rights import check_access, missing_right
from upgrader.preflight.all_checks import CHECKS, inhibits, run_checks

SECURITY = Path(__file__).parents[3] / "docs/security.md"
READS = ("get", "list", "each", "count")


def forbidden(message: str = "HTTP 403 forbidden") -> ApiError:
    """What the API server answers to those who lack a right."""
    error = ApiError(message)
    error.status = 403
    return error


def test_an_administrator_is_asked_once(world: World) -> None:
    """Whoever may do everything passes, with one request."""
    assert world.find(check_access) == {}


def test_a_smaller_role_that_has_all_that_is_needed_passes(world: World) -> None:
    """What the releases don't need isn't asked for."""
    world.kube.denied = {("delete", "nodes")}
    assert world.find(check_access) == {}


def test_missing_rights_block_the_run(world: World) -> None:
    """Each missing right is named, with what it is needed for, and why cluster-admin is asked for."""
    world.kube.denied = {("create", "secrets"), ("escalate", "clusterroles")}
    found = world.find(check_access)["access.missing"]
    assert found.inhibits
    assert "create secrets in kube-system" in found.title and "escalate clusterroles" in found.title
    assert "Helm keeps releases in Secrets" in found.diagnosis and "rolled back" in found.diagnosis
    assert "cluster-admin" in found.remedy and "docs/security.md" in found.remedy


@pytest.mark.parametrize("pulls", [True, False])
def test_pods_are_created_only_before_a_change(world: World, pulls: bool) -> None:
    """Where no image is pulled, and no component is started anew, a run works without that right."""
    world.kube.denied = {("create", "pods"), ("delete", "pods")}
    context = replace(world.context(), pulls_images=pulls)
    assert [found.title for found in check_access(context)] == (
        ["the kubeconfig's user may not create pods in kube-system, delete pods in kube-system"] if pulls else []
    )


def test_rights_are_asked_for_where_they_are_needed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helm's Secrets are in each release's namespace, and pods pull images in those of the workloads: a right in
    kube-system is none there.
    """
    asked: set[tuple[str, str, str]] = set()

    def create(_kind: Kind, review: dict[str, Any], *_: Any) -> dict[str, Any]:
        about = review["spec"]["resourceAttributes"]
        asked.add((about["verb"], about["resource"], about["namespace"]))
        return {"status": {"allowed": about["verb"] != "*" and about["namespace"] != "shop"}}

    monkeypatch.setattr(world.kube, "create", create)
    context = world.context()
    assert context.plan is not None
    pods = "kind: Pod\nmetadata: {name: web, namespace: stock}\nspec: {containers: [{name: web, image: web}]}\n"
    release = PlannedRelease(ReleaseSpec("web", "shop", Path("/c")), "upgrade", "", "", pods, ())
    (found,) = check_access(replace(context, plan=replace(context.plan, steps=(release,)), pulls_images=True))
    assert "create secrets in shop" in found.title
    assert {("update", "secrets", "shop"), ("create", "pods", "stock"), ("create", "leases", "kube-system")} <= asked


def test_trial_of_programs_needs_its_files_rights(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of planned files are created where the program will run, and removed, also those of a killed run."""
    asked: set[tuple[str, str, str]] = set()

    def create(_kind: Kind, review: dict[str, Any], *_: Any) -> dict[str, Any]:
        about = review["spec"]["resourceAttributes"]
        asked.add((about["verb"], about["resource"], about["namespace"]))
        return {"status": {"allowed": about["verb"] != "*"}}

    monkeypatch.setattr(world.kube, "create", create)
    context = world.context()
    assert context.plan is not None
    proxy = (
        "kind: DaemonSet\nmetadata: {name: kube-proxy}\n"
        "spec: {template: {spec: {containers: [{name: kube-proxy, image: p, args: [--v=2]}]}}}\n"
    )
    release = PlannedRelease(ReleaseSpec("net", "net", Path("/c")), "upgrade", "", "", proxy, ())
    assert not list(check_access(replace(context, plan=replace(context.plan, steps=(release,)))))
    for verb in ("list", "create", "delete"):
        assert {(verb, "configmaps", "net"), (verb, "secrets", "net")} <= asked


def test_a_list_that_is_long_is_cut(world: World) -> None:
    """Another cluster's kubeconfig misses everything: a few examples are enough."""
    world.kube.denied = {("*", "*")}
    assert world.find(check_access)["access.missing"].title.endswith("…")


def test_an_unanswered_question_is_unknown(world: World) -> None:
    """Rights that can't be asked for are not known to be there."""
    world.kube.unavailable = True
    assert world.find(check_access)["family.unknown"].inhibits


@pytest.mark.parametrize("family", sorted(READ_BY_CHECKS_ONLY))
def test_right_that_only_a_check_needs(world: World, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a run gets through, so it is a warning; which right it is stands in the title."""

    def refused(kind: Kind, *_: Any, **__: Any) -> Any:
        group = kind.api_version.rpartition("/")[0]
        raise forbidden(f'User "ci" cannot list resource "{kind.plural}" in API group "{group}" at the cluster scope')

    for method in READS:
        monkeypatch.setattr(world.kube, method, refused)
    (found,) = run_checks(world.context(), [(family, dict(CHECKS)[family])])
    assert (found.id, found.severity) == (f"{family}.forbidden", "warning") and not inhibits([found])
    assert re.search(r"the kubeconfig's user may not list [a-z.0-9]+$", found.title)
    assert 'User "ci"' in found.diagnosis and "docs/security.md" in found.remedy


@pytest.mark.parametrize(
    ("message", "right"),
    [
        (
            'cannot list resource "apiservices" in API group "apiregistration.k8s.io"',
            "list apiservices.apiregistration.",
        ),
        ('cannot get resource "services" in API group "" in the namespace "a"', "get services"),
        ('cannot get path "/metrics"', "get /metrics"),
        ("denied by another authorizer", "read all that they need"),
    ],
)
def test_right_is_named_in_the_servers_words(message: str, right: str) -> None:
    """Of any group, of none, and of what isn't a resource; other authorizers have words of their own."""
    found = missing_right("apis", forbidden(message))
    assert found is not None and f"may not {right}" in found.title and found.diagnosis.startswith(message)


def test_other_failures_of_a_check_stay_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What isn't a missing right, and a right that a run needs: neither is let pass."""
    assert missing_right("apis", ApiUnavailable("gone")) is None
    assert missing_right("apis", ApiError("HTTP 500")) is None
    assert missing_right("nodes", forbidden()) is None

    def refused(*_: Any, **__: Any) -> Any:
        raise forbidden()

    monkeypatch.setattr(world.kube, "list", refused)
    (found,) = run_checks(world.context(), [("nodes", dict(CHECKS)["nodes"])])
    assert found.id == "nodes.unknown" and inhibits([found])


def test_security_page_lists_what_only_checks_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes a role from the page misses nothing."""
    asked: set[str] = set()
    for method in READS:
        real = getattr(world.kube, method)

        def read(kind: Kind, *arguments: Any, real: Any = real, **more: Any) -> Any:
            asked.add(kind.plural)
            return real(kind, *arguments, **more)

        monkeypatch.setattr(world.kube, method, read)
    run_checks(world.context(), [(family, check) for family, check in CHECKS if family in READ_BY_CHECKS_ONLY])
    assert len(asked) > 8
    page = SECURITY.read_text()
    assert [plural for plural in sorted(asked) if f"`{plural}`" not in page] == []

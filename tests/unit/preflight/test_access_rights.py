"""Whether the operator's credentials are enough, also for a rollback, is known before a run."""

from __future__ import annotations

from tests.unit.preflight.conftest import World
from upgrader.preflight.access_rights import check_access


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


def test_a_list_that_is_long_is_cut(world: World) -> None:
    """Another cluster's kubeconfig misses everything: a few examples are enough."""
    world.kube.denied = {("*", "*")}
    assert world.find(check_access)["access.missing"].title.endswith("…")


def test_an_unanswered_question_is_unknown(world: World) -> None:
    """Rights that can't be asked for are not known to be there."""
    world.kube.unavailable = True
    assert world.find(check_access)["family.unknown"].inhibits

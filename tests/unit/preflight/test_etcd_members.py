"""etcd's members: who they are, and how each of them is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.preflight.conftest import CONTROLLER, World
from upgrader.preflight.etcd_members import check_etcd_members

THREE = (CONTROLLER, "controller-2", "controller-3")
GIB = 1 << 30


def three(world: World, **changes: Any) -> None:
    """Three healthy controllers, the last of them with these facts."""
    for name in THREE[1:]:
        world.controller(name)
    for name in THREE[:2]:
        world.controller(name)
    world.controller(THREE[2], **changes)


def members(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Members of these names, and one that is different."""
    listed: list[dict[str, Any]] = [{"id": name, "name": name} for name in names]
    return [*listed, more] if more else listed


def test_one_or_three_healthy_members(world: World) -> None:
    """Nothing is found, though a single member has no spare by its nature."""
    assert world.find(check_etcd_members) == {}
    three(world)
    assert world.find(check_etcd_members) == {}


@pytest.mark.parametrize(
    ("change", "value", "id_", "severity", "words"),
    [
        ("alarms", [{"kind": "NOSPACE", "member": "controller-3"}], "etcd.alarm", "error", "NOSPACE"),
        ("db_size", 7 * GIB, "etcd-members.nearly-full", "warning", "7,168 MiB; its quota is 8,192 MiB"),
        ("db_in_use", GIB // 10, "etcd-members.fragmented", "warning", "1,024 MiB, of which only 102 MiB are in use"),
        ("version", "3.5.9", "etcd-members.old-version", "warning", "controller-3 is older than 3.5.24"),
        ("version", "3.6.4", "etcd-members.versions-differ", "warning", "different versions"),
        ("revision", 70_000, "etcd-members.behind", "warning", "20,000 revisions behind"),
        ("healthy", False, "etcd-members.no-spare", "warning", "2 of 3 are known to be healthy"),
        (
            "members",
            members(*THREE, id="f1", name="controller-9"),
            "etcd-members.unexpected",
            "warning",
            "controller-9 (f1)",
        ),
        ("members", members(*THREE, id="f1", name=""), "etcd-members.unexpected", "warning", "one without a name (f1)"),
        ("members", members(*THREE, id="f1", name=THREE[2], learner=True), "etcd-members.learner", "warning", "(f1)"),
    ],
)
def test_what_is_wrong_with_one_member(
    world: World, change: str, value: object, id_: str, severity: str, words: str
) -> None:
    """Each is a finding of its own that names the controller or the member."""
    usual = {"etcd__server__db_size": GIB, "etcd__server__db_quota": 8 * GIB}
    three(world, **{**usual, f"etcd__server__{change}": value})
    found = world.find(check_etcd_members)
    assert found[id_].severity == severity and words in found[id_].title
    assert found.keys() <= {id_, "etcd-members.versions-differ", "etcd-members.no-spare"}


def test_quota_of_a_version_that_does_not_tell(world: World) -> None:
    """Before 3.6 etcd reports none: its flag has it, or it is 2 GiB."""
    world.controller(etcd__server__db_size=1900 << 20)
    assert "etcd-members.nearly-full" in world.find(check_etcd_members)
    world.controller(etcd__server__db_size=1900 << 20, etcd__flags={"quota-backend-bytes": str(8 * GIB)})
    assert world.find(check_etcd_members) == {}


def test_controller_without_a_member(world: World) -> None:
    """An upgrade that stopped after a member was removed: the two that are left have no spare."""
    three(world)
    for name in THREE[:2]:
        world.controller(name, etcd__server__members=members(*THREE[:2]))
    world.controller(THREE[2], etcd__manifest=False, etcd__data="missing", etcd__server={"unknown": "refused"})
    found = world.find(check_etcd_members)
    assert found.keys() == {"etcd-members.missing", "etcd-members.no-spare"}
    assert "controller-3" in found["etcd-members.missing"].title


def test_member_that_does_not_answer(world: World) -> None:
    """It is unknown, not healthy, and can be overruled; the others' list still has it."""
    three(world, etcd__server={"unknown": "connection refused"})
    found = world.find(check_etcd_members)
    assert found.keys() == {"etcd-members.unread", "etcd-members.no-spare"}
    assert found["etcd-members.unread"].severity == "unknown"


def test_member_list_that_can_not_be_read(world: World) -> None:
    """Without the list nothing is said of who the members are, but that."""
    world.controller(etcd__server__members={"unknown": "HTTP 404"})
    assert world.find(check_etcd_members)["etcd-members.unread"].diagnosis == "HTTP 404"


def test_etcd_on_other_machines(world: World) -> None:
    """What wasn't looked at is said; kube-apiserver's own view of it is another check."""
    world.controller(etcd__manifest=False, etcd__data="missing", etcd__server={"unknown": "nothing listens"})
    assert world.find(check_etcd_members)["etcd-members.elsewhere"].severity == "info"


def test_etcd_as_a_service_of_the_controllers(world: World) -> None:
    """Kubespray's etcd has its data where kubeadm has it, and no certificate to ask it with: no run is blocked."""
    world.controller(
        etcd__manifest=False,
        etcd__service={"name": "etcd", "state": "active"},
        etcd__server={"unknown": "no certificate"},
    )
    assert world.find(check_etcd_members).keys() == {"etcd-members.elsewhere"}


def test_controllers_that_were_not_examined(world: World) -> None:
    """That is a finding of another check, once."""
    world.facts.clear()
    assert world.find(check_etcd_members) == {}

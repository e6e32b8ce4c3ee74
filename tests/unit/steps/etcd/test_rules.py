"""Which member is next, and whether etcd can do without one: pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.steps.etcd.members import NAMES, OLD, server
from upgrader.model.cluster import Host
from upgrader.onhost.sending.host_facts import Alarm, Member, Unknown
from upgrader.steps.etcd.on_hosts import MemberNow
from upgrader.steps.etcd.rules import cannot_go_back, next_member, not_settled, successor


def members(*names: str, **changes: Any) -> tuple[MemberNow, ...]:
    """Healthy members, of which the last one answers differently."""
    made = [
        MemberNow(Host(name, ""), OLD, runs=True, server=server(name, names), cluster_version="3.6.0") for name in names
    ]
    last = made.pop()
    return (*made, replace(last, server=server(names[-1], names, **changes)))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_healthy_members_are_settled(count: int) -> None:
    """One or two never have a spare, and are restarted all the same."""
    assert not_settled(members(*NAMES[:count]), 100) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"healthy": False, "said": "RAFT NO LEADER"}, "controller-3: etcd is not healthy: RAFT NO LEADER"),
        ({"alarms": (Alarm("NOSPACE", "controller-3"),)}, "has raised the alarm NOSPACE"),
        ({"leader": ""}, "etcd has no leader"),
        ({"revision": 99}, "etcd is at revision 99, but others were already at 100"),
        (
            {"members": (*(Member(name, name) for name in NAMES), Member("f1", "", learner=True))},
            "etcd member f1 is still a learner",
        ),
        (
            {"members": (*(Member(name, name) for name in NAMES), Member("f1", "gone"))},
            "would lose quorum: only 3 of its 4 members",
        ),
    ],
)
def test_what_keeps_a_member_from_being_stopped(changes: dict[str, Any], words: str) -> None:
    """Anything that isn't well in any of them."""
    assert words in not_settled(members(*NAMES, **changes), 100)


def test_what_is_not_known_is_not_well() -> None:
    """A member that doesn't answer, a runtime that doesn't, an image that doesn't run yet, an unknown list."""
    first, *others = members(*NAMES)
    assert "doesn't answer: refused" in not_settled((replace(first, server=Unknown("refused")), *others), 0)
    assert "the image that etcd runs is unknown: no socket" in not_settled(
        (replace(first, runs=Unknown("no socket")), *others), 0
    )
    assert "doesn't run the image of its manifest" in not_settled((replace(first, runs=False), *others), 0)
    unlisted = members("controller-1", members=Unknown("x"))
    assert not_settled(unlisted, 0) == "etcd doesn't list its members"
    pair = members("controller-1", members=(Member("controller-1", "controller-1"), Member("f1", "elsewhere")))
    assert "elsewhere is not on a controller" in not_settled(pair, 0)


def test_the_order() -> None:
    """First what isn't healthy anyway, the leader last."""
    first, second, third = members(*NAMES)
    broken = replace(third, server=Unknown("x"))
    order, left = [], set(NAMES)
    while (chosen := next_member((first, second, broken), left)) is not None:
        order.append(chosen.name)
        left.remove(chosen.name)
    assert order == ["controller-3", "controller-2", "controller-1"]


def test_who_leads_next() -> None:
    """A member that is done, if there is one; nobody for one that doesn't lead, that is alone or that is silent."""
    first, second, third = members(*NAMES)
    assert successor((first, second, third), first, {"controller-3"}) == "controller-3"
    assert successor((first, second, third), first, ()) == "controller-2"
    assert successor((first, second, third), second, ()) == ""
    assert successor((first,), first, ()) == ""
    assert successor((first,), replace(first, server=Unknown("x")), ()) == ""


@pytest.mark.parametrize(
    ("agreed", "before", "stays"),
    [("3.7.0", "3.6.8", "3.7"), ("3.6.0", "3.6.8", ""), ("", "3.6.8", ""), ("3.7.0", "", "")],
)
def test_what_can_go_back(agreed: str, before: str, stays: str) -> None:
    """What all members have agreed on decides."""
    found = (replace(each, cluster_version=agreed) for each in members(*NAMES))
    assert cannot_go_back(found, (before,)) == stays

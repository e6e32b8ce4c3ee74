"""Whether etcd can do without a controller's member."""

from __future__ import annotations

import pytest

from tests.unit.recover.controllers import controller
from upgrader.adopt.etcd_membership import MemberToRemove, etcd_servers, member_to_remove
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.onhost.sending.host_facts import EtcdServer, Examined, Member, Unknown

A, B, C = (Member(f"{letter}1", f"controller-{number}") for number, letter in enumerate("abc", 1))
DOWN = Unknown("no answer")


def three(*servers: EtcdServer | Unknown | None) -> dict[str, EtcdServer | Unknown | None]:
    """What each controller's member answers."""
    return {f"controller-{number}": server for number, server in enumerate(servers, 1)}


def server(member: Member, *members: Member, healthy: bool = True, leader: str = "a1") -> EtcdServer:
    """What a member answers."""
    return EtcdServer(healthy, id=member.id, leader=leader, members=members or (A, B, C))


def test_healthy_member_of_three() -> None:
    """One that stays is asked to remove it; it hands over only where it leads."""
    servers = three(server(A), server(B), server(C))
    found = member_to_remove("controller-3", "10.0.0.3", servers)
    assert found == MemberToRemove("c1", "", "controller-1", 2)
    assert member_to_remove("controller-1", "10.0.0.1", servers) == MemberToRemove("a1", "b1", "controller-2", 2)


def test_dead_member_of_three_is_known_by_its_name_or_its_address() -> None:
    """Two of three agree on its removal."""
    servers = three(server(A), server(B), DOWN)
    assert member_to_remove("controller-3", "10.0.0.3", servers).member == "c1"
    other = Member("c1", "infra-3", ("https://[fd00::3]:2380",))
    servers = three(server(A, A, B, other), server(B, A, B, other), DOWN)
    assert member_to_remove("controller-3", "fd00::3", servers).member == "c1"
    with pytest.raises(Blocked, match=r"the etcd member of controller-3 is unknown; candidates: .*infra-3 \(c1\)"):
        member_to_remove("controller-3", "10.0.0.3", servers)


def test_member_that_was_removed_before_the_command_was_killed() -> None:
    """There is nothing left to remove, and two are left."""
    servers = three(server(A, A, B), server(B, A, B), DOWN)
    assert member_to_remove("controller-3", "10.0.0.3", servers) == MemberToRemove("", "", "controller-1", 2)


def test_removal_that_would_cost_the_majority_is_refused() -> None:
    """One of the two others doesn't answer, or says that it isn't healthy: unknown is never healthy."""
    for other in (DOWN, server(B, healthy=False), None):
        servers = three(server(A), other, server(C))
        with pytest.raises(Blocked, match="etcd would lose quorum: 1 of the 2 remaining members"):
            member_to_remove("controller-3", "10.0.0.3", servers)


def test_no_majority_can_agree_on_it() -> None:
    """Of two members the other one is dead: etcd accepts no change of its members."""
    servers = three(server(A, A, B), DOWN)
    with pytest.raises(Blocked, match="no quorum to remove a member: 1 of 2 members"):
        member_to_remove("controller-2", "10.0.0.2", servers)
    servers = three(server(A, A, B), server(B, A, B))
    assert member_to_remove("controller-2", "10.0.0.2", servers) == MemberToRemove("b1", "", "controller-1", 1)
    servers = three(DOWN, server(B, A, B))
    with pytest.raises(Blocked, match="no other voting member of etcd is healthy"):
        member_to_remove("controller-2", "10.0.0.2", servers)


def test_learner_does_not_count() -> None:
    """A member that has not caught up yet agrees on nothing."""
    late = Member("c1", "controller-3", learner=True)
    servers = three(server(A, A, B, late), DOWN, server(late, A, B, late))
    with pytest.raises(Blocked, match="1 of the 2 remaining members"):
        member_to_remove("controller-3", "10.0.0.3", servers)


def test_only_a_voter_is_asked_and_leads() -> None:
    """A learner refuses to change members, and etcd refuses to have it lead."""
    late = Member("a1", "controller-1", learner=True)
    members = (late, B, C, Member("d1", "controller-4"))
    servers = three(server(late, *members), server(B, *members, leader="c1"), server(C, *members, leader="c1"))
    servers["controller-4"] = server(members[3], *members)
    found = member_to_remove("controller-3", "10.0.0.3", servers)
    assert found == MemberToRemove("c1", "b1", "controller-2", 3)


def test_member_of_another_cluster_is_not_asked() -> None:
    """A controller whose etcd was begun anew, say: it is healthy, and knows nothing of the others, however many."""
    alone = Member("f1", "controller-1")
    others = (alone, *(Member(f"f{number}", f"elsewhere-{number}") for number in (2, 3, 4)))
    servers = three(server(alone, *others, leader="f1"), server(B, leader="c1"), server(C, leader="c1"))
    with pytest.raises(Blocked, match="1 of the 2 remaining members"):
        member_to_remove("controller-3", "10.0.0.3", servers)
    four = (*(A, B, C), Member("d1", "controller-4"))
    servers = three(server(alone, alone, leader="f1"), server(B, *four), server(C, *four, leader="c1"))
    servers["controller-4"] = server(four[3], *four)
    found = member_to_remove("controller-3", "10.0.0.3", servers)
    assert (found.ask, found.left) == ("controller-2", 3)
    servers["controller-3"] = server(C, *four, leader="c1")
    assert member_to_remove("controller-3", "10.0.0.3", servers).successor == "b1"


def test_nobody_who_could_be_asked() -> None:
    """All that stay are learners, or another cluster's."""
    late = Member("a1", "controller-1", learner=True)
    with pytest.raises(Blocked, match="no other voting member of etcd is healthy"):
        member_to_remove("controller-2", "10.0.0.2", three(server(late, late, B), server(B, late, B)))
    foreign = Member("f1", "controller-1")
    with pytest.raises(Blocked, match="no other voting member of etcd is healthy"):
        member_to_remove("controller-2", "10.0.0.2", three(server(foreign, B), server(B, B)))


def test_etcd_elsewhere_has_no_member_to_remove() -> None:
    """Nobody is asked; but the only controller with etcd can't leave."""
    assert member_to_remove("controller-2", "", three(None, None)) == MemberToRemove()
    assert member_to_remove("controller-2", "", three(None, DOWN)) == MemberToRemove()
    with pytest.raises(Blocked, match="no other controller has an etcd member"):
        member_to_remove("controller-2", "", three(None, server(B, B)))


def test_servers_of_what_was_examined() -> None:
    """A controller that can't be examined is unknown."""
    facts = controller("controller-1").facts
    found = etcd_servers([Examined(Host("controller-1", ""), facts), Examined(Host("b", ""), None, "no route")])
    assert found == {"controller-1": EtcdServer(healthy=True), "b": Unknown("no route")}

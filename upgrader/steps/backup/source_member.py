"""Of which member a snapshot is taken: a member that is cut off answers, too, with data of the past."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Literal

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.steps.backup.etcd_member import EtcdMember, read_member
from upgrader.steps.backup.etcd_tools import DataSummary, EtcdTools, MemberStanding, SnapshotStatus

__all__ = ["Proven", "Wanted", "members_to_ask", "prove_any"]

Note = Callable[[str], None]
Wanted = Literal["backup", "rehearsal"]
"""What the data is for, as messages say it."""

Proven = tuple[EtcdMember, SnapshotStatus, DataSummary]
"""A member with the use in whose work folder a snapshot is, and what is in it."""


def members_to_ask(wanted: Wanted, tools: EtcdTools, hosts: Sequence[Host], note: Note) -> list[EtcdMember]:
    """The members with data: those of a majority, or where there is none, the one with the newest data first.

    A majority has everything that a client was told to be written. Raises HostError where no member has data.
    """
    found, problems = list[tuple[EtcdMember, MemberStanding]](), list[str]()
    for host in hosts:
        try:
            member = read_member(tools.hosts, host)
            tools.remove_leftovers(member)
            if tools.database_bytes(member):
                found.append((member, tools.standing(member)))
                continue
            problems.append(f"{host.name}: etcd has no data there")
        except HostError as error:
            problems.append(error.message)
        note(problems[-1])
    if not found:
        raise HostError(
            f"no {wanted} is possible: {'; '.join(problems)}",
            remedy="Fix these problems, and run the same command again.",
        )
    good = [member for member, standing in found if standing.healthy]
    for member, standing in found:
        if not standing.healthy:
            note(f"{member.host.name}: its etcd member is not part of a quorum: {standing.said}")
    if good:
        return good
    newest = sorted(found, key=lambda item: -item[1].revision)
    note(
        f"No etcd member is part of a quorum. The {wanted} comes from {newest[0][0].host.name}, which has the newest "
        "known data; it lacks data that only other members have"
    )
    return [member for member, _ in newest]


def prove_any(wanted: Wanted, tools: EtcdTools, members: Sequence[EtcdMember], work: ExitStack, note: Note) -> Proven:
    """A snapshot of the first member of which one can be taken and read; its work folder lasts as long as `work`.

    Raises HostError where there is none.
    """
    problems = []
    for member in members:
        try:
            with ExitStack() as own:
                size = tools.database_bytes(member)
                note(f"{member.host.name}: taking a snapshot of etcd, and verifying it in a scratch etcd")
                used = own.enter_context(tools.workspace(member, 2 * size, note))
                status, data = tools.prove(used, size, take=True)
                work.push(own.pop_all())
                return used, status, data
        except HostError as error:
            problems.append(error)
            note(error.message)
    if len(problems) == 1:
        raise problems[0]
    raise HostError(
        f"no {wanted} is possible: {'; '.join(error.message for error in problems)}", remedy=problems[0].remedy
    ) from problems[0]

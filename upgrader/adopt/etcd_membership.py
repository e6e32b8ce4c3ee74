"""Whether etcd can do without a controller's member, and which one that is. Pure, except for what changes members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.onhost.sending.host_facts import EtcdServer, Examined, Member, Unknown
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts

__all__ = ["MemberToRemove", "change_members", "etcd_servers", "member_to_remove"]

_SECONDS = 30.0

Servers = Mapping[str, EtcdServer | Unknown | None]
"""Controller → what etcd answers there; None: it doesn't run there."""


@dataclass(frozen=True)
class MemberToRemove:
    """A controller's member of etcd. `member`: its ID, "" where it has none (any more).

    `successor`: the ID of a healthy member that stays, to which it hands over if it leads; "" if it doesn't lead.
    `ask`: a controller whose member is healthy, and stays; "" where etcd isn't on the controllers.
    """

    member: str = ""
    successor: str = ""
    ask: str = ""
    left: int = 0
    """How many members there are without it."""


def etcd_servers(examined: Iterable[Examined]) -> Servers:
    """What each controller's member answers; None where etcd doesn't run on a controller."""
    found: dict[str, EtcdServer | Unknown | None] = {}
    for each in examined:
        if each.facts is None:
            found[each.host.name] = Unknown(each.error)
        else:
            found[each.host.name] = each.facts.etcd.server if each.facts.has_etcd else None
    return found


def member_to_remove(leaving: str, address: str, servers: Servers) -> MemberToRemove:
    """`servers` are those of every controller; `address` is the leaving one's own.

    Raises Blocked if etcd would lose its majority, or if that isn't known.
    """
    staying = {name: server for name, server in servers.items() if name != leaving}
    own = servers[leaving]
    if all(server is None for server in staying.values()):
        if isinstance(own, EtcdServer):
            raise _refused("no other controller has an etcd member", "Join another controller's member to etcd first.")
        return MemberToRemove()  # etcd runs elsewhere
    good = {name: server for name, server in staying.items() if isinstance(server, EtcdServer) and server.healthy}
    answers = own if isinstance(own, EtcdServer) else None
    members = _members(good.values(), answers)
    voters = {member.id for member in members if not member.learner}
    asked = next((name for name, server in good.items() if server.id in voters), "")
    if not asked:
        raise _refused(
            "no other voting member of etcd is healthy", "Check etcd on the other controllers: upgrader check"
        )
    found = _member_of(leaving, address, answers, members)
    left = [member for member in members if found is None or member.id != found.id]
    if found is None and len(left) > len(staying):
        names = ", ".join(f"{member.name or 'one without a name'} ({member.id})" for member in left)
        raise _refused(
            f"the etcd member of {leaving} is unknown; candidates: {names}",
            "Remove its member with `etcdctl member remove ID`, then run the upgrader command again.",
        )
    _check_majority(members, left, {server.id for server in good.values()}, answers)
    leads = found is not None and answers is not None and answers.leader == found.id
    return MemberToRemove(found.id if found else "", good[asked].id if leads else "", asked, len(left))


def _members(healthy: Iterable[EtcdServer], own: EtcdServer | None) -> tuple[Member, ...]:
    """The members, as the healthy ones list them: those to whom most of the controllers belong, as the etcd of one of
    them may be another cluster's. () where none lists them.
    """
    servers = tuple(healthy)
    lists = [server.members for server in servers if not isinstance(server.members, Unknown)]
    ids = {server.id for server in (*servers, *((own,) if own else ()))}
    return max(lists, key=lambda each: (len(ids & {member.id for member in each}), len(each)), default=())


def _member_of(name: str, address: str, own: EtcdServer | None, members: tuple[Member, ...]) -> Member | None:
    """By what its own member says, or else by the name and the address that kubeadm gave it."""
    by_id = [member for member in members if own is not None and member.id == own.id]
    by_name = [member for member in members if member.name == name]
    by_address = [member for member in members if any(_host(url) == address for url in member.peers)]
    return next(iter(by_id or by_name or by_address), None)


def _host(url: str) -> str:
    return url.partition("://")[2].rpartition(":")[0].strip("[]")


def _check_majority(members: tuple[Member, ...], left: list[Member], healthy: set[str], own: EtcdServer | None) -> None:
    """Etcd agrees on the removal with the members that it has, and goes on with those that are left."""
    after = [member for member in left if not member.learner]
    good = sum(member.id in healthy for member in after)
    if good < len(after) // 2 + 1:
        raise _refused(
            f"etcd would lose quorum: {good} of the {len(after)} remaining members are known to be healthy",
            "Repair etcd on the other controllers first: upgrader check",
        )
    now = [member for member in members if not member.learner]
    good += own is not None and own.healthy and len(now) > len(after)
    if good < len(now) // 2 + 1:
        raise _refused(
            f"etcd has no quorum to remove a member: {good} of {len(now)} members are known to be healthy",
            "Repair etcd first, or restore a backup: docs/backup.md",
        )


def _refused(why: str, remedy: str) -> Blocked:
    return Blocked(f"{why}; nothing was changed", remedy=remedy)


def change_members(hosts: Hosts, host: Host, what: str, member: str) -> str:
    """`remove` a member by its ID, or have it `lead`; by the etcd on that controller. Returns what was done.

    Raises HostUnreachable or HostError.
    """
    remedy = f"Check `etcdctl member list` on {host.name}, then run the upgrader command again."
    changing = SentProgram("change_members", "members", "etcd's members", remedy)
    return changing.read(hosts, host, lambda answer: str(answer["done"]), what, member, seconds=_SECONDS)

"""Which member of etcd is next, whether the cluster can do without it for a moment, and what can go back. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from upgrader.model.etcd_version import EtcdVersion
from upgrader.onhost.sending.host_facts import EtcdServer, Member, Unknown
from upgrader.steps.etcd.on_hosts import MemberNow

__all__ = ["cannot_go_back", "next_member", "not_settled", "revision_of", "successor"]


def not_settled(members: Sequence[MemberNow], revision: int) -> str:
    """Why no member must be stopped now; "" where etcd is whole.

    `revision` is one that some member had a moment ago: each must have got as far since. Unknown is not healthy.
    """
    for each in members:
        why = _wrong(each, revision)
        if why:
            return f"{each.name}: {why}"
    return _no_spare(members)


def _wrong(each: MemberNow, revision: int) -> str:
    server = each.server
    if isinstance(server, Unknown):
        return f"etcd doesn't answer: {server.why}"
    if not server.healthy:
        return f"etcd is not healthy: {server.said}"
    alarm = next((alarm for alarm in server.alarms if alarm.member in (server.id, "")), None)
    if alarm is not None:
        return f"etcd has raised the alarm {alarm.kind}"
    if not server.leader:
        return "etcd has no leader"
    if server.revision < revision:
        return f"etcd is at revision {server.revision}, but others were already at {revision}"
    if isinstance(each.runs, Unknown):
        return f"the image that etcd runs is unknown: {each.runs.why}"
    return "" if each.runs else f"etcd doesn't run the image of its manifest, {each.image}"


def _no_spare(members: Sequence[MemberNow]) -> str:
    """One or two members never have a spare; all of them must be healthy then, and were found to be."""
    listed = _listed(members)
    if not listed:
        return "etcd doesn't list its members"
    learner = next((member for member in listed if member.learner), None)
    if learner is not None:
        return f"etcd member {learner.name or learner.id} is still a learner"
    known = {each.server.id for each in members if isinstance(each.server, EtcdServer)}
    good = sum(member.id in known for member in listed)
    if len(listed) > 2 and good - 1 < len(listed) // 2 + 1:
        return f"etcd would lose quorum: only {good} of its {len(listed)} members are known to be healthy"
    strangers = [member.name or member.id for member in listed if member.id not in known]
    return f"etcd member {strangers[0]} is not on a controller" if len(listed) <= 2 and strangers else ""


def _listed(members: Iterable[MemberNow]) -> tuple[Member, ...]:
    """The longest of their lists."""
    lists = (m.server.members for m in members if isinstance(m.server, EtcdServer))
    return max((found for found in lists if not isinstance(found, Unknown)), key=len, default=())


def revision_of(members: Iterable[MemberNow]) -> int:
    """How far the member is that is furthest."""
    return max((m.server.revision for m in members if isinstance(m.server, EtcdServer)), default=0)


def next_member(members: Iterable[MemberNow], left: Collection[str]) -> MemberNow | None:
    """Of those that are `left`, by name: first what isn't healthy anyway, the leader last; None: all are done."""
    found = [each for each in members if each.name in left]
    return min(found, key=_rank, default=None)


def _rank(member: MemberNow) -> int:
    server = member.server
    if isinstance(server, Unknown) or not server.healthy:
        return 0
    return 2 if server.leader == server.id else 1


def successor(members: Iterable[MemberNow], leaving: MemberNow, done: Collection[str]) -> str:
    """The ID of the healthy member that is to lead while `leaving` restarts, one that is `done` if there is one;
    "" where `leaving` doesn't lead, or is alone.
    """
    server = leaving.server
    if isinstance(server, Unknown) or server.leader != server.id:
        return ""
    others = [(m.name, m.server) for m in members if m.name != leaving.name and isinstance(m.server, EtcdServer)]
    healthy = [(name, other.id) for name, other in others if other.healthy]
    return min(healthy, key=lambda each: each[0] not in done, default=("", ""))[1]


def cannot_go_back(members: Iterable[MemberNow], versions: Iterable[str]) -> str:
    """The version that etcd's data is of by now, where one of these older `versions` can't read it; else "".

    Etcd raises it some seconds after all members have a new minor: a member that was rolled back in between would never
    start. So that all have it, and are healthy, is enough.
    """
    members = tuple(members)
    agreed = [EtcdVersion.parse(each.cluster_version) for each in members if each.cluster_version]
    servers = [each.server for each in members if isinstance(each.server, EtcdServer)]
    if servers and len(servers) == len(_listed(members)) and all(each.healthy and each.version for each in servers):
        agreed.append(min(EtcdVersion.parse(each.version) for each in servers))
    newest = max(agreed, default=None)
    before = [EtcdVersion.parse(version) for version in versions if version]
    if newest is not None and any(newest.minors_after(each) > 0 for each in before):
        return f"{newest.major}.{newest.minor}"
    return ""

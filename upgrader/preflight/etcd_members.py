"""etcd runs on the controllers, all members have one version that the target supports, and their databases have room.

Each controller queries its own member. If etcd runs on other machines, only kube-apiserver's view of it is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from upgrader.model.etcd_version import OLDEST_ETCD, EtcdVersion
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.onhost.sending.host_facts import Etcd, EtcdServer, HostFacts, Member, Unknown
from upgrader.preflight.context import PreflightContext

__all__ = ["check_etcd_members"]

_DEFAULT_QUOTA = 2 << 30
_NEARLY_FULL = 0.8
_LARGE = 100 << 20
"""Below that, holes in the database are not worth a word."""
_BEHIND = 10_000
"""Revisions between two members that no difference of a second in asking them explains."""
_UPKEEP = "https://etcd.io/docs/v3.6/op-guide/maintenance/"
_MEMBERSHIP = "https://etcd.io/docs/v3.6/op-guide/runtime-configuration/"


def check_etcd_members(context: PreflightContext) -> Iterator[Finding]:
    """The list of members, then the state of each member."""
    here = {name: facts for name, facts in context.facts.items() if facts.has_etcd}
    if context.facts and not here:
        yield Finding(
            "etcd-members.elsewhere",
            "info",
            "etcd isn't a static pod of the controllers",
            "Its members, alarms, versions and sizes were not checked.",
        )
    servers: dict[str, EtcdServer] = {}
    for name, facts in here.items():
        server = facts.etcd.server
        if isinstance(server, Unknown):
            yield _unread(f"the etcd of {name} doesn't answer", server.why)
        else:
            servers[name] = server
            yield from _alarms(name, server)
            yield from _size(name, facts.etcd, server)
    yield from _members(context.controllers | context.left_out.keys(), context.facts, servers)
    yield from _versions(servers)
    yield from _behind(servers)


def _unread(title: str, why: str) -> Finding:
    return Finding(
        "etcd-members.unread",
        "unknown",
        title,
        why,
        "Check it on that controller: crictl logs of etcd, and its certificates in /etc/kubernetes/pki/etcd.",
    )


def _alarms(name: str, server: EtcdServer) -> Iterator[Finding]:
    for alarm in server.alarms:
        if alarm.member in (server.id, ""):
            yield Finding(
                "etcd.alarm",
                "error",
                f"etcd on {name} has raised the alarm {alarm.kind}",
                "With NOSPACE it refuses every write; with CORRUPT its data can't be trusted.",
                f"NOSPACE: compact and defragment etcd, then run `etcdctl alarm disarm`: {_UPKEEP}#space-quota. "
                "CORRUPT: https://etcd.io/docs/v3.6/op-guide/data_corruption/",
            )


def _size(name: str, etcd: Etcd, server: EtcdServer) -> Iterator[Finding]:
    flag = etcd.flags.get("quota-backend-bytes", "")
    quota = server.db_quota or (int(flag) if flag.isdecimal() else 0) or _DEFAULT_QUOTA
    if server.db_size >= _NEARLY_FULL * quota:
        yield Finding(
            "etcd-members.nearly-full",
            "warning",
            f"the database of etcd on {name} has {_mebibytes(server.db_size)}; its quota is {_mebibytes(quota)}",
            "At its quota, etcd rejects all writes until you fix it manually.",
            "Find out what fills it (kubectl get --raw /metrics: apiserver_resource_objects), defragment it, or raise "
            f"--quota-backend-bytes: {_UPKEEP}",
        )
    if server.db_in_use and server.db_size >= _LARGE and 2 * server.db_in_use < server.db_size:
        yield Finding(
            "etcd-members.fragmented",
            "warning",
            f"the database of etcd on {name} has {_mebibytes(server.db_size)}, of which only "
            f"{_mebibytes(server.db_in_use)} are in use",
            "The free space counts against its quota, and makes snapshots larger.",
            f"Defragment one member at a time, the leader last: {_UPKEEP}#defragmentation",
        )


def _members(
    controllers: AbstractSet[str], facts: Mapping[str, HostFacts], servers: Mapping[str, EtcdServer]
) -> Iterator[Finding]:
    """The members as one of them lists them: all that answered have the same list, or the raft log is broken."""
    listed = [server.members for server in servers.values() if not isinstance(server.members, Unknown)]
    if not listed:
        if servers:
            yield _unread("etcd doesn't list its members", _why(servers))
        return
    members = max(listed, key=len)
    answered = {server.id for server in servers.values()}
    unexpected = [member for member in members if member.id not in answered and member.name not in controllers]
    if unexpected:
        yield Finding(
            "etcd-members.unexpected",
            "warning",
            f"etcd has members that aren't controllers: {first_few([_named(member) for member in unexpected])}",
            "A member whose machine is gone counts towards the quorum, but never votes.",
            f"If its machine is gone: `etcdctl member remove ID`; else list it among the controllers. {_MEMBERSHIP}",
        )
    named, ids = {member.name for member in members}, {member.id for member in members}
    without = [name for name in facts if name not in named and not (name in servers and servers[name].id in ids)]
    if without:
        yield Finding(
            "etcd-members.missing",
            "warning",
            f"no member of etcd runs on {first_few(without)}",
            "An upgrade might have stopped after the member was removed and before it was added again.",
            f"If a member should run there, add it: {_MEMBERSHIP}",
        )
    for member in (member for member in members if member.learner):
        yield Finding(
            "etcd-members.learner",
            "warning",
            f"member {_named(member)} of etcd is still a learner",
            "It doesn't vote yet, so it doesn't help if another member fails.",
            f"Once it has caught up: `etcdctl member promote {member.id}`",
        )
    yield from _majority([member for member in members if not member.learner], servers)


def _majority(voters: Sequence[Member], servers: Mapping[str, EtcdServer]) -> Iterator[Finding]:
    healthy = [member for member in voters if any(s.healthy and s.id == member.id for s in servers.values())]
    needed = len(voters) // 2 + 1
    if len(voters) > 1 and len(healthy) - 1 < needed:
        yield Finding(
            "etcd-members.no-spare",
            "warning",
            f"etcd loses its quorum if one more member fails: {len(healthy)} of {len(voters)} are known to be healthy, "
            f"but {needed} are needed",
            "If one controller goes down, the API goes down.",
            "Fix the unhealthy members, remove those that are gone, or add one: an odd number is best.",
        )


def _why(servers: Mapping[str, EtcdServer]) -> str:
    return "; ".join(s.members.why for s in servers.values() if isinstance(s.members, Unknown))


def _named(member: Member) -> str:
    return f"{member.name or 'one without a name'} ({member.id})"


def _versions(servers: Mapping[str, EtcdServer]) -> Iterator[Finding]:
    versions = {name: server.version for name, server in servers.items() if server.version}
    shown = ", ".join(f"{name}: {version}" for name, version in sorted(versions.items()))
    if len(set(versions.values())) > 1:
        yield Finding(
            "etcd-members.versions-differ",
            "warning",
            "etcd members have different versions",
            f"{shown}. This is only normal during an upgrade of etcd.",
            "Bring all members to one version before the control plane is upgraded.",
        )
    old = sorted(name for name, version in versions.items() if EtcdVersion.parse(version) < OLDEST_ETCD)
    if old:
        yield Finding(
            "etcd-members.old-version",
            "warning",
            f"etcd on {first_few(old)} is older than {OLDEST_ETCD}",
            f"{shown}. Kubernetes' own tools don't support older versions: they can return wrong data after some "
            "failures.",
            f"Upgrade etcd to {OLDEST_ETCD} or newer, one minor version at a time: "
            "https://etcd.io/docs/latest/upgrades/",
        )


def _behind(servers: Mapping[str, EtcdServer]) -> Iterator[Finding]:
    newest = max((server.revision for server in servers.values()), default=0)
    for name, server in servers.items():
        if server.revision and newest - server.revision > _BEHIND:
            yield Finding(
                "etcd-members.behind",
                "warning",
                f"etcd on {name} is {newest - server.revision:,} revisions behind",
                "kube-apiserver on that controller reads stale data, and the member can't replace a failed one.",
                "Check the disk and the network of that controller; replace a member that doesn't catch up.",
            )


def _mebibytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"

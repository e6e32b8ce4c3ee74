"""Causes in etcd: lost data, no quorum, alarms, a member that doesn't run.

Its data is never touched: the operator decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.onhost.sending.host_facts import Container, Etcd, EtcdServer, HostFacts, Unknown
from upgrader.recover.diagnosis.causes.cause import Cause, last_words, moment, size

__all__ = ["etcd"]

_SLACK_SECONDS = 60.0
_QUOTA_SHARE = 0.9


def etcd(name: str, facts: HostFacts, answering: frozenset[str]) -> Iterator[Cause]:
    """`answering`: IDs of the members that answered, on whichever controller."""
    found = facts.etcd
    if not facts.has_etcd:
        return  # etcd runs elsewhere
    if found.data in ("empty", "missing"):
        yield _lost(name, found, f"etcd's data is gone: {found.data_dir} is {found.data}", answering)
    elif isinstance(found.server, Unknown):
        yield from _silent(name, facts, found.server)
    elif found.server.has_cluster is False:
        what = "etcd was started without its data: it lacks the workloads that are checkpointed here"
        yield _lost(name, found, what, frozenset())
    else:
        yield from _answers(name, found.server, answering)


def _silent(name: str, facts: HostFacts, why: Unknown) -> Iterator[Cause]:
    """Nothing answers. What starts it is a cause of its own, where that is at fault."""
    ended = next((c for c in facts.etcd_containers if c.name == "etcd" and _since_boot(c, facts)), None)
    running = ended is not None and ended.state == "running"
    if ended is None:
        title = f"{name}: etcd does not run, and has not been started since the machine booted"
        detail = "\n".join(c for c in facts.complaints if "etcd" in c)
    elif running:
        title = f"{name}: etcd runs but does not answer: {why.why}"
        detail = last_words(ended.log)
    else:
        words = last_words(ended.log)
        title = f"{name}: etcd exits with {ended.exit_code}" + (f": {words}" if words else "")
        detail = "\n".join(ended.log[-6:])
    remedy = f"Read the last lines of /var/log/pods/kube-system_etcd-*/etcd/*.log on {name}."
    yield Cause(Finding("etcd.down", "error", title, detail, remedy), explains=True)


def _since_boot(container: Container, facts: HostFacts) -> bool:
    return isinstance(facts.booted, Unknown) or container.created >= facts.booted - _SLACK_SECONDS


def _answers(name: str, server: EtcdServer, answering: frozenset[str]) -> Iterator[Cause]:
    for alarm in server.alarms:
        if (
            alarm.member == server.id or alarm.member not in answering
        ):  # each once: where it was raised, if that answers
            yield from _alarm(name, server, alarm.kind, alarm.member)
    if server.healthy or server.alarms:
        if server.db_quota and server.db_size > _QUOTA_SHARE * server.db_quota and not server.alarms:
            title = f"{name}: etcd's database is nearly full: {size(server.db_size)} of {size(server.db_quota)}"
            yield Cause(Finding("etcd.quota", "warning", title, "At its quota, etcd rejects every write."))
        return
    if not server.leader:
        members = () if isinstance(server.members, Unknown) else server.members
        voters = [m for m in members if not m.learner]
        up = [m for m in voters if m.id in answering]
        down = ", ".join(m.name or m.id for m in voters if m.id not in answering)
        count = f"{len(up)} of {len(voters)} members answer, but {len(voters) // 2 + 1} are needed"
        title = f"{name}: etcd has no leader: {count if voters else 'it has no quorum'}"
        remedy = f"Start these members again: {down}." if down else "Check the network between the members, port 2380."
        yield Cause(Finding("etcd.no-quorum", "error", title, f"etcd reports: {server.said}", remedy), explains=True)
        return
    title = f"{name}: etcd is not healthy: {server.said}"
    yield Cause(Finding("etcd.unhealthy", "error", title, "", "Check etcd's log and disk latency."), explains=True)


def _alarm(name: str, server: EtcdServer, kind: str, member: str) -> Iterator[Cause]:
    by = "" if member == server.id else f"; raised by member {member}, which was not examined"
    if kind == "NOSPACE":
        of = f" ({size(server.db_size)} of {size(server.db_quota)})" if not by else ""
        title = f"{name}: etcd is full{of} and rejects every write{by}"
        remedy = (
            "Compact and defragment etcd, or raise `--quota-backend-bytes`; then run `etcdctl alarm disarm`. See "
            "https://etcd.io/docs/v3.6/op-guide/maintenance/#space-quota"
        )
        yield Cause(Finding("etcd.full", "error", title, "", remedy), explains=True)
    else:
        title = f"{name}: etcd raised the alarm {kind}: its data can't be trusted{by}"
        remedy = (
            "Before anything else, copy its data directory and read "
            "https://etcd.io/docs/v3.6/op-guide/data_corruption/."
        )
        yield Cause(Finding("etcd.corrupt", "error", title, "", remedy), explains=True, blocks=True, stops=True)


def _lost(name: str, found: Etcd, what: str, answering: frozenset[str]) -> Cause:
    """The one thing that no checkpoint can restore. `upgrader` never writes there: the steps are for the operator."""
    if answering:
        title = f"{name}: {what}; the other members still have it"
        remedy = (
            "Remove this member (`etcdctl member remove`), then add it again: "
            f"https://etcd.io/docs/v3.6/op-guide/runtime-configuration/ ({name})"
        )
        return Cause(Finding("etcd.member-lost", "error", title, "", remedy), explains=True, blocks=True, stops=True)
    title = f"{name}: {what}"
    if not found.backups:
        why = "No backup was found on this machine (searched for *.db in the usual folders)."
        remedy = (
            "Copy a snapshot of etcd to this machine and run the same command again: it then prints the restore steps."
        )
        return Cause(Finding("etcd.lost", "error", title, why, remedy), explains=True, blocks=True, stops=True)
    backup = found.backups[0]
    why = "\n".join(f"Backup: {b.path}, {size(b.size)}, of {moment(b.changed)}" for b in found.backups)
    return Cause(Finding("etcd.lost", "error", title, why, _restore(name, found, backup.path)), True, True, True)


def _restore(name: str, found: Etcd, backup: str) -> str:
    """The steps for one member, word for word. The folder itself stays: it may be a mount."""
    member = found.flags.get("name", name)
    peer = found.flags.get("initial-advertise-peer-urls", "https://ADDRESS:2380")
    folder, manifest = found.data_dir, "/etc/kubernetes/manifests/etcd.yaml"
    stop = f"  mv {manifest} /root/etcd.yaml  # the kubelet stops etcd: wait until it is gone\n"
    start = f"  mv /root/etcd.yaml {manifest}"
    if found.manifest is False:
        stop, start = "", "  kubeadm init phase etcd local  # with --config, if kubeadm was given one"
    return f"""Restore the backup by hand on {name}, as root (etcdutl is in etcd's image; use etcd's own version):
  etcdutl snapshot status {backup} -w table
{stop}  [ ! -e {folder}/member ] || mv {folder}/member {folder}/member.lost  # kept, not deleted
  etcdutl snapshot restore {backup} --data-dir {folder}/restored --name {member} \\
    --initial-cluster {member}={peer} --initial-advertise-peer-urls {peer} \\
    --bump-revision 1000000000 --mark-compacted  # or clients would trust what they have cached
  mv {folder}/restored/member {folder}/member
{start}
  upgrader recover
With several members: restore the same backup on each, with the whole --initial-cluster."""

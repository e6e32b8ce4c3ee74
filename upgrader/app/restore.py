"""`upgrader restore`: replace a cluster's data by that of a backup."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upgrader.app.backup import open_backup, unless_locked
from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import locked_folder
from upgrader.app.wiring import Session, open_session
from upgrader.errors import ApiError, BackupRefused, HostError
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.run_kind import RunKind
from upgrader.pipeline import Pipeline
from upgrader.ports import KubeObject
from upgrader.steps.backup.etcd_member import EtcdMember, read_member
from upgrader.steps.backup.etcd_tools import EtcdTools
from upgrader.steps.backup.manifest import BackupManifest
from upgrader.steps.backup.restore import Restoration
from upgrader.steps.backup.take import AUTHORITY

__all__ = ["ProposedRestore", "propose_restore"]

_GLANCE_SECONDS = 5.0


@dataclass(frozen=True)
class ProposedRestore:
    """A backup that was read and is this cluster's, and what a restore would do."""

    manifest: BackupManifest
    pipeline: Pipeline
    session: Session
    front_end: FrontEnd

    def execute(self) -> FinishedRun:
        """Execute it. The cluster's lock is held as long as there is an API to hold it in."""
        session = self.session.without_probe()  # requests are expected to fail
        with unless_locked(session, self.front_end):
            # The restored lock is another one, and losing that must not stop the run in its middle.
            return execute_run(
                session, self.front_end, NewRun(RunKind.RESTORE, self.pipeline, on_failure="stop"), held=None
            )


@contextmanager
def propose_restore(
    folder: Path, path: Path, identity: Path, front_end: FrontEnd, *, other_cluster: bool
) -> Iterator[ProposedRestore]:
    """Read the whole backup, and compare whose it is. Changes nothing.

    Raises UsageError for a wrong key or file, BackupRefused where it is damaged or another cluster's.
    """
    with front_end.busy("reading the backup…"):
        backup = open_backup(path, identity)
        manifest = backup.read()
    with front_end.busy(), open_session(folder) as session, locked_folder(folder):
        hosts = session.tools.hosts
        front_end.doing("reading etcd's members…")
        members = tuple(read_member(hosts, host) for host in session.cluster.controllers)
        if not other_cluster:
            _check_cluster(session, members[0], manifest)
        tools = session.recover_tools()
        seen = max(EtcdTools(hosts).reported_revision(member) for member in members)
        restoration = Restoration(backup, manifest, members, tools, _nodes(session), seen)
        pipeline = restoration.pipeline()
        front_end.doing("")
        yield ProposedRestore(manifest, pipeline, session, front_end)


def _nodes(session: Session) -> Mapping[str, str]:
    """With their kubelets' versions; none where the API doesn't answer, which may be why there is a restore."""
    try:
        return {str(node["metadata"]["name"]): _kubelet(node) for node in session.tools.kube.list(NODES)}
    except ApiError:
        return {}


def _kubelet(node: KubeObject) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion") or "")


def _check_cluster(session: Session, member: EtcdMember, manifest: BackupManifest) -> None:
    """By the UID of kube-system, or where neither the API nor etcd tells it, by the cluster's CA."""
    uid = _uid(session, member)
    if uid and uid != manifest.cluster_uid:
        raise BackupRefused(
            f"the backup was taken from cluster {manifest.cluster_uid or 'unknown'}, not from this cluster, {uid}; "
            "nothing was changed",
            remedy="Check the folder and the file. If this cluster was recreated after it lost its data, it has "
            "another UID: add --other-cluster.",
        )
    authority = session.tools.hosts.read(member.host, AUTHORITY)
    # Two clusters that have it elsewhere are not the same for that.
    if not uid and (not authority or hashlib.sha256(authority).hexdigest() != manifest.authority):
        raise BackupRefused(
            f"the backup's cluster has a different CA than {member.host.name}'s {AUTHORITY}; nothing was changed",
            remedy="Check the folder and the file; if they are right, add --other-cluster.",
        )


def _uid(session: Session, member: EtcdMember) -> str:
    """ "" where it can't be known."""
    try:
        return session.cluster_uid()
    except ApiError:
        pass
    try:
        return EtcdTools(session.tools.hosts).read(member, seconds=_GLANCE_SECONDS).uid
    except HostError:
        return ""  # its data may be what was lost

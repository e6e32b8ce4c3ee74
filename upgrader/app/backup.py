"""`upgrader backup`: take a backup, and verify one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import cluster_lock, locked_folder
from upgrader.app.wiring import Session, age_files, open_session
from upgrader.errors import ApiError, ApiUnavailable, UsageError
from upgrader.steps.backup.etcd_member import read_member
from upgrader.steps.backup.etcd_tools import EtcdTools
from upgrader.steps.backup.identity_file import read_identities, write_identity
from upgrader.steps.backup.manifest import BackupManifest
from upgrader.steps.backup.take import TakenBackup
from upgrader.steps.backup.verify import BackupFile, prove_on, send_snapshot

__all__ = ["make_key", "open_backup", "prove_backup", "take_backup", "unless_locked"]


def make_key(folder: Path, path: Path) -> str:
    """Write a new private key, and return its public key.

    Raises UsageError for a file in the cluster's folder: that is committed and copied, and must not open its backups.
    """
    home = folder.resolve()
    if (home / "upgrader.yaml").exists() and path.resolve().is_relative_to(home):
        raise UsageError(
            f"{path} is in the cluster folder, which is committed and copied",
            remedy="Choose a path outside of that folder, where you keep your other keys.",
        )
    public, private = age_files().new_key()
    write_identity(path, public, private)
    return public


def take_backup(folder: Path, front_end: FrontEnd) -> TakenBackup:
    """Take a backup now. Changes nothing in the cluster; works without an API, too.

    The files of a controller that is left out aren't in it. Its etcd member has nothing that the others lack.
    """
    with (
        front_end.busy(),
        open_session(folder) as opened,
        locked_folder(folder),
        unless_locked(opened, front_end),
    ):
        session = opened.without_left_out(front_end.notify, "`upgrader backup` again, for the files of that controller")
        return session.backup_taker.take(front_end.notify)


def open_backup(path: Path, identity: Path) -> BackupFile:
    """A backup, and the key for it. Raises UsageError for what is wrong with the key."""
    return BackupFile(path, read_identities(identity), age_files())


def prove_backup(folder: Path, backup: BackupFile, front_end: FrontEnd) -> BackupManifest:
    """Restore it into a scratch etcd on the first controller, and compare what is in it. Raises BackupRefused."""
    with front_end.busy("reading the backup…"):
        manifest = backup.read()
    with (
        front_end.busy(),
        open_session(folder) as session,
        locked_folder(folder),
        unless_locked(session, front_end),
    ):
        hosts = session.tools.hosts
        member, tools = read_member(hosts, session.cluster.controllers[0]), EtcdTools(hosts)
        with tools.workspace(member, 2 * manifest.snapshot.bytes, front_end.notify) as used:
            front_end.notify(f"{member.host.name}: sending the snapshot, and verifying it in a scratch etcd")
            send_snapshot(backup, hosts, [used])
            prove_on(used, manifest, tools)
    return manifest


@contextmanager
def unless_locked(session: Session, front_end: FrontEnd) -> Iterator[None]:
    """Hold the cluster's lock, unless the API doesn't answer: backups are needed most where there is none.

    An API whose etcd is away answers, too, but only that it is broken (5xx). Raises Locked where another process works
    on the cluster, and ApiError where an API that works doesn't give the lock: another process may hold it.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(cluster_lock(session, front_end, take_over=False))
        except ApiError as error:
            if not isinstance(error, ApiUnavailable) and error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            front_end.notify(f"Continuing without the cluster's lock, because the API does not answer: {error.message}")
        yield

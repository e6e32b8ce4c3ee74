"""A minor upgrade begins with a backup."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.preflight.context import PreflightContext
from upgrader.steps.etcd.plan import new_minor_of_etcd

__all__ = ["check_backups"]


def check_backups(context: PreflightContext) -> Iterator[Finding]:
    """A recipient is set who can decrypt the backup that is taken before a minor upgrade."""
    server, plan = context.observed.server, context.plan
    if context.takes_backups or server is None:
        return
    etcd = plan is not None and new_minor_of_etcd(plan)
    minor = plan.another_minor if plan is not None else context.target.minors_after(server) != 0
    if not minor and not etcd:
        return
    yield Finding(
        "backup.none",
        "warning",
        f"no backup is taken before this change of the minor version{' of etcd' if etcd else ''}",
        "An older etcd can't read data that a newer minor has written."
        if etcd
        else "A rollback of the releases doesn't restore data that the new minor has rewritten in etcd.",
        "Create a key pair with `upgrader backup keygen FILE`, and add its public key to backup.recipients in "
        "upgrader.yaml.",
    )

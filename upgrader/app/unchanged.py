"""What a command decided before it had the cluster's lock, and what has to be true still now that it has it."""

from __future__ import annotations

from upgrader.adopt.joined import running_version
from upgrader.app.finalize import refuse_unended
from upgrader.app.wiring import Session
from upgrader.errors import Blocked
from upgrader.model.version import KubernetesVersion

__all__ = ["AGAIN", "check_unchanged"]

AGAIN = "Run the same command again: it starts from the current state."


def check_unchanged(session: Session, version: KubernetesVersion, *, without: str = "") -> None:
    """To be called under the lock. Raises Blocked where another command has upgraded meanwhile, or is halfway there.

    An interrupted run of the command itself is no reason: that one is to be continued. `without`: as `refuse_unended`.
    """
    refuse_unended(session.find_runs(), without=without)
    if (now := running_version(session.tools.kube)) != version:
        raise Blocked(
            f"the running version changed in the meantime, from {version} to {now}; the cluster was not changed",
            remedy=AGAIN,
        )

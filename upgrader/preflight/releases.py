"""The Helm releases can be upgraded and rolled back."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.release import Revision, abandoned_after, last_good
from upgrader.preflight.context import PreflightContext

__all__ = ["check_releases"]


def check_releases(context: PreflightContext) -> Iterator[Finding]:
    """No release is pending, and each that is installed has a revision that worked."""
    for name, release in context.observed.releases.items():
        if not release.history:
            continue  # not installed: the run installs it, and a rollback uninstalls it
        newest, good = release.history[-1], last_good(release.history)
        if newest.pending:
            yield _pending(context, name, newest, good)
        elif good is None:
            yield Finding(
                "releases.never-worked",
                "error",
                f"release {name}: no revision of it ever worked",
                f"Revision {newest.number} is '{newest.status}': {newest.description or 'no description'}. What it "
                "left may be in use all the same, and a rollback could only uninstall it.",
                f"If it serves, make it the revision to roll back to: helm rollback {name} {newest.number} --wait. "
                "Don't remove the release: what it left may be what serves.",
            )
        elif newest.status != "deployed":
            yield Finding(
                "releases.last-failed",
                "info",
                f"release {name}: the last attempt (revision {newest.number}) is '{newest.status}'",
                f"{newest.description or 'No description'}. The last revision that worked is {good.number}.",
            )


def _pending(context: PreflightContext, name: str, newest: Revision, good: Revision | None) -> Finding:
    title = f"release {name} is in '{newest.status}' (revision {newest.number})"
    now, limit = context.clock.now(), context.helm_timeout_seconds
    age = newest.age_seconds(now)
    if not newest.abandoned(now, limit):
        return Finding(
            "releases.busy",
            "error",
            title,
            f"Since {age:.0f} s: another Helm may be working on it.",
            f"Run again when it is {abandoned_after(limit):.0f} s old.",
        )
    if good is None:
        return Finding(
            "releases.stuck",
            "error",
            title,
            "No revision of it ever worked, so there is nothing to roll back to.",
            f"Check what it left (helm get manifest {name}). If it serves, make it the revision to roll back to: helm "
            f"rollback {name} {newest.number} --wait. Don't remove the release: what it left may be what serves.",
        )
    return Finding(
        "releases.pending",
        "warning",
        title,
        f"Since {age:.0f} s, which is longer than Helm waits: it was interrupted.",
        f"The run rolls it back to revision {good.number} first.",
    )

"""Which revision to roll back to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from upgrader.model.release import Revision, RevisionStatus, last_good

NOW = datetime(2026, 1, 1, tzinfo=UTC)

FAILED_INSTALL = 'Release "app" failed: context deadline exceeded'


def good(*history: Revision) -> int | None:
    """The number of the revision to roll back to."""
    found = last_good(history)
    return found.number if found else None


def test_failed_revision_is_never_a_way_back() -> None:
    """Rolling back to "the last revision" would restore what has just failed."""
    assert good(Revision(1, "superseded"), Revision(2, "deployed"), Revision(3, "failed")) == 2


def test_interrupted_upgrade_leaves_the_deployed_one() -> None:
    """Below a pending revision, the one that is still deployed is the good one."""
    assert good(Revision(4, "deployed"), Revision(5, "pending-upgrade")) == 4


def test_failed_install_that_helm_calls_superseded_is_not_taken() -> None:
    """Helm marks a failed first install as superseded once an upgrade succeeds, although it never worked."""
    history = (Revision(1, "superseded", description=FAILED_INSTALL), Revision(2, "failed"))
    assert good(*history) is None


def test_interrupted_upgrade_that_helm_calls_superseded_is_not_taken() -> None:
    """A rollback that fails marks an interrupted upgrade as superseded, although it never worked."""
    history = (Revision(3, "superseded"), Revision(4, "superseded", description="Preparing upgrade"))
    assert good(*history, Revision(5, "failed")) == 3


def test_order_of_the_history_does_not_matter() -> None:
    """The newest good revision counts, however Helm sorts its list."""
    assert good(Revision(7, "superseded"), Revision(9, "failed"), Revision(3, "superseded")) == 7


@pytest.mark.parametrize(
    ("status", "age_seconds", "abandoned"),
    [
        ("pending-upgrade", 361, True),
        ("pending-upgrade", 301, False),
        ("uninstalling", 361, True),
        ("failed", 361, False),
        ("deployed", 361, False),
    ],
)
def test_pending_revision_is_abandoned_once_no_helm_can_be_at_work(
    status: RevisionStatus, age_seconds: float, abandoned: bool
) -> None:
    """Only a pending revision can be abandoned, and only a minute after Helm's timeout.

    Helm counts its wait alone, and begins to roll back right at its end.
    """
    revision = Revision(2, status, updated=NOW - timedelta(seconds=age_seconds))
    assert revision.abandoned(NOW, 300) is abandoned


def test_revision_of_unknown_age_is_never_abandoned() -> None:
    """A date that can't be read doesn't show that no Helm process works on it."""
    assert not Revision(2, "pending-upgrade").abandoned(NOW, 300)


def test_hooks_have_their_time_before_a_revision_is_abandoned() -> None:
    """Helm waits for each hook as long as for the workloads: with two of them it may be at work for three timeouts."""
    revision = Revision(2, "pending-upgrade", updated=NOW - timedelta(seconds=959), waits=3)
    assert not revision.abandoned(NOW, 300)
    assert replace(revision, updated=NOW - timedelta(seconds=960)).abandoned(NOW, 300)

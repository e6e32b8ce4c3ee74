"""Which revision is a way back."""

from __future__ import annotations

from upgrader.model.release import Revision, last_good

FAILED_INSTALL = 'Release "app" failed: context deadline exceeded'


def good(*history: Revision) -> int | None:
    """The number of the way back."""
    found = last_good(history)
    return found.number if found else None


def test_failed_revision_is_never_a_way_back() -> None:
    """Going back to "the last revision" would go back to what has just failed."""
    assert good(Revision(1, "superseded"), Revision(2, "deployed"), Revision(3, "failed")) == 2


def test_interrupted_upgrade_leaves_the_deployed_one() -> None:
    """Under a pending revision, the one that is still deployed is the way back."""
    assert good(Revision(4, "deployed"), Revision(5, "pending-upgrade")) == 4


def test_failed_install_that_helm_calls_superseded_is_not_taken() -> None:
    """Helm marks a failed first install as superseded once an upgrade succeeds; it never worked all the same."""
    history = (Revision(1, "superseded", description=FAILED_INSTALL), Revision(2, "failed"))
    assert good(*history) is None


def test_order_of_the_history_does_not_matter() -> None:
    """The newest good revision is the way back, however Helm sorts its list."""
    assert good(Revision(7, "superseded"), Revision(9, "failed"), Revision(3, "superseded")) == 7

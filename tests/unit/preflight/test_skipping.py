"""Running in spite of a finding: on purpose, with a reason, and never past what a way back needs."""

from __future__ import annotations

import pytest

from upgrader.errors import UsageError
from upgrader.model.check_ids import FOUND_BY_A_RUN, SKIPPABLE
from upgrader.model.finding import Finding
from upgrader.model.skips import Skips
from upgrader.preflight.all_checks import CHECKS, blocking

REFUSED = Finding("webhooks.no-backend", "error", "webhook x refuses pods")
UNKNOWN = Finding("webhooks.unknown", "unknown", "the webhooks could not be checked")


def test_skipped_finding_does_not_block_and_keeps_its_reason() -> None:
    """Only the finding that is named, not others of its family."""
    skips = Skips.of(["webhooks.no-backend"], " its owner is on holiday ")
    first, second = skips.apply([REFUSED, UNKNOWN])
    assert (first.skipped, first.blocking) == ("its owner is on holiday", False)
    assert second == UNKNOWN
    assert blocking([first, second]) and not blocking([first])


def test_what_was_not_found_is_told() -> None:
    """A skip that skips nothing is one that somebody forgot."""
    assert Skips.of(["apis.unavailable", "webhooks.unknown"], "x").without_finding([UNKNOWN]) == ("apis.unavailable",)


def test_what_only_a_run_finds_may_be_found_yet() -> None:
    """Before the run, nobody knows whether such a skip is needless."""
    assert Skips.of(["trial.refused"], "x").without_finding([]) == ()


@pytest.mark.parametrize(
    "name", ["version.downgrade", "hosts.unreachable", "releases.busy", "etcd.unhealthy", "nonsense", ""]
)
def test_some_checks_can_not_be_skipped(name: str) -> None:
    """Those without which there is no way back, and what doesn't exist; the error lists the others."""
    with pytest.raises(UsageError, match="can't be skipped") as raised:
        Skips.of([name], "because")
    assert "webhooks.…" in raised.value.remedy


@pytest.mark.parametrize(("ids", "reason"), [(["webhooks.slow"], None), (["webhooks.slow"], "  "), ([], "because")])
def test_reason_and_check_belong_together(ids: list[str], reason: str | None) -> None:
    """Neither makes sense without the other."""
    with pytest.raises(UsageError):
        Skips.of(ids, reason)


def test_families_that_can_be_skipped_exist() -> None:
    """None of them is misspelt, or was renamed."""
    assert set(SKIPPABLE) <= {family for family, _ in CHECKS} | FOUND_BY_A_RUN

"""A run that is killed while its Helm goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kills import ONE, Moment, TwoReleases
from testkit.lab_cluster import LabCluster


@pytest.fixture
def releases(cluster: LabCluster, tmp_path: Path) -> Iterator[TwoReleases]:
    """Two small releases, in place."""
    two = TwoReleases(cluster, tmp_path)
    yield two
    two.remove()


def test_killed_while_helm_waits_for_what_never_rolls_out(releases: TwoReleases) -> None:
    """The orphaned Helm times out and rolls back by itself; the run that is resumed meanwhile leaves it alone until its
    process has ended, then tries the step once more, and rolls it back: never two Helms at one release."""
    before, _ = releases.change_what_never_rolls_out()
    (first, _) = releases.revisions()
    releases.kill(Moment("StepStarted", ONE, "pending-upgrade"))
    ended = releases.from_another_machine("resume", "--yes", "--take-over")
    assert ended.exit_code == 4, ended
    assert "on this machine is working on it" in ended.stderr, ended
    assert "another operation" not in ended.stderr, ended
    assert releases.turns == (before, before) and releases.settled
    rows = json.loads(releases.cluster.helm("history", ONE, "--output", "json", "--namespace", "default"))
    statuses = [row["status"] for row in rows if row["revision"] > first]
    assert statuses == ["failed", "superseded", "failed", "deployed"], "attempt, Helm's rollback, attempt, rollback"

"""A run that is killed at every moment, on a real cluster. Part of `make soak`: half an hour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kills import MOMENTS, Moment, TwoReleases
from testkit.lab_cluster import LabCluster


@pytest.fixture
def releases(cluster: LabCluster, tmp_path: Path) -> Iterator[TwoReleases]:
    """Two small releases, in place."""
    two = TwoReleases(cluster, tmp_path)
    yield two
    two.remove()


@pytest.mark.parametrize("helm_too", [False, True], ids=["helm-goes-on", "helm-killed-too"])
@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_resume_elsewhere_ends_as_the_run_would_have(releases: TwoReleases, moment: Moment, helm_too: bool) -> None:
    """A resume from another machine ends the run at its target, or where it began."""
    before, after = releases.change(fails=moment.fails)
    releases.kill(moment, helm_too=helm_too)
    ended = releases.from_another_machine("resume", "--yes", "--take-over")
    assert ended.exit_code == (4 if moment.fails else 0), ended
    assert set(releases.turns) == {before if moment.fails else after}
    assert releases.settled


@pytest.mark.parametrize("moment", [moment for moment in MOMENTS if not moment.fails], ids=str)
def test_rollback_elsewhere_is_the_start(releases: TwoReleases, moment: Moment) -> None:
    """A rollback after a kill at any moment restores the state before the run."""
    before, _ = releases.change()
    releases.kill(moment)
    ended = releases.from_another_machine("rollback", "--yes", "--take-over")
    assert ended.exit_code == 0, ended
    assert set(releases.turns) == {before}
    assert releases.settled

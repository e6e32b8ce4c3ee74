"""Runs that are killed or stopped, and then resumed or rolled back from elsewhere. `make soak` has every moment."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.kills import ONE, TWO, Moment, TwoReleases
from testkit.lab_cluster import LabCluster
from testkit.waiting import stretched
from upgrader.cli.ui.as_typed import program


@pytest.fixture
def releases(cluster: LabCluster, tmp_path: Path) -> Iterator[TwoReleases]:
    """Two small releases, in place."""
    two = TwoReleases(cluster, tmp_path)
    yield two
    two.remove()


def test_killed_or_stopped_then_resumed(releases: TwoReleases) -> None:
    """A run that is killed while Helm runs is completed by another machine, each change once; one that
    Ctrl-C stops ends with 130 after its step, and can be rolled back."""
    before = releases.revisions()
    _, after = releases.change()
    releases.kill(Moment("StepStarted", TWO, "pending-upgrade"))
    ended = releases.from_another_machine("resume", "--yes", "--take-over")
    assert ended.exit_code == 0, ended
    assert releases.turns == (after, after) and releases.settled
    assert releases.revisions() == tuple(number + 1 for number in before), "neither twice nor back and forth"

    before_it, then = releases.change()
    with releases.run_until(Moment("StepStarted", ONE)) as process:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=stretched(120))
    assert process.returncode == 130 and f"{program(releases.cluster.folder)} resume" in output, output
    assert releases.turns == (then, before_it), "the running step is complete, the next one was not begun"
    ended = releases.from_another_machine("rollback", "--yes")
    assert ended.exit_code == 0, ended
    assert releases.turns == (before_it, before_it) and releases.settled

"""Changes that can't work: the run rolls back, the API stays available, and the message names the cause."""

from __future__ import annotations

import pytest

from testkit.bad_changes import BAD_CHANGES, assert_rolled_back
from testkit.lab_cluster import LabCluster


@pytest.mark.parametrize("name", ["no number", "no such image", "checkpointer never ready"])
def test_bad_change_is_rolled_back(cluster: LabCluster, name: str) -> None:
    """Each fails in its step, and is undone. What would have been refused before that is run in spite of it."""
    assert_rolled_back(cluster, BAD_CHANGES[name])

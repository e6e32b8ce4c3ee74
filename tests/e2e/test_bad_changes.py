"""A change that can't work: the run rolls back, the API stays available, and the message names the cause.

Another one is in test_first_screens.py, the others in `make soak`.
"""

from __future__ import annotations

from testkit.bad_changes import BAD_CHANGES, assert_rolled_back
from testkit.lab_cluster import LabCluster


def test_bad_change_is_rolled_back(cluster: LabCluster) -> None:
    """A pod-checkpointer that never gets ready fails in its step, and is undone."""
    assert_rolled_back(cluster, BAD_CHANGES["checkpointer never ready"])

"""Adoption of a control plane that is adopted. Each lab is made by one; undo is in `make soak`."""

from __future__ import annotations

from testkit.adoption import static_pods
from testkit.lab_cluster import LabCluster


def test_adopting_again_changes_nothing(cluster: LabCluster) -> None:
    """`adopt` on an adopted cluster succeeds, and leaves every release at its revision."""
    before = cluster.releases()
    ended = cluster.upgrader("adopt", "--yes")
    assert ended.exit_code == 0, ended
    assert cluster.releases() == before
    assert static_pods(cluster) == set()

"""A release in another state than a run expects; more in `make soak`."""

from __future__ import annotations

import pytest

from testkit.lab_cluster import OLD, LabCluster


@pytest.mark.soak
def test_release_that_was_uninstalled_is_installed_again(cluster: LabCluster) -> None:
    """A release that was removed by hand is planned as an install, and the run installs it."""
    cluster.helm("uninstall", "pod-checkpointer")
    ended = cluster.run(OLD)
    assert ended.exit_code == 0, ended
    assert "install" in ended.stderr
    cluster.wait_healthy(OLD)

"""The worst bad change, followed by a power cut. Part of `make soak`: five minutes."""

from __future__ import annotations

from pathlib import Path

from testkit.lab_cluster import LabCluster
from testkit.pushed_changes import install_old_style, upgrade_old_style
from testkit.recovery import assert_recovered


def test_old_style_daemonset_and_a_power_cut(cluster: LabCluster, tmp_path: Path) -> None:
    """A DaemonSet whose update removed the only kube-apiserver is recovered, even after a power cut."""
    try:
        install_old_style(cluster, tmp_path / "values.yaml")
        good = cluster.manifests()
        upgrade_old_style(cluster)
        cluster.crash_and_boot()
        ended = cluster.upgrader("recover", "--yes")
        assert ended.exit_code == 0, ended
        assert_recovered(cluster, good)
    finally:
        cluster.restore()

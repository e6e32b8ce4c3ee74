"""Kubernetes versions with old kubelets: adoption, a minor upgrade, its rollback, and a power cut.

The first time on a machine their programs are built: half an hour.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from testkit.api_load import ApiLoad, LoadSeen
from testkit.command import upgrader
from testkit.lab_cluster import LabCluster, make_cluster
from testkit.versions import OLDER, OLDER_TARGET


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster at the older version; its nodes' images include those of its target."""
    home = tmp_path_factory.mktemp("older")
    built = upgrader("lab", "build", "--kubernetes", OLDER, "--kubernetes", OLDER_TARGET, timeout_seconds=3600)
    assert built.exit_code == 0, built
    cluster = make_cluster(f"e2e-older-{os.getpid()}", home, version=OLDER)
    yield cluster
    cluster.down()


def test_no_request_fails_with_kubelets_of_the_older_version(older: LabCluster) -> None:
    """To the next minor and back, and to it again, while the kubelet stays: every component arrives, no request fails.

    The controller-managers of the two versions write the same DaemonSet into revisions of different hashes.
    """
    for arguments, version in (
        (("run", "--to", OLDER_TARGET, "--yes"), OLDER_TARGET),
        (("rollback", "--yes"), OLDER),
        (("run", "--to", OLDER_TARGET, "--yes"), OLDER_TARGET),
    ):
        seen = _under_load(older, *arguments)
        older.wait_healthy(version)
        assert seen.failed == 0, f"{arguments}: {seen}"


def test_the_standby_pod_serves_after_a_power_cut(older: LabCluster) -> None:
    """The old kubelet starts the checkpoint of kube-apiserver without an API, and the real pods come back."""
    version = older.versions()["kube-apiserver"]
    older.cut_power()
    older.wait_until_settled(version)


def _under_load(cluster: LabCluster, *arguments: str) -> LoadSeen:
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.upgrader(*arguments, timeout_seconds=1200)
        seen = load.stop()
    assert ended.exit_code == 0, ended
    return seen

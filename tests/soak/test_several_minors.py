"""From v1.33 to v1.37 in one command, nodes included, with a mistake that only the third hop meets.

The first time on a machine the programs of five minors are built: an hour.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from testkit.api_load import ApiLoad, LoadSeen
from testkit.command import Ended, upgrader
from testkit.lab_cluster import LabCluster, make_cluster
from testkit.nodes import FLOOR, Floor, kubelets, node_sources, three_replicas
from testkit.versions import PATH

START, *HOPS = PATH
NODES_AT = (HOPS[2], HOPS[3])
"""Where kubelets of the start would be too old for the next hop, and the end."""
GATE = "ServiceTrafficDistribution=true"
"""It is on for good since v1.33, and unknown to v1.36."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster at v1.33 with two workers."""
    for version in PATH:
        built = upgrader("lab", "build", "--kubernetes", version, timeout_seconds=3600)
        assert built.exit_code == 0, built
    home = tmp_path_factory.mktemp("minors")
    cluster = make_cluster(f"e2e-minors-{os.getpid()}", home, "--workers", "2", version=START)
    yield cluster
    cluster.down()


def test_four_minors_in_one_command(cluster: LabCluster) -> None:
    """What the third hop forbids is said before the first. In spite of it, the cluster is left healthy at the second;
    once it is mended, the same command goes on to the end, and no client has lost a request.
    """
    cluster.change_settings({"through": HOPS[:-1], "nodes": {"source": node_sources(NODES_AT)}})
    cluster.keep_files()
    three_replicas(cluster.kube)
    cluster.change_values("kube-apiserver", {"extraArgs": {"feature-gates": GATE}})

    refused = cluster.upgrader("plan", "--to", HOPS[-1])
    assert refused.exit_code == 3 and f"hop 3 of {len(HOPS)}" in refused.stdout, refused
    assert "feature-gates.removed" in refused.stdout, refused

    with Floor(cluster.kube) as floor:
        skip = ("--skip", "feature-gates.removed", "--skip", "trial.refused", "--reason", "to see it fail")
        failed, seen = _run(cluster, *skip)
        assert failed.exit_code == 4 and f"healthy at {HOPS[1]}" in failed.stderr, failed
        cluster.wait_healthy(HOPS[1])
        assert seen.failed == 0, seen
        assert set(kubelets(cluster.kube).values()) == {START}, "no hop so far has needed other kubelets"

        cluster.restore_files()
        ended, seen = _run(cluster)
        assert ended.exit_code == 0, ended
    cluster.wait_healthy(HOPS[-1])
    assert set(kubelets(cluster.kube).values()) == {HOPS[-1]}
    assert seen.failed == 0, seen
    assert floor.lowest >= FLOOR, floor.lowest


def _run(cluster: LabCluster, *more: str) -> tuple[Ended, LoadSeen]:
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.upgrader("run", "--to", HOPS[-1], "--yes", *more, timeout_seconds=3600)
        return ended, load.stop()

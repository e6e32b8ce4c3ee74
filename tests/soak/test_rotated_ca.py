"""A rotation of the CA whose run is killed, or whose controller loses its power: the same command completes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import pytest

from testkit.api_load import ApiLoad
from testkit.cluster_ca import operator_renewed, trust_shown
from testkit.kills import kill_at
from testkit.lab_cluster import OLD, LabCluster
from testkit.labs import lent_or_new

LATER = {
    "sign": ("sign controller-1: started", "kubelet worker-1: started"),
    "finish": ("distrust controller-1: started", "forget-old-ca: started"),
}
"""Phase → what it says when it is interrupted."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster of a controller and a worker, whose CA is another one after each test."""
    with lent_or_new("soak-ca-cut", tmp_path_factory.mktemp("lab"), "--workers", "1") as cluster:
        yield cluster


@pytest.mark.parametrize("words", ["new-ca: applied", "trust controller-1: started", "roll-out leaders: started"])
def test_killed_then_run_again(cluster: LabCluster, words: str) -> None:
    """What a killed run has begun is completed by the next, with no failed request; `cancel` then leads back."""
    cluster.wait_until_settled(OLD)
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        kill_at(cluster, words, "certs", "rotate-ca", "trust", "--yes")
        _to_its_end(cluster, "trust")
        seen = load.stop()
    assert (seen.failed, seen.lost_writes) == (0, 0), seen
    assert _trusted(cluster)
    _to_its_end(cluster, "cancel")


@pytest.mark.parametrize("phase", ["trust", "cancel"])
def test_power_cut(cluster: LabCluster, phase: str) -> None:
    """The only controller comes back by itself, whatever it had written, and the same command completes the phase."""
    cluster.wait_until_settled(OLD)
    if phase == "cancel":
        _to_its_end(cluster, "trust")
    step = "distrust" if phase == "cancel" else "trust"
    kill_at(cluster, f"{step} controller-1: started", "certs", "rotate-ca", phase, "--yes")
    cluster.cut_power()
    cluster.wait_until_settled(OLD)
    _to_its_end(cluster, phase)
    if phase == "trust":
        assert _trusted(cluster)
        _to_its_end(cluster, "cancel")
    assert not _trusted(cluster)
    cluster.wait_until_settled(OLD)


@pytest.mark.parametrize("cut", [False, True])
def test_later_phases(cluster: LabCluster, cut: bool) -> None:
    """Each is interrupted twice, and completed by the same command: killed, with no failed request, or with the only
    controller's power cut. Then a whole rotation is behind the cluster.
    """
    cluster.wait_until_settled(OLD)
    _to_its_end(cluster, "trust")
    for phase, moments in LATER.items():
        operator_renewed(cluster, cluster.folder / "kubeconfig", "cluster", "user")
        if cut:
            _cut(cluster, phase, moments)
        else:
            _killed(cluster, phase, moments)
    assert trust_shown(cluster)["stage"] == "none"
    cluster.wait_until_settled(OLD)


def _killed(cluster: LabCluster, phase: str, moments: Sequence[str]) -> None:
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        for words in moments:
            kill_at(cluster, words, "certs", "rotate-ca", phase, "--yes", "--take-over")
        _to_its_end(cluster, phase)
        seen = load.stop()
    sys.stderr.write(f"{phase}, killed at {moments}: {seen}\n")
    assert (seen.failed, seen.lost_writes) == (0, 0), seen


def _cut(cluster: LabCluster, phase: str, moments: Sequence[str]) -> None:
    for words in moments:
        kill_at(cluster, words, "certs", "rotate-ca", phase, "--yes", "--take-over")
        cluster.cut_power()
        cluster.wait_until_settled(OLD)
        sys.stderr.write(f"{phase}: the controller is back from a power cut at {words!r}\n")
    _to_its_end(cluster, phase)


def _to_its_end(cluster: LabCluster, phase: str) -> None:
    ended = cluster.upgrader("certs", "rotate-ca", phase, "--yes", "--take-over", timeout_seconds=900)
    assert ended.exit_code == 0, ended


def _trusted(cluster: LabCluster) -> bool:
    return bool(trust_shown(cluster)["trusted_everywhere"])

"""A CA that is trusted beside the old one: a run that is killed, or whose controller loses its power, is run again."""

from __future__ import annotations

import json

import pytest

from testkit.api_load import ApiLoad
from testkit.kills import kill_at
from testkit.lab_cluster import OLD, LabCluster


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


def _to_its_end(cluster: LabCluster, phase: str) -> None:
    ended = cluster.upgrader("certs", "rotate-ca", phase, "--yes", "--take-over", timeout_seconds=900)
    assert ended.exit_code == 0, ended


def _trusted(cluster: LabCluster) -> bool:
    shown = json.loads(cluster.upgrader("certs", "rotate-ca", "show", "-o", "json").stdout)
    return bool(shown["trusted_everywhere"])

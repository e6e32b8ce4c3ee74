"""An operator whose clock is off: the nodes, the other machines and the cluster have the right time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testkit.lab_cluster import OLD, LabCluster
from testkit.pushed_changes import BAD_FLAG

_HOUR = 3600.0


@pytest.mark.parametrize("ahead_seconds", [-45.0, 3 * _HOUR])
def test_clock_of_the_operator_decides_nothing(cluster: LabCluster, ahead_seconds: float) -> None:
    """A run succeeds, a bad flag is rolled back, and of runs from two machines `rollback` takes the newer back."""
    skewed = replace(cluster, clock_skew_seconds=ahead_seconds)
    _change(cluster, "first")
    _ends_with(skewed, 0)
    _change(cluster, "second")
    _ends_with(cluster, 0)
    after_the_first = _annotated(cluster, "first")
    back = skewed.upgrader("rollback", "--yes")
    assert back.exit_code == 0, back
    assert not after_the_first and _annotated(cluster, "first"), "the other run was rolled back"

    cluster.change_values("kube-apiserver", {"extraArgs": {BAD_FLAG: "true"}})
    _ends_with(skewed, 4, skip="trial.refused")
    cluster.wait_healthy(OLD)
    assert _annotated(cluster, "first")


def test_clock_before_the_certificates_is_named(cluster: LabCluster) -> None:
    """To a clock that is a week behind, the API server's certificate isn't valid yet: the message says that the clock
    may be wrong, and nothing is changed.
    """
    before = cluster.releases()
    ended = replace(cluster, clock_skew_seconds=-7 * 24 * _HOUR).run(OLD)
    assert ended.exit_code not in (0, 4), ended
    assert "not yet valid" in ended.stderr and "clock" in ended.stderr, ended
    assert cluster.releases() == before


def _change(cluster: LabCluster, value: str) -> None:
    cluster.change_values("kube-apiserver", {"podAnnotations": {"example.com/changed": value}})


def _annotated(cluster: LabCluster, value: str) -> bool:
    return f"example.com/changed: {value}" in cluster.manifests()["kube-apiserver"]


def _ends_with(cluster: LabCluster, exit_code: int, *, skip: str = "") -> None:
    ended = cluster.run(OLD, skip=skip)
    assert ended.exit_code == exit_code, ended

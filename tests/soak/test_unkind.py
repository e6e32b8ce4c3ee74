"""The unkind lab: everything in which clusters elsewhere differ from a default lab, at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.api_load import ApiLoad
from testkit.command import Ended, upgrader
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.pushed_changes import BAD_FLAG, upgrade
from testkit.recovery import assert_recovered

_SWITCHES = ("--registry", "--token", "--port", "7443", "--ssh-address", "--vip", "--dual-stack")
_CLOCK_AHEAD_SECONDS = 45.0


@pytest.fixture
def unkind(tmp_path: Path) -> Iterator[LabCluster]:
    """A cluster that kubeadm made, with every switch of the lab on, and an operator whose clock is ahead."""
    cluster = LabCluster(f"e2e-unkind-{os.getpid()}", tmp_path, tmp_path / "kept", _CLOCK_AHEAD_SECONDS)
    try:
        cluster.lab("up", "--kubernetes", OLD, *_SWITCHES)
        yield cluster
    finally:
        upgrader("-C", cluster.home, "lab", "down", "--force", "--name", cluster.name)


def test_the_whole_way_on_an_unkind_cluster(unkind: LabCluster) -> None:
    """Adoption, a bad flag that is rolled back, and an upgrade fail no request; after a power cut the control plane
    comes back by itself; one amid a change that nobody gated is recovered.
    """
    with ApiLoad(unkind.folder / "kubeconfig") as load:
        _ends_with(0, unkind.upgrader("adopt", "--yes"))
        unkind.wait_healthy(OLD)
        unkind.keep_files()
        unkind.change_values("kube-apiserver", {"extraArgs": {BAD_FLAG: "true"}})
        assert BAD_FLAG in _ends_with(4, unkind.run(skip="trial.refused"))
        unkind.wait_healthy(OLD)
        unkind.restore_files()
        _ends_with(0, unkind.run())
        unkind.wait_healthy(TARGET)
        seen = load.stop()
    assert seen.failed == 0, seen

    unkind.cut_power()
    unkind.wait_healthy(TARGET, timeout_seconds=240)
    unkind.wait_until_settled(TARGET)

    good = unkind.manifests()
    upgrade(unkind)
    until("the new pod to crash", lambda: unkind.crashed(BAD_FLAG), timeout_seconds=60)
    unkind.crash_and_boot()
    _ends_with(0, unkind.upgrader("recover", "--yes"))
    assert_recovered(unkind, good, TARGET)


def _ends_with(exit_code: int, ended: Ended) -> str:
    assert ended.exit_code == exit_code, ended
    return ended.stderr

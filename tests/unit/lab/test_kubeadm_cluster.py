"""Nodes that leave a lab's cluster, and join it again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from upgrader.errors import LabError
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.kubeadm_cluster import KubeadmCluster
from upgrader.lab.spec import LabSpec, Placement


class _Recorded(CommandRunner):
    """Runs nothing; `ran` has what each script was for, with its node: `controller-1: kubeadm reset`."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    def run(self, command: Sequence[str], *, what: str, stdin: str | Path = "", timeout_seconds: float = 60) -> str:
        self.ran.append(what)
        return ""


@pytest.mark.parametrize(
    ("leaves", "deletes"),
    [("controller-1", "controller-2"), ("controller-2", "controller-1"), ("worker-1", "controller-1")],
)
def test_another_controller_deletes_a_node_that_leaves(leaves: str, deletes: str) -> None:
    """What `kubeadm reset` has made like a new machine has no kubeconfig, and no API, any more."""
    placement, runner = Placement(LabSpec("x", 3, 1), 4, Path("/nowhere")), _Recorded()
    host = KubeadmCluster(placement, runner).leave(placement.node(leaves))
    assert host.name == deletes
    assert runner.ran == [f"{leaves}: kubeadm reset", f"{deletes}: kubectl delete node"]


def test_the_only_controller_stays() -> None:
    """Nothing is run on it: there is no cluster that it could leave."""
    placement, runner = Placement(LabSpec("x", 1, 1), 4, Path("/nowhere")), _Recorded()
    with pytest.raises(LabError, match="controller-1 is the only controller"):
        KubeadmCluster(placement, runner).leave(placement.node("controller-1"))
    assert runner.ran == []

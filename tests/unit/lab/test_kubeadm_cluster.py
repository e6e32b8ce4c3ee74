"""What is run on the nodes of a lab's cluster: when they leave it, and when it gets what another cluster has."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from upgrader.errors import LabError
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.kubeadm_cluster import KubeadmCluster
from upgrader.lab.likeness import Likeness, LikeNode
from upgrader.lab.spec import LabSpec, Placement


class _Recorded(CommandRunner):
    """Runs nothing; `ran` has what each script was for, with its node: `controller-1: kubeadm reset`."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []
        self.scripts: list[str] = []

    def run(self, command: Sequence[str], *, what: str, stdin: str | Path = "", timeout_seconds: float = 60) -> str:
        self.ran.append(what)
        self.scripts.append(str(stdin))
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


def test_a_node_gets_the_labels_of_the_one_that_it_is_like() -> None:
    """Each its own; one without labels, and a lab that is like no other cluster, get none."""
    likeness = Likeness("", {}, {}, (LikeNode(),), (LikeNode({"pool": "blue", "team": ""}),))
    placement, runner = Placement(LabSpec("x", 1, 1, like=likeness.text()), 4, Path("/nowhere")), _Recorded()
    for name in ("controller-1", "worker-1"):
        KubeadmCluster(placement, runner).label(placement.node(name))
    assert runner.ran == ["controller-1: labels of worker-1"]
    assert runner.scripts[0].endswith("label --overwrite node worker-1 pool=blue team=")
    plain = Placement(LabSpec("x", 1, 1), 4, Path("/nowhere"))
    KubeadmCluster(plain, runner).label(plain.node("worker-1"))
    assert len(runner.ran) == 1


def test_objects_of_a_file_end_no_script() -> None:
    """A policy's expression may have lines of its own: what follows them is data, and no command of root's."""
    placement, runner = Placement(LabSpec("x"), 4, Path("/nowhere")), _Recorded()
    KubeadmCluster(placement, runner).create([{"kind": "A", "expression": "1\nEND\ntouch /root/owned"}])
    first, manifests, *rest = runner.scripts[0].splitlines()
    assert "apply --server-side" in first and "--validate=false" in first, "kubectl refuses all for one, otherwise"
    assert "touch" in manifests and rest == ["END"]


def test_refused_objects_are_named_and_no_object_is_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by the API server's reason, which is no error of the lab: the others are there. Warnings are none."""

    class Local(_Recorded):
        def run(self, command: Sequence[str], *, what: str, stdin: str | Path = "", timeout_seconds: float = 60) -> str:
            self.ran.append(what)
            return subprocess.run(["sh", "-eu"], input=str(stdin), capture_output=True, text=True, check=True).stdout

    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho a created\nprintf 'Warning: old\\nThe B \"b\" is invalid\\n' >&2\nexit 1\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    runner = Local()
    cluster = KubeadmCluster(Placement(LabSpec("x"), 4, Path("/nowhere")), runner)
    assert cluster.create([{"kind": "A"}]) == ('The B "b" is invalid',)
    kubectl.write_text("#!/bin/sh\necho Warning: old >&2\n")
    assert cluster.create([{"kind": "A"}]) == ()
    runner.ran.clear()
    assert cluster.create([]) == () and runner.ran == []


def test_workloads_that_cannot_be_listed_are_not_ready() -> None:
    """What is unknown is never said to be Ready; what is wanted and there is."""

    class Answering(_Recorded):
        answer = ""

        def run(self, command: Sequence[str], *, what: str, stdin: str | Path = "", timeout_seconds: float = 60) -> str:
            if not self.answer:
                raise LabError("no answer")
            return self.answer

    runner = Answering()
    cluster = KubeadmCluster(Placement(LabSpec("x"), 4, Path("/nowhere")), runner)
    assert cluster.unready_workloads(-1) == ("the workloads, which can't be listed",)
    runner.answer = '{"items": []}'
    assert cluster.unready_workloads(-1) == ()

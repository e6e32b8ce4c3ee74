"""Nodes that have the version already, and another configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.steps.nodes.fleet import NEW, OLD, SOURCE, Fleet, Killed
from upgrader.errors import PlaybookError, StepFailed
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.node_configuration import CONFIGURED, NodeConfiguration
from upgrader.model.release import NodeBefore, RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import PlaybookResult
from upgrader.steps.nodes.node_playbooks import NodePlaybooks
from upgrader.steps.nodes.step import NodesInspector, NodesStep
from upgrader.steps.step_document import NodeChange

WANTED = NodeConfiguration({"maxPods": 150})
EARLIER = NodeConfiguration({"maxPods": 100}).fingerprint


class Configured(Fleet):
    """Its nodes have the new version, unless another is given, and an earlier configuration."""

    def __init__(self, *names: str, version: KubernetesVersion = NEW) -> None:
        super().__init__(*names)
        self.files = dict.fromkeys(names, EARLIER)
        """Node → the fingerprint of what its kubelet is configured with in truth."""
        self.points: dict[str, tuple[str, KubernetesVersion, str]] = {}
        """Node → its restore point: of which upgrade, the version and the configuration before it."""
        self.version = version
        for name in names:
            self.set_node(name, version)
            self.kube.patch(NODES, name, {"metadata": {"annotations": {CONFIGURED: EARLIER}}})

    def step(self, **changes: Any) -> NodesStep:
        made = super().step(**changes)
        nodes = tuple(NodeChange(name, self.version, NEW, configured=EARLIER) for name in self.names)
        known = WANTED.fingerprint
        playbooks = NodePlaybooks(self, Path("/playbooks"), Path("/hosts.yml"), SOURCE, NEW, WANTED, known)
        planned = replace(made.planned, nodes=nodes, configuration=WANTED)
        return replace(made, planned=planned, batch=replace(made.batch, playbooks=playbooks))

    def run(
        self,
        playbook: Path,
        *,
        inventory: Path,
        variables: Mapping[str, Any],
        limit: str = "",
        timeout_seconds: float,
        check: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookResult:
        self.kube._check(f"ansible-playbook {playbook.name}")
        self.ran.append(f"{playbook.name} {limit}")
        called = variables["node_upgrade_name"]
        for name in limit.split(","):
            now = KubernetesVersion.parse(self.node(name)["status"]["nodeInfo"]["kubeletVersion"])
            if playbook.name == "upgrade-node.yml":
                assert variables["node_kubelet_configuration"] == WANTED.kubelet
                if self.files[name] != WANTED.fingerprint or now != NEW:
                    self.points[name] = (called, now, self.files[name])
                if name in self.fails:
                    raise PlaybookError("failed", hosts={name: self.fails[name]})
                self.files[name] = WANTED.fingerprint
                self.set_node(name, NEW, ready=name not in self.never_ready)
            elif self.points.get(name, ("",))[0] == called:
                _, version, self.files[name] = self.points[name]
                self.set_node(name, version)
        self.kube._check("Ansible's end")
        return PlaybookResult({}, {})

    def configured(self) -> dict[str, tuple[str, str]]:
        """Node → what its annotation says, and what is true."""
        annotations = {name: self.node(name)["metadata"].get("annotations") or {} for name in self.names}
        return {name: (str(annotations[name].get(CONFIGURED) or ""), self.files[name]) for name in self.names}

    def left_open(self) -> list[str]:
        """The nodes that are cordoned or marked."""
        found = {name: self.node(name) for name in self.names}
        return [
            name
            for name, node in found.items()
            if (node.get("spec") or {}).get("unschedulable")
            or {key for key, value in (node["metadata"].get("annotations") or {}).items() if value} - {CONFIGURED}
        ]


NEWLY, AS_BEFORE = (WANTED.fingerprint,) * 2, (EARLIER, EARLIER)


def test_a_node_of_the_right_version_gets_the_configuration() -> None:
    """It goes through all phases, says afterwards what it has, and isn't touched again."""
    fleet = Configured("worker-1", "worker-2")
    step = fleet.step()
    step.apply(fleet.notes.append)
    assert fleet.configured() == {"worker-1": NEWLY, "worker-2": NEWLY} and not fleet.left_open()
    assert fleet.ran == ["upgrade-node.yml worker-1", "upgrade-node.yml worker-2"]
    assert NodesInspector(step).inspect(step.capture()).applied
    fleet.step().apply(fleet.notes.append)
    assert len(fleet.ran) == 2


def test_a_node_that_fails_has_its_old_configuration_again() -> None:
    """And is known to have it: a later run tries it again."""
    fleet = Configured("worker-1")
    fleet.never_ready.add("worker-1")
    with pytest.raises(StepFailed, match="were restored"):
        fleet.step().apply(fleet.notes.append)
    assert fleet.configured() == {"worker-1": AS_BEFORE} and not fleet.left_open()


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_step_is_undone(version: KubernetesVersion) -> None:
    """Also where the version is the same before and after, and upgrader.yaml has no configuration any more."""
    fleet = Configured("worker-1", "worker-2", version=version)
    step = fleet.step()
    point = step.capture()
    assert point == RestorePoint(
        nodes=tuple(NodeBefore(name, version, EARLIER) for name in fleet.names), configuration=WANTED.fingerprint
    )
    step.apply(fleet.notes.append)
    batch = replace(step.batch, playbooks=replace(step.batch.playbooks, configuration=NodeConfiguration()))
    replace(step, batch=replace(batch, playbooks=replace(batch.playbooks, fingerprint=""))).undo(point, lambda _: None)
    assert fleet.configured() == {"worker-1": AS_BEFORE, "worker-2": AS_BEFORE} and not fleet.left_open()
    assert {fleet.node(name)["status"]["nodeInfo"]["kubeletVersion"] for name in fleet.names} == {str(version)}


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("back", [False, True])
def test_killed_at_any_request_it_is_completed_or_undone(version: KubernetesVersion, back: bool) -> None:
    """Wherever the process dies, every node has the one configuration or the other, and its annotation says which."""
    for lives in range(1000):
        fleet = Configured("worker-1", "worker-2", version=version)
        died = fleet.dies(lives, 1)
        step = fleet.step()
        if back:
            step.undo(step.capture(), fleet.notes.append)
        else:
            step.apply(fleet.notes.append)
        expected = AS_BEFORE if back else NEWLY
        assert fleet.configured() == {"worker-1": expected, "worker-2": expected}, f"killed at request {lives}"
        assert not fleet.left_open(), f"killed at request {lives}"
        if not died:
            break
    assert lives > 20


def test_undo_that_is_killed_anywhere_is_completed() -> None:
    """Repeated from wherever it died, by a process that knows the restore point alone."""
    for lives in range(1000):
        fleet = Configured("worker-1")
        step = fleet.step()
        point = step.capture()
        step.apply(fleet.notes.append)
        fleet.kube.lives = lives
        try:
            step.undo(point, fleet.notes.append)
            break
        except Killed:
            fleet.kube.lives = -1
        fleet.step().undo(point, fleet.notes.append)
        assert fleet.configured() == {"worker-1": AS_BEFORE} and not fleet.left_open(), f"killed at request {lives}"
    assert lives > 10


def test_a_put_back_node_of_an_undone_run_is_known_as_unknown() -> None:
    """Its annotation says the new configuration already, as an undo was interrupted: that is no way to know what it
    was put back to.
    """
    fleet = Configured("worker-1")
    step = fleet.step()
    step.apply(fleet.notes.append)
    step.batch.cordons.cordon("worker-1", "back", "an undo began")
    planned = replace(step.planned, nodes=(NodeChange("worker-1", NEW, NEW, configured=WANTED.fingerprint),))
    with pytest.raises(StepFailed):
        replace(step, planned=planned).apply(fleet.notes.append)
    assert fleet.configured()["worker-1"] == ("", EARLIER)

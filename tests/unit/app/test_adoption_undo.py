"""The undo of an adoption: what it refuses before it proposes anything, and what its steps are compared with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.app.test_controllers_change import Place, healthy_place
from tests.unit.gates.builders import add_node
from upgrader.app import adoption
from upgrader.app.execution import NewRun
from upgrader.app.front_end import FrontEnd
from upgrader.app.wiring import Session
from upgrader.errors import Blocked
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.left_out import CONTROL_PLANE
from upgrader.model.node_settings import LeftAlone, NodeSource, NodesSettings
from upgrader.model.run_kind import RunKind


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An adopted cluster; what compares kubeadm's files with the releases has tests of its own, and finds nothing."""
    found = healthy_place(tmp_path, monkeypatch, adoption)
    nodes = tuple(check for check in adoption._CHECKS_OF_UNDO if check[0] == "nodes")
    monkeypatch.setattr(adoption, "_CHECKS_OF_UNDO", nodes)
    monkeypatch.setattr(adoption, "released_in", lambda _: {})
    monkeypatch.setattr(adoption, "read_controllers", lambda *_: ())
    monkeypatch.setattr(adoption, "_check_originals", lambda _: None)
    return found


def test_an_upgrade_without_its_end_is_not_followed_by_an_undo(place: Place) -> None:
    """Its components are of two versions, and neither `resume` nor `rollback` could be run after the undo."""
    place.interrupt(RunKind.UPGRADE)
    with pytest.raises(Blocked, match=r"upgrade .* is not complete \(interrupted\)"):
        adoption.propose_undo(place.folder, FrontEnd(), take_over=False).__enter__()


def test_an_undo_leaves_no_controller_without_a_control_plane(place: Place) -> None:
    """One that the inventory lacks has the releases' pods, and would keep nothing once they are removed."""
    add_node(place.kube, "controller-9")
    node = dict(place.kube.get(NODES, "controller-9") or {})
    place.kube.put(NODES, {**node, "metadata": {**node["metadata"], "labels": {CONTROL_PLANE: ""}}})
    with (
        adoption.propose_undo(place.folder, FrontEnd(), take_over=False) as proposed,
        pytest.raises(Blocked, match="a check blocks the undo of the adoption") as refused,
    ):
        proposed.execute()
    assert "controller-9: a control-plane node that is not in the inventory" in str(refused.value)


def test_an_undo_asks_for_no_node_that_is_left_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It upgrades no node: a worker that was deleted since, and is still named there, stands in the way of nothing."""
    alone = NodesSettings(NodeSource("packages"), (), left_alone=(LeftAlone("upgrader.yaml:5", names=("gone",)),))
    read = Session.preflight_context
    monkeypatch.setattr(
        Session, "preflight_context", lambda session, observed: replace(read(session, observed), node_settings=alone)
    )
    with adoption.propose_undo(place.folder, FrontEnd(), take_over=False) as proposed:
        proposed.check_allowed()
        assert proposed.findings == ()


def test_each_step_of_an_undo_is_compared_with_what_worked_before(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step of it can be undone: one after which clients are refused must end it."""
    asked: list[NewRun] = []

    def executed(_session: object, _front_end: object, new: NewRun, **_: Any) -> object:
        asked.append(new)
        return SimpleNamespace()

    monkeypatch.setattr(adoption, "execute_run", executed)
    said = list[str]()
    with adoption.propose_undo(place.folder, FrontEnd(doing=said.append), take_over=False) as proposed:
        assert said[0] == "reading the cluster's folder…" and said[-1] == "", "from the beginning, until it is asked"
        proposed.execute()
    (new,) = asked
    assert (new.kind, new.compare, new.on_failure) == (RunKind.ADOPT_UNDO, True, "stop")

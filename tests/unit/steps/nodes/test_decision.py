"""What is to be done with a node, from its mark and version."""

from __future__ import annotations

import pytest

from upgrader.model.node_mark import MARK, NodeMark
from upgrader.model.version import KubernetesVersion
from upgrader.steps.nodes.decision import Todo, backward, batches, forward

OLD, NEW = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
DRAIN, SWAP, BACK = NodeMark("drain", True), NodeMark("swap", True), NodeMark("back", True)
DETACH, ATTACH = NodeMark("detach", False, detached=True), NodeMark("attach", False, detached=True)


@pytest.mark.parametrize(
    ("mark", "version", "todo"),
    [
        (None, OLD, "detach"),
        (None, NEW, "nothing"),
        (DETACH, OLD, "detach"),
        (DRAIN, OLD, "drain"),
        (SWAP, OLD, "swap"),
        (SWAP, NEW, "swap"),
        (ATTACH, NEW, "attach"),
        (ATTACH, OLD, "detach"),
        (BACK, OLD, "put-back"),
        (BACK, NEW, "put-back"),
    ],
)
def test_forward(mark: NodeMark | None, version: KubernetesVersion, todo: Todo) -> None:
    """A mark means that something is left to do, whatever the version says."""
    assert forward(mark, version, NEW) == todo


def test_new_run_goes_on_where_an_earlier_one_could_not_go_back() -> None:
    """Whatever version the node has: the operator has repaired it, and wants the new one."""
    assert {forward(BACK, version, NEW, again=True) for version in (OLD, NEW)} == {"swap"}


def test_newer_node_is_left_alone() -> None:
    """No node is downgraded on the way forward."""
    assert forward(None, KubernetesVersion(1, 37, 2), NEW) == "nothing"


@pytest.mark.parametrize(
    ("mark", "version", "todo"),
    [
        (None, OLD, "nothing"),
        (None, KubernetesVersion(1, 36, 2), "nothing"),
        (None, NEW, "detach"),
        (DETACH, OLD, "release"),
        (DETACH, NEW, "detach"),
        (DRAIN, OLD, "release"),
        (DRAIN, NEW, "drain"),
        (ATTACH, OLD, "attach"),
        (ATTACH, NEW, "detach"),
        (SWAP, OLD, "put-back"),
        (SWAP, NEW, "put-back"),
        (BACK, OLD, "put-back"),
    ],
)
def test_backward(mark: NodeMark | None, version: KubernetesVersion, todo: Todo) -> None:
    """What was only drained is uncordoned; what may have been changed is put back."""
    assert backward(mark, version, OLD) == todo


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"phase": "dance"}', '{"phase": "swap"}', '{"phase": []}', "[" * 100_000], ids=range(7)
)
def test_mark_that_can_not_be_read_keeps_the_cordon(text: str) -> None:
    """Nobody knows any more whose the cordon is: it stays, and the upgrade begins again."""
    assert NodeMark.of({"metadata": {"annotations": {MARK: text}}}) == NodeMark("drain", cordoned=False)


def test_mark_survives_its_way_through_the_api() -> None:
    """What is written is read."""
    for mark in (DETACH, DRAIN, SWAP, ATTACH, NodeMark("back", False, "because", OLD)):
        assert NodeMark.of({"metadata": {"annotations": {MARK: mark.text()}}}) == mark
    assert NodeMark.of({"metadata": {}}) is None


def test_mark_without_a_readable_version_says_the_rest() -> None:
    """An older upgrader wrote none."""
    for more in ("", ', "before": "yesterday"'):
        text = f'{{"phase": "swap", "cordoned": true{more}}}'
        assert NodeMark.of({"metadata": {"annotations": {MARK: text}}}) == SWAP


def test_batches_keep_the_order() -> None:
    """The last batch has what is left."""
    assert list(batches("abcde", 2)) == ["ab", "cd", "e"]

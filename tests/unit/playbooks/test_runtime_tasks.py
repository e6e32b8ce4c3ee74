"""What the role asks of a node's containerd before it changes anything."""

from __future__ import annotations

from tests.unit.playbooks.node_role import complaint

CONTAINERD = {"program": "/usr/bin/containerd", "configuration": "/c.toml", "socket": "/c.sock"}


def test_containerd_that_does_not_say_where_it_listens_is_left_alone() -> None:
    """Its health after the restart couldn't be asked, so that every such node would be put back; unless it is told."""
    file, name = "runtime_look", "Where containerd listens is known"
    silent = {**CONTAINERD, "socket": ""}
    assert "/usr/bin/containerd doesn't say where it listens" in complaint(file, name, node_containerd=silent)
    assert complaint(file, name, node_containerd=silent, node_containerd_socket="/other.sock") == ""
    assert complaint(file, name, node_containerd=CONTAINERD) == ""

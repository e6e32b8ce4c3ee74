"""What the role asks of a node's containerd before it changes anything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.playbooks.node_role import complaint

CONTAINERD = {"program": "/usr/bin/containerd", "configuration": "/c.toml", "socket": "/c.sock"}


def test_containerd_that_does_not_say_where_it_listens_is_left_alone() -> None:
    """Its health after the restart couldn't be asked, so that every such node would be put back; unless it is told."""
    file, name = "runtime_look", "Where containerd listens is known"
    silent = {**CONTAINERD, "socket": ""}
    assert "/usr/bin/containerd doesn't say where it listens" in complaint(file, name, node_containerd=silent)
    assert complaint(file, name, node_containerd=silent, node_containerd_socket="/other.sock") == ""
    assert complaint(file, name, node_containerd=CONTAINERD) == ""


@pytest.mark.parametrize(
    ("kind", "owner", "told"),
    [
        ("packages", {"rc": 0, "stdout": "containerd.io: /usr/bin/containerd"}, ""),
        ("packages", {"rc": 0, "stdout": "containerd:amd64: /usr/bin/containerd"}, ""),
        ("packages", {"rc": 0, "stdout": "containerd.io-2.1.4-1.el9.x86_64"}, "Debian's packages only"),
        ("packages", {"rc": 1, "stdout": ""}, "is of no package"),
        ("url", {"rc": 1, "stdout": ""}, ""),
        ("url", {"rc": 0, "stdout": "containerd.io-2.1.4-1.el9.x86_64"}, "is of a package: containerd.io-2.1.4"),
        ("", {"rc": 0, "stdout": "containerd.io-2.1.4-1.el9.x86_64"}, ""),
    ],
)
def test_containerd_comes_from_where_it_is_from(kind: str, owner: dict[str, Any], told: str) -> None:
    """apt can't upgrade the package of another system, whose name rpm says in another form."""
    runtime = {"version": "2.1.4", "source": {"kind": kind}} if kind else {"config": "/c.toml"}
    facts = {"node_containerd": CONTAINERD, "node_containerd_owner": owner, "node_container_runtime": runtime}
    said = complaint("runtime_look", "Containerd is from where it will come from", **facts)
    assert told in said if told else said == ""

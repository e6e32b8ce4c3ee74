"""What the role asks of a node's containerd before it changes anything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.playbooks.node_role import complaint, task, template

CONTAINERD = {"program": "/usr/bin/containerd", "configuration": "/c.toml", "socket": "/c.sock"}


def test_containerd_that_does_not_say_where_it_listens_is_left_alone() -> None:
    """Its health after the restart couldn't be asked, so that every such node would be put back; unless it is told."""
    file, name = "runtime_look", "Check that containerd's socket is known"
    silent = {**CONTAINERD, "socket": ""}
    assert "The socket of /usr/bin/containerd is unknown" in complaint(file, name, node_containerd=silent)
    assert complaint(file, name, node_containerd=silent, node_containerd_socket="/other.sock") == ""
    assert complaint(file, name, node_containerd=CONTAINERD) == ""


@pytest.mark.parametrize(
    ("kind", "owner", "told"),
    [
        ("packages", {"rc": 0, "stdout": "containerd.io: /usr/bin/containerd"}, ""),
        ("packages", {"rc": 0, "stdout": "containerd:amd64: /usr/bin/containerd"}, ""),
        ("packages", {"rc": 0, "stdout": "containerd.io-2.1.4-1.el9.x86_64"}, "only on Debian"),
        ("packages", {"rc": 1, "stdout": ""}, "belongs to no package"),
        ("url", {"rc": 1, "stdout": ""}, ""),
        ("url", {"rc": 0, "stdout": "containerd.io-2.1.4-1.el9.x86_64"}, "belongs to the package containerd.io-2.1.4"),
        ("", {"rc": 0, "stdout": "containerd.io-2.1.4-1.el9.x86_64"}, ""),
    ],
)
def test_containerd_comes_from_where_it_is_from(kind: str, owner: dict[str, Any], told: str) -> None:
    """apt can't upgrade the package of another system, whose name rpm says in another form."""
    runtime = {"version": "2.1.4", "source": {"kind": kind}} if kind else {"config": "/c.toml"}
    facts = {"node_containerd": CONTAINERD, "node_containerd_owner": owner, "node_container_runtime": runtime}
    said = complaint("runtime_look", "Check that the source of containerd fits", **facts)
    assert told in said if told else said == ""


ARCHIVE = {"version": "2.1.4", "source": {"kind": "url"}}


def test_containerd_is_never_older_than_its_shims() -> None:
    """1.7 starts no pod with a shim of 2.x, and 2.x does with one of 1.7: after a power cut between two programs, the
    API of a single controller has to come up. So containerd comes first, and goes last on the way back.
    """
    names = ("containerd-shim-runc-v2", "ctr", "containerd")
    found = [{"path": f"/stage/bin/{name}", "checksum": f"sum of {name}"} for name in names]
    put = task("runtime_swap", "Put containerd's programs in place")
    variables = {**put["vars"], "node_containerd_found": {"files": found}}
    files = template(put["durable_copy"]["files"], **variables)
    assert files == {name: f"sum of {name}" for name in names}
    assert sorted(files) == ["containerd", "containerd-shim-runc-v2", "ctr"], "the module's order"
    unit = {**CONTAINERD, "files": ["/c.toml"]}
    kept = template("{{ node_containerd_files }}", node_containerd=unit, node_container_runtime=ARCHIVE)
    assert kept[0] == "/c.toml" and kept[-1] == "/usr/bin/containerd"
    assert "/usr/bin/containerd-shim-runc-v2" in kept[1:-1]


@pytest.mark.parametrize(
    ("version", "state", "swaps"),
    [("2.1.4", "swapping", True), ("2.1.4", "done", False), ("2.1.4", "", False), ("1.7.29", "done", True)],
)
def test_interrupted_swap_of_programs_goes_on(version: str, state: str, swaps: bool) -> None:
    """containerd's version doesn't say that its shims are in place."""
    facts = {"node_containerd": {**CONTAINERD, "version": version}, "node_container_runtime": ARCHIVE}
    before = {"node_before": {"point": {"state": state} if state else {}}}
    assert template("{{ node_containerd_swaps }}", **facts, **before) is swaps
    assert template("{{ node_containerd_swaps }}", **facts) is (version != "2.1.4")

"""How often Ansible turns to a node while it is drained: each time is a session of SSH and a start of Python there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.playbooks.node_executions import executions

NAMES = ["kubelet", "kubeadm", "kubectl"]
SUM, OTHER = "a" * 64, "b" * 64
OLD, NEW = "1.36.3-1.1", "v1.37.1"
POINT = {"target": NEW, "state": ""}


def facts(kind: str, *, runtime: bool = False) -> dict[str, Any]:
    """What the tasks read on a node that has an older version, and for which all that is new was staged."""
    packages = kind == "packages"
    program = {"rc": 0, "stdout": f"Kubernetes {NEW}", "executable": True}
    staged = [{"name": name, "path": f"/stage/{name}", "sha256": SUM, **program} for name in NAMES]
    source = {"kind": "packages"} if kind == "packages" else {"kind": kind, "sha256": dict.fromkeys(NAMES, SUM)}
    of_runtime = {"kind": "packages"} if packages else {"kind": "url", "url": "https://mirror/c.tgz", "sha256": SUM}
    containerd = {
        "program": "/usr/bin/containerd",
        "configuration": "/etc/containerd/config.toml",
        "socket": "/run/c.sock",
        "version": "1.7.27",
        "current": True,
        "files": [],
    }
    return {
        "ansible_check_mode": False,
        "inventory_hostname": "worker-1",
        "node_kubernetes_version": NEW,
        "node_source": source,
        "node_machine": {"stdout": "x86_64"},
        "node_unit": {"program": "/usr/bin/kubelet", "configuration": ["/k.yaml"], "files": [], "current": True},
        "node_dpkg": {"stdout_lines": [f"{name} {OLD} hold" for name in NAMES] if packages else []},
        "node_in_place": {"programs": [] if packages else [{"path": f"/usr/bin/{n}", "sha256": OTHER} for n in NAMES]},
        "node_before": {"point": {}},
        "node_staged_before": {"programs": staged},
        "node_packages_staged": {"rc": 0},
        "node_trial": {"rewritten": []},
        "node_container_runtime": {"version": "1.7.28", "source": of_runtime} if runtime else {},
        "node_containerd": containerd,
        "node_containerd_owner": {"rc": 0, "stdout": "containerd.io: /usr/bin/containerd"},
        "node_containerd_dpkg": {"stdout": "containerd.io 1.7.27-1 install"},
        "node_containerd_package_staged": {"rc": 0},
        "node_containerd_file": {"stat": {"exists": True, "mode": "0600"}},
        "node_containerd_found": {"files": [{"path": f"/stage/bin/{n}"} for n in ("containerd", "ctr", "shim")]},
        "node_containerd_trial": {"sandbox_changes": False},
    }


@pytest.mark.parametrize(
    ("kind", "runtime", "sessions"),
    [("folder", False, 17), ("packages", False, 24), ("folder", True, 30), ("packages", True, 39)],
)
def test_drained_node_is_asked_seldom(kind: str, runtime: bool, sessions: int) -> None:
    """Of a staged upgrade, by where the programs come from, and with containerd's beside it."""
    assert len(executions("upgrade", facts(kind, runtime=runtime))) == sessions


@pytest.mark.parametrize("kind", ["folder", "url", "packages"])
@pytest.mark.parametrize("runtime", [False, True])
def test_staged_upgrade_begins_no_download(kind: str, runtime: bool) -> None:
    """Except for two, which find their file in place, and then end without a request."""
    run = executions("upgrade", facts(kind, runtime=runtime))
    found_in_place = {"Download the archive to the node", "Download the packages that are installed now"}
    assert {name for name in run if name.startswith(("Download", "Copy", "Update", "Pull"))} <= found_in_place


def test_programs_are_read_again_where_some_were_just_brought() -> None:
    """Those that were staged before are read and started once, which verifies them."""
    read = "Read the SHA-256 and the version of the staged programs"
    known = facts("url")
    assert read not in executions("upgrade", known)
    missing = [{**each, "executable": False} for each in known["node_staged_before"]["programs"]]
    assert read in executions("upgrade", {**known, "node_staged_before": {"programs": missing}})

"""Modes of authorization with which the planned kube-apiserver would refuse the cluster's clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.wrong_api import WRONG
from tests.unit.preflight.conftest import World, workload
from upgrader.model.check_ids import WORST_SEVERITY, may_be_overruled
from upgrader.ports import Kind
from upgrader.preflight.all_checks import CHECKS
from upgrader.preflight.authorization_flags import check_authorization

BINDINGS = Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False)
USUAL = "--authorization-mode=Node,RBAC"


def start(world: World, *flags: str, before: tuple[str, ...] = (USUAL,)) -> None:
    """Let the run replace a kube-apiserver with the flags `before` by one with these."""
    for manifests, given in ((world.before, before), (world.manifests, flags)):
        container = {"name": "kube-apiserver", "command": ["kube-apiserver"], "args": list(given)}
        manifests["kube-apiserver"] = workload(container)


def bind(world: World, role: str, kind: str, name: str) -> None:
    """Add a ClusterRoleBinding."""
    subjects = [{"kind": kind, "name": name}]
    world.kube.put(BINDINGS, {"metadata": {"name": "nodes"}, "roleRef": {"name": role}, "subjects": subjects})


@pytest.mark.parametrize(
    ("flags", "allowed"),
    [
        (("--authorization-mode=AlwaysDeny",), "no requests"),
        (("--authorization-mode", "Node,AlwaysDeny"), "kubelets' requests"),
        (("--authorization_mode=Node", "--authorization-mode=AlwaysDeny"), "kubelets' requests"),
    ],
)
def test_modes_that_allow_nobody_else_block_the_run(
    world: World, tmp_path: Path, flags: tuple[str, ...], allowed: str
) -> None:
    """Without RBAC no role counts: the flag, its place and the container are named."""
    values = tmp_path / "kube-apiserver.yaml"
    values.write_text("extraArgs:\n  authorization-mode: x\n")
    world.values_files["kube-apiserver"] = values
    start(world, *flags)
    found = world.find(check_authorization)["flags.authorization"]
    assert found.severity == "error"
    assert found.title == (
        "release kube-apiserver: kube-apiserver v1.37.1 would refuse the requests of users, controllers and health "
        "checks"
    )
    assert f"({values}:2). Container kube-apiserver of Deployment kube-system/x." in found.diagnosis
    assert f"allow {allowed} " in found.diagnosis and "HTTP 403" in found.diagnosis
    assert "release kube-apiserver: set authorization-mode to Node,RBAC" in found.remedy


@pytest.mark.parametrize(
    "flags",
    [
        (USUAL,),
        ("--authorization-mode=RBAC,Node,AlwaysDeny",),
        ("--authorization-mode=Node", "--authorization-mode=RBAC"),
        ("--authorization-mode=AlwaysDeny,AlwaysAllow",),
        ("--authorization-mode=Webhook",),
        ("--authorization-mode=node,rbac",),
        ("--authorization-config=/etc/kubernetes/authorization.yaml",),
        ("--anonymous-auth=false", USUAL),
        (),
    ],
    ids=["usual", "one allows", "repeated", "all", "its webhook", "not started", "a file", "anonymous", "default"],
)
def test_modes_that_can_allow_the_clients(world: World, flags: tuple[str, ...]) -> None:
    """One mode that allows a request is enough; what a webhook or a file allows isn't known here."""
    start(world, *flags)
    assert world.find(check_authorization) == {}


def test_modes_that_stay_are_no_finding(world: World) -> None:
    """The cluster's clients live with them already; another component has no such flag."""
    start(world, "--authorization-mode=Node", before=("--authorization-mode=Node",))
    assert world.find(check_authorization) == {}
    world.manifests["kube-apiserver"] = workload(
        {"name": "kube-scheduler", "command": ["kube-scheduler"], "args": ["--authorization-mode=AlwaysDeny"]}
    )
    assert world.find(check_authorization) == {}


def test_kubelets_without_the_mode_node(world: World) -> None:
    """They have rights by that mode alone, unless a role is bound to them; kubeadm's for certificates isn't enough."""
    bind(world, "system:certificates.k8s.io:x:selfnodeclient", "Group", "system:nodes")
    start(world, "--authorization-mode=RBAC")
    found = world.find(check_authorization)["flags.authorization"]
    assert found.severity == "error" and found.title.endswith("would refuse the requests of kubelets")
    assert "no ClusterRoleBinding gives the group system:nodes a role" in found.diagnosis
    start(world, "--authorization-mode=RBAC", before=("--authorization-mode=Webhook,RBAC",))
    assert world.find(check_authorization) == {}


@pytest.mark.parametrize("subject", [("Group", "system:nodes"), ("User", "system:node:controller-1")])
def test_kubelets_with_a_role(world: World, subject: tuple[str, str]) -> None:
    """RBAC can give them what they need."""
    bind(world, "system:node", *subject)
    start(world, "--authorization-mode=RBAC")
    assert world.find(check_authorization) == {}


def test_first_release_is_compared_with_the_static_pod(world: World) -> None:
    """Before it, kube-apiserver runs with the flags of kubeadm's manifest."""
    world.pod("kube-apiserver-abc", {"app": "kube-apiserver"}, flags=("--authorization-mode=Node",))
    start(world, "--authorization-mode=Node")
    world.before.clear()
    assert world.find(check_authorization) == {}
    start(world, "--authorization-mode=AlwaysDeny")
    world.before.clear()
    assert "flags.authorization" in world.find(check_authorization)


def test_it_may_be_skipped_and_is_a_check_of_each_run() -> None:
    """The bench skips it, to measure the gates that find the same within the run."""
    assert ("flags", check_authorization) in CHECKS
    assert may_be_overruled("flags.authorization") and WORST_SEVERITY["flags.authorization"] == "error"
    assert WRONG["authorization denies"].told == "flags.authorization"

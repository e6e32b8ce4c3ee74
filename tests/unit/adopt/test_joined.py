"""Controllers that kubeadm has added since: which they are, and which can't be adopted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_cluster import FLAGS, static_pod
from upgrader.adopt.facts import ControllerFacts, StaticPod
from upgrader.adopt.joined import (
    check_listed,
    check_node_files,
    check_version,
    joined,
    running_version,
)
from upgrader.adopt.node_withdrawal import CONTROL_PLANE
from upgrader.errors import Blocked
from upgrader.model.cluster import Cluster, Host
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, Kind

NODES, DEPLOYMENTS = Kind("v1", "nodes", namespaced=False), Kind("apps/v1", "deployments")
V136, V137 = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)


def cluster(*names: str) -> Cluster:
    """An inventory with these controllers."""
    return Cluster(Path(), Path(), "", Path("/c/hosts.yml"), tuple(Host(name, "10.0.0.1") for name in names))


def controller(name: str, *components: str) -> ControllerFacts:
    """A controller on which kubeadm's static pods of these components run."""
    return ControllerFacts(Host(name, "10.0.0.1"), {each: static_pod(each) for each in components}, {})


def nodes(kube: FakeKube, *names: str) -> None:
    """Nodes that kubeadm has made controllers."""
    for number, name in enumerate(names, 1):
        addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": f"10.0.0.{number}"}]
        meta = {"name": name, "labels": {CONTROL_PLANE: ""}}
        kube.put(NODES, {"metadata": meta, "status": {"addresses": addresses}})


def test_inventory_that_lacks_the_controller_is_told_what_to_add() -> None:
    """The lines for hosts.yml are said, with the address that the node has."""
    kube = FakeKube()
    nodes(kube, "controller-1", "controller-2")
    check_listed(kube, cluster("controller-1", "controller-2"))
    with pytest.raises(Blocked, match="controller-2: has the label") as caught:
        check_listed(kube, cluster("controller-1"))
    assert "group `controllers` in hosts.yml" in caught.value.remedy
    assert yaml.safe_load(caught.value.remedy.partition("again:")[2]) == {"controller-2": {"ansible_host": "10.0.0.2"}}
    with pytest.raises(Blocked, match="controller-3: a controller in the inventory, but not a node"):
        check_listed(kube, cluster("controller-1", "controller-2", "controller-3"))


def test_controller_whose_label_an_interrupted_command_took_off() -> None:
    """It has joined long ago: the label is what is missing, also where another one hasn't joined yet."""
    kube = FakeKube()
    nodes(kube, "controller-1")
    for name in ("controller-2", "controller-3"):
        kube.put(NODES, {"metadata": {"name": name, "labels": {"app": "x"}}})
    with pytest.raises(Blocked, match=r"controller-2, controller-3: .* but its node lacks the label") as caught:
        check_listed(kube, cluster("controller-1", "controller-2", "controller-3", "controller-4"))
    assert "kubectl label node controller-2 controller-3 node-role.kubernetes.io/control-plane=" in caught.value.remedy
    assert "upgrader controllers remove" in caught.value.remedy


def test_cluster_that_was_never_adopted_is_adopted_as_a_whole() -> None:
    """Neither without a release, nor where static pods run everywhere."""
    kube = FakeKube()
    with pytest.raises(Blocked, match="not adopted yet"):
        running_version(kube)
    kube.put(DEPLOYMENTS, {"metadata": {"name": "kube-apiserver", "labels": {}}}, "kube-system")
    with pytest.raises(Blocked, match="not adopted yet"):
        running_version(kube)
    for label in ("v1.36.3", "v1.36.3_vmware.1"):  # a label can't have the plus sign of a vendor's version
        labels = {"app.kubernetes.io/version": label}
        kube.put(DEPLOYMENTS, {"metadata": {"name": "kube-apiserver", "labels": labels}}, "kube-system")
        assert running_version(kube) == V136
    with pytest.raises(Blocked, match="on every controller") as caught:
        joined([controller("controller-1", "kube-scheduler"), controller("controller-2", "kube-scheduler")])
    assert caught.value.remedy.endswith("upgrader adopt")


def test_new_controllers_are_those_with_static_pods() -> None:
    """Also one of whose three pods two were retired before the command was killed."""
    found = joined([controller("controller-1"), controller("controller-2", "kube-scheduler")])
    assert [each.host.name for each in found] == ["controller-2"]
    assert joined([controller("controller-1"), controller("controller-2")]) == ()


def test_other_version_is_refused_before_anything_changes() -> None:
    """kubeadm has joined it with a version that does not run; an image without a version can't be compared."""
    new = [controller("controller-2", *FLAGS)]
    check_version(new, V136)
    with pytest.raises(Blocked, match=r"controller-2: kubeadm's kube-apiserver there has version v1\.36\.3") as caught:
        check_version(new, V137)
    assert "join it again with kubeadm v1.37.1" in caught.value.remedy
    pod = static_pod("kube-scheduler")
    digest = StaticPod(pod.component, pod.manifest, pod.flags, "registry.k8s.io/kube-scheduler@sha256:ab")
    check_version([ControllerFacts(Host("controller-2", ""), {"kube-scheduler": digest}, {})], V137)


def manifest(*volumes: dict[str, Any], args: tuple[str, ...] = ()) -> str:
    """kube-apiserver's Deployment."""
    container = {"name": "kube-apiserver", "args": list(args)}
    spec = {"template": {"spec": {"containers": [container], "volumes": list(volumes)}}}
    meta = {"name": "kube-apiserver", "namespace": "kube-system"}
    return yaml.safe_dump({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})


def test_files_of_the_operator_that_are_missing_are_named() -> None:
    """An audit policy that exists on the older controllers only would keep the pod from starting there."""
    hosts = FakeHosts()
    hosts.commands["sh"] = lambda host, command, stdin: CommandResult(0, "/etc/kubernetes/audit.yaml\n", "")
    policy = {"name": "audit", "hostPath": {"path": "/etc/kubernetes/audit.yaml", "type": "File"}}
    made = {"name": "logs", "hostPath": {"path": "/var/log/audit", "type": "DirectoryOrCreate"}}
    with pytest.raises(Blocked, match=r"controller-2: the releases' pods need /etc/kubernetes/audit\.yaml") as caught:
        check_node_files(hosts, [controller("controller-2", *FLAGS)], [manifest(policy, made)])
    assert caught.value.remedy.startswith("Copy it from another controller")
    assert hosts.ran == [("controller-2", ("sh", "-c", hosts.ran[0][1][2], "sh", "/etc/kubernetes/audit.yaml"))]
    hosts.commands["sh"] = CommandResult(0, "", "")
    check_node_files(hosts, [controller("controller-2", *FLAGS)], [manifest(policy)])

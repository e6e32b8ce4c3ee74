"""flannel in a lab: what is applied to the cluster, and what the lab leaves to it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.flannel import flannel_objects, forget
from upgrader.lab.kubeadm_cluster import KubeadmCluster
from upgrader.lab.kubeadm_config import Secrets, init_config
from upgrader.lab.spec import LabSpec, Placement

_IMAGE = "upgrader.lab/flannel:v1"


def _placement(**switches: Any) -> Placement:
    return Placement(LabSpec("x", flannel=True, **switches), 4, Path("/nowhere"))


def _objects(placement: Placement) -> dict[str, dict[str, Any]]:
    return {found["kind"]: found for found in yaml.safe_load_all(flannel_objects(placement, _IMAGE))}


def _net_conf(placement: Placement) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_objects(placement)["ConfigMap"]["data"]["net-conf.json"])
    return found


@pytest.mark.parametrize("dual_stack", [False, True])
def test_flannels_network_is_the_one_that_kubeadm_gives_nodes_their_parts_of(dual_stack: bool) -> None:
    """Another one, and flannel would refuse each node's podCIDR."""
    placement = _placement(dual_stack=dual_stack)
    versions = {"coredns": "v1.14.2", "etcd": "3.6.8-0"}
    documents = yaml.safe_load_all(init_config(placement, Secrets("a.b", "00", "sha256:11"), versions))
    kubeadm = next(each for each in documents if each["kind"] == "ClusterConfiguration")
    found = _net_conf(placement)
    networks = [found["Network"], *([found["IPv6Network"]] if found.get("EnableIPv6") else [])]
    assert ",".join(networks) == kubeadm["networking"]["podSubnet"]


def test_flannel_starts_where_no_pod_network_is_yet() -> None:
    """On every node, tainted or not, with the node's own network; and its images are those of the lab."""
    daemon_set = _objects(_placement())["DaemonSet"]
    pod = daemon_set["spec"]["template"]["spec"]
    assert daemon_set["metadata"]["namespace"] == "kube-flannel"
    assert pod["hostNetwork"] is True
    assert {"operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]
    assert {each["image"] for each in (*pod["initContainers"], *pod["containers"])} == {_IMAGE}


def test_its_lease_is_lost_with_the_power_as_it_is_elsewhere() -> None:
    """What flannel has asked the API for is in /run, of memory alone; the plugin and its configuration are on disk."""
    volumes = _objects(_placement())["DaemonSet"]["spec"]["template"]["spec"]["volumes"]
    paths = {each["name"]: each.get("hostPath", {}).get("path") for each in volumes}
    assert paths["run"] == "/run/flannel"
    assert (paths["cni-plugin"], paths["cni"]) == ("/usr/lib/cni", "/etc/cni/net.d")


def test_the_lab_makes_no_route_of_its_own_beside_flannel() -> None:
    """With flannel, connecting the pods asks nothing of any node or of the API: there is nobody to ask here."""
    KubeadmCluster(_placement(workers=1), CommandRunner()).connect_pods(deadline_seconds=0)


def test_a_machine_without_flannel_has_nothing_to_forget(tmp_path: Path) -> None:
    """The same commands run on each machine that leaves a cluster, and end well where flannel never was."""
    ip = tmp_path / "ip"
    ip.write_text("#!/bin/sh\nexit 1\n")
    ip.chmod(0o755)
    script = forget().replace("/etc/", f"{tmp_path}/").replace("/run/", f"{tmp_path}/")
    subprocess.run(["sh", "-eu", "-c", script], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})

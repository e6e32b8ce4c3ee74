"""The playbooks that upgrade a node's programs, and configure its kubelet and its containerd, on a real node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.node_playbooks import CONTAINERD, NODE, NodePlaybooks
from testkit.nodes import kubelet_settings


@pytest.fixture
def node(upgraded_cluster: LabCluster) -> Iterator[NodePlaybooks]:
    """The controller of an upgraded cluster, whose kubelet is still the old one; it is so again afterwards."""
    playbooks = NodePlaybooks(upgraded_cluster)
    before, etcd = playbooks.files(), upgraded_cluster.on_controller("pidof", "etcd")
    assert playbooks.kubelet() == OLD
    yield playbooks
    assert playbooks.files() == before
    assert upgraded_cluster.on_controller("pidof", "etcd") == etcd, "no kubelet has restarted etcd"
    until("the old kubelet to report", lambda: playbooks.kubelet() == OLD, timeout_seconds=60)


def test_nothing_changes_before_all_is_verified(node: NodePlaybooks, tmp_path: Path) -> None:
    """Check mode names what would change; a wrong SHA-256, a wrong version, an unknown flag, an unknown field and what
    containerd doesn't read are refused by name. None of them changes a file, nor has `restore-node.yml` anything to put
    back."""
    before = node.files()
    planned = node.succeed("upgrade-node", "--check", "--diff")
    assert "+++ after: /usr/bin/kubelet" in planned and "changed: [controller-1] => (item=kubelet)" in planned

    source = node.variables["node_source"]
    wrong = {**source, "sha256": {"kubelet": "0" * 64}}
    code, output = node.run("upgrade-node", changes={"node_source": wrong})
    assert code and "/kubelet has the SHA-256" in " ".join(output.split()), output

    code, output = node.run("upgrade-node", changes={"node_kubernetes_version": "v1.37.9"})
    assert code and "kubelet is not v1.37.9 for this node: Kubernetes v1.37.1" in " ".join(output.split()), output

    node.cluster.on_controller("sh", "-c", "echo KUBELET_EXTRA_ARGS=--no-such-flag > /etc/default/kubelet")
    code, output = node.run("upgrade-node")
    node.cluster.on_controller("rm", "/etc/default/kubelet")
    assert code and "unknown flag: --no-such-flag" in output, output

    code, output = node.run("upgrade-node", changes={"node_kubelet_configuration": {"maxPodz": 117}})
    assert code and "doesn't know maxPodz of its configuration" in " ".join(output.split()), output

    config = tmp_path / "containerd.toml"
    config.write_text(node.cluster.on_controller("cat", CONTAINERD).replace("sandbox_image = ", "sandbox_image = 5 #"))
    code, output = node.run("upgrade-node", changes={"node_container_runtime": {"config": str(config)}})
    assert code and "would not start with this configuration" in " ".join(output.split()), output

    assert node.files() == before
    assert "changed=0" in node.succeed("restore-node")


def test_killed_upgraded_and_restored(node: NodePlaybooks, tmp_path: Path) -> None:
    """Killed between two programs and run again, the upgrade ends well; once more, it changes nothing. The node goes
    back to what it had before the first attempt, also when that is killed in its middle: programs, the kubelet's
    configuration, and containerd's."""
    before, fields = node.files(), {"maxPods": 117, "authentication": {"webhook": {"cacheTTL": "1m"}}}
    config = tmp_path / "containerd.toml.j2"
    config.write_text("# of {{ inventory_hostname }}\n" + node.cluster.on_controller("cat", CONTAINERD))
    node.variables |= {"node_kubelet_configuration": fields, "node_container_runtime": {"config": str(config)}}
    node.kill_during("upgrade-node", "(item=kubeadm)")
    node.succeed("upgrade-node")
    until("the new kubelet to report", lambda: node.kubelet() == TARGET, timeout_seconds=60)
    assert "changed=0" in node.succeed("upgrade-node")
    assert kubelet_settings(node.cluster.kube, "maxPods")[NODE] == 117
    assert node.cluster.on_controller("head", "-n1", CONTAINERD).strip() == f"# of {NODE}"
    after = node.files()
    assert after != before

    node.kill_during("restore-node", "Restart the kubelet")
    node.succeed("restore-node")
    assert node.files() == before
    until("the old kubelet to report", lambda: node.kubelet() == OLD, timeout_seconds=60)
    assert "changed=0" in node.succeed("restore-node")

"""The playbooks that upgrade a node's programs, and configure its kubelet and its containerd, on a real node.

What they refuse before anything changes: tests/soak/test_refused_node_upgrades.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.node_playbooks import CONTAINERD, NODE, NodePlaybooks, with_an_old_kubelet
from testkit.nodes import kubelet_settings


@pytest.fixture
def node(upgraded_cluster: LabCluster) -> Iterator[NodePlaybooks]:
    """See `with_an_old_kubelet`."""
    with with_an_old_kubelet(upgraded_cluster) as playbooks:
        yield playbooks


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
    until("the new kubelet to report", lambda: node.kubelet() == TARGET, timeout_seconds=120)
    assert "changed=0" in node.succeed("upgrade-node")
    assert kubelet_settings(node.cluster.kube, "maxPods")[NODE] == 117
    assert node.cluster.on_controller("head", "-n1", CONTAINERD).strip() == f"# of {NODE}"
    after = node.files()
    assert after != before

    node.kill_during("restore-node", "Restart the kubelet")
    node.succeed("restore-node")
    assert node.files() == before
    until("the old kubelet to report", lambda: node.kubelet() == OLD, timeout_seconds=120)
    assert "changed=0" in node.succeed("restore-node")

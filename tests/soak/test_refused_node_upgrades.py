"""What the playbooks that upgrade a node refuse, each by name. Part of `make soak`: five minutes, mostly of Ansible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.lab_cluster import LabCluster
from testkit.node_playbooks import CONTAINERD, NodePlaybooks, with_an_old_kubelet


@pytest.fixture
def node(upgraded_cluster: LabCluster) -> Iterator[NodePlaybooks]:
    """See `with_an_old_kubelet`."""
    with with_an_old_kubelet(upgraded_cluster) as playbooks:
        yield playbooks


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

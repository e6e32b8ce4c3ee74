"""The playbooks that upgrade a node's kubelet, kubeadm and kubectl, on a real node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from upgrader.lab.node_source import node_source
from upgrader.lab.progress_port import Silent
from upgrader.ports import Kind

NODE = "controller-1"
_NODES = Kind("v1", "nodes")
_FILES = "/usr/bin/kubelet /usr/bin/kubeadm /usr/bin/kubectl /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet"


class Playbooks:
    """The node playbooks, for the controller of a cluster."""

    def __init__(self, cluster: LabCluster) -> None:
        self.cluster = cluster
        self.variables: dict[str, Any] = node_source(TARGET, Silent()).variables()

    def start(self, name: str, *arguments: str, changes: Mapping[str, Any] | None = None) -> subprocess.Popen[str]:
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        variables = json.dumps({**self.variables, **(changes or {})})
        command = [program, "-i", str(self.cluster.folder / "hosts.yml"), "--limit", NODE, "-e", variables, *arguments]
        return subprocess.Popen(
            [*command, str(REPOSITORY / "playbooks" / f"{name}.yml")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, name: str, *arguments: str, changes: Mapping[str, Any] | None = None) -> tuple[int, str]:
        """Exit code and output."""
        with self.start(name, *arguments, changes=changes) as process:
            output, _ = process.communicate(timeout=600)
        return process.returncode, output

    def succeed(self, name: str, *arguments: str) -> str:
        """The output of a run that must succeed."""
        code, output = self.run(name, *arguments)
        assert code == 0, output
        return output

    def kill_during(self, name: str, task: str) -> None:
        """Run a playbook, and kill it with everything that it has started here once a task has begun."""
        with self.start(name) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if task in line:
                    time.sleep(1)
                    os.killpg(process.pid, signal.SIGKILL)
                    return
        raise AssertionError(f"{name} ended before {task!r}")

    def files(self) -> str:
        """What is in place: SHA-256 and owner of each file."""
        script = f"for file in {_FILES}; do sha256sum $file; stat -c '%a %u %g' $file; done 2>&1; true"
        return self.cluster.on_controller("sh", "-c", script)

    def kubelet(self) -> str:
        """The version that the node reports."""
        node: Any = self.cluster.kube.get(_NODES, NODE)
        return str(node["status"]["nodeInfo"]["kubeletVersion"])


@pytest.fixture
def node(upgraded_cluster: LabCluster) -> Iterator[Playbooks]:
    """The controller of an upgraded cluster, whose kubelet is still the old one; it is so again afterwards."""
    playbooks = Playbooks(upgraded_cluster)
    before = playbooks.files()
    assert playbooks.kubelet() == OLD
    yield playbooks
    assert playbooks.files() == before
    until("the old kubelet to report", lambda: playbooks.kubelet() == OLD, timeout_seconds=60)


def test_nothing_changes_before_all_is_verified(node: Playbooks) -> None:
    """Check mode names what would change; a wrong SHA-256, a wrong version and an unknown flag are refused by name.
    None of them changes a file, nor has `restore-node.yml` anything to put back."""
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

    assert node.files() == before
    assert "changed=0" in node.succeed("restore-node")


def test_killed_upgraded_and_restored(node: Playbooks) -> None:
    """Killed between two programs and run again, the upgrade ends well; once more, it changes nothing. The node goes
    back to what it had before the first attempt, also when that is killed in its middle."""
    before = node.files()
    node.kill_during("upgrade-node", "(item=kubeadm)")
    node.succeed("upgrade-node")
    until("the new kubelet to report", lambda: node.kubelet() == TARGET, timeout_seconds=60)
    assert "changed=0" in node.succeed("upgrade-node")
    after = node.files()
    assert after != before

    node.kill_during("restore-node", "Restart the kubelet")
    node.succeed("restore-node")
    assert node.files() == before
    until("the old kubelet to report", lambda: node.kubelet() == OLD, timeout_seconds=60)
    assert "changed=0" in node.succeed("restore-node")

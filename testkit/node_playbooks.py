"""The playbooks that upgrade a node's kubelet, kubeadm and kubectl, for the controller of a lab."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.waiting import stretched
from upgrader.lab.node_source import node_source
from upgrader.lab.progress_port import Silent
from upgrader.ports import Kind

__all__ = ["CONTAINERD", "NODE", "NodePlaybooks", "with_an_old_kubelet"]

NODE = "controller-1"
_NODES = Kind("v1", "nodes")
CONTAINERD = "/etc/containerd/config.toml"
_FILES = (
    "/usr/bin/kubelet /usr/bin/kubeadm /usr/bin/kubectl /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet"
    f" /var/lib/kubelet/config.yaml {CONTAINERD}"
)


class NodePlaybooks:
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
            output, _ = process.communicate(timeout=stretched(600))
        return process.returncode, output

    def succeed(self, name: str, *arguments: str) -> str:
        """The output of a run that must succeed."""
        code, output = self.run(name, *arguments)
        assert code == 0, output
        return output

    def kill_during(self, name: str, task: str) -> None:
        """Run a playbook, and kill it with all its local processes once a task has begun."""
        with self.start(name) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if task in line:
                    time.sleep(1)
                    os.killpg(process.pid, signal.SIGKILL)
                    return
        raise AssertionError(f"{name} ended before {task!r}")

    def files(self) -> str:
        """The installed files: SHA-256 and owner of each."""
        script = f"for file in {_FILES}; do sha256sum $file; stat -c '%a %u %g' $file; done 2>&1; true"
        return self.cluster.on_controller("sh", "-c", script)

    def kubelet(self) -> str:
        """The version that the node reports."""
        node: Any = self.cluster.kube.get(_NODES, NODE)
        return str(node["status"]["nodeInfo"]["kubeletVersion"])


@contextmanager
def with_an_old_kubelet(upgraded: LabCluster) -> Iterator[NodePlaybooks]:
    """The controller of an upgraded cluster, whose kubelet is still the old one; it is so again afterwards."""
    playbooks = NodePlaybooks(upgraded)
    before, etcd = playbooks.files(), upgraded.on_controller("pidof", "etcd")
    assert playbooks.kubelet() == OLD
    yield playbooks
    assert playbooks.files() == before
    assert upgraded.on_controller("pidof", "etcd") == etcd, "no kubelet has restarted etcd"
    until("the old kubelet to report", lambda: playbooks.kubelet() == OLD, timeout_seconds=60)

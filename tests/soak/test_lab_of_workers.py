"""Labs as users make, break and remove them: with the command line, on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from testkit.lab_commands import free_name, lab_command, made_lab
from testkit.lab_traces import traces
from testkit.waiting import stretched, until
from upgrader.lab.lifecycle import Lab
from upgrader.lab.spec import LabSpec

_WORKLOAD = """
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec:
  nodeName: NODE_OF_SERVER
  containers: [{name: server, image: "upgrader.lab/tools:1", command: [python3, -m, http.server, "8080"]}]
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  nodeName: NODE_OF_CLIENT
  containers: [{name: client, image: "upgrader.lab/tools:1", command: [sleep, infinity]}]
"""


def _reached(lab: Lab, request: str) -> bool:
    return not _kubectl(lab, "controller-1", request).returncode


def _kubectl(lab: Lab, node: str, arguments: str, manifest: str = "") -> subprocess.CompletedProcess[str]:
    script = f"kubectl --kubeconfig=/etc/kubernetes/admin.conf {arguments}"
    return subprocess.run(
        [*lab.ssh(node), script], input=manifest, capture_output=True, text=True, check=False, timeout=stretched(60)
    )


@pytest.fixture
def name() -> Iterator[str]:
    """A name for a lab that is removed after the test."""
    with free_name() as value:
        yield value


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A controller and two workers."""
    with made_lab(tmp_path_factory.mktemp("workers"), "workers", "--workers", "2") as lab:
        yield lab


def test_a_pod_resolves_and_reaches_a_service_on_another_node(large: Lab) -> None:
    """CoreDNS, kube-proxy and the routes between nodes work, also for a Service whose pod runs on the client's node."""
    for server, client in (("worker-1", "worker-2"), ("worker-1", "worker-1")):
        manifest = _WORKLOAD.replace("NODE_OF_SERVER", server).replace("NODE_OF_CLIENT", client)
        assert _kubectl(large, "controller-1", "apply -f -", manifest).returncode == 0
        request = "exec client -- curl -sS --max-time 2 -o /dev/null http://server.default.svc.cluster.local/"
        until(
            f"{client} to reach {server}",
            partial(_reached, large, request),
            timeout_seconds=60,
        )
        removed = _kubectl(large, "controller-1", "delete -f - --grace-period=0 --force", manifest)
        assert removed.returncode == 0, removed.stderr


def test_up_again_changes_nothing_and_brings_a_dead_node_back(large: Lab) -> None:
    """`lab up` is idempotent: running nodes keep their processes, a node without power is switched on."""
    before = large.run("worker-1", "cat /proc/1/stat")
    large.crash("worker-2")
    spec = large.placement.spec
    Lab.up(LabSpec(spec.name, 1, 2), large.placement.folder)
    assert large.run("worker-1", "cat /proc/1/stat").split()[21] == before.split()[21]
    assert all(line.running and line.kubernetes in ("Ready", "") for line in large.status())


def test_another_lab_lives_beside_it_and_leaves_without_a_trace(large: Lab, name: str, tmp_path: Path) -> None:
    """Making and removing a second lab doesn't affect the first."""
    made = lab_command(tmp_path, "up", "--name", name)
    assert made.returncode == 0, made.stderr
    placement = Lab.find(name).placement
    assert placement.prefix != large.placement.prefix
    assert traces(name, placement.prefix, placement.folder)
    removed = lab_command(tmp_path, "down", "--name", name)
    assert removed.returncode == 0, removed.stderr
    assert traces(name, placement.prefix, placement.folder) == []
    assert all(line.running and line.kubernetes in ("Ready", "") for line in large.status())


def test_another_lab_of_the_same_name_is_refused(large: Lab, tmp_path: Path) -> None:
    """A name in use is refused with its user, and nothing is changed."""
    spec = large.placement.spec
    refused = lab_command(tmp_path, "up", "--name", spec.name)
    assert refused.returncode == 2
    assert "1 controller, 2 workers" in refused.stderr
    assert f"lab down --name {spec.name}" in refused.stderr

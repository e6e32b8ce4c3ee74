"""Labs as users make, break and remove them: with the command line, on this machine."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testkit.lab_commands import lab_command
from testkit.lab_traces import traces
from upgrader.lab import Lab, LabSpec
from upgrader.lab.registry import find

pytestmark = pytest.mark.lab("own")

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


def _until(what: str, holds: Callable[[], bool], timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {timeout_seconds:.0f} s for {what}"
        time.sleep(0.2)


def _kubectl(lab: Lab, node: str, arguments: str, manifest: str = "") -> subprocess.CompletedProcess[str]:
    script = f"kubectl --kubeconfig=/etc/kubernetes/admin.conf {arguments}"
    return subprocess.run(
        [*lab.ssh(node), script], input=manifest, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three controllers, their load balancer and two workers."""
    home = tmp_path_factory.mktemp("large")
    name = f"e2e-large-{os.getpid()}"
    made = lab_command(home, "up", "--controllers", "3", "--workers", "2", "--name", name)
    try:
        assert made.returncode == 0, made.stderr
        yield Lab.find(name)
    finally:
        if find(name):
            Lab.find(name).down()


def test_a_pod_resolves_and_reaches_a_service_on_another_node(large: Lab) -> None:
    """CoreDNS, kube-proxy and the routes between nodes work, also for a Service whose pod runs on the client's node."""
    for server, client in (("worker-1", "worker-2"), ("worker-1", "worker-1")):
        manifest = _WORKLOAD.replace("NODE_OF_SERVER", server).replace("NODE_OF_CLIENT", client)
        assert _kubectl(large, "controller-1", "apply -f -", manifest).returncode == 0
        request = "exec client -- curl -sS --max-time 2 -o /dev/null http://server.default.svc.cluster.local/"
        _until(f"{client} to reach {server}", lambda: not _kubectl(large, "controller-1", request).returncode, 60)  # noqa: B023
        removed = _kubectl(large, "controller-1", "delete -f - --grace-period=0 --force", manifest)
        assert removed.returncode == 0, removed.stderr


def test_the_api_stays_when_a_controller_loses_power_and_it_comes_back_with_its_state(large: Lab) -> None:
    """The load balancer skips a dead controller; after power on the node has its files and is Ready."""
    large.run("controller-1", "echo kept > /root/kept")
    home = large.placement.folder.parents[1]
    crashed = lab_command(home, "crash", "controller-1", "--name", large.placement.spec.name)
    assert crashed.returncode == 0, crashed.stderr

    def seen(node: str, power: bool, state: str) -> bool:
        line = next(line for line in large.status() if line.node.name == node)
        return line.running is power and line.kubernetes == state

    _until("the API to tell that controller-1 is away", lambda: seen("controller-1", False, "Unknown"), 90)
    assert seen("controller-2", True, "Ready")
    booted = lab_command(home, "boot", "controller-1", "--name", large.placement.spec.name)
    assert booted.returncode == 0, booted.stderr
    assert large.run("controller-1", "cat /root/kept").strip() == "kept"
    _until("controller-1 to be Ready", lambda: seen("controller-1", True, "Ready"), 90)
    large.wait_until_ready()


def test_up_again_changes_nothing_and_brings_a_dead_node_back(large: Lab) -> None:
    """`lab up` is idempotent: running nodes keep their processes, a node without power is switched on."""
    before = large.run("worker-1", "cat /proc/1/stat")
    large.crash("worker-2")
    spec = large.placement.spec
    Lab.up(LabSpec(spec.name, 3, 2), large.placement.folder)
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
    assert "3 controllers, 2 workers" in refused.stderr
    assert f"lab down --name {spec.name}" in refused.stderr

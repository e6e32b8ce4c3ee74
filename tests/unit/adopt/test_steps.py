"""The steps of an adoption and of its undo."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.adopt.conftest import facts, static_pod
from upgrader.adopt.facts import ADOPTED, MANIFESTS
from upgrader.adopt.manifest_step import PortSharingStep, RestoreStep, RetireStep, StaticPods
from upgrader.adopt.originals import SaveOriginalsStep, put_back
from upgrader.adopt.pipelines import needs_port_sharing
from upgrader.errors import StepFailed
from upgrader.model.cluster import Host
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, Kind

HOST = Host("controller-1", "10.0.0.1")
V136, V137 = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
PODS, CONFIG_MAPS = Kind("v1", "pods"), Kind("v1", "configmaps")
DAEMONSETS = Kind("apps/v1", "daemonsets")
SCHEDULER = "kube-scheduler"


def quiet(text: str) -> None:
    """Take no notes."""


class Kubelet:
    """Fakes of a controller whose kubelet runs what is in its manifests folder."""

    def __init__(self) -> None:
        self.hosts, self.kube, self.clock = FakeHosts(), FakeKube(), FakeClock()
        self.hosts.commands["sh"] = self._move
        self.obeys = True
        self.put(f"{MANIFESTS}/{SCHEDULER}.yaml", static_pod(SCHEDULER).manifest)
        self._sync()

    def put(self, path: str, content: bytes) -> None:
        """Put a file on the controller's disk."""
        self.hosts.files[HOST.name, path] = content

    def file(self, path: str) -> bytes | None:
        """A file of the controller."""
        return self.hosts.files.get((HOST.name, path))

    def pods(self, version: KubernetesVersion = V136) -> StaticPods:
        """The static pods of this controller."""
        return StaticPods(self.hosts, self.kube, self.clock, (HOST,), version)

    def _move(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        source, target, file = command[-3:]
        content = self.hosts.files.pop((host.name, f"{source}/{file}"), None)
        if content is None:
            return CommandResult(0, "", "")
        self.put(f"{target}/{file}", content)
        self._sync()
        return CommandResult(0, "moved\n", "")

    def _sync(self) -> None:
        if not self.obeys:
            return
        name = f"{SCHEDULER}-{HOST.name}"
        if self.file(f"{MANIFESTS}/{SCHEDULER}.yaml") is None:
            self.kube.delete(PODS, name, "kube-system")
        else:
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            self.kube.put(PODS, {"metadata": {"name": name}, "status": ready}, "kube-system")


@pytest.fixture
def kubelet() -> Kubelet:
    """A controller with kubeadm's scheduler."""
    return Kubelet()


def test_retire_and_undo(kubelet: Kubelet) -> None:
    """A static pod is moved out of the kubelet's folder, and undo restores the very same file."""
    before = kubelet.file(f"{MANIFESTS}/{SCHEDULER}.yaml")
    step = RetireStep("retire", kubelet.pods(), (SCHEDULER,))
    step.apply(quiet)
    assert kubelet.file(f"{MANIFESTS}/{SCHEDULER}.yaml") is None
    step.undo(RestorePoint(), quiet)
    assert kubelet.file(f"{MANIFESTS}/{SCHEDULER}.yaml") == before


def test_retire_again_is_harmless(kubelet: Kubelet) -> None:
    """An adoption that is run again finds the manifest retired and continues."""
    step = RetireStep("retire", kubelet.pods(), (SCHEDULER,))
    step.apply(quiet)
    step.apply(quiet)
    assert kubelet.file(f"{ADOPTED}/{SCHEDULER}.yaml") is not None


def test_pod_that_does_not_end_is_named(kubelet: Kubelet) -> None:
    """A kubelet that doesn't react fails the step within its deadline, and the pod is named."""
    kubelet.obeys = False
    with pytest.raises(StepFailed, match="kube-scheduler-controller-1 did not end within 120 s"):
        RetireStep("retire", kubelet.pods(), (SCHEDULER,)).apply(quiet)


def test_manifest_comes_back_at_the_version_of_today(kubelet: Kubelet) -> None:
    """After an upgrade, undo doesn't restore the old minor: it may not read what the new one has written."""
    RetireStep("retire", kubelet.pods(), (SCHEDULER,)).apply(quiet)
    RestoreStep("restore", kubelet.pods(V137), (SCHEDULER,)).apply(quiet)
    content = kubelet.file(f"{MANIFESTS}/{SCHEDULER}.yaml")
    assert content is not None
    assert b"kube-scheduler:v1.37.1" in content and b"v1.36.3" not in content


def test_originals_come_back_as_they_were(kubelet: Kubelet) -> None:
    """kubeadm's objects are kept before they are taken over, and restored without a trace of the chart."""
    kube = kubelet.kube
    original = _daemonset(image="registry.k8s.io/kube-proxy:v1.36.3")
    kube.put(DAEMONSETS, original, "kube-system")
    SaveOriginalsStep(kube).apply(quiet)
    taken = _daemonset(image="registry.k8s.io/kube-proxy:v1.36.3", readinessProbe={"httpGet": {}})
    taken["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    kube.put(DAEMONSETS, taken, "kube-system")

    put_back(kube, V136, quiet)

    found = kube.get(DAEMONSETS, "kube-proxy", "kube-system")
    assert found is not None
    assert found["spec"] == original["spec"]
    assert "annotations" not in found["metadata"]


def test_originals_are_kept_once(kubelet: Kubelet) -> None:
    """A second adoption sees the chart's objects, and must not keep those as if they were kubeadm's."""
    kube = kubelet.kube
    kube.put(DAEMONSETS, _daemonset(image="registry.k8s.io/kube-proxy:v1.36.3"), "kube-system")
    SaveOriginalsStep(kube).apply(quiet)
    kube.put(DAEMONSETS, _daemonset(image="chart"), "kube-system")
    SaveOriginalsStep(kube).apply(quiet)
    kept = kube.get(CONFIG_MAPS, "upgrader-adopted", "kube-system")
    assert kept is not None
    assert "chart" not in json.dumps(kept["data"])


def test_port_sharing_is_asked_for_only_where_it_is_missing() -> None:
    """The API is interrupted only where the running static pod can't share its port."""
    sharing = {"kube-apiserver": static_pod("kube-apiserver")}
    alone = {"kube-apiserver": static_pod("kube-apiserver", "--permit-port-sharing=false")}
    assert [host.name for host in needs_port_sharing(facts(sharing, alone))] == ["controller-2"]


def test_a_restart_for_port_sharing_brings_a_graceful_end_along() -> None:
    """The static pod ends gracefully for its clients later; a flag that an operator had set stays as it was."""
    kube, path = FakeKube(), f"{MANIFESTS}/kube-apiserver.yaml"

    class Restarting(FakeHosts):
        def write(self, host: Host, path: str, content: bytes, *, mode: int = 0o600) -> None:
            super().write(host, path, content, mode=mode)
            status = {"conditions": [{"type": "Ready", "status": "True"}]}
            name = {"name": f"kube-apiserver-{host.name}"}
            kube.put(PODS, {**yaml.safe_load(content), "metadata": name, "status": status}, "kube-system")

    hosts = Restarting()
    pod = static_pod("kube-apiserver", "--goaway-chance=0.001").pod
    pod["spec"]["containers"][0]["command"].remove("--permit-port-sharing=true")
    hosts.files[HOST.name, path] = yaml.safe_dump(pod).encode()
    PortSharingStep(hosts, kube, FakeClock(), (HOST,)).apply(quiet)
    command = yaml.safe_load(hosts.files[HOST.name, path])["spec"]["containers"][0]["command"]
    assert command[-4:] == [
        "--goaway-chance=0.001",
        "--permit-port-sharing=true",
        "--shutdown-send-retry-after=true",
        "--shutdown-watch-termination-grace-period=10s",
    ]


def _daemonset(**container: Any) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": [{"name": "kube-proxy", **container}]}}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "kube-proxy"}, "spec": spec}

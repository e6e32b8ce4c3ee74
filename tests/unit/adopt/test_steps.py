"""The steps of an adoption and of its undo."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_cluster import facts, static_pod, table
from upgrader.adopt.facts import ADOPTED, MANIFESTS, flags_of
from upgrader.adopt.manifest_step import REMOVED, PortSharingStep, RestoreStep, RetireStep, StaticPods
from upgrader.adopt.pipelines import needs_port_sharing
from upgrader.adopt.release_step import NewCheckpointsStep
from upgrader.errors import ApiLost, StepFailed
from upgrader.model.cluster import Host
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import CommandResult, Kind

HOST = Host("controller-1", "10.0.0.1")
V136, V137 = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
PODS, CONFIG_MAPS = Kind("v1", "pods"), Kind("v1", "configmaps")
DAEMONSETS = Kind("apps/v1", "daemonsets")
SCHEDULER = "kube-scheduler"


def test_checkpoints_of_a_rolled_back_adoption_go_with_it() -> None:
    """They would start at the next reboot beside kubeadm's static pods; those of an adopted cluster stay."""
    hosts, helm, notes = FakeHosts(), FakeHelm(), list[str]()
    hosts.commands["sh"] = CommandResult(0, "", "")
    step = NewCheckpointsStep(hosts, helm, (HOST, Host("controller-2", "10.0.0.2")))
    point = step.capture()
    assert point is not None and "rollback" in step.summary()
    step.apply(notes.append)
    assert hosts.ran == []
    step.undo(point, notes.append)
    assert [(host, "/etc/kubernetes/checkpointer" in command[-1]) for host, command in hosts.ran] == [
        ("controller-1", True),
        ("controller-2", True),
    ]
    helm.install("pod-checkpointer", "", "failed")
    assert step.capture() is not None
    helm.install("pod-checkpointer", "")
    assert step.capture() is None


def quiet(text: str) -> None:
    """Take no notes."""


class Kubelet:
    """Fakes of a controller whose kubelet runs what is in its manifests folder."""

    def __init__(self) -> None:
        self.hosts, self.kube, self.clock = FakeHosts(), FakeKube(), FakeClock()
        self.hosts.commands["sh"] = self._move
        self.obeys = True
        self.stale = ""
        """An image that the kubelet runs whatever the manifest has."""
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
            manifest = yaml.safe_load(self.file(f"{MANIFESTS}/{SCHEDULER}.yaml") or b"")
            image = self.stale or manifest["spec"]["containers"][0]["image"]
            pod = {"metadata": {"name": name}, "spec": {"containers": [{"image": image}]}, "status": ready}
            self.kube.put(PODS, pod, "kube-system")


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


@pytest.fixture
def api_server() -> tuple[FakeHosts, StaticPods]:
    """A controller whose static kube-apiserver listens on all addresses, and its pods; clients use a virtual IP."""
    hosts, kube = FakeHosts(), FakeKube()
    hosts.files[HOST.name, f"{MANIFESTS}/kube-apiserver.yaml"] = static_pod("kube-apiserver").manifest
    status = {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}
    kube.put(Kind("v1", "nodes", namespaced=False), {"metadata": {"name": HOST.name}, "status": status})
    return hosts, StaticPods(hosts, kube, FakeClock(), (HOST,), V136, served=("10.0.0.9",))


@pytest.mark.parametrize(
    ("listening", "left"),
    [
        (["::", "10.0.0.1"], "10.0.0.9"),
        (["::", "10.0.0.9"], "10.0.0.1"),
        (["::"], "10.0.0.1, 10.0.0.9"),
    ],
)
def test_the_api_server_is_retired_only_where_all_clients_are_served(
    api_server: tuple[FakeHosts, StaticPods], listening: list[str], left: str
) -> None:
    """An address at which only the static pod listens fails the step, with its name, before a manifest is moved."""
    hosts, pods = api_server
    hosts.commands["sh"] = CommandResult(0, table((address, 6443) for address in listening), "")
    with pytest.raises(StepFailed, match=f"port 6443 of {left}, where clients use the API") as caught:
        RetireStep("retire", pods, ("kube-apiserver",)).apply(quiet)
    assert "extraAddresses" in caught.value.remedy
    assert (HOST.name, f"{MANIFESTS}/kube-apiserver.yaml") in hosts.files


@pytest.mark.parametrize("listening", [["::", "10.0.0.1", "10.0.0.9"], ["::", "0.0.0.0"]])
def test_the_api_server_is_retired_where_its_successor_listens_too(
    api_server: tuple[FakeHosts, StaticPods], listening: list[str]
) -> None:
    """At each address, or on all of them beside the static pod."""
    hosts, pods = api_server

    def answer(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if "cat /proc/net/tcp" in command[-1]:
            return CommandResult(0, table((address, 6443) for address in listening), "")
        hosts.files.pop((host.name, f"{MANIFESTS}/kube-apiserver.yaml"))
        return CommandResult(0, "moved", "")

    hosts.commands["sh"] = answer
    RetireStep("retire", pods, ("kube-apiserver",)).apply(quiet)
    assert not hosts.files
    hosts.commands["sh"] = CommandResult(0, "", "")
    RetireStep("retire", pods, ("kube-apiserver",)).apply(quiet)  # again: there is nothing left to prove


def test_an_api_that_is_lost_by_retiring_is_restored_soon(kubelet: Kubelet) -> None:
    """Not after the two minutes that a pod may take to end; the undo then waits for the API that it restores."""
    kubelet.obeys = False
    kubelet.kube.unavailable = True
    step = RetireStep("retire", kubelet.pods(), (SCHEDULER,))
    with pytest.raises(ApiLost, match="has not been ready for 10 s"):
        step.apply(quiet)
    assert kubelet.clock.monotonic() == 10.0
    with pytest.raises(StepFailed, match="did not be Ready within 240 s"):
        step.undo(RestorePoint(), quiet)
    assert kubelet.file(f"{MANIFESTS}/{SCHEDULER}.yaml") is not None


class Disk(FakeHosts):
    """A controller's disk in a folder, on which a real shell moves files; each manifest there is a Ready pod."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root, self.kube = root, FakeKube()
        self.commands["sh"] = self._sh
        for folder in (MANIFESTS, ADOPTED):
            self.at(folder).mkdir(parents=True)

    def at(self, path: str) -> Path:
        """Where that is on this machine."""
        return self.root / path.lstrip("/")

    def read(self, host: Host, path: str) -> bytes | None:
        return self.at(path).read_bytes() if self.at(path).exists() else None

    def write(self, host: Host, path: str, content: bytes, *, mode: int = 0o600) -> None:
        self.at(path).write_bytes(content)
        self._sync()

    def pods(self, version: KubernetesVersion = V136) -> StaticPods:
        """The static pods of this controller."""
        return StaticPods(self, self.kube, FakeClock(), (HOST,), version)

    def _sh(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        here = [word.replace("/etc/kubernetes", str(self.at("/etc/kubernetes"))) for word in command]
        done = subprocess.run(here, capture_output=True, text=True, check=False)
        self._sync()
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def _sync(self) -> None:
        for pod in self.kube.list(PODS):
            self.kube.delete(PODS, pod["metadata"]["name"], "kube-system")
        for file in self.at(MANIFESTS).glob("*.yaml"):
            status = {"conditions": [{"type": "Ready", "status": "True"}]}
            self.kube.put(PODS, {"metadata": {"name": f"{file.stem}-{HOST.name}"}, "status": status}, "kube-system")


NEW, STALE = static_pod(SCHEDULER, "--new").manifest, static_pod(SCHEDULER, "--stale").manifest


def test_undo_leaves_a_manifest_that_is_there_now(tmp_path: Path) -> None:
    """A controller that was adopted, removed and reset has joined again: what it had before is no longer true."""
    disk, notes = Disk(tmp_path), list[str]()
    disk.write(HOST, f"{MANIFESTS}/{SCHEDULER}.yaml", NEW)
    disk.write(HOST, f"{ADOPTED}/{SCHEDULER}.yaml", STALE)
    RetireStep("retire", disk.pods(V137), (SCHEDULER,)).undo(RestorePoint(), notes.append)
    assert disk.read(HOST, f"{MANIFESTS}/{SCHEDULER}.yaml") == NEW
    assert disk.read(HOST, f"{ADOPTED}/{SCHEDULER}.yaml") == STALE
    kept = f"{MANIFESTS} already has a {SCHEDULER}.yaml, which was kept; the one in {ADOPTED} was not used"
    assert notes == [f"{HOST.name}: {kept}"]
    step = RetireStep("retire", disk.pods(), (SCHEDULER,))
    step.apply(quiet)
    step.undo(RestorePoint(), quiet)
    assert disk.read(HOST, f"{MANIFESTS}/{SCHEDULER}.yaml") == NEW


def test_controller_that_leaves_keeps_nothing_that_an_undo_would_restore(tmp_path: Path) -> None:
    """Its adopted manifests go aside too, but never over the ones that ran last; repeated, nothing is lost."""
    disk = Disk(tmp_path)
    disk.write(HOST, f"{MANIFESTS}/{SCHEDULER}.yaml", NEW)
    for name in (SCHEDULER, "kube-apiserver"):
        disk.write(HOST, f"{ADOPTED}/{name}.yaml", STALE)
    for _ in range(2):
        disk.pods().put_aside((SCHEDULER, "kube-apiserver"), quiet)
        assert not [*disk.at(MANIFESTS).iterdir(), *disk.at(ADOPTED).iterdir()]
        assert disk.read(HOST, f"{REMOVED}/{SCHEDULER}.yaml") == NEW
        assert disk.read(HOST, f"{REMOVED}/kube-apiserver.yaml") == STALE


def test_manifest_comes_back_at_the_version_of_today(kubelet: Kubelet) -> None:
    """After an upgrade, undo doesn't restore the old minor: it may not read what the new one has written."""
    RetireStep("retire", kubelet.pods(), (SCHEDULER,)).apply(quiet)
    RestoreStep("restore", kubelet.pods(V137), (SCHEDULER,)).apply(quiet)
    content = kubelet.file(f"{MANIFESTS}/{SCHEDULER}.yaml")
    assert content is not None
    assert b"kube-scheduler:v1.37.1" in content and b"v1.36.3" not in content


def test_manifest_with_a_digest_comes_back_as_what_runs(kubelet: Kubelet) -> None:
    """A digest has no version that could be raised: the release's own image is what its data was written by."""
    old, now = f"registry.k8s.io/{SCHEDULER}@sha256:{'b' * 64}", f"mirror.example/{SCHEDULER}@sha256:{'a' * 64}"
    kubelet.put(f"{ADOPTED}/{SCHEDULER}.yaml", static_pod(SCHEDULER, image=old).manifest)
    kubelet.hosts.files.pop((HOST.name, f"{MANIFESTS}/{SCHEDULER}.yaml"))
    RestoreStep("restore", replace(kubelet.pods(V137), images={SCHEDULER: now}), (SCHEDULER,)).apply(quiet)
    content = kubelet.file(f"{MANIFESTS}/{SCHEDULER}.yaml")
    assert content is not None and now.encode() in content and old.encode() not in content


def test_a_pod_of_another_image_is_not_taken_for_the_restored_one(kubelet: Kubelet) -> None:
    """Ready is not enough: what runs must be what the manifest has."""
    kubelet.put(f"{ADOPTED}/{SCHEDULER}.yaml", static_pod(SCHEDULER).manifest)
    kubelet.hosts.files.pop((HOST.name, f"{MANIFESTS}/{SCHEDULER}.yaml"))
    kubelet.stale = "registry.k8s.io/kube-scheduler:v1.35.0"
    pods = replace(kubelet.pods(V137), images={SCHEDULER: "registry.k8s.io/kube-scheduler:v1.37.1"})
    with pytest.raises(StepFailed, match=r"runs registry.k8s.io/kube-scheduler:v1.35.0, but its manifest has .*v1.37"):
        RestoreStep("restore", pods, (SCHEDULER,)).apply(quiet)


def test_port_sharing_is_asked_for_only_where_it_is_missing() -> None:
    """The API is interrupted only where the running static pod can't share its port."""
    sharing = {"kube-apiserver": static_pod("kube-apiserver")}
    alone = {"kube-apiserver": static_pod("kube-apiserver", "--permit-port-sharing=false")}
    assert [host.name for host in needs_port_sharing(facts(sharing, alone).controllers)] == ["controller-2"]


@pytest.mark.parametrize("spelling", ["True", "TRUE", "1", "t", "T"])
def test_port_sharing_is_read_as_kube_apiserver_reads_it(spelling: str) -> None:
    """Kubespray writes `True`, which is as good as `true`: no restart interrupts the API."""
    sharing = {"kube-apiserver": static_pod("kube-apiserver", f"--permit-port-sharing={spelling}")}
    assert not needs_port_sharing(facts(sharing).controllers)


class Restarting(FakeHosts):
    """A controller whose kubelet runs kube-apiserver's manifest as soon as it is written."""

    def __init__(self, kube: FakeKube) -> None:
        super().__init__()
        self.kube = kube

    def write(self, host: Host, path: str, content: bytes, *, mode: int = 0o600) -> None:
        super().write(host, path, content, mode=mode)
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        name = {"name": f"kube-apiserver-{host.name}"}
        self.kube.put(PODS, {**yaml.safe_load(content), "metadata": name, "status": status}, "kube-system")


@pytest.mark.parametrize("after", [0, 1], ids=["args alone", "command and args"])
def test_port_sharing_of_a_kube_apiserver_with_args(after: int) -> None:
    """Its flags may be `args`: of two that contradict each other, the last one counts."""
    kube, path = FakeKube(), f"{MANIFESTS}/kube-apiserver.yaml"
    hosts = Restarting(kube)
    pod = static_pod("kube-apiserver", "--permit-port-sharing=false").pod
    container = pod["spec"]["containers"][0]
    words = container.pop("command")
    container |= {"args": words[after:], **({"command": words[:after]} if after else {})}
    hosts.files[HOST.name, path] = yaml.safe_dump(pod).encode()
    PortSharingStep(hosts, kube, FakeClock(), (HOST,)).apply(quiet)
    written = yaml.safe_load(hosts.files[HOST.name, path])["spec"]["containers"][0]
    assert flags_of(written)["permit-port-sharing"][-1] == "true"
    assert written.get("command", []) == words[:after]


def test_a_restart_for_port_sharing_brings_a_graceful_end_along() -> None:
    """The static pod ends gracefully for its clients later; a flag that an operator had set stays as it was."""
    kube, path = FakeKube(), f"{MANIFESTS}/kube-apiserver.yaml"
    hosts = Restarting(kube)
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

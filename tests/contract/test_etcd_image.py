"""The image of etcd's members is changed, on a real etcd of three members whose kubelets go by the manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from testkit.etcd_images import OTHER_ETCD
from testkit.etcd_members import NAMES, PATIENT, Etcd, new_members
from testkit.fakes.hosts import FakeHosts
from upgrader.adapters.clock import SystemClock
from upgrader.errors import StepFailed
from upgrader.lab.binaries import ETCD, Binaries
from upgrader.lab.progress_port import Silent
from upgrader.model.cluster import Host
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.etcd_version import EtcdVersion
from upgrader.onhost.etcd.manifest import image_of
from upgrader.onhost.etcd.member import Member
from upgrader.onhost.node.cri import Container, ContainerStatus, Image, Sandbox
from upgrader.ports import CommandResult
from upgrader.steps.etcd.on_hosts import EtcdOnHosts
from upgrader.steps.etcd.plan import EtcdChange, PlannedEtcd
from upgrader.steps.etcd.step import EtcdStep

OLD, NEW, BAD = (f"example.com/etcd:{version.removeprefix('v')}-0" for version in (ETCD, OTHER_ETCD, "v3.6.99"))


@dataclass
class Kubelet:
    """Starts the etcd of the manifest's image, when it is asked what runs."""

    etcd: Etcd
    name: str
    programs: Mapping[str, Path]
    """By the image that has them."""
    image_now: str = OLD
    started: int = 0

    @property
    def manifest(self) -> Path:
        """That of its controller."""
        return self.etcd.folder / self.name / "etc/kubernetes/manifests/etcd.yaml"

    def sandboxes(self) -> list[Sandbox]:
        """That of etcd."""
        wanted = image_of(self.manifest.read_text())
        if wanted != self.image_now:
            self.image_now, self.started = wanted, self.started + 1
            self.etcd.members[self.name].terminate()
            self.etcd.members[self.name].wait()
            if wanted != BAD:
                self.etcd.launch(self.name, self.programs[wanted])
        container = Container(self.image_now, "s", "etcd", self._state, self.started)
        pod = f"etcd-{self.name}"
        return [Sandbox("s", "kube-system", pod, ready=True, from_file=True, labels={}, containers=(container,))]

    def status(self, container: str) -> ContainerStatus:
        """As the runtime tells of it."""
        ended = self._state == "exited"
        return ContainerStatus("etcd", self.started, self._state, container, self.started, 0, 0, int(ended), "", "", "")

    def image(self, name: str) -> Image | None:
        """Every image is on the node."""
        return Image(name, ())

    @property
    def _state(self) -> str:
        return "exited" if self.image_now == BAD else "running"


@dataclass
class Cluster:
    """Three members, and the controllers that they run on."""

    etcd: Etcd
    hosts: FakeHosts
    kubelets: dict[str, Kubelet]

    def step(self, image: str) -> EtcdStep:
        """The step that gives all members that image."""
        version = EtcdVersion.of_image(image)
        assert version is not None
        members = tuple(EtcdChange(name, kubelet.image_now) for name, kubelet in self.kubelets.items())
        planned = PlannedEtcd(EtcdSettings(image, version, 60.0), members, 3)
        hosts = [Host(name, "") for name in NAMES]
        return EtcdStep(
            planned, EtcdOnHosts(self.hosts), hosts, SystemClock(), lambda name, image, note: "", lambda: ""
        )

    def versions(self) -> set[str]:
        """What the members report."""
        found = (json.loads(self.etcd.ctl(name, "endpoint", "status", "--write-out=json"))[0] for name in NAMES)
        return {str(each["Status"]["version"]) for each in found}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Of the version that labs run. Both versions are there before a step waits: they may have to be built first."""
    programs = {OLD: Binaries(Silent()).etcd(), NEW: Binaries(Silent()).etcd(OTHER_ETCD)}
    etcd, hosts = new_members(tmp_path, programs[OLD]), FakeHosts()
    kubelets = {name: Kubelet(etcd, name, programs) for name in NAMES}

    def run(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        verb, *words = command[3:]
        member = Member(str(tmp_path / host.name), kubelets[host.name])  # type: ignore[arg-type]
        match verb:
            case "look":
                answer = member.look()
            case "lead":
                answer = member.lead(words[0])
            case "put-back":
                answer = member.put_back(words[0], float(words[1]))
            case _:
                answer = member.change(words[0], words[1], words[2], float(words[3]))
        return CommandResult(0, json.dumps(answer), "")

    hosts.commands["python3"] = run
    return Cluster(etcd, hosts, kubelets)


def test_three_members_there_and_back(cluster: Cluster) -> None:
    """The leader hands over to a member that is done; what etcd stores is there; a bad image stays on no member."""
    notes = list[str]()
    try:
        cluster.etcd.start(*NAMES, flags=PATIENT)
        for kubelet in cluster.kubelets.values():
            flags = kubelet.manifest.read_text()
            command = f"  - command:\n    - etcd\n{flags}    image: {OLD}\n    name: etcd\n"
            kubelet.manifest.write_text(
                f"metadata:\n  name: etcd\nspec:\n  containers:\n{command}  hostNetwork: true\n"
            )
        before = {name: kubelet.manifest.read_text() for name, kubelet in cluster.kubelets.items()}
        cluster.etcd.ctl(NAMES[0], "put", "key", "value")

        step = cluster.step(NEW)
        point = step.capture()
        step.apply(notes.append)
        assert cluster.versions() == {OTHER_ETCD.removeprefix("v")}
        assert sum("etcd's leadership was moved to another member" in note for note in notes) == 1, notes
        assert "value" in cluster.etcd.ctl(NAMES[2], "get", "key")

        with pytest.raises(StepFailed, match="its container is exited with code 1"):
            cluster.step(BAD).apply(notes.append)
        assert {kubelet.image_now for kubelet in cluster.kubelets.values()} == {NEW}

        # What was there before the first change is kept beside what was there before the bad one.
        step.undo(point, notes.append)
        assert cluster.versions() == {ETCD.removeprefix("v")}
        assert {name: kubelet.manifest.read_text() for name, kubelet in cluster.kubelets.items()} == before
    finally:
        cluster.etcd.stop()

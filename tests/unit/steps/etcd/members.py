"""Members of etcd in memory: what a controller's manifest says, what its kubelet makes of it, and what etcd answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from upgrader.model.cluster import Host
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.etcd_version import EtcdVersion
from upgrader.onhost.sending.host_facts import EtcdServer, Member
from upgrader.ports import CommandResult
from upgrader.steps.etcd.on_hosts import EtcdOnHosts
from upgrader.steps.etcd.plan import EtcdChange, PlannedEtcd
from upgrader.steps.etcd.step import EtcdStep

OLD, NEW, NEXT = (f"registry.k8s.io/etcd:{tag}" for tag in ("3.6.5-0", "3.6.8-0", "3.7.2-0"))
NAMES = ("controller-1", "controller-2", "controller-3")
MANIFEST = f"""apiVersion: v1
kind: Pod
metadata:
  # So that another kubelet doesn't restart this pod.
  uid: 0123456789abcdef0123456789abcdef
  annotations:
    image: not this one
  name: etcd
  namespace: kube-system
spec:
  containers:
  - command:
    - etcd
    - --listen-client-urls=https://127.0.0.1:2379
    - --image=x
    image: {OLD}
    imagePullPolicy: IfNotPresent
    name: etcd
    volumeMounts:
    - mountPath: /var/lib/etcd
      name: etcd-data
  hostNetwork: true
  volumes:
  - hostPath: {{path: /var/lib/etcd}}
    name: etcd-data
"""


def settings(image: str = NEW) -> EtcdSettings:
    """The section `etcd` with this image."""
    version = EtcdVersion.of_image(image)
    assert version is not None
    return EtcdSettings(image, version)


def server(name: str, names: Sequence[str] = NAMES, **changes: Any) -> EtcdServer:
    """What a healthy member answers."""
    made = {
        "healthy": True,
        "version": "3.6.5",
        "id": name,
        "leader": names[0],
        "revision": 100,
        "members": tuple(Member(each, each) for each in names),
    }
    return EtcdServer(**{**made, **changes})


@dataclass
class Controllers:
    """Controllers whose members do what they are told; `bad` images never get healthy."""

    names: tuple[str, ...] = NAMES
    bad: set[str] = field(default_factory=set)
    images: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    healthy: dict[str, bool] = field(default_factory=dict)
    behind: dict[str, int] = field(default_factory=dict)
    """Member → how many times it is still found behind the others."""
    late: dict[str, int] = field(default_factory=dict)
    """Member → how many times it is still found without an answer."""
    agree_late: bool = False
    """Whether they haven't agreed on a minor yet that all of them have."""
    refuses: str = ""
    """Why a controller doesn't put an image back."""
    external: set[str] = field(default_factory=set)
    leader: str = NAMES[0]
    revision: int = 100
    told: list[str] = field(default_factory=list)
    """What each was told, but for questions."""
    unwell: int = 0
    """How many times the control plane is still found unwell."""
    lost_after: str = ""
    """The connection to this controller breaks once it has been told to change."""
    hosts: FakeHosts = field(default_factory=FakeHosts)
    unseen: str = ""
    """Why the API shows no member's new image."""
    shown: list[str] = field(default_factory=list)
    """Which members the API was to show, and their images."""

    def __post_init__(self) -> None:
        self.images = dict.fromkeys(self.names, OLD) | self.images
        self.hosts.commands["python3"] = self._run

    def step(self, image: str = NEW, *, before: Mapping[str, str] | None = None) -> EtcdStep:
        """The step of all members, as planned from `before` (now)."""
        known = before or self.images
        members = tuple(EtcdChange(name, known[name]) for name in self.names if known[name] != image)
        hosts = tuple(Host(name, "") for name in (*self.names, *sorted(self.external)))
        planned, etcd = PlannedEtcd(settings(image), members, 3), EtcdOnHosts(self.hosts)
        return EtcdStep(planned, etcd, hosts, FakeClock(), self._show, self._unwell)

    def _show(self, name: str, image: str, note: Callable[[str], None]) -> str:
        self.shown.append(f"{name} {image}")
        return self.unseen

    def _unwell(self) -> str:
        self.unwell = max(0, self.unwell - 1)
        return "kube-scheduler has lost its lease" if self.unwell else ""

    def _run(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        verb, *words = command[3:]
        answer = self._answer(host.name, verb, words)
        if verb == "change" and host.name == self.lost_after:
            self.lost_after = ""
            return CommandResult(255, "", "Connection closed")
        return CommandResult(0, "Welcome!\n" + json.dumps(answer), "")

    def _answer(self, name: str, verb: str, words: Sequence[str]) -> dict[str, Any]:
        if verb == "look":
            return {"absent": True} if name in self.external else self._look(name)
        self.told.append(f"{name} {verb} {words[0] if verb != 'change' else words[1]}")
        if verb == "lead":
            self.leader = words[0]
            return {}
        if verb == "change":
            before, image, *_ = words
            if self.images[name] not in (before, image):
                return {"failed": f"the manifest now has the image {self.images[name]}; nothing was changed"}
            self.kept[name] = before
            self._start(name, image)
            if self.healthy[name]:
                return {"image": image}
        if self.refuses:
            refused = {"image": self.images[name], "back": self.refuses}
            return {**refused, "wrong": "its container is exited with code 1"} if verb == "change" else refused
        self._start(name, self.kept[name])
        back = "" if self.healthy[name] else "etcd is not healthy: no leader"
        answer = {"image": self.images[name], "back": back}
        return {**answer, "wrong": "its container is exited with code 1"} if verb == "change" else answer

    def _start(self, name: str, image: str) -> None:
        self.images[name], self.healthy[name] = image, image not in self.bad
        if self.leader == name and len(self.names) > 1:
            self.leader = next(other for other in self.names if other != name)

    def _look(self, name: str) -> dict[str, Any]:
        self.revision += 5
        late = self.behind.get(name, 0)
        self.behind[name] = max(0, late - 1)
        waits = self.late.get(name, 0)
        self.late[name] = max(0, waits - 1)
        healthy = self.healthy.get(name, True) and not waits
        version = self.images[name].rpartition(":")[2].partition("-")[0]
        minors = {self.images[each].rpartition(":")[2][:3] for each in self.names}
        agreed = OLD.rpartition(":")[2][:3] if self.agree_late else min(minors)
        asked = {
            **vars(server(name, self.names, version=version, leader=self.leader, healthy=healthy)),
            "revision": 7 if late else self.revision,
            "members": [{"id": each, "name": each, "peers": [], "clients": []} for each in self.names],
            "alarms": [],
            "has_cluster": {"unknown": "not asked"},
        }
        down = {"unknown": "connection refused"}
        return {
            "image": self.images[name],
            "runs": healthy,
            "server": asked if healthy else down,
            "cluster_version": f"{agreed}.0" if healthy else down,
        }

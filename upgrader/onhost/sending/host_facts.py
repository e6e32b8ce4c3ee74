"""A controller's facts, independent of the API: plain values, read over SSH.

A fact that could not be determined is `Unknown`, with the reason; it is never guessed. Times are seconds since the
epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from upgrader.model.cluster import Host
from upgrader.onhost.node.disk_layout import KUBE_APISERVER
from upgrader.onhost.node.generation import MANIFEST
from upgrader.onhost.node.generation_choice import restorable

__all__ = [
    "ETCD_CERTIFICATE",
    "Alarm",
    "Backup",
    "Certificate",
    "Cgroups",
    "Client",
    "Clock",
    "Container",
    "ActiveManifest",
    "Endpoint",
    "Etcd",
    "EtcdServer",
    "Examined",
    "Generation",
    "HostFacts",
    "Identity",
    "Manifests",
    "Member",
    "Space",
    "Unit",
    "Unknown",
    "Updates",
    "Workload",
]

ETCD_CERTIFICATE = "/etc/kubernetes/pki/etcd/server.crt"
"""The file that kubeadm creates for each stacked etcd member."""


@dataclass(frozen=True)
class Unknown:
    """A fact that could not be determined, and why."""

    why: str


@dataclass(frozen=True)
class Clock:
    """`offset`: how many seconds the host's clock is ahead of ours; `error`: how far off that may be."""

    offset: float
    error: float


@dataclass(frozen=True)
class Unit:
    """A systemd unit, in systemd's words. `state`: `active`, `inactive`, `failed`, `activating`…; `result`: why it
    ended (`exit-code`, `signal`…); `enabled`: `enabled`, `disabled`, `masked`…; `said`: its last journal lines, secrets
    masked, if it doesn't run.
    """

    name: str
    state: str
    sub_state: str = ""
    result: str = ""
    exit_status: int = 0
    loaded: str = "loaded"
    enabled: str = ""
    restarts: int = 0
    since: float | None = None
    said: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.state == "active" and self.sub_state == "running"


@dataclass(frozen=True)
class Endpoint:
    """Whether a server answers correctly; `said`: its answer, or the reason why there is none. `address`: the server's,
    `host:port`; empty if nothing listens. `instances`: how many instances of kube-apiserver answer on private addresses
    of their own; `listeners`: how many sockets share the address for clients, one for each that serves them; `private`:
    how many private addresses there are, whether or not an instance answers there in time.
    """

    answers: bool
    said: str = ""
    address: str = ""
    instances: int = 0
    listeners: int = 0
    private: int = 0


@dataclass(frozen=True)
class Client:
    """One of the cluster's own clients, and the HTTP status that kube-apiserver answered it with.

    `conclusive`: whether no correct API server refuses its request, so that one refusal is enough. `not_before`,
    `not_after`: of its certificate; None for a token, which is used only while it is valid. `pod`: the UID of the pod
    that answered; "" if unknown. `address`: the server's, `host:port`.
    """

    name: str
    status: int
    not_before: float | None = None
    not_after: float | None = None
    pod: str = ""
    address: str = ""
    conclusive: bool = False

    @property
    def is_token(self) -> bool:
        """Whether it is a pod with its token."""
        return self.not_after is None

    def valid(self, moment: float) -> bool:
        """Whether its certificate is valid then."""
        if self.not_before is None or self.not_after is None:
            return True
        return self.not_before <= moment < self.not_after


@dataclass(frozen=True)
class Space:
    """The file system under a folder; sizes in bytes. `inodes` is 0 where a file system doesn't count them. Folders of
    one `device` share their space.
    """

    path: str
    size: int
    free: int
    inodes: int
    inodes_free: int
    read_only: bool = False
    device: int = 0


@dataclass(frozen=True)
class Certificate:
    """The first certificate of a file. Times as written in the certificate. `real`: its path without links."""

    path: str
    not_before: float
    not_after: float
    pem: str = field(default="", repr=False, compare=False)
    real: str = field(default="", compare=False)


@dataclass(frozen=True)
class Identity:
    """The identity of a machine, and of the cluster that its files belong to.

    `machine_id` is that of systemd, which its kubelet reports, too. `keys`: path → SHA-256, for the keys of
    ServiceAccounts' tokens. `ephemeral`: the ports that outgoing connections get; `reserved`: those that are excluded;
    both as ranges, both ends included. `migrate_req`: the sysctl's value; None for a kernel without it.
    """

    machine_id: str
    keys: Mapping[str, str] = field(default_factory=dict)
    ephemeral: tuple[int, ...] = ()
    reserved: tuple[tuple[int, ...], ...] = ()
    migrate_req: int | None = None


@dataclass(frozen=True)
class Cgroups:
    """`version`: of the kernel's cgroups, 1 or 2. `fail_v1`: `failCgroupV1` in the kubelet's configuration; None if it
    isn't set.
    """

    version: int
    fail_v1: bool | None = None


@dataclass(frozen=True)
class Updates:
    """What the host upgrades by itself. `timer`: systemd's, which starts it; "" for nothing. `packages`: those of the
    kubelet, the container runtime and systemd that it may upgrade; `reboots`: whether it may reboot the machine.
    """

    timer: str
    packages: tuple[str, ...] = ()
    reboots: bool = False


@dataclass(frozen=True)
class Manifests:
    """The folder of the kubelet's static pods."""

    exists: bool
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Member:
    """A member of etcd. `name` is empty for one that never started."""

    id: str
    name: str
    peers: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    learner: bool = False


@dataclass(frozen=True)
class Alarm:
    """`kind`: NOSPACE or CORRUPT; `member`: the ID of the member that raised it."""

    kind: str
    member: str


@dataclass(frozen=True)
class EtcdServer:
    """What the member on this host answered. `leader`: its ID, empty when there is none. Sizes in bytes; `db_quota` is
    0 if its version doesn't report it. `has_cluster`: whether it stores any workload that is checkpointed on this host.
    """

    healthy: bool
    said: str = ""
    version: str = ""
    id: str = ""
    leader: str = ""
    revision: int = 0
    db_size: int = 0
    db_quota: int = 0
    db_in_use: int = 0
    members: tuple[Member, ...] | Unknown = Unknown("not asked")
    alarms: tuple[Alarm, ...] = ()
    has_cluster: bool | Unknown = Unknown("not asked")


@dataclass(frozen=True)
class Backup:
    """A file that is probably a snapshot of etcd."""

    path: str
    size: int
    changed: float


@dataclass(frozen=True)
class Etcd:
    """etcd on this host. `data`: of its data folder; `empty` has no database file in it. `server` is Unknown when
    nothing answered there. `flags`: those of its manifest that name it and its peers, and its quota.
    `backups`: the newest first. `service`: the service of the host that is called etcd, as on Kubespray's controllers,
    also one that is stopped. `named_here`: whether kube-apiserver's etcd has an address of this host.
    """

    manifest: bool | Unknown
    data_dir: str
    data: Literal["present", "empty", "missing"] | Unknown
    server: EtcdServer | Unknown
    flags: Mapping[str, str] = field(default_factory=dict)
    backups: tuple[Backup, ...] = ()
    service: Unit | Unknown | None = None
    named_here: bool | Unknown = Unknown("not asked")


@dataclass(frozen=True)
class Container:
    """A container as the runtime knows it. `state`: created, running, exited or unknown. `standby`: it belongs to a
    standby pod of ours (a static pod made from a generation), not to the workload's own pod. `uid`: the pod's;
    `template`: the hash of its template, empty for a pod without one. `log`: last lines, masked.
    """

    pod: str
    namespace: str
    name: str
    state: str
    standby: bool = False
    static: bool = False
    image: str = ""
    created: float = 0.0
    started: float | None = None
    finished: float | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    attempt: int = 0
    sandbox_ready: bool = True
    log: tuple[str, ...] = ()
    uid: str = ""
    template: str = ""

    @property
    def own(self) -> bool:
        """Whether it belongs to the workload's own pod, and not to a standby pod or to one of kubeadm's pods."""
        return bool(self.uid) and not self.standby and not self.static


@dataclass(frozen=True)
class Generation:
    """A checkpoint on disk. `damage`: what is wrong with its files, empty when all are as recorded. `failure`: why it
    is marked as one that didn't stay up, empty when it isn't. `images`: container → image, for those that it needs;
    `missing`: those of them that are not on the node. `pod`: the UID of the pod that it was made from; `template`: the
    hash of that pod's template.
    """

    number: int
    folder: str
    captured_at: str = ""
    damage: str = ""
    helm_revision: str = ""
    digest: str = ""
    failure: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] | Unknown = Unknown("the container runtime was not queried")
    pod: str = ""
    template: str = ""

    @property
    def intact(self) -> bool:
        """Whether every file is there and as it was written."""
        return not self.damage

    @property
    def failed(self) -> bool:
        """Whether it was started, and didn't stay up."""
        return bool(self.failure)

    @property
    def has_images(self) -> bool | None:
        """Whether all its images are on the node; None when that isn't known."""
        return None if isinstance(self.missing, Unknown) else not self.missing

    @property
    def manifest(self) -> str:
        """Path of its static pod's manifest."""
        return f"{self.folder}/{MANIFEST}"


@dataclass(frozen=True)
class ActiveManifest:
    """A checkpoint's manifest in the kubelet's folder. `number`: the generation that it equals byte for byte, or
    None.
    """

    path: str
    number: int | None


@dataclass(frozen=True)
class Workload:
    """A workload's checkpoints on the host (`namespace/name`). `generations` ascend by number. `marks_unknown`: why it
    is unknown which of them failed; none of them then counts as failed. `trouble`: why its folder can't be read; then
    no generation is known.
    """

    name: str
    policy: str
    active_path: str
    generations: tuple[Generation, ...] = ()
    active: ActiveManifest | None = None
    marks_unknown: str = ""
    trouble: str = ""

    @property
    def restorable(self) -> Generation | None:
        """The one that a recovery would start."""
        return restorable(self.generations)


@dataclass(frozen=True)
class HostFacts:
    """One controller, at one moment. `api` is kube-apiserver's own answer on this host. `containers` are those of
    kube-apiserver's pods, the newest first.
    """

    taken: float
    booted: float | Unknown
    clock: Clock
    kubelet: Unit | Unknown
    containerd: Unit | Unknown
    runtime: Endpoint
    spaces: tuple[Space | Unknown, ...]
    certificates: tuple[Certificate | Unknown, ...]
    manifests: Manifests | Unknown
    etcd: Etcd
    api: Endpoint | Unknown
    containers: tuple[Container, ...] | Unknown
    workloads: tuple[Workload, ...] | Unknown
    etcd_containers: tuple[Container, ...] = ()
    complaints: tuple[str, ...] = ()
    """The kubelet's newest errors that have to do with the control plane, masked."""
    clients: tuple[Client, ...] | Unknown = Unknown("not asked")
    """The cluster's own clients on this host, and how each instance of kube-apiserver here answered each of them."""
    identity: Identity | Unknown = Unknown("not asked")
    cgroups: Cgroups | Unknown = Unknown("not asked")
    updates: Updates | Unknown = Unknown("not asked")

    @property
    def has_etcd(self) -> bool:
        """Whether a member of kubeadm's etcd belongs on this host: its manifest, its data or its certificate is there.

        Data alone may be a service's.
        """
        own = any(isinstance(c, Certificate) and c.path == ETCD_CERTIFICATE for c in self.certificates)
        data = self.etcd.data == "present" and not isinstance(self.etcd.service, Unit)
        return own or self.etcd.manifest is True or data

    @property
    def etcd_service(self) -> Unit | None:
        """The service that is this host's member of the cluster's etcd; None where that is kubeadm's static pod, or
        elsewhere, or isn't known.
        """
        service = self.etcd.service
        member = self.etcd.named_here is True and not self.has_etcd
        return service if isinstance(service, Unit) and member else None

    def instances(self) -> tuple[Container, ...]:
        """kube-apiserver's containers that run, those of standby pods included; () if that is unknown."""
        found = () if isinstance(self.containers, Unknown) else self.containers
        ours = (item for item in found if item.namespace == KUBE_APISERVER.namespace)
        return tuple(item for item in ours if item.name == KUBE_APISERVER.name and item.state == "running")

    def began(self, container: Container) -> float:
        """When a container's pod started: with the first of its containers, as any of them may have been restarted."""
        found = () if isinstance(self.containers, Unknown) else self.containers
        return min((item.created for item in found if item.uid == container.uid), default=container.created)

    def workload(self, name: str = str(KUBE_APISERVER)) -> Workload | None:
        """The checkpoints of a workload; None if there are none (or none are known)."""
        found = () if isinstance(self.workloads, Unknown) else self.workloads
        return next((w for w in found if w.name == name), None)


@dataclass(frozen=True)
class Examined:
    """A controller that was examined: its facts, or why there are none (it could not be reached, …)."""

    host: Host
    facts: HostFacts | None
    error: str = ""
    remedy: str = ""
    """The remedy for that error."""

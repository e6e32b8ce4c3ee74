"""What upgrader needs from the outside world. Adapters provide it; tests provide fakes with the same contract.

Everything is synchronous. Errors are those of `upgrader.errors`: adapters translate their library's where they enter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol

from upgrader.model.cluster import Host
from upgrader.model.event import Event
from upgrader.model.host_key import HostKey
from upgrader.model.observability import HttpAnswer, Series
from upgrader.model.release import ReleaseSpec, Revision
from upgrader.model.version import KubernetesVersion

__all__ = [
    "AT_ONCE",
    "Age",
    "Ansible",
    "Clock",
    "CommandResult",
    "Commands",
    "FollowedKube",
    "Helm",
    "HostKeys",
    "HttpService",
    "Hosts",
    "Kind",
    "Kube",
    "KubeChanges",
    "LARGE_AT_ONCE",
    "KubeObject",
    "OwnMachine",
    "Play",
    "PlaybookResult",
    "Playbooks",
    "Prometheus",
    "Recovery",
    "Reporter",
    "Tools",
]

KubeObject = Mapping[str, Any]
"""A Kubernetes object in its JSON form."""

AT_ONCE = 500
"""Objects that are read in one request, as kubectl does: smaller pages would take more requests of a large cluster."""
LARGE_AT_ONCE = 50
"""The same of objects that may have a megabyte each, such as a CustomResourceDefinition."""


@dataclass(frozen=True)
class Kind:
    """Where a resource lives in the API: `Kind("apps/v1", "deployments")`."""

    api_version: str
    plural: str
    namespaced: bool = True


class Helm(Protocol):
    """Helm releases of one cluster."""

    def version(self) -> str:
        """The Helm client's own version, such as `4.3.1`."""
        ...

    def history(self, release: str, namespace: str) -> tuple[Revision, ...]:
        """All revisions since it was installed, oldest first; empty when it isn't. Raises HelmError."""
        ...

    def at_work(self, release: str, namespace: str) -> int:
        """The process ID of a Helm on this machine that changes the release; 0: there is none here."""
        ...

    def manifest(self, release: str, namespace: str, revision: int | None = None) -> str:
        """The YAML that a revision (None: the current one) put into the cluster. Raises HelmError."""
        ...

    def render(self, spec: ReleaseSpec, *, target: KubernetesVersion | None = None, offline: bool = False) -> str:
        """The YAML that `spec` would put into the cluster, hooks left out, as in `manifest`.

        Validates values against the chart's schema. `offline` doesn't ask the API: `lookup` finds nothing then. The
        version in `.Capabilities` is the API server's, offline `target`; other capabilities are then Helm's own.
        """
        ...

    def definitions(self, chart: Path) -> str:
        """The YAML of what a chart and its subcharts have in their folders crds/, which Helm installs with a release,
        and never upgrades. Raises HelmError.
        """
        ...

    def upgrade(
        self,
        spec: ReleaseSpec,
        *,
        timeout_seconds: float,
        watch: Callable[[], None],
        take_ownership: bool = False,
        description: str = "",
        wait: bool = True,
    ) -> Revision:
        """Install or upgrade atomically, and wait until every workload of the chart is ready.

        Without `wait`, return as soon as all is written; what fails by then stays as it is.
        `watch` is called about once a second while Helm works. When it raises, Helm is stopped and that
        exception is what the caller sees; Interrupted kills Helm, which rolls back otherwise as it ends. Raises
        HelmError when Helm fails; by then Helm may or may not have rolled back: check `history`. `description` is what
        the history says of the revision once it has worked; "" for Helm's own words.
        """
        ...

    def rollback(
        self,
        release: str,
        namespace: str,
        revision: int,
        *,
        timeout_seconds: float,
        wait: bool = True,
        watch: Callable[[], None] = lambda: None,
    ) -> Revision:
        """Roll back to a revision, over manual edits too; also works on a release stuck in `pending-upgrade`.

        Returns when every workload is ready; without `wait`, as soon as all is written. `watch` as in `upgrade`. Raises
        HelmError.
        """
        ...

    def uninstall(self, release: str, namespace: str, *, timeout_seconds: float) -> None:
        """Remove a release and wait. A release that isn't there is fine. Raises HelmError."""
        ...


class Kube(Protocol):
    """The Kubernetes API of one cluster. Every call has its own deadline (10 s by default).

    Every method raises ApiUnavailable when the API doesn't answer, ApiError when it refuses.
    """

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        """One object; None only when the API answers 404."""
        ...

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        """All objects that match the selectors, in one consistent read; `namespace` "" means all of them.

        Pods and nodes come without `managedFields`.
        """
        ...

    def each(
        self, kind: Kind, namespace: str = "", *, labels: str = "", at_once: int = AT_ONCE, metadata_only: bool = False
    ) -> Iterator[KubeObject]:
        """The objects that match the selector, one after the other, read `at_once` at a time.

        For objects that the caller doesn't keep; of large ones, `LARGE_AT_ONCE` at a time. Nothing is read before the
        first one is asked for. What changes meanwhile may be missing or as it was before; nothing comes
        twice. With `metadata_only` nothing else of them travels: no content of a Secret.
        """
        ...

    def count(self, kind: Kind, namespace: str = "", *, labels: str = "") -> int:
        """How many objects match the selector, without reading them: no content of a Secret travels."""
        ...

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        """Create an object; ApiError when it exists already. A dry run is admitted or refused, and stores nothing."""
        ...

    def apply(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        """Server-side apply as field manager `upgrader`, taking over conflicting fields."""
        ...

    def replace(self, kind: Kind, manifest: KubeObject, namespace: str = "") -> KubeObject:
        """Replace an existing object with the manifest (PUT), regardless of field ownership."""
        ...

    def patch(
        self, kind: Kind, name: str, changes: KubeObject, namespace: str = "", *, subresource: str = ""
    ) -> KubeObject:
        """Change an existing object, or its `subresource` alone (`status`), by a merge patch (RFC 7386): maps are
        merged, None removes a key.

        With a `resourceVersion` in `changes`, ApiError (409) where the object has changed since.
        """
        ...

    def dry_patch(self, kind: Kind, name: str, changes: KubeObject, namespace: str = "") -> KubeObject:
        """The same as a dry run, which is admitted or refused, and stores nothing."""
        ...

    def delete(self, kind: Kind, name: str, namespace: str = "", *, at_once: bool = False) -> None:
        """Delete an object; one that isn't there is fine.

        `at_once`: a pod is gone without its kubelet's word that its containers have ended: for one that is down.
        """
        ...

    def evict(self, pod: str, namespace: str, *, uid: str) -> None:
        """Evict a pod, as its disruption budgets allow; one that isn't there any more is fine, and so is another one
        in its place.

        Raises ApiError with status 429 where a budget doesn't allow it now, 500 where several select the pod.
        """
        ...

    def logs(self, namespace: str, pod: str, container: str, *, previous: bool = False, lines: int = 20) -> str:
        """The last lines that a container wrote; "" when it never wrote any or there is no such container."""
        ...

    def watch(self, kind: Kind, namespace: str, name: str, *, timeout_seconds: int) -> Iterator[KubeObject]:
        """Watch events (`{"type": …, "object": …}`) for one object, from now until the timeout."""
        ...

    def raw(self, path: str, *, server: str = "", token: str = "") -> str:
        """GET a path that isn't a resource (`/readyz`), from `server` (`https://host:port`) or the kubeconfig's own.

        With `token`, none of the kubeconfig's credentials are sent.
        """
        ...

    def reconnect(self) -> None:
        """Use new connections from now on: where several API servers share an address, they may lead to another."""
        ...

    def server_time(self) -> datetime:
        """What time it is where the API server runs, in UTC, to the second."""
        ...

    def request_token(self, service_account: str, namespace: str, *, seconds: int, bound_to: KubeObject) -> str:
        """A new token of a ServiceAccount for the API itself; it dies with the Secret `bound_to`.

        The server may grant it for less time than requested.
        """
        ...


class KubeChanges(Protocol):
    """How all objects of a kind change, by one request for all of them. Raises as `Kube`."""

    def listed(
        self, kind: Kind, namespace: str = "", *, labels: str = "", keep: Callable[[dict[str, Any]], KubeObject]
    ) -> tuple[tuple[KubeObject, ...], str]:
        """What `keep` makes of each object that matches, and the version as of which they are, for `changes`."""
        ...

    def changes(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        labels: str = "",
        version: str,
        timeout_seconds: int,
        silent_seconds: float,
    ) -> Iterator[KubeObject]:
        """Watch events (`{"type": …, "object": …}`) after a version, until the timeout, or until nothing has come for
        `silent_seconds`. `BOOKMARK` is one of the types: of its object only the version has a meaning. A server sends
        one about once a minute, but none while it knows of no newer version: so where no object of the kind changes,
        silence may last as long as the watch.

        Raises ApiError with status 410 where that version is forgotten.
        """
        ...


class FollowedKube(Kube, KubeChanges, Protocol):
    """The Kubernetes API of one cluster whose objects are followed."""


class HostKeys(Protocol):
    """Machines that identify themselves over SSH, before anybody logs in to them."""

    def read(self, address: str) -> HostKey:
        """The key that a machine presents, which isn't verified. Raises HostUnreachable."""
        ...


@dataclass(frozen=True)
class CommandResult:
    """How a command on a host ended."""

    exit_status: int
    stdout: str
    stderr: str


class Commands(Protocol):
    """Commands on machines. Raises HostError."""

    def run(
        self,
        host: Host,
        command: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        timeout_seconds: float = 30.0,
        check: bool = True,
    ) -> CommandResult:
        """Run a command as root (sudo where the inventory says `ansible_become`).

        With `check`, a non-zero exit raises HostError with the command's stderr. An input in chunks is sent as they
        come; an UpgraderError of its own ends the command, and is raised.
        """
        ...

    def read(self, host: Host, path: str) -> bytes | None:
        """A file's content; None when there is no such file."""
        ...


class Hosts(Commands, Protocol):
    """The machines themselves, over SSH with verified host keys.

    Raises HostSilent where nothing answers, HostUnreachable where no login is possible, or HostError.
    """

    def stream(self, host: Host, command: Sequence[str], *, timeout_seconds: float) -> Iterator[bytes]:
        """Standard output of a command that is run as root, in chunks as they come: never all of it in memory.

        At its end, a non-zero exit raises HostError with the command's stderr.
        """
        ...

    def write(self, host: Host, path: str, content: bytes, *, mode: int = 0o600) -> None:
        """Write a file atomically (temporary file, fsync, rename), owned by root."""
        ...


class Age(Protocol):
    """Files that only the owner of a key can read (https://age-encryption.org)."""

    def new_key(self) -> tuple[str, str]:
        """A new pair: the public key, and the private one."""
        ...

    def encrypt(self, plain: Iterator[bytes], recipients: Sequence[str], target: BinaryIO) -> None:
        """Write the encrypted form of a stream. What `plain` raises is raised. Raises UsageError for a recipient."""
        ...

    def decrypt(self, sealed: BinaryIO, identities: Sequence[str]) -> Iterator[bytes]:
        """The content, in chunks, each of them authentic.

        Raises UsageError where none of the keys fits, and BackupRefused where the file is damaged or cut off: what came
        before that must not be used.
        """
        ...


@dataclass(frozen=True)
class PlaybookResult:
    """How a playbook ended: tasks by host, and what failed."""

    changed: Mapping[str, int]
    failed: Mapping[str, str]
    """Host → the task that failed and its message."""
    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Host → the names of the tasks that changed something, or would in check mode, in their order."""


@dataclass(frozen=True)
class Play:
    """A play of a playbook: whom its `hosts` name, and the machines of the inventory that these are."""

    pattern: str
    hosts: tuple[str, ...]


class Playbooks(Protocol):
    """Ansible playbooks against the cluster's inventory."""

    def run(
        self,
        playbook: Path,
        *,
        inventory: Path,
        variables: Mapping[str, Any],
        limit: str = "",
        timeout_seconds: float,
        check: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookResult:
        """Run a playbook to its end (`check`: in check mode). Raises PlaybookError when a host failed.

        `cancelled` is asked about once a second; when it is true, Ansible is ended with all its processes.
        """
        ...


class Ansible(Playbooks, Protocol):
    """The same, for what also reads playbooks before it runs them."""

    def plays(
        self, playbooks: Sequence[Path], *, inventory: Path, timeout_seconds: float
    ) -> tuple[tuple[Play, ...], ...]:
        """The plays of each playbook, read with its roles and static imports; nothing is run.

        Raises PlaybookRefused for the first one that Ansible refuses, PlaybookError if it doesn't answer.
        """
        ...


class Recovery(Protocol):
    """Restores an API server that is down, or answers and is wrong. Helm can't: it needs the API."""

    def bring_api_back(self, note: Callable[[str], None]) -> None:
        """Over SSH, start what each controller needs from its checkpoints.

        Returns once `/readyz` succeeds and nothing that a rollback needs is refused. `note` takes lines of progress.
        Idempotent, and bounded in time; changes nothing where nothing is wrong. Raises UpgraderError when it fails: the
        message names the cause, the remedy the manual action.
        """
        ...

    def blames_credentials(self) -> bool:
        """Whether an API server that refuses the kubeconfig's credentials is known to accept the cluster's own clients.

        Read on the controllers; changes nothing.
        """
        ...

    def replace_newer(self, since: datetime, why: str, note: Callable[[str], None], *, compared: bool = False) -> bool:
        """Do the same, and replace kube-apiserver's own pods that were created since then, whatever they answer; by
        this machine's clock.

        A standby pod of an earlier generation takes the place of each. For a rollback that doesn't get through them;
        `why` is told as what is wrong with them. Those that a rollback has made already stay. Whether there was any to
        be replaced. `compared`: only if the standby pod accepts what they refuse; else it is removed again, and
        RollbackFailed raised.
        """
        ...


class Clock(Protocol):
    """Time, which tests can control."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class OwnMachine(Protocol):
    """The machine that upgrader runs on. Nothing of it is changed."""

    def answer(self, *command: str) -> CommandResult | None:
        """What a program says, within ten seconds; None where there is no such program, or it doesn't end."""
        ...

    def free_bytes(self, folder: Path) -> int | None:
        """What this user may still write where the folder is, or will be; None where that can't be read."""
        ...

    def mode(self, file: Path) -> int | None:
        """The permissions of what the path leads to, such as 0o600; None where that can't be read."""
        ...

    def ssh_refuses(self, key: Path) -> bool:
        """Whether OpenSSH ignores this private key: it is this user's own, and others may open it."""
        ...


class Reporter(Protocol):
    """Receives the events of a run: a console, a log, a test."""

    def emit(self, event: Event) -> None:
        """Handle an event; must never raise."""
        ...


class HttpService(Protocol):
    """A service beside the cluster that is reached over HTTP, such as a Pushgateway."""

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})
    ) -> HttpAnswer:
        """Its answer, whatever the status; redirects are not followed. `path` is below the service's URL.

        Raises ServiceError where there is none within a few seconds, whatever keeps it: a name, TLS, a slow server.
        """
        ...


class Prometheus(Protocol):
    """A server with the HTTP API of Prometheus, such as Thanos, Mimir or VictoriaMetrics."""

    def values(self, query: str, *, points: int, step_seconds: int) -> tuple[Series, ...]:
        """The newest values of each series of a query: one each `step_seconds`, by the server's own clock.

        No more than `points`, and fewer where the server has no value for a time. Raises ServiceError for a query that
        is refused, for an answer that is not complete, and where there is no answer within a few seconds.
        """
        ...


@dataclass(frozen=True)
class Tools:
    """The ports that steps and gates work through."""

    helm: Helm
    kube: Kube
    playbooks: Ansible
    clock: Clock
    hosts: Hosts
    prometheus: Prometheus | None = None
    """None where upgrader.yaml names none."""

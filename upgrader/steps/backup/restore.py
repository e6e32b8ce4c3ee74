"""Restores a cluster's data from a backup, as a pipeline.

Nothing is stopped before the new data is on every controller's disk and was read there. From then on each part can be
repeated: a restore that was interrupted is run again from its beginning. While etcd's manifest is aside, no reboot can
start a member with the old data beside one with the new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE
from upgrader.errors import BackupRefused, HostError, StepFailed, UpgraderError
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.cluster import Host
from upgrader.model.etcd_upgrades import unknown_to
from upgrader.model.etcd_version import EtcdVersion
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.etcd.manifest import with_image
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.recover.pipeline import RecoverTools, hand_over
from upgrader.steps.backup.encryption import check_keys
from upgrader.steps.backup.etcd_member import ASIDE, MANIFEST, EtcdMember, initial_cluster
from upgrader.steps.backup.etcd_pod import ReplacedData
from upgrader.steps.backup.etcd_tools import EtcdTools
from upgrader.steps.backup.manifest import BackupManifest
from upgrader.steps.backup.reported import unreported
from upgrader.steps.backup.verify import BackupFile, prove_on, send_snapshot
from upgrader.wait_and_retry import may_be_repeated, retry, wait_until

__all__ = ["Restoration"]

T = TypeVar("T")

Note = Callable[[str], None]

_DATA = "data"
_CLAIMED = "upgrader-restore"
"""The folder beside the old data that has the new: a restore's alone, from its first stop on."""
_LOCK_SECONDS = "60"
_REVISIONS_A_SECOND = 100_000
"""More than any cluster writes."""
_AHEAD = 1_000_000
"""How far a restored revision is ahead of one that was seen: more than is written until etcd stops. No more, as each
restore takes ten seconds: so the time stays ahead of a series of them.
"""
_UNIT_SECONDS = 120.0
_ETCD_SECONDS = 240.0
_PODS_SECONDS = 240.0
_EXAMINE_SECONDS = 5.0
_API_SECONDS, _RETRY_SECONDS = 120.0, 1.0
"""How long a request is repeated once the restored API has answered."""

_KUBELET = "systemctl is-active --quiet kubelet || { systemctl reset-failed kubelet || true; systemctl start kubelet; }"

_HALT = """set -eu
mkdir -p -m 0700 -- "$(dirname -- "$2")"
if [ -e "$1" ]; then mv -f -- "$1" "$2"; sync -f "$2"; fi
systemctl stop kubelet
"""

_DISCARD = 'rm -rf -- "$1/$2"'

# Out of the place that the next backup empties, where it would be lost once the API, and with it the lock, is away.
# Under the lock of what empties it: what is moved is complete. Where a backup came first, etcd runs on.
_CLAIM = """set -eu
cd -- "$1"
exec 9<.
flock -w "$4" 9 || { echo "another process is removing files in $1; nothing was stopped" >&2; exit 1; }
[ -d "upgrader/$2/member" ] || { echo "the data that was prepared is gone; nothing was stopped" >&2; exit 1; }
rm -rf -- "$3"
mv -- "upgrader/$2" "$3"
sync -f .
"""

# Two renames: between them there is no data, and the restore that is run again puts its own in place.
_REPLACE = """set -eu
cd -- "$1"
[ -d "$2/member" ]
mkdir -m 0700 -- "$3"
[ ! -e member ] || mv -T -- member "$3/member"
chown -R --reference=. -- "$2/member"
mv -T -- "$2/member" member
rm -rf -- "$2"
sync -f .
"""

_RESTART = "systemctl reset-failed kubelet || true; systemctl restart kubelet"

_START = """set -eu
if [ -e "$2" ]; then mv -f -- "$2" "$1"; sync -f "$1"; fi
systemctl reset-failed kubelet || true
systemctl start kubelet
"""


@dataclass(frozen=True)
class _Step:
    """A part of a restore. It has no undo: it is run again, or another backup is restored."""

    name: str
    what: str
    work: Callable[[Note], None]

    def summary(self) -> str:
        return self.what

    def capture(self) -> None:
        return None

    def apply(self, note: Note) -> None:
        self.work(note)

    def undo(self, point: RestorePoint, note: Note) -> None:
        """Nothing to undo."""


@dataclass(frozen=True)
class Restoration:
    """One backup, and the members that get its data."""

    backup: BackupFile
    manifest: BackupManifest
    members: tuple[EtcdMember, ...]
    tools: RecoverTools
    nodes_before: Mapping[str, str] = field(default_factory=dict)
    """The nodes that the API had before, with the versions of their kubelets; none where it didn't answer."""
    seen_revision: int = 0
    """The highest revision that a member reports of its data; 0 where none answered."""

    @property
    def image(self) -> str:
        """The image of etcd that the manifests get; "" where they keep theirs.

        The backup's, unless all are of its minor: an older etcd can't be had again from data that a newer one has
        rewritten, and upstream supports no other way back than this one.
        """
        was = EtcdVersion.of_image(self.manifest.etcd)
        if not self.manifest.etcd or all(self._is_of(was, member.image) for member in self.members):
            return ""
        return self.manifest.etcd

    def _is_of(self, was: EtcdVersion | None, image: str) -> bool:
        runs = EtcdVersion.of_image(image)
        return image == self.manifest.etcd or bool(runs and was and runs.minors_after(was) == 0)

    @property
    def revision(self) -> int:
        """The revision of the restored data, later than any that a client has seen: none takes old data for new.

        It is by the time, and not added to the backup's: a backup from before an earlier restore has a low revision,
        and one from after it a high one, in whatever order they are restored. What is seen counts beside the time, as
        the clock of the machine that ran an earlier restore may have been ahead.
        """
        by_time = int(self.tools.clock.now().timestamp()) * _REVISIONS_A_SECOND
        return max(by_time, max(self.seen_revision, self.manifest.revision) + _AHEAD)

    @property
    def kept(self) -> str:
        """The folder beside the new data that gets the old."""
        return f"before-restore-{self.tools.clock.now():%Y%m%dT%H%M%S}"

    def pipeline(self) -> Pipeline:
        """The steps, then the same hand-over and gates as after a recovery. Raises HostError where it can't be done."""
        for member in self.members:
            if member.wal_dir:
                raise HostError(
                    f"{member.host.name}: etcd has a separate --wal-dir, {member.wal_dir}, whose old log wouldn't "
                    "match the restored data; nothing was changed",
                    remedy="Remove --wal-dir from its manifest, and that folder, for the restore; or restore by hand "
                    "with etcdutl.",
                )
        self._check_flags()
        brings = f"; etcd then runs the backup's image, {self.image}" if self.image else ""
        kept, revision, on = self.kept, self.revision, ", ".join(member.host.name for member in self.members)
        steps = (
            _Step(
                "prepare",
                f"copy the data next to the current data on {on}, and verify it; nothing is stopped{brings}",
                lambda note: self._prepare(revision, note),
            ),
            _Step(
                "stop",
                f"stop kube-apiserver, checkpoints and etcd on {on}: the API is unreachable from now on",
                self._stop,
            ),
            _Step(
                "replace", f"swap etcd's data; the old data is kept in {kept}", lambda note: self._replace(kept, note)
            ),
            _Step(
                "start",
                f"start etcd, and compare {self.manifest.keys:,} keys with the backup",
                lambda note: self._start(revision, note),
            ),
            _Step("api", "wait until the API answers, and release the backup's lock", self._api),
            _Step("pods", "wait until the kubelets have started the control plane's pods again", self._pods),
            _Step(
                "nodes",
                "compare the nodes, and restart the kubelets of nodes that joined after the backup",
                self._nodes,
            ),
        )
        return Pipeline((*(PipelineStep(step, (), ()) for step in steps), hand_over(self.tools)))

    def _check_flags(self) -> None:
        was = EtcdVersion.of_image(self.image) if self.image else None
        for member in self.members:
            if was and (unknown := unknown_to(was, member.flags)):
                raise HostError(
                    f"{member.host.name}: etcd {was}, the backup's version, doesn't know --{', --'.join(unknown)} in "
                    f"{MANIFEST}; nothing was changed",
                    remedy="First restore that manifest from the backup (in controllers/NAME.tar), with the flags and "
                    "the image of that etcd; then run the same command again.",
                )

    def _made_with(self, member: EtcdMember) -> EtcdMember:
        return replace(member, image=self.image) if self.image else member

    def _bring_image(self, member: EtcdMember, note: Note) -> None:
        """Into the manifest that is aside: it has not been started with the new data yet."""
        content = self.tools.hosts.read(member.host, ASIDE)
        if self.image and content is not None:
            note(f"{member.host.name}: etcd gets the backup's image, {self.image}")
            try:
                self.tools.hosts.write(member.host, ASIDE, with_image(content.decode(), self.image).encode())
            except (Failed, UnicodeDecodeError) as error:
                raise StepFailed(
                    f"{member.host.name}: {ASIDE}: {error}",
                    remedy=f"Set `image: {self.image}` in that file, and run the same command again.",
                ) from error

    def _prepare(self, revision: int, note: Note) -> None:
        work, cluster, bump = self._etcd, initial_cluster(self.members), revision - self.manifest.revision
        try:
            for member in self.members:
                # After an interrupted restore it doesn't run; without etcd's manifest it starts none.
                self._run(member.host, _KUBELET)
                self._run(member.host, _DISCARD, member.data_dir, _CLAIMED)
                work.prepare(member, 3 * self.manifest.snapshot.bytes)
            note("sending the snapshot to " + ", ".join(member.host.name for member in self.members))
            if send_snapshot(self.backup, self.tools.hosts, self.members) != self.manifest:
                raise BackupRefused(f"{self.backup.path} was replaced by another backup in the meantime")
            for member in map(self._made_with, self.members):
                _, data = prove_on(member, self.manifest, work, ReplacedData(_DATA, cluster, bump))
                check_keys(self.tools.hosts, member.host, data.encrypted, note)
                note(f"{member.host.name}: its new data has all {self.manifest.keys:,} keys")
        except BaseException:
            for member in self.members:
                with suppress(UpgraderError):  # the error that ended it matters more; the next one cleans up
                    work.clean(member)
            raise

    def _stop(self, note: Note) -> None:
        try:
            for member in self.members:
                self._run(member.host, _CLAIM, member.data_dir, _DATA, _CLAIMED, _LOCK_SECONDS)
        except BaseException:
            # Nothing has stopped: if the restore is given up now, no copy of all of the cluster's Secrets stays.
            for member in self.members:
                with suppress(UpgraderError):  # the error that ended it matters more; the next restore removes it
                    self._run(member.host, _DISCARD, member.data_dir, _CLAIMED)
            raise
        for member in self.members:
            note(
                f"{member.host.name}: the restored data is in {member.data_dir}/{_CLAIMED}. If you abandon this "
                "restore, remove that folder: it contains the whole backup, and only another restore removes it"
            )
        for member in self.members:
            note(f"{member.host.name}: moving etcd's manifest to {ASIDE}, stopping the kubelet and the control plane")
            self._run(member.host, _HALT, MANIFEST, ASIDE)
            self._etcd.stop_control_plane(member.host)

    def _replace(self, kept: str, note: Note) -> None:
        for member in self.members:
            note(f"{member.host.name}: moving the old data to {member.data_dir}/{kept}")
            self._run(member.host, _REPLACE, member.data_dir, _CLAIMED, kept)

    def _start(self, revision: int, note: Note) -> None:
        for member in self.members:
            self._bring_image(member, note)
            self._run(member.host, _START, MANIFEST, ASIDE)
        for member in self.members:
            # At the revision at which etcd has exactly what was restored.
            data = self._etcd.read(member, revision=revision, seconds=_ETCD_SECONDS)
            if (data.keys, data.digest) != (self.manifest.keys, self.manifest.digest):
                raise StepFailed(
                    f"{member.host.name}: etcd has {data.keys} keys with SHA-256 {data.digest}, the backup has "
                    f"{self.manifest.keys} with {self.manifest.digest}",
                    remedy="Run the same command again.",
                )
            note(f"{member.host.name}: etcd has all {data.keys:,} keys, SHA-256 {data.digest}")
        for member in self.members:
            self._etcd.clean(member)

    def _api(self, note: Note) -> None:
        self.tools.recovery.bring_api_back(note)
        # The lock is as it was when the backup was taken: held by the command that took it, long ago.
        self._patiently(lambda: self.tools.kube.delete(LEASES, NAME, NAMESPACE), note)

    def _nodes(self, note: Note) -> None:
        """A kubelet makes its node only when it starts: those that joined after the backup would stay away for good.

        The others run with what the restored data has of them; a kubelet that is newer than the restored API is named.
        """
        tools = self.tools
        now = {str(node["metadata"]["name"]) for node in self._patiently(lambda: tools.kube.list(NODES), note)}
        hosts = {host.name: host for host in (*tools.cluster.controllers, *tools.cluster.workers)}
        came = sorted({*self.nodes_before, *hosts} - now)
        for name in came:
            if name not in hosts:
                note(f"node {name} joined after the backup: restart its kubelet (systemctl restart kubelet)")
                continue
            try:
                self._run(hosts[name], _RESTART)
                note(f"node {name} joined after the backup: restarted its kubelet, which registers the node again")
            except HostError as error:
                note(f"node {name} joined after the backup, and its kubelet can't be restarted: {error.message}")
        if self.nodes_before and (gone := sorted(now - self.nodes_before.keys())):
            note(f"these nodes were removed between the backup and the restore: kubectl delete node {' '.join(gone)}")
        api = KubernetesVersion.known(self.manifest.kubernetes)
        kubelets = {name: KubernetesVersion.known(version) for name, version in self.nodes_before.items()}
        newer = sorted(name for name, kubelet in kubelets.items() if api and kubelet and kubelet.minors_after(api) > 0)
        if api and newer:
            note(
                f"the kubelets of {', '.join(newer)} are newer than the restored API ({api}), which Kubernetes doesn't "
                "support: upgrade the control plane again soon, or downgrade these kubelets. Until then, a run to "
                f"another v{api.major}.{api.minor} needs --skip components.kubelet-newer"
            )

    def _pods(self, note: Note) -> None:
        """Whether they are healthy is asked by the gates, which would judge by what the backup has of them."""
        tools = self.tools
        still = wait_until(
            tools.clock,
            lambda: unreported(tools.kube, tools.examine()),
            seconds=_PODS_SECONDS,
            interval_seconds=_EXAMINE_SECONDS,
            what="the kubelets",
            note=note,
        )
        if still:
            note(f"{still}; gave up after {_PODS_SECONDS:.0f} s")

    def _patiently(self, work: Callable[[], T], note: Note) -> T:
        """An API server that has just started, and its HAProxy, may end a connection or two. Raises ApiError."""

        def pause(error: Exception) -> float | None:
            return _RETRY_SECONDS if may_be_repeated(error) else None

        what = "the restored API to answer"
        return retry(self.tools.clock, work, pause=pause, seconds=_API_SECONDS, what=what, note=note)

    @property
    def _etcd(self) -> EtcdTools:
        return EtcdTools(self.tools.hosts)

    def _run(self, host: Host, script: str, *words: str) -> None:
        self.tools.hosts.run(host, ["sh", "-c", script, "sh", *words], timeout_seconds=_UNIT_SECONDS)

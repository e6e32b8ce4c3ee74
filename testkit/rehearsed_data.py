"""A cluster's data as real API servers store it, and rehearsals on it, on this machine, without a lab."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyrage
import pytest

from testkit import unit_stand_in
from testkit.api_servers import api_servers
from testkit.fakes.hosts import FakeHosts
from testkit.lab_cluster import until
from testkit.local_hosts import LocalHosts
from testkit.memory_cgroup import memory_limit
from testkit.ports import free_port
from testkit.waiting import stretched
from upgrader.adapters.age import AgeFiles
from upgrader.adapters.kube import KubeAdapter
from upgrader.adapters.own_host import OwnHost
from upgrader.lab.binaries import Binaries, kubernetes
from upgrader.lab.progress_port import Silent
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult
from upgrader.steps.backup.archive import pack
from upgrader.steps.backup.etcd_member import MANIFEST, EtcdMember
from upgrader.steps.backup.etcd_pod import SCRATCH
from upgrader.steps.backup.manifest import SNAPSHOT_PART, BackupManifest, Part, controller_part
from upgrader.steps.backup.verify import BackupFile
from upgrader.steps.rehearsal.client_requests import NO_REQUESTS, ClientRequests
from upgrader.steps.rehearsal.delivery import of_member
from upgrader.steps.rehearsal.from_backup import BackupRehearsal
from upgrader.steps.rehearsal.rehearsal import Rehearsal
from upgrader.steps.rehearsal.rehearsal_host import RehearsalHost
from upgrader.steps.rehearsal.result import Result
from upgrader.steps.rehearsal.servers import CHANGED_FLAGS, Server
from upgrader.steps.rehearsal.unit import MEMORY_BYTES, UNIT_SECONDS

__all__ = ["RehearsedData", "program_images", "run_out_of_space", "storing"]

_ISOLATED = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_CTR = """#!/bin/sh
# As `ctr -n k8s.io images list`, and `… mount IMAGE PLACE`, of images that are folders.
[ "$4" = list ] && exec ls {images}
[ "$4" = pull ] && echo "no registry" >&2 && exit 1
[ "$4" = mount ] || exit 0
mkdir -p "$6/usr/local/bin" && ln -s {images}/"$5"/* "$6/usr/local/bin/"
"""
_SEEMS_BOOTED = 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec "$@"'
_BOOTED = ("unshare", "--mount", "sh", "-c", _SEEMS_BOOTED, "sh")
"""For a program that asks whether systemd runs this machine."""
_CONTROLLER = Host("controller-1", "127.0.0.1", python=sys.executable)
_REHEARSAL_HOST = Host("build-1", "127.0.0.1", python=sys.executable)
_ENCRYPTION = """apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources: [{{resources: [secrets], providers: [{provider}]}}]
"""


@dataclass(frozen=True)
class RehearsedData:
    """Data that an API server has stored, and the programs to rehearse with."""

    folder: Path

    def flags(self, *more: str) -> tuple[str, ...]:
        """Those of a server that can start, as a plan would have them."""
        key = self.folder / "sa.key"
        own = (
            "--service-account-issuer=https://issuer.example",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--disable-admission-plugins=ServiceAccount",
            "--advertise-address=192.0.2.1",
        )
        return (*own, *CHANGED_FLAGS, *more)

    def server(self, version: str, *more: str, encryption: Path | None = None) -> Server:
        """A version, with more flags."""
        keys = (str(encryption),) if encryption else ()
        more = (*more, *(f"--encryption-provider-config={path}" for path in keys))
        return Server(version, self.flags(*more), keys, "/registry")

    def encryption(self, name: str, provider: str) -> Path:
        """A file of keys."""
        path = self.folder / name
        path.write_text(_ENCRYPTION.format(provider=provider))
        return path

    def rehearse(self, current: Server, target: Server, *inside: str, requests: ClientRequests = NO_REQUESTS) -> Result:
        """What is found, with the program run as on a controller; the data stays as it is."""
        hosts = FakeHosts()
        hosts.commands["systemd-run"] = partial(self._run, inside or _ISOLATED)
        member = EtcdMember(Host("controller-1", "127.0.0.1"), "etcd", "", "", "", str(self.folder), "")
        work = Path(member.work)
        work.mkdir(mode=0o700)
        try:
            shutil.copytree(self.folder / "etcd", work / SCRATCH)
            result = Rehearsal(hosts, (), requests=requests).compare(member, {"current": current, "target": target})
        finally:
            shutil.rmtree(work)
        return result

    def rehearse_elsewhere(self, current: Server, target: Server, data: Path | None = None) -> Result:
        """What is found by a host of group `rehearsal`, which is this machine, too; `data`: another etcd's."""
        self.prepare_elsewhere(current, target)
        member, servers = self._member, {"current": current, "target": target}
        work = Path(member.work)
        work.mkdir(mode=0o700, parents=True)
        try:
            shutil.copytree(data or self.folder / "etcd", work / SCRATCH)
            hosts = LocalHosts(self._environment)
            remove = partial(shutil.rmtree, work.parent)  # with the snapshot of which the data was made, if it is there
            return self._machine.compare(of_member(hosts, member, servers, remove), servers)
        finally:
            shutil.rmtree(work.parent, ignore_errors=True)  # it may have gone when it was sent

    def prepare_elsewhere(self, current: Server, target: Server) -> None:
        """What a command does there first."""
        self._machine.prepare([self._member.image], {"current": current, "target": target}, 1 << 20)

    def rehearse_backup(self, current: Server, target: Server, patch: pytest.MonkeyPatch) -> tuple[Result, datetime]:
        """What is found of a backup of it, on this machine; and when the backup was taken."""
        key = pyrage.x25519.Identity.generate()
        path, servers = self.folder / "backup.tar.age", {"current": current, "target": target}
        self._back_up(path, str(key.to_public()), {file for each in servers.values() for file in each.files})
        controllers = FakeHosts()
        controllers.files[_CONTROLLER.name, "/etc/machine-id"] = b"another machine"
        words = ["etcd", "--initial-advertise-peer-urls=https://10.0.0.11:2380"]
        pod = {"spec": {"containers": [{"image": "etcd", "command": words}]}}
        controllers.files[_CONTROLLER.name, MANIFEST] = json.dumps(pod).encode()
        self.units.mkdir(exist_ok=True)
        for name, value in self._environment.items():
            patch.setenv(name, value)
        here = Host("this machine", "127.0.0.1", python=str(self.folder / "bin" / "python-booted"))
        machine = RehearsalHost(OwnHost(), here, lambda _: None, str(self.elsewhere))
        backup = BackupFile(path, (str(key),), AgeFiles())
        made = BackupRehearsal(backup, "uid-1", controllers, (_CONTROLLER,), machine, lambda _: None)
        return made.run(servers)

    def _back_up(self, path: Path, recipient: str, files: Iterable[str]) -> None:
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w") as archive:
            for each in sorted(files):
                archive.add(each, each.lstrip("/"))
        content = {SNAPSHOT_PART: (self.folder / "snapshot.db").read_bytes()}
        content[controller_part(_CONTROLLER.name)] = held.getvalue()
        parts = tuple(Part(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in content.items())
        taken = datetime(2026, 11, 23, 13, 4, tzinfo=UTC)
        manifest = BackupManifest(taken, "uid-1", "", "", "etcd", _CONTROLLER.name, 0, 0, 0, "", parts)
        with path.open("wb") as sealed:
            AgeFiles().encrypt(pack(manifest, lambda part: [content[part.name]]), [recipient], sealed)

    @property
    def _member(self) -> EtcdMember:
        return EtcdMember(_CONTROLLER, "etcd", "", "", "", str(self.folder), "", use="u1")

    @property
    def _machine(self) -> RehearsalHost:
        self.units.mkdir(exist_ok=True)
        hosts = LocalHosts(self._environment, _BOOTED)
        return RehearsalHost(hosts, _REHEARSAL_HOST, lambda _: None, str(self.elsewhere))

    @property
    def elsewhere(self) -> Path:
        """The folder of all rehearsals' folders on the rehearsal host."""
        return self.folder / "elsewhere"

    @property
    def units(self) -> Path:
        """Has a file for each unit that runs, as `testkit.unit_stand_in` says."""
        return self.folder / "units"

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": f"{self.folder / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin", "UNITS": str(self.units)}

    def _run(self, inside: Sequence[str], _: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        words = [*inside, sys.executable, *command[command.index("-I") :]]
        seconds = stretched(UNIT_SECONDS)
        with memory_limit(MEMORY_BYTES) as limited:
            done = subprocess.run(
                [*limited, *words],
                input=stdin,
                capture_output=True,
                timeout=seconds,
                check=False,
                env=self._environment,
            )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def program_images(folder: Path, *versions: str) -> Path:
    """A folder with `bin/ctr`, for which folders of these versions' programs, and of etcd's, are images."""
    etcd = Binaries(Silent()).etcd()
    found = {f"etcd/{name}": etcd / name for name in ("etcd", "etcdutl")}
    for version in versions:
        found[f"{version}/kube-apiserver"] = kubernetes(version, Silent()) / "kubernetes"
    for name, path in found.items():
        place = folder / "images" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(path)
    (folder / "bin").mkdir()
    for name, text in {
        "ctr": _CTR.format(images=folder / "images"),
        # A program that asks whether systemd runs this machine is told so.
        "python-booted": f'#!/bin/sh\nexec {shlex.join(_BOOTED)} {sys.executable} "$@"\n',
        "systemd-run": f'#!/bin/sh\nexec {sys.executable} -I {unit_stand_in.__file__} "$@"\n',
    }.items():
        program = folder / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
    return folder


@contextmanager
def storing(folder: Path, images: Path, version: str, *flags: str) -> Iterator[tuple[RehearsedData, KubeAdapter]]:
    """While an API server stores what is created; afterwards the data is complete, and there is a snapshot of it.
    `images`: of `program_images`.
    """
    (folder / "bin").symlink_to(images / "bin")
    with api_servers(folder) as servers:
        with servers.serving(version, *flags) as kube:
            yield RehearsedData(folder), kube
        words = [str(Binaries(Silent()).etcd() / "etcdctl"), f"--endpoints={servers.etcd_url}"]
        words += ["snapshot", "save", str(folder / "snapshot.db")]
        subprocess.run(words, check=True, capture_output=True, timeout=stretched(60))


def run_out_of_space(folder: Path) -> None:
    """Have etcd refuse to write, and raise its alarm, in the data that was stored in this folder."""
    programs = Binaries(Silent()).etcd()
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    words = [str(programs / "etcd"), f"--data-dir={folder / 'etcd'}", "--quota-backend-bytes=1", "--log-level=error"]
    words += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
    etcd = subprocess.Popen([*words, "--force-new-cluster"], stderr=subprocess.DEVNULL)

    def refused() -> bool:
        put = [str(programs / "etcdctl"), f"--endpoints={client}", "put", "any", "value"]
        return b"database space exceeded" in subprocess.run(put, check=False, capture_output=True).stderr

    try:
        until("the alarm", refused, timeout_seconds=60)
    finally:
        etcd.terminate()
        etcd.wait()

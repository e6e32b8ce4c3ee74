"""A cluster's data as real API servers store it, and rehearsals on it, on this machine, without a lab."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from testkit import unit_stand_in
from testkit.api_servers import api_servers
from testkit.fakes.hosts import FakeHosts
from testkit.local_hosts import LocalHosts
from testkit.waiting import stretched
from upgrader.adapters.kube import KubeAdapter
from upgrader.lab.binaries import Binaries, kubernetes
from upgrader.lab.progress_port import Silent
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult
from upgrader.steps.backup.etcd_member import EtcdMember
from upgrader.steps.backup.etcd_pod import SCRATCH
from upgrader.steps.rehearsal.delivery import of_member
from upgrader.steps.rehearsal.rehearsal import Rehearsal
from upgrader.steps.rehearsal.rehearsal_host import RehearsalHost
from upgrader.steps.rehearsal.result import Result
from upgrader.steps.rehearsal.servers import CHANGED_FLAGS, Server

__all__ = ["RehearsedData", "program_images", "storing"]

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

    def rehearse(self, current: Server, target: Server, *inside: str) -> Result:
        """What is found, with the program run as on a controller; the data stays as it is."""
        hosts = FakeHosts()
        hosts.commands["systemd-run"] = partial(self._run, inside or _ISOLATED)
        member = EtcdMember(Host("controller-1", "127.0.0.1"), "etcd", "", "", "", str(self.folder), "")
        work = Path(member.work)
        work.mkdir(mode=0o700)
        try:
            shutil.copytree(self.folder / "etcd", work / SCRATCH)
            result = Rehearsal(hosts, ()).compare(member, {"current": current, "target": target})
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
            return self._machine.compare(of_member(hosts, member, servers, lambda: shutil.rmtree(work)), servers)
        finally:
            shutil.rmtree(work.parent)

    def prepare_elsewhere(self, current: Server, target: Server) -> None:
        """What a command does there first."""
        self._machine.prepare([self._member.image], {"current": current, "target": target}, 1 << 20)

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
        seconds = stretched(600)
        done = subprocess.run(
            words, input=stdin, capture_output=True, timeout=seconds, check=False, env=self._environment
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def program_images(folder: Path, *versions: str) -> Path:
    """A folder with `bin/ctr`, for which folders of these versions' programs, and of etcd's, are images."""
    found = {"etcd": Binaries(Silent()).etcd() / "etcd"}
    for version in versions:
        found[f"{version}/kube-apiserver"] = kubernetes(version, Silent()) / "kubernetes"
    for name, path in found.items():
        place = folder / "images" / name if "/" in name else folder / "images" / name / name
        place.parent.mkdir(parents=True)
        place.symlink_to(path)
    (folder / "bin").mkdir()
    for name, text in {
        "ctr": _CTR.format(images=folder / "images"),
        "systemd-run": f'#!/bin/sh\nexec {sys.executable} -I {unit_stand_in.__file__} "$@"\n',
    }.items():
        program = folder / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
    return folder


@contextmanager
def storing(folder: Path, images: Path, version: str, *flags: str) -> Iterator[tuple[RehearsedData, KubeAdapter]]:
    """While an API server stores what is created; afterwards the data is complete. `images`: of `program_images`."""
    (folder / "bin").symlink_to(images / "bin")
    with api_servers(folder) as servers, servers.serving(version, *flags) as kube:
        yield RehearsedData(folder), kube

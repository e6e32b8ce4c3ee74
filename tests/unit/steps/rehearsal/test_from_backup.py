"""A rehearsal of a backup on the operator's machine: what is taken of the backup, and which backups are refused."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyrage
import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.steps.backup.backups import SNAPSHOT, TAKEN
from tests.unit.steps.backup.backups import manifest as manifest_of
from tests.unit.steps.rehearsal.sent import asked_in
from upgrader.adapters.age import AgeFiles
from upgrader.errors import BackupRefused, HostError, UsageError
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult
from upgrader.steps.backup.archive import pack
from upgrader.steps.backup.etcd_member import MANIFEST
from upgrader.steps.backup.manifest import BackupManifest
from upgrader.steps.backup.verify import BackupFile
from upgrader.steps.rehearsal.from_backup import BackupRehearsal
from upgrader.steps.rehearsal.rehearsal_host import RehearsalHost
from upgrader.steps.rehearsal.servers import Server

CONTROLLERS = Host("controller-1", "10.0.0.11"), Host("controller-2", "10.0.0.12")
HERE = Host("this machine", "127.0.0.1")
KEYS, ADMISSION = "/etc/kubernetes/keys/encryption.yaml", "/etc/kubernetes/admission.yaml"
FLAGS = (f"--encryption-provider-config={KEYS}", f"--admission-control-config-file={ADMISSION}")
SERVERS = {
    "current": Server("kube-apiserver:v1.36.3", FLAGS, (KEYS,), "/registry"),
    "target": Server("kube-apiserver:v1.37.1", FLAGS, (KEYS,), "/registry"),
}
FILES = {KEYS: b"a secret key", ADMISSION: b"plugins: []", "/etc/kubernetes/pki/ca.key": b"another secret"}
ETCD = "registry.k8s.io/etcd:3.6.8-0"
PLACE = "/var/lib/upgrader-rehearsal"


def tar_of(files: dict[str, bytes], links: Sequence[str] = ()) -> bytes:
    """A controller's files, as a backup has them."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for path in links:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, "elsewhere"
            archive.addfile(entry)
    return made.getvalue()


class Site:
    """A backup, the controllers, and this machine, whose programs answer; `did` is what was done here, in order."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "backup.tar.age"
        self.files, self.links, self.snapshot = dict(FILES), list[str](), SNAPSHOT
        self.changed: Callable[[BackupManifest], BackupManifest] = lambda made: made
        self.controllers, self.here = FakeHosts(), FakeHosts()
        for host in CONTROLLERS:
            self.controllers.files[host.name, "/etc/machine-id"] = host.name.encode()
            self.controllers.files[host.name, MANIFEST] = etcd_manifest(ETCD)
        self.here.files[HERE.name, "/etc/machine-id"] = b"here"
        self.here.commands = {"python3": self._ready, "sh": self._shell, "touch": CommandResult(0, "", "")}
        self.did, self.asked, self.notes = list[str](), dict[str, Any](), list[str]()
        self.received: dict[str, bytes] = {}
        self.found: dict[str, Any] = {"findings": [], "counts": {"objects": 3}, "seconds": 4.5, "peak": 1 << 20}
        self._key = pyrage.x25519.Identity.generate()

    def write(self) -> BackupManifest:
        """The backup."""
        parts = {"etcd/snapshot.db": self.snapshot, "controllers/controller-1.tar": tar_of(self.files, self.links)}
        parts["controllers/controller-2.tar"] = tar_of({KEYS: b"of another controller"})
        made = self.changed(manifest_of(parts))
        with self.path.open("wb") as sealed:
            AgeFiles().encrypt(pack(made, lambda part: [parts[part.name]]), [str(self._key.to_public())], sealed)
        return made

    def run(self, uid: str = "uid-1") -> Any:
        """What is found in it."""
        self.write()
        machine = RehearsalHost(self.here, HERE, self.notes.append)
        backup = BackupFile(self.path, (str(self._key),), AgeFiles())
        made = BackupRehearsal(backup, uid, self.controllers, CONTROLLERS, machine, self.notes.append)
        return made.run(SERVERS)

    def _ready(self, _: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        assert b"upgrader.onhost.rehearsal.ready" in stdin
        self.did.append("ready")
        self.asked["ready"] = json.loads(command[-1])
        return CommandResult(0, "{}", "")

    def _shell(self, _: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if "systemd-run" not in command:
            self.did.append("remove")
            return CommandResult(0, "", "")
        self.did.append("rehearse")
        size = int(command[command.index("-c", command.index("python3")) + 2])
        self.asked["rehearse"] = asked_in(stdin)
        with tarfile.open(fileobj=io.BytesIO(stdin[size:])) as archive:
            for entry in archive:
                file = archive.extractfile(entry)
                assert file is not None
                self.received[entry.name] = file.read()
        return CommandResult(0, json.dumps(self.found), "")


def etcd_manifest(image: str) -> bytes:
    """kubeadm's."""
    words = ["etcd", "--initial-advertise-peer-urls=https://10.0.0.11:2380"]
    return json.dumps({"spec": {"containers": [{"image": image, "command": words}]}}).encode()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """With a good backup."""
    return Site(tmp_path, monkeypatch)


def test_the_snapshot_and_the_files_that_flags_name_go_into_a_unit(site: Site) -> None:
    """Nothing else of the backup does, and no file is written by another way. The controllers are only read."""
    result, taken = site.run()
    assert site.did == ["ready", "rehearse", "remove"] and taken == TAKEN
    assert site.received == {KEYS: FILES[KEYS], ADMISSION: FILES[ADMISSION], "scratch/snapshot.db": SNAPSHOT}
    assert (result.controller, result.rehearsal_host, result.counts) == ("controller-1", "this machine", {"objects": 3})
    asked = site.asked["rehearse"]
    size = len(SNAPSHOT) + len(FILES[KEYS]) + len(FILES[ADMISSION])
    assert asked["incoming"] == {"file_count": 3, "byte_count": size} and asked["snapshot"] == "snapshot.db"
    assert asked["servers"]["target"]["encryption"] == [f"{asked['work']}/files{KEYS}"]
    assert asked["work"].startswith(f"{PLACE}/") and asked["etcd"] == ETCD
    assert site.asked["ready"]["bytes"] == 3 * len(SNAPSHOT) and ETCD in site.asked["ready"]["images"]
    assert not site.controllers.ran and not site.here.modes
    assert "as of 2026-11-23 13:04" in site.notes[-1]
    assert not any(b"secret" in note.encode() for note in site.notes)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda site: site.files.pop(KEYS), f"controller-1 that kube-apiserver's flags name: {KEYS}"),
        (lambda site: (site.files.pop(KEYS), site.links.append(KEYS)), "a link is not followed"),
        (lambda site: site.files.update({KEYS: bytes((1 << 20) + 1)}), "is not a regular file of at most 1 MiB"),
        (lambda site: site.files.update({ADMISSION: b"- path: /x.yaml"}), f"{ADMISSION} names other files"),
    ],
    ids=["missing", "link", "large", "admission"],
)
def test_a_backup_without_a_file_that_is_needed_is_refused(site: Site, spoil: Callable[[Site], Any], why: str) -> None:
    """Without it, another server would be tried than the one that runs. Another controller's file isn't taken."""
    spoil(site)
    with pytest.raises(BackupRefused, match=why) as caught:
        site.run()
    assert "--here" in caught.value.remedy and not site.did


@pytest.mark.parametrize("how", ["cut off", "changed", "another key"])
def test_a_backup_that_is_damaged_is_refused(site: Site, how: str) -> None:
    """Or that the key doesn't open: all of it is read before anything of it is used, and nothing is started."""
    site.write()
    site.write = lambda: None  # type: ignore[assignment,method-assign,return-value]
    content = bytearray(site.path.read_bytes())
    if how == "changed":
        content[-20] ^= 1
    site.path.write_bytes(content[:-100] if how == "cut off" else content)
    if how == "another key":
        site._key = pyrage.x25519.Identity.generate()
    with pytest.raises((BackupRefused, UsageError), match=re.escape(str(site.path))):
        site.run()
    assert not site.did and not site.here.modes


def test_a_backup_that_is_damaged_while_it_is_compared_leaves_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk fails when it is read again: the unit is ended, and its folder removed."""
    read, times = BackupFile.read, list[int]()

    def failing(backup: BackupFile, receive: Any = None) -> BackupManifest:
        times.append(1)
        if len(times) == 1:
            return read(backup, receive)

        def cut(part: Any, content: Iterator[bytes]) -> None:
            def until_it_fails() -> Iterator[bytes]:
                yield next(content)[:1]
                raise BackupRefused(f"{backup.path} can't be read")

            receive(part, until_it_fails())

        return read(backup, cut)

    monkeypatch.setattr(BackupFile, "read", failing)
    with pytest.raises(BackupRefused, match="can't be read"):
        site.run()
    assert site.did == ["ready", "remove"]


def test_a_backup_of_another_cluster_is_refused(site: Site) -> None:
    """It says nothing of this one: nothing is started. So is one of which that isn't known."""
    with pytest.raises(BackupRefused, match=r"was taken from cluster uid-1, not from this cluster, uid-2"):
        site.run("uid-2")
    site.changed = lambda made: replace(made, cluster_uid="")
    with pytest.raises(BackupRefused, match=r"was taken from cluster unknown, not from this cluster"):
        site.run()
    assert not site.did


def test_only_an_etcd_that_a_controller_runs_is_started(site: Site) -> None:
    """Whoever knows the public key can write a backup that names any image."""
    site.changed = lambda made: replace(made, etcd="example.com/evil")
    with pytest.raises(BackupRefused, match=rf"was taken from etcd example\.com/evil, but the controllers run {ETCD}"):
        site.run()
    site.changed = lambda made: made
    site.controllers.files.clear()
    site.controllers.down |= {host.name for host in CONTROLLERS}
    with pytest.raises(BackupRefused, match="the controllers run none"):
        site.run()
    assert not site.did


def test_a_machine_that_is_a_controller_is_refused(site: Site) -> None:
    """upgrader may run on one: the data is there already."""
    site.here.files[HERE.name, "/etc/machine-id"] = b"controller-2"
    with pytest.raises(HostError, match=r"^this machine is the controller controller-2") as caught:
        site.run()
    assert "omit --here" in caught.value.remedy and not site.did


def test_a_backup_that_is_replaced_meanwhile_gives_no_result(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was verified is not what was compared then."""
    read = BackupFile.read

    def replacing(backup: BackupFile, receive: Any = None) -> BackupManifest:
        found = read(backup, receive)
        site.snapshot = b"another one"
        site.write()
        return found

    monkeypatch.setattr(BackupFile, "read", replacing)
    with pytest.raises(BackupRefused, match="was replaced by another backup in the meantime"):
        site.run()
    assert site.did == ["ready"], "it is not the snapshot that was verified"


@pytest.mark.parametrize("taken", ["2026-11-23T13:04:33", "yesterday"])
def test_a_time_that_can_not_be_compared_is_refused(taken: str) -> None:
    """A record is as old as its backup."""
    content = json.loads(manifest_of({"etcd/snapshot.db": b""}).encode())
    with pytest.raises(BackupRefused, match="its manifest can't be parsed: ValueError"):
        BackupManifest.decode(json.dumps({**content, "taken": taken}).encode())


def test_what_can_not_be_removed_is_told(site: Site) -> None:
    """After an error; where it is, and what removes it."""
    site.found = {"failed": "the scratch etcd does not serve the copy"}
    begin = site._shell

    def stuck(host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        done = begin(host, command, stdin)
        return done if "systemd-run" in command else CommandResult(1, "", "rm: busy")

    site.here.commands["sh"] = stuck
    with pytest.raises(HostError, match="the scratch etcd does not serve the copy"):
        site.run()
    assert f"this machine: {PLACE}/" in site.notes[-1] and "may remain for some minutes" in site.notes[-1]
    assert "rm: busy" in site.notes[-1]


def test_a_part_that_is_no_archive_is_refused(site: Site) -> None:
    """Its hash is what its maker says, which proves nothing of its form."""
    parts = {"etcd/snapshot.db": SNAPSHOT, "controllers/controller-1.tar": b"no tar" * 200}
    made = manifest_of(parts)
    assert made.parts[1].sha256 == hashlib.sha256(parts["controllers/controller-1.tar"]).hexdigest()
    site.write = lambda: _sealed(site, made, parts)  # type: ignore[method-assign]
    with pytest.raises(BackupRefused, match=r"controllers/controller-1\.tar is not a tar archive"):
        site.run()


def _sealed(site: Site, made: BackupManifest, parts: dict[str, bytes]) -> BackupManifest:
    with site.path.open("wb") as sealed:
        AgeFiles().encrypt(pack(made, lambda part: [parts[part.name]]), [str(site._key.to_public())], sealed)
    return made

"""Taking a backup: what is in it, what is on disk afterwards, and what is refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyrage
import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.steps.backup.test_etcd import HOST, STATUS, YAML
from upgrader.adapters.age import AgeFiles
from upgrader.errors import BackupRefused, HostError, UsageError
from upgrader.model.cluster import Cluster, Host
from upgrader.model.settings import BackupSettings
from upgrader.ports import CommandResult
from upgrader.steps.backup.encryption import _FIND
from upgrader.steps.backup.etcd_member import ASIDE, MANIFEST
from upgrader.steps.backup.take import _COLLECT, _REMOVE, BackupTaker
from upgrader.steps.backup.verify import BackupFile

OTHER = Host("controller-2", "10.0.0.12")
CONTENT = "content of a file on a controller\n" * 1000
READ = '{"keys": 3, "digest": "d1", "revision": 5, "uid": "uid-1"}'


class Lab:
    """Two controllers in memory, and a key."""

    def __init__(self, folder: Path) -> None:
        self.hosts, self.kube, self.notes = FakeHosts(), FakeKube(), list[str]()
        self.kube.raw_answers["/version"] = '{"gitVersion": "v1.36.3"}'
        self.sent = CONTENT
        self.standings: dict[str, dict[str, object]] = {}
        self.failed: dict[str, str] = {}
        """Host → why its tools fail."""
        self.logging: set[str] = set()
        """The hosts whose sudo logs what its commands print."""
        identity = pyrage.x25519.Identity.generate()
        self.private = str(identity)
        for host in (HOST, OTHER):
            self.hosts.files[host.name, MANIFEST] = (YAML % "/var/lib/etcd").encode()
        self.hosts.commands = {
            "python3": self._program,
            "sh": self._shell,
            "bash": CommandResult(0, "", ""),
            "cat": lambda host, command, stdin: CommandResult(0, self.sent, ""),
            "rm": CommandResult(0, "", ""),
        }
        cluster = Cluster(folder, folder / "kubeconfig", "", folder / "hosts.yml", (HOST, OTHER))
        settings = BackupSettings((str(identity.to_public()),), folder / "backups")
        self.taker = BackupTaker(self.hosts, self.kube, FakeClock(), AgeFiles(), cluster, settings)

    def _program(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        name = stdin.decode().rsplit("from upgrader.onhost.", 1)[1].split()[0].partition(".")[2]
        standing = self.standings.get(host.name, {"healthy": True, "revision": 5, "said": ""})
        pod = {"failed": self.failed[host.name]} if host.name in self.failed else {"logs": {"status": STATUS}}
        logged = {"failed": "sudo logs the output"} if host.name in self.logging else {}
        answers = {
            "sudo_log": json.dumps(logged),
            "await_pod": json.dumps(pod),
            "read_etcd": READ,
            "ask_member": json.dumps(standing),
        }
        return CommandResult(0, answers.get(name, "{}"), "")

    def _shell(self, host: Host, command: Sequence[str], stdin: bytes) -> CommandResult:
        if "sha256sum" in command[2]:
            return CommandResult(0, f"{len(CONTENT)}\n{hashlib.sha256(CONTENT.encode()).hexdigest()}  path\n", "")
        if "sed" in command[2]:
            return CommandResult(0, "", "")
        return CommandResult(0, "1000000000000\n" if "df" in command[2] else "5000000\n", "")

    def left(self) -> list[str]:
        """What is in the folder with backups, but for whose they are."""
        folder = self.taker.settings.folder
        names = (path.name for path in folder.iterdir()) if folder.exists() else iter(())
        return sorted(name for name in names if name != "cluster-uid")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Two controllers."""
    return Lab(tmp_path)


def test_a_backup_has_the_snapshot_and_every_controllers_files(lab: Lab) -> None:
    """It is encrypted, only its owner may read the file, and it verifies with the key."""
    taken = lab.taker.take(lab.notes.append)
    assert taken.path.stat().st_mode & 0o777 == 0o600
    assert taken.path.parent.stat().st_mode & 0o777 == 0o700
    assert b"content of a file" not in taken.path.read_bytes()
    manifest = BackupFile(taken.path, (lab.private,), AgeFiles()).read()
    assert manifest == replace(taken.manifest, taken=manifest.taken)
    assert [part.name for part in manifest.parts] == [
        "etcd/snapshot.db",
        "controllers/controller-1.tar",
        "controllers/controller-2.tar",
    ]
    assert (manifest.cluster_uid, manifest.kubernetes, manifest.keys, manifest.etcd_hash) == ("uid-1", "v1.36.3", 3, 7)


def test_no_backup_passes_through_a_sudo_that_logs_it(lab: Lab) -> None:
    """The log would have the cluster's Secrets in clear, and its readers are others. Nothing is collected or written; a
    login as root asks no sudo.
    """
    lab.logging = {OTHER.name}
    lab.taker.take(lab.notes.append)
    with_sudo = replace(lab.taker.cluster, controllers=(HOST, replace(OTHER, become=True)))
    before, lab.notes = lab.left(), []
    with pytest.raises(HostError, match="controller-2: sudo logs the output"):
        replace(lab.taker, cluster=with_sudo).take(lab.notes.append)
    assert (lab.left(), lab.notes) == (before, [])


@pytest.mark.parametrize("name", ["Master_1", "10.0.0.12", "m" * 150])
def test_a_controller_may_have_any_name_that_a_file_can_have(lab: Lab, name: str) -> None:
    """A backup that is written can be read again: the inventory's names needn't be those of Kubernetes."""
    named(lab, name)
    taken = lab.taker.take(lab.notes.append)
    manifest = BackupFile(taken.path, (lab.private,), AgeFiles()).read()
    assert [part.name for part in manifest.parts][1:] == ["controllers/controller-1.tar", f"controllers/{name}.tar"]


@pytest.mark.parametrize("name", ["a/../b", "fd00::1", "-a", "a b"])
def test_a_controller_whose_files_no_reader_would_take_is_refused_first(lab: Lab, name: str) -> None:
    """Nothing is asked of a controller, and no older backup is removed for one that nobody could read."""
    named(lab, name)
    with pytest.raises(UsageError, match="controllers with such a name can't be backed up"):
        lab.taker.take(lab.notes.append)
    assert lab.hosts.ran == [] and lab.left() == []


def named(lab: Lab, name: str) -> None:
    """The second controller has another name."""
    other = replace(OTHER, name=name)
    lab.hosts.files[name, MANIFEST] = lab.hosts.files[HOST.name, MANIFEST]
    lab.taker = replace(lab.taker, cluster=replace(lab.taker.cluster, controllers=(HOST, other)))


def test_nothing_stays_on_the_controllers(lab: Lab) -> None:
    """The last thing that is done on each is to remove the work folder."""
    lab.taker.take(lab.notes.append)
    last = dict(lab.hosts.ran)
    assert all(command[-1] == "/var/lib/etcd/upgrader" for command in last.values())


def test_it_works_without_an_api(lab: Lab) -> None:
    """The version is unknown then; the cluster is known by its data."""
    lab.kube.unavailable = True
    manifest = lab.taker.take(lab.notes.append).manifest
    assert (manifest.kubernetes, manifest.cluster_uid) == ("", "uid-1")


def test_a_controller_without_etcd_is_passed_over(lab: Lab) -> None:
    """The next one takes the snapshot, and a note says why."""
    lab.hosts.files[OTHER.name, MANIFEST] = lab.hosts.files.pop((HOST.name, MANIFEST))
    assert lab.taker.take(lab.notes.append).manifest.member == "controller-2"
    assert "controller-1: etcd is not a static pod here" in lab.notes[0]


def test_a_controller_that_is_being_restored_is_passed_over(lab: Lab) -> None:
    """Its new data is where a backup would work, and nothing but that: it isn't removed."""
    lab.hosts.files[HOST.name, ASIDE] = lab.hosts.files.pop((HOST.name, MANIFEST))
    assert lab.taker.take(lab.notes.append).manifest.member == "controller-2"
    assert "controller-1: a restore has stopped etcd" in lab.notes[0]
    assert not any(command[:1] == ("python3",) for name, command in lab.hosts.ran if name == HOST.name)


def test_a_member_that_is_cut_off_gives_no_snapshot(lab: Lab) -> None:
    """It would answer with data of the past; the next one is of a majority, and a note says why."""
    lab.standings["controller-1"] = {"healthy": False, "revision": 9, "said": "RAFT NO LEADER"}
    assert lab.taker.take(lab.notes.append).manifest.member == "controller-2"
    assert "controller-1: its etcd member is not part of a quorum: RAFT NO LEADER" in lab.notes


def test_without_a_majority_the_newest_data_is_taken(lab: Lab) -> None:
    """A backup is needed most then; what it may lack is said."""
    for name, revision in (("controller-1", 4), ("controller-2", 7)):
        lab.standings[name] = {"healthy": False, "revision": revision, "said": "no leader"}
    assert lab.taker.take(lab.notes.append).manifest.member == "controller-2"
    assert any("No etcd member is part of a quorum. The backup comes from controller-2" in note for note in lab.notes)


def test_the_next_member_is_tried_where_one_fails(lab: Lab) -> None:
    """A full disk on one controller is no reason to go without a backup; why it was passed over is said."""
    lab.failed["controller-1"] = "container snapshot ended with 1: no space left on device"
    assert lab.taker.take(lab.notes.append).manifest.member == "controller-2"
    assert any("no space left on device" in note for note in lab.notes)
    assert all(command[-1] == "/var/lib/etcd/upgrader" for command in dict(lab.hosts.ran).values())


def test_where_every_member_fails_each_is_named(lab: Lab) -> None:
    """And no file is left."""
    lab.failed = {"controller-1": "no space", "controller-2": "no tools"}
    with pytest.raises(
        HostError, match="no backup is possible: controller-1: no space; controller-2: no tools"
    ) as caught:
        lab.taker.take(lab.notes.append)
    assert "crictl" in caught.value.remedy
    assert lab.left() == []


def test_what_changed_on_its_way_makes_no_backup(lab: Lab) -> None:
    """Neither a file under its name nor an unfinished one stays."""
    lab.sent = CONTENT.upper()
    with pytest.raises(HostError, match="was changed on its way"):
        lab.taker.take(lab.notes.append)
    assert lab.left() == []


def test_an_unreachable_controller_makes_no_backup(lab: Lab) -> None:
    """A backup that lacks a controller's keys would not be one."""
    lab.hosts.down.add(OTHER.name)
    with pytest.raises(HostError, match="controller-2"):
        lab.taker.take(lab.notes.append)
    assert lab.left() == []


def test_without_recipients_nothing_is_done(lab: Lab) -> None:
    """The remedy says how to get a key."""
    with pytest.raises(UsageError, match="there is no key to encrypt the backup with") as caught:
        replace(lab.taker, settings=BackupSettings()).take(lab.notes.append)
    assert "upgrader backup keygen" in caught.value.remedy
    assert not lab.hosts.ran


def test_a_folder_that_cannot_be_written_is_named(lab: Lab, tmp_path: Path) -> None:
    """The file's path, and which key of upgrader.yaml it is."""
    (tmp_path / "backups").write_text("a file")
    with pytest.raises(UsageError, match=r"backups.*can't be written") as caught:
        lab.taker.take(lab.notes.append)
    assert "backup.folder" in caught.value.remedy


def test_one_flipped_byte_is_refused(lab: Lab) -> None:
    """The error names the file, and says that nothing was changed."""
    path = lab.taker.take(lab.notes.append).path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BackupRefused, match=str(path)) as caught:
        BackupFile(path, (lab.private,), AgeFiles()).read()
    assert "Nothing was changed" in caught.value.remedy


def collect(root: Path, *elsewhere: str) -> subprocess.CompletedProcess[str]:
    """What is run on a controller."""
    command = ["bash", "-c", _COLLECT, "bash", str(root / "work"), str(root), *elsewhere]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("left", ["", "upgrader/own/files.tar", "upgrader/own/files.tar upgrader/other/snapshot.db"])
def test_what_was_collected_is_removed(tmp_path: Path, left: str) -> None:
    """Also where nothing was, as on a controller after one that failed; and nothing of another use."""
    for name in left.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    place = tmp_path / "upgrader"
    command = ["sh", "-c", _REMOVE, "sh", str(place / "own"), str(place)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert not (place / "own").exists()
    assert place.exists() is ("other" in left)


def test_kubeadms_copies_of_etcd_are_no_part_of_a_controllers_files(tmp_path: Path) -> None:
    """Each is as large as etcd, and they would fill etcd's own disk."""
    for name in (
        "etc/kubernetes/pki/ca.key",
        "etc/kubernetes/tmp/kubeadm-backup-etcd-1/etcd/member/snap/db",
        "opt/enc",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert collect(tmp_path, "opt/enc").returncode == 0
    with tarfile.open(tmp_path / "work/files.tar") as tar:
        assert [entry.name for entry in tar if entry.isfile()] == ["etc/kubernetes/pki/ca.key", "opt/enc"]
    assert (tmp_path / "work/files.tar").stat().st_mode & 0o777 == 0o600


def test_etcds_disk_is_not_filled_with_a_controllers_files(tmp_path: Path) -> None:
    """What doesn't fit is told before a byte is written."""
    (tmp_path / "etc/kubernetes").mkdir(parents=True)
    with (tmp_path / "etc/kubernetes/large").open("wb") as file:
        file.truncate(1 << 43)  # a hole: it needs no space here
    ended = collect(tmp_path)
    assert ended.returncode == 2
    assert "are needed for /etc/kubernetes" in ended.stderr
    assert not (tmp_path / "work/files.tar").exists()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("manifests/kube-apiserver.yaml", "    - --encryption-provider-config=%s\n"),
        (
            "checkpointer/workloads/kube-system.kube-apiserver/generations/7/manifest.json",
            '{"args": ["--encryption-provider-config-automatic-reload=true", "--encryption-provider-config=%s"]}',
        ),
    ],
)
def test_encryption_keys_from_elsewhere_are_found(tmp_path: Path, path: str, content: str) -> None:
    """Also where kube-apiserver is no static pod any more, but a Deployment: its checkpoint tells."""
    (tmp_path / path).parent.mkdir(parents=True)
    keys = tmp_path / "enc.yaml"
    (tmp_path / path).write_text(content % keys)
    ended = subprocess.run(["sh", "-c", _FIND, "sh", tmp_path], capture_output=True, text=True, check=True)
    assert (ended.stdout.split(), ended.stderr.split()) == ([], [str(keys)])  # a Secret's: only in the container
    keys.touch()
    ended = subprocess.run(["sh", "-c", _FIND, "sh", tmp_path], capture_output=True, text=True, check=True)
    assert (ended.stdout.split(), ended.stderr.split()) == ([str(keys)], [])

"""The data of a rehearsal on another host: measured where it is, received in a private folder, whole or not at all."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal import files_to_send, ready, rehearse, room
from upgrader.onhost.rehearsal.receive import receive
from upgrader.steps.rehearsal.delivery import TAR

IMAGE = "registry.k8s.io/kube-apiserver:v1.37.1"
GIB = 1 << 30


class Source:
    """A controller's restored data, and files that flags name."""

    def __init__(self, folder: Path) -> None:
        self.data, self.keys = folder / "scratch", folder / "etc" / "keys.yaml"
        (self.data / "member" / "snap").mkdir(parents=True)
        (self.data / "member" / "snap" / "db").write_bytes(b"data" * 10_000)
        (self.data / "member" / "wal").mkdir()
        (self.data / "member" / "wal" / "0.wal").write_bytes(bytes(5000))
        self.keys.parent.mkdir()
        self.keys.write_text("a key")

    def measured(self, capsys: pytest.CaptureFixture[str], *more: Path, admission: Path | None = None) -> Any:
        """What its program answers."""
        files = [str(path) for path in (self.keys, *more)]
        asked = {
            "data": str(self.data),
            "files": files,
            "admission": [str(admission)] if admission else [],
            "sudo": False,
        }
        files_to_send.main(json.dumps(asked))
        return json.loads(capsys.readouterr().out)

    def archive(self, *more: Path) -> bytes:
        """As its tar makes it, with the options of `RehearsalHost`."""
        command = ["tar", *TAR, f"--directory={self.data.parent}", "scratch", str(self.keys), *map(str, more)]
        return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """With a database, a log, and one file."""
    folder = tmp_path / "controller"
    folder.mkdir()
    return Source(folder)


def test_what_is_sent_arrives_in_a_private_folder(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data in its folder, the files below `files`, all of them for root alone; files that are missing here are
    missing there.
    """
    measured = source.measured(capsys, tmp_path / "missing")
    assert measured == {"files": [str(source.keys)], "file_count": 3, "byte_count": 45_005}
    work = tmp_path / "work"
    receive(io.BytesIO(source.archive()), str(work), "scratch", file_count=3, byte_count=45_005)
    assert (work / "scratch/member/snap/db").read_bytes() == b"data" * 10_000
    arrived = work / "files" / str(source.keys)[1:]
    assert arrived.read_text() == "a key"
    assert arrived.stat().st_mode & 0o077 == 0 and (work / "scratch").stat().st_mode & 0o077 == 0


def test_one_file_under_two_names_arrives_under_both(source: Source, tmp_path: Path) -> None:
    """As where `/etc/kubernetes/pki` leads to `/etc/kubernetes/ssl`, and flags use both."""
    (source.keys.parent.parent / "pki").symlink_to(source.keys.parent)
    other, work = source.keys.parent.parent / "pki" / source.keys.name, tmp_path / "work"
    receive(io.BytesIO(source.archive(other)), str(work), "scratch", file_count=4, byte_count=45_010)
    assert all((work / "files" / str(path)[1:]).read_text() == "a key" for path in (source.keys, other))


def test_what_was_cut_off_is_refused(source: Source, tmp_path: Path) -> None:
    """Also between two files, where an archive looks as if it had ended."""
    whole = source.archive()
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        begins = [entry.offset for entry in archive]
    for number, end in enumerate([*begins[1:], begins[-1] + 100, 20_000]):
        with pytest.raises(Failed, match=r"arrived|did not arrive"):
            receive(
                io.BytesIO(whole[:end]), str(tmp_path / f"work-{number}"), "scratch", file_count=3, byte_count=45_005
            )


def test_nothing_is_written_elsewhere(tmp_path: Path) -> None:
    """Whatever a controller sends."""
    for number, (name, kind) in enumerate(
        [
            ("scratch/../../out", tarfile.REGTYPE),
            ("/etc/../../out", tarfile.REGTYPE),
            ("other", tarfile.REGTYPE),
            ("scratch/link", tarfile.SYMTYPE),
            ("scratch/device", tarfile.CHRTYPE),
        ]
    ):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry)
        with pytest.raises(Failed, match="the archive of the cluster's data has"):
            receive(io.BytesIO(made.getvalue()), str(tmp_path / str(number)), "scratch", file_count=1, byte_count=0)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("plugins: [{name: ImagePolicyWebhook, configuration: {imagePolicy: {kubeConfigFile: /etc/b.yaml}}}]", True),
        ("plugins: [{name: ValidatingAdmissionPolicy, configuration: {staticManifestsDir: /etc/policies}}]", True),
        ('{"plugins": [{"name": "PodSecurity", "path": "pods.yaml"}]}', True),
        ("plugins:\n- name: PodSecurity\n  path: # of pods\n    pods.yaml\n", True),
        ("plugins:\n- name: PodSecurity\n  ? path # of pods\n  : pods.yaml\n", True),
        ("plugins:\n- &key path: ''\n- {*key : pods.yaml}\n", True),
        ('plugins: [{"name": "PodSecurity", "p\\x61th": "pods.yaml"}]', True),
        ("imagePolicy: {kubeconfigfile: /etc/b.yaml}", True),
        ("plugins: [{name: PodSecurity, configuration: {kind: Paths}}] # no path, and **no**: file", False),
        ("plugins:\n- name: PodSecurity\n  path: ''\n  configuration: {kind: PodSecurityConfiguration}\n", False),
    ],
)
def test_an_admission_configuration_that_names_files_stays(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, refused: bool
) -> None:
    """They would be missing, and the target would fail for that alone."""
    file = tmp_path / "admission.yaml"
    file.write_text(text)
    measured = source.measured(capsys, file, admission=file)
    assert ("names other files" in measured.get("failed", "")) == refused


class RehearsalMachine:
    """A host of group `rehearsal` with all that is needed."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.place = folder / "place"
        self.images, self.pulled, self.free = [IMAGE], list[tuple[str, ...]](), 100 * GIB
        self.asked = {"place": str(self.place), "units": "unit-", "images": [IMAGE], "memory": 0, "bytes": GIB}
        self.asked["sudo"] = False
        self.units: list[str] = []
        (folder / "systemd").mkdir()
        patch.setattr(ready, "_SYSTEMD", str(folder / "systemd"))
        patch.setattr(ready, "_MIRRORS", str(folder / "certs.d"))
        patch.setattr(ready, "runs", lambda prefix: any(each.startswith(prefix) for each in self.units))
        patch.setattr(ready, "ctr", self._ctr)
        patch.setattr(os, "geteuid", lambda: 0)
        patch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=self.free, total=0))

    def _ctr(self, *words: str, **_: float) -> subprocess.CompletedProcess[bytes]:
        if words[0] == "pull":
            self.pulled.append(words)
            return subprocess.CompletedProcess(words, 1, b"", b"no such host")
        return subprocess.CompletedProcess(words, 0, "\n".join(self.images).encode(), b"")

    def missing(self, capsys: pytest.CaptureFixture[str]) -> str:
        """What its program says."""
        ready.main(json.dumps(self.asked))
        return str(json.loads(capsys.readouterr().out).get("failed", ""))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RehearsalMachine:
    """Nothing is left on it."""
    return RehearsalMachine(tmp_path, monkeypatch)


def test_a_host_with_everything_is_ready(machine: RehearsalMachine, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is made or pulled."""
    assert machine.missing(capsys) == "" and not machine.pulled and not machine.place.exists()


def test_all_that_a_host_lacks_is_told_at_once(
    machine: RehearsalMachine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is pulled to a host that can't be used."""

    def no_ctr(*_: str, **__: float) -> None:
        raise Failed("ctr, containerd's program, was not found on this host")

    monkeypatch.setattr(ready, "ctr", no_ctr)
    monkeypatch.setattr(ready, "_SYSTEMD", "/nowhere")
    machine.asked["memory"], machine.free, machine.images = 1 << 60, GIB, []
    said = machine.missing(capsys)
    for lack in ("systemd does not run this host", "MiB of memory are available", "1,024 MiB of free space", "ctr, "):
        assert lack in said, said
    assert not machine.pulled


def test_a_machine_that_can_have_no_unit_is_told_why(
    machine: RehearsalMachine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user who isn't root; and another system, of which nothing else is asked."""
    assert not list(ready.unsuited())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "upgrader is not root here" in machine.missing(capsys)
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert list(ready.unsuited()) == ["it runs Darwin instead of Linux"]


def test_an_image_is_pulled_where_the_registry_is_known(
    machine: RehearsalMachine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the mirrors that containerd has; what the registry says is told."""
    machine.images = []
    assert machine.missing(capsys) == f"image {IMAGE} is not on this host, and can't be pulled: no such host"
    (tmp_path / "certs.d").mkdir()
    machine.missing(capsys)
    assert machine.pulled == [("pull", IMAGE), ("pull", "--hosts-dir", str(tmp_path / "certs.d"), IMAGE)]


def test_a_rehearsal_that_is_just_starting_keeps_its_folder(
    machine: RehearsalMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another cluster's has its folder, and its lease, for a moment before its unit runs; later, it was left."""
    folder = machine.place / "other"
    folder.mkdir(parents=True)
    (folder / "lease").touch()
    assert machine.missing(capsys) == "" and folder.is_dir()
    os.utime(folder, (0, 0))
    assert machine.missing(capsys) == "" and not folder.exists()


def test_what_an_interrupted_rehearsal_left_is_removed(
    machine: RehearsalMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as by a power cut, between the copy and the start. Another cluster's that is running is left alone."""
    for use in ("gone", "other"):
        (machine.place / use / "scratch").mkdir(parents=True)
        (machine.place / use / "scratch" / "db").touch()
    machine.units = ["unit-other.service"]
    assert machine.missing(capsys) == ""
    assert [path.name for path in machine.place.iterdir()] == ["other"] and (
        machine.place / "other/scratch/db"
    ).exists()


def test_no_data_is_read_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor where anything could be reached: both are looked at before the first byte."""
    monkeypatch.setattr(rehearse, "end_when_abandoned", lambda _: None)
    monkeypatch.setattr(rehearse, "make_private", lambda _: None)
    monkeypatch.setattr(rehearse, "receive", lambda *_, **__: pytest.fail("nothing may be received"))
    asked = {
        "work": str(tmp_path),
        "unit": "unit",
        "data": "scratch",
        "incoming": {"file_count": 1, "byte_count": 1},
        "servers": {},
    }

    def told(memory: int) -> str:
        rehearse.main(json.dumps({**asked, "memory": memory, "seconds": 1}))
        return str(json.loads(capsys.readouterr().out)["failed"])

    def reachable() -> None:
        raise Failed("it could reach eth0")

    with monkeypatch.context() as patch:
        patch.setattr(rehearse, "require_isolation", reachable)
        assert told(0) == "it could reach eth0"
    monkeypatch.setattr(rehearse, "require_isolation", lambda: None)
    assert "of memory are available" in told(1 << 60)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0, total=0))
    assert "has 0 MiB of free space" in told(-room.MARGIN_BYTES)

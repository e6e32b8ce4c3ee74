"""What is ended and removed on a controller before a use of etcd's tools, and after it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from upgrader.onhost.backup import remove_leftovers
from upgrader.steps.backup import restore


class Controller:
    """Its units and pods; `did` is what was done, in order."""

    def __init__(self, folder: Path) -> None:
        self.did: list[str] = []
        self.place = folder / "etcd" / "upgrader"
        self.stopping = subprocess.CompletedProcess[bytes]([], 0, b"", b"")

    def begin(self, unit: str) -> None:
        """One of a unit's processes."""
        cgroup = self.place.parent.parent / "proc" / "17" / "cgroup"
        cgroup.parent.mkdir(parents=True)
        cgroup.write_text(f"0::/system.slice/{unit}.service\n")

    def add(self, path: str) -> Path:
        """A file below the place of all uses."""
        file = self.place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        return file

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        """As `subprocess.run`."""
        self.did.append(" ".join(command))
        return self.stopping

    def remove(self, folder: str) -> None:
        """As `shutil.rmtree`."""
        self.did.append("remove")
        shutil.rmtree(folder)


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """A controller without pods."""
    made = Controller(tmp_path)
    for name, fake in {
        "_MANIFESTS": str(tmp_path / "manifests"),
        "subprocess": SimpleNamespace(run=made.run, TimeoutExpired=subprocess.TimeoutExpired),
        "shutil": SimpleNamespace(rmtree=made.remove),
        "gone": lambda *_: True,
        "container_facts": SimpleNamespace(socket_path=lambda _: "", runtime=lambda *_: None),
    }.items():
        monkeypatch.setattr(f"upgrader.onhost.backup.remove_leftovers.{name}", fake)
    monkeypatch.setattr("upgrader.onhost.common.units._PROC", str(tmp_path / "proc"))
    return made


def test_units_end_before_their_folder_goes(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    """What a unit removes at its end is then its own, and never what is made in that place afterwards."""
    controller.add("one/snapshot.db")
    controller.begin("upgrader-rehearsal-one-1")
    remove_leftovers.main("upgrader-etcd-", "upgrader-rehearsal-", str(controller.place), "")
    assert controller.did == ["systemctl stop -- upgrader-rehearsal-*.service", "remove"]
    assert not controller.place.exists() and controller.place.parent.exists()
    assert json.loads(capsys.readouterr().out) == {}


def test_a_unit_that_goes_on_is_told_and_nothing_is_removed(
    controller: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restore must not begin in a folder that a unit is going to empty."""
    kept = controller.add("one/snapshot.db")
    controller.begin("upgrader-rehearsal-one-1")
    controller.stopping = subprocess.CompletedProcess([], 1, b"", b"Failed to connect to bus\n")
    remove_leftovers.main("upgrader-etcd-", "upgrader-rehearsal-", str(controller.place), "")
    why = "the units upgrader-rehearsal-*.service can't be stopped: Failed to connect to bus"
    assert json.loads(capsys.readouterr().out) == {"failed": why}
    assert kept.exists()


@pytest.mark.parametrize("others", [True, False])
def test_one_use_removes_what_is_its_own(controller: Controller, others: bool) -> None:
    """What another has made beside it stays; without it, the folder around them goes too."""
    controller.add("mine/snapshot.db")
    theirs = controller.place / "snapshot.db"
    if others:
        theirs.touch()
    mine = str(controller.place / "mine")
    controller.begin("upgrader-rehearsal-mine-1")
    remove_leftovers.main("upgrader-etcd-mine", "upgrader-rehearsal-mine", mine, str(controller.place))
    assert controller.did[0] == "systemctl stop -- upgrader-rehearsal-mine*.service"
    assert theirs.exists() is others and controller.place.exists() is others
    assert not (controller.place / "mine").exists()


@pytest.mark.parametrize("unit", ["", "kubelet", "upgrader-rehearsal-theirs-1"])
def test_backup_needs_no_systemctl(controller: Controller, capsys: pytest.CaptureFixture[str], unit: str) -> None:
    """Where no unit of this use runs, none is stopped: a systemctl that is missing, fails or hangs is no obstacle."""
    controller.add("mine/snapshot.db")
    controller.stopping = subprocess.CompletedProcess([], 1, b"", b"Failed to connect to bus\n")
    if unit:
        controller.begin(unit)
    mine = str(controller.place / "mine")
    remove_leftovers.main("upgrader-etcd-mine", "upgrader-rehearsal-mine", mine, str(controller.place))
    assert controller.did == ["remove"] and json.loads(capsys.readouterr().out) == {}


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (FileNotFoundError(2, "No such file or directory", "systemctl"), "can't be stopped: there is no systemctl"),
        (subprocess.TimeoutExpired("systemctl", 60), "did not stop within 60 s"),
    ],
)
def test_rehearsal_that_cannot_be_stopped(
    controller: Controller,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    why: str,
) -> None:
    """It writes into the folder: that stays, and the reason is said."""
    kept = controller.add("one/snapshot.db")
    controller.begin("upgrader-rehearsal-one-1")

    def run(*_: Any, **_named: Any) -> None:
        raise error

    monkeypatch.setattr("upgrader.onhost.backup.remove_leftovers.subprocess.run", run)
    remove_leftovers.main("upgrader-etcd-", "upgrader-rehearsal-", str(controller.place), "")
    assert why in json.loads(capsys.readouterr().out)["failed"] and kept.exists()


def claim(place: Path) -> subprocess.CompletedProcess[str]:
    """What a restore does before it stops anything; it waits for no lock."""
    words = [str(place.parent), "data", "upgrader-restore", "0"]
    return subprocess.run(["sh", "-c", restore._CLAIM, "sh", *words], capture_output=True, text=True, check=False)


def test_backup_removes_nothing_of_a_restore_that_stops_controllers(controller: Controller) -> None:
    """It has no lock then, as the API is away, and begins with the removal of what others have left."""
    controller.add("data/member/snap/db")
    old = controller.place.parent / "upgrader-restore" / "old"
    old.mkdir(parents=True)
    assert claim(controller.place).returncode == 0
    remove_leftovers.main("upgrader-etcd-", "upgrader-rehearsal-", str(controller.place), "")
    assert (controller.place.parent / "upgrader-restore/member/snap/db").exists()
    assert not old.exists() and not controller.place.exists()


def test_restore_takes_all_of_its_data_or_nothing(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a backup removes it, or once it has, nothing is stopped; while a restore takes it, nothing is removed."""
    kept = controller.add("data/member/snap/db")
    monkeypatch.setattr(remove_leftovers, "_LOCK_SECONDS", 0.0)
    with remove_leftovers._locked(str(controller.place.parent)):
        refused = claim(controller.place)
        assert refused.returncode == 1 and "another process is removing files" in refused.stderr and kept.exists()
        remove_leftovers.main("upgrader-etcd-", "upgrader-rehearsal-", str(controller.place), "")
        assert "by another process, such as a restore" in json.loads(capsys.readouterr().out)["failed"]
        assert kept.exists()
    remove_leftovers.main("upgrader-etcd-", "upgrader-rehearsal-", str(controller.place), "")
    assert "the data that was prepared is gone; nothing was stopped" in claim(controller.place).stderr

"""What is ended and removed on a controller before a use of etcd's tools, and after it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from upgrader.onhost.backup import stop_pod


class Controller:
    """Its units and pods; `did` is what was done, in order."""

    def __init__(self, folder: Path) -> None:
        self.did: list[str] = []
        self.place = folder / "etcd" / "upgrader"
        self.stopping = subprocess.CompletedProcess[bytes]([], 0, b"", b"")

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
        monkeypatch.setattr(f"upgrader.onhost.backup.stop_pod.{name}", fake)
    return made


def test_units_end_before_their_folder_goes(controller: Controller, capsys: pytest.CaptureFixture[str]) -> None:
    """What a unit removes at its end is then its own, and never what is made in that place afterwards."""
    controller.add("one/snapshot.db")
    stop_pod.main("upgrader-etcd-", "upgrader-rehearsal-", str(controller.place), "")
    assert controller.did == ["systemctl stop -- upgrader-rehearsal-*.service", "remove"]
    assert not controller.place.exists() and controller.place.parent.exists()
    assert json.loads(capsys.readouterr().out) == {}


def test_a_unit_that_goes_on_is_told_and_nothing_is_removed(
    controller: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restore must not begin in a folder that a unit is going to empty."""
    kept = controller.add("one/snapshot.db")
    controller.stopping = subprocess.CompletedProcess([], 1, b"", b"Failed to connect to bus\n")
    stop_pod.main("upgrader-etcd-", "upgrader-rehearsal-", str(controller.place), "")
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
    stop_pod.main("upgrader-etcd-mine", "upgrader-rehearsal-mine", mine, str(controller.place))
    assert controller.did[0] == "systemctl stop -- upgrader-rehearsal-mine*.service"
    assert theirs.exists() is others and controller.place.exists() is others
    assert not (controller.place / "mine").exists()

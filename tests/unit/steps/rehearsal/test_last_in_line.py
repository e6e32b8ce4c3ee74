"""A rehearsal's unit gets the processor time that nothing else on its host wants."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upgrader.onhost.rehearsal import last_in_line as module
from upgrader.onhost.rehearsal.last_in_line import last_in_line

UNIT = "upgrader-rehearsal-u1.service"


@pytest.fixture(autouse=True)
def changed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The policies that this process would have got."""
    found: list[object] = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, __: found.append(policy))
    return found


def group(folder: Path, monkeypatch: pytest.MonkeyPatch, table: str, name: str, *, idle: bool = True) -> Path:
    """The file that makes a control group idle; `table`: /proc/self/cgroup."""
    (folder / name).mkdir(parents=True)
    file = folder / name / "cpu.idle"
    if idle:
        file.write_text("0")
    (folder / "table").write_text(table)
    monkeypatch.setattr(module, "_CGROUPS", str(folder))
    monkeypatch.setattr(module, "_OWN", str(folder / "table"))
    return file


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (f"0::/{UNIT}\n", UNIT),
        (f"12:cpu,cpuacct:/{UNIT}\n3:cpuset:/\n1:name=systemd:/{UNIT}\n0::/{UNIT}\n", f"cpu,cpuacct/{UNIT}"),
    ],
    ids=["version 2", "version 1"],
)
def test_its_control_group_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: list[object], table: str, name: str
) -> None:
    """Whatever else runs goes first; the policy of a single thread counts only within its group."""
    file = group(tmp_path, monkeypatch, table, name)
    last_in_line(UNIT)
    assert file.read_text() == "1" and not changed


def test_another_group_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: list[object]) -> None:
    """Where the service manager has no group for the unit, it is one that has others in it."""
    file = group(tmp_path, monkeypatch, "0::/system.slice\n", "system.slice")
    last_in_line(UNIT)
    assert file.read_text() == "0" and not changed
    monkeypatch.setattr(module, "_OWN", str(tmp_path / "missing"))
    last_in_line(UNIT)
    assert not changed


def test_a_kernel_without_idle_groups_has_idle_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: list[object]
) -> None:
    """Before 5.15, they give way to those of other groups."""
    file = group(tmp_path, monkeypatch, f"0::/{UNIT}\n", UNIT, idle=False)
    last_in_line(UNIT)
    assert changed == [os.SCHED_IDLE] and not file.exists()

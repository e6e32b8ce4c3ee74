"""When rehearsals are killed, and what the table says of it."""

from __future__ import annotations

from pathlib import Path

from bench.rehearsal_kills import Killed, moments, phase, table


def test_moments_are_spread_over_the_whole_length() -> None:
    """Each in the middle of its part, so that neither the first nor the last one is at an end."""
    assert moments(24.0, 4) == (3.0, 9.0, 15.0, 21.0)
    assert len(moments(30.0, 12)) == 12


def test_the_phase_is_what_its_folder_says(tmp_path: Path) -> None:
    """From the snapshot on the controller to the comparison."""
    assert phase(tmp_path, unit=False) == "snapshot"
    work = tmp_path / "u1"
    work.mkdir()
    assert phase(tmp_path, unit=False) == "before or after the unit"
    found = [phase(tmp_path, unit=True)]
    for name in ("images", "kube-apiserver-current.log", "etcd-target.log", "kube-apiserver-target.log"):
        (work / name).touch()
        found.append(phase(tmp_path, unit=True))
    assert found == ["receiving", "copies", "running version", "etcd of the target", "target, comparison"]


def test_what_was_left_is_in_the_table() -> None:
    """By name; otherwise, nothing."""
    good, bad = Killed("command", 3.0, "receiving", 0.4), Killed("power", 9.0, "copies", 120.0, ("unit a", "file b"))
    assert "| command | 3.0 s | receiving | 0.4 s | nothing |" in table([good, bad])
    assert "| power | 9.0 s | copies | 120.0 s | unit a, file b |" in table([good, bad])

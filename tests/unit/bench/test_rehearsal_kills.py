"""When rehearsals are killed, and what the table says of it."""

from __future__ import annotations

from pathlib import Path

from bench.rehearsal.kills import Killed, Kills, lines, table
from bench.rehearsal_kills import _left, _remove_on_controller, moments, phase
from testkit.rehearsed_data import RehearsedData


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


GOOD = Killed("command", 3.0, "receiving", 0.4, ("controller",))
BAD = Killed("power", 9.0, "copies", 120.0, ("controller", "host"), ("unit a", "file b"))


def test_what_was_left_is_in_the_table() -> None:
    """By name; otherwise, nothing. What the next command removes is told from what is left after it."""
    assert "| command | 3.0 s | receiving | 0.4 s | controller | nothing |" in table([GOOD, BAD])
    assert "| power | 9.0 s | copies | 120.0 s | controller, host | unit a, file b |" in table([GOOD, BAD])


def test_the_page_has_a_row_for_each_kind() -> None:
    """With its moments, the longest time, and what was left."""
    text = "".join(lines(Kills(30.0, 20.0, 1000, 0, "2026-12-01", "abc", (GOOD, GOOD, BAD))))
    assert "| the command | 2: receiving 2 | 0 s | on the controller 2 | nothing |" in text
    assert "| 120 s | on the controller 1, on the other host 1 | **unit a**, **file b** |" in text
    assert "Of 1,000 writes" in " ".join(text.split()) and not lines(None)


def test_what_remains_on_the_controller_is_seen_and_removed(tmp_path: Path) -> None:
    """A snapshot that a killed command has left there; by the program with which the next command begins."""
    (tmp_path / "upgrader" / "u1").mkdir(parents=True)
    kept = tmp_path / "upgrader" / "u1" / "snapshot.db"
    kept.touch()
    assert _left(RehearsedData(tmp_path), frozenset(), tmp_path / "upgrader") == (f"file {kept}",)
    assert not _remove_on_controller(RehearsedData(tmp_path)) and not (tmp_path / "upgrader").exists()

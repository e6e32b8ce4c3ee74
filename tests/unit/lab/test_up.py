"""What `lab up` does about a lab that isn't complete: one that it fails to make, and one whose `lab up` was killed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from upgrader.lab import existing_labs, lifecycle
from upgrader.lab.existing_labs import claim, find, set_complete
from upgrader.lab.lifecycle import Lab
from upgrader.lab.spec import LabSpec

SPEC = LabSpec("one")


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to machines, none of which exists."""
    done: list[str] = []
    monkeypatch.setattr(existing_labs, "_ROOT", tmp_path / "labs")
    monkeypatch.setattr(existing_labs, "_networks_in_use", list)
    for name in ("require", "host_capabilities", "probably_prepared", "prepare", "prepare_kernel"):
        monkeypatch.setattr(lifecycle, name, lambda *_: None)

    def removed(lab: Lab) -> None:
        done.append("removed")
        shutil.rmtree(existing_labs.lab_dir(lab.placement.spec.name))

    monkeypatch.setattr(Lab, "_remove", removed)
    monkeypatch.setattr(Lab, "_remove_last", removed)
    monkeypatch.setattr(Lab, "_bring_up", lambda *_: done.append("made"))
    return done


def interrupted(*_: Any) -> None:
    """Ctrl-C in the middle."""
    raise KeyboardInterrupt


def test_what_was_interrupted_is_removed(done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a new lab nothing stays; one that existed before stays."""
    monkeypatch.setattr(Lab, "_bring_up", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Lab.up(SPEC, tmp_path)
    assert (done, find("one")) == (["removed"], None)

    there = claim(SPEC, tmp_path)
    set_complete("one")
    with pytest.raises(KeyboardInterrupt):
        Lab.up(SPEC, tmp_path)
    assert (done, find("one")) == (["removed"], there)


def test_a_lab_whose_up_was_killed_is_made_anew(done: list[str], tmp_path: Path) -> None:
    """It is removed first; a complete one is only started."""
    claim(SPEC, tmp_path)
    Lab.up(SPEC, tmp_path)
    assert done == ["removed", "made"]
    set_complete("one")
    Lab.up(SPEC, tmp_path)
    assert done == ["removed", "made", "made"]

"""The step that runs an Ansible playbook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.playbooks import FakePlaybooks
from upgrader.errors import PlaybookError, RollbackFailed, StepFailed
from upgrader.steps.playbook import PlaybookStep


def step(playbooks: FakePlaybooks, undo: Path | None = None) -> PlaybookStep:
    """A step for `tune.yml`."""
    return PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), playbooks, 60.0, undo_playbook=undo)


def quiet(text: str) -> None:
    """Take no notes."""


def test_undo_runs_the_undo_playbook() -> None:
    """A step with an undo playbook is taken back by that playbook."""
    playbooks = FakePlaybooks()
    tune = step(playbooks, Path("/p/untune.yml"))
    point = tune.capture()
    tune.apply(quiet)
    tune.undo(point, quiet)
    assert [name for name, *_ in playbooks.ran] == ["tune.yml", "untune.yml"]


def test_playbook_without_a_way_back_says_so() -> None:
    """A playbook that can't be taken back is reported as such, never passed off as undone."""
    tune = step(FakePlaybooks())
    with pytest.raises(RollbackFailed, match=r"tune\.yml has no way back"):
        tune.undo(tune.capture(), quiet)


def test_failed_playbook_fails_the_step() -> None:
    """A host that fails makes the step fail, with Ansible's own words."""
    with pytest.raises(StepFailed, match="controller-1: install"):
        step(FakePlaybooks({"tune.yml": PlaybookError("controller-1: install failed")})).apply(quiet)

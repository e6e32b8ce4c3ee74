"""The step that runs an Ansible playbook."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from upgrader.errors import PlaybookError, RollbackFailed, StepFailed
from upgrader.ports import PlaybookResult
from upgrader.steps.playbook import PlaybookStep


class ScriptedPlaybooks:
    """`ports.Playbooks` that remembers what it ran and fails where it is told to."""

    def __init__(self, error: PlaybookError | None = None) -> None:
        self.ran: list[str] = []
        self._error = error

    def run(
        self,
        playbook: Path,
        *,
        inventory: Path,
        variables: Mapping[str, Any],
        limit: str = "",
        timeout_seconds: float,
        check: bool = False,
    ) -> PlaybookResult:
        self.ran.append(playbook.name)
        if self._error:
            raise self._error
        return PlaybookResult({}, {})


def step(playbooks: ScriptedPlaybooks, undo: Path | None = None) -> PlaybookStep:
    """A step for `tune.yml`."""
    return PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), playbooks, 60.0, undo_playbook=undo)


def quiet(text: str) -> None:
    """Take no notes."""


def test_undo_runs_the_undo_playbook() -> None:
    """A step with an undo playbook is taken back by that playbook."""
    playbooks = ScriptedPlaybooks()
    tune = step(playbooks, Path("/p/untune.yml"))
    point = tune.capture()
    tune.apply(quiet)
    tune.undo(point, quiet)
    assert playbooks.ran == ["tune.yml", "untune.yml"]


def test_playbook_without_a_way_back_says_so() -> None:
    """A playbook that can't be taken back is reported as such, never passed off as undone."""
    tune = step(ScriptedPlaybooks())
    with pytest.raises(RollbackFailed, match=r"tune\.yml has no way back"):
        tune.undo(tune.capture(), quiet)


def test_failed_playbook_fails_the_step() -> None:
    """A host that fails makes the step fail, with Ansible's own words."""
    with pytest.raises(StepFailed, match="controller-1: install"):
        step(ScriptedPlaybooks(PlaybookError("controller-1: install failed"))).apply(quiet)

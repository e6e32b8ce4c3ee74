"""Playbooks that only record how they were called."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upgrader.errors import PlaybookError, PlaybookRefused
from upgrader.ports import Play, PlaybookResult

__all__ = ["FakePlaybooks"]


@dataclass
class FakePlaybooks:
    """`ports.Ansible` in memory."""

    errors: dict[str, PlaybookError] = field(default_factory=dict)
    """Playbook's file name → the error that it ends with."""
    ran: list[tuple[str, dict[str, Any], str, bool]] = field(default_factory=list)
    """(File name, variables, limit, check mode) of each run."""
    seconds: list[float] = field(default_factory=list)
    """The time limit of each run."""
    meanwhile: Callable[[], None] = lambda: None
    """What happens while a playbook runs."""
    tasks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Host → the tasks that each playbook changes there."""
    endless: bool = False
    """Whether a playbook ends only when it is cancelled."""
    refused: dict[str, str] = field(default_factory=dict)
    """Playbook's file name → why Ansible refuses to read it."""
    patterns: dict[str, tuple[Play, ...]] = field(default_factory=dict)
    """Playbook's file name → its plays; any other has one, for a controller."""
    silent: bool = False
    """Whether Ansible can't list any plays."""
    listings: list[tuple[str, ...]] = field(default_factory=list)
    """The file names of each request for plays."""

    def plays(
        self, playbooks: Sequence[Path], *, inventory: Path, timeout_seconds: float
    ) -> tuple[tuple[Play, ...], ...]:
        if self.silent:
            raise PlaybookError("ansible-playbook timed out after 120 s", begun=False)
        self.listings.append(tuple(playbook.name for playbook in playbooks))
        for playbook in playbooks:
            if playbook.name in self.refused:
                raise PlaybookRefused(self.refused[playbook.name], begun=False)
        default = (Play("controllers", ("controller-1",)),)
        return tuple(self.patterns.get(playbook.name, default) for playbook in playbooks)

    def run(
        self,
        playbook: Path,
        *,
        inventory: Path,
        variables: Mapping[str, Any],
        limit: str = "",
        timeout_seconds: float,
        check: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookResult:
        self.ran.append((playbook.name, dict(variables), limit, check))
        self.seconds.append(timeout_seconds)
        self.meanwhile()
        while self.endless and not cancelled():
            time.sleep(0.001)  # for another thread of this process
        if cancelled():
            raise PlaybookError(f"playbook {playbook.name} was terminated")
        if playbook.name in self.errors:
            raise self.errors[playbook.name]
        changed = {host: len(names) for host, names in self.tasks.items()}
        return PlaybookResult(changed=changed, failed={}, tasks=self.tasks)

"""Playbooks that only record how they were called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upgrader.errors import PlaybookError
from upgrader.ports import PlaybookResult

__all__ = ["FakePlaybooks"]


@dataclass
class FakePlaybooks:
    """`ports.Playbooks` in memory."""

    errors: dict[str, PlaybookError] = field(default_factory=dict)
    """Playbook's file name → the error that it ends in."""
    ran: list[tuple[str, dict[str, Any], str, bool]] = field(default_factory=list)
    """(File name, variables, limit, check mode) of each run."""

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
        self.ran.append((playbook.name, dict(variables), limit, check))
        if playbook.name in self.errors:
            raise self.errors[playbook.name]
        return PlaybookResult(changed={}, failed={})

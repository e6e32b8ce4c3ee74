"""The record of a rehearsal: what was rehearsed, and what that found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from upgrader.model.finding import Finding
from upgrader.model.saved_plan import PlanBinding

__all__ = ["KnownRehearsal", "RehearsalRecord"]


@dataclass(frozen=True)
class RehearsalRecord:
    """As it is in its file."""

    format_version: str
    rehearsed: str
    """When, ISO 8601 in UTC."""
    controller: str
    salt: str
    """Random and unique to this rehearsal, as of a saved plan."""
    binding: PlanBinding
    """What was rehearsed, as a saved plan would be bound to it."""
    findings: tuple[Finding, ...]
    folder: str = ""
    """A digest, with the salt, of all that a run may read, which needs no key: a fleet's campaign compares it without
    the cluster. "": an older version wrote the record.
    """


@dataclass(frozen=True)
class KnownRehearsal:
    """The newest rehearsal, compared with what is planned now."""

    rehearsed: datetime
    controller: str
    findings: tuple[Finding, ...]
    changed: tuple[str, ...]
    """What is not as it was rehearsed, each in a few words."""

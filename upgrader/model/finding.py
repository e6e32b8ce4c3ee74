"""What a preflight check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Severity"]

Severity = Literal["error", "unknown", "warning", "info"]
"""`error` and `unknown` block a run: what could not be checked is not known to be healthy."""


@dataclass(frozen=True)
class Finding:
    """One result of a check. `id` is stable (`version.downgrade`), for scripts and for searching."""

    id: str
    severity: Severity
    title: str
    """One line: the object and its state."""
    diagnosis: str = ""
    """Why that matters, with the evidence."""
    remedy: str = ""
    skipped: str = ""
    """Why the operator runs despite it; "" if it isn't skipped."""
    changed_from: Severity | None = None
    """The severity that its check reports, if `checks.severities` of upgrader.yaml sets another one."""

    @property
    def blocking(self) -> bool:
        """Whether it prevents a run from starting."""
        return self.severity in ("error", "unknown") and not self.skipped

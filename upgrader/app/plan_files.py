"""The files of saved plans: what those of a cluster and those of a fleet have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import UsageError

__all__ = ["PlanFiles", "expiry", "refuse_irregular", "write_plan_file"]

_Saved = TypeVar("_Saved")
_SHOWN = 300
"""Characters of what is wrong with a file, which quotes it."""


@dataclass(frozen=True)
class PlanFiles:
    """One kind of saved plan."""

    name: str
    """`a saved plan`."""
    format_version: str
    most_mebibytes: int
    made_by: str
    """The command that writes one."""

    def read(self, path: Path, parse: Callable[[dict[str, Any]], _Saved]) -> _Saved:
        """What `parse` makes of the content of a file of this format; it raises ValueError for what is wrong there.

        Raises UsageError for a file that is none, or of another format.
        """
        try:
            return parse(self._content(path))
        except (OSError, ValueError, RecursionError) as error:
            why = str(error.strerror if isinstance(error, OSError) else error)[:_SHOWN]
            raise UsageError(
                f"{path} is not {self.name}: {why}", remedy=f"Create one with `{self.made_by}`."
            ) from error

    def _content(self, path: Path) -> dict[str, Any]:
        if not path.is_file():
            raise ValueError("it is not a regular file")
        if path.stat().st_size > self.most_mebibytes * 1024**2:
            raise ValueError(f"it has more than {self.most_mebibytes} MiB")
        content = json.loads(path.read_text())
        if not isinstance(content, dict) or "binding" not in content:
            raise ValueError("it has no `binding`")
        if content.get("format_version") != self.format_version:
            raise ValueError(f"its format_version is {content.get('format_version')!r}, not {self.format_version!r}")
        return content


def expiry(content: Mapping[str, Any]) -> datetime:
    """Until when a plan may be run. Raises ValueError."""
    expires = datetime.fromisoformat(str(content.get("expires")))
    if expires.tzinfo is None:
        raise ValueError("`expires` has no time zone")
    return expires


def refuse_irregular(path: Path) -> None:
    """Raise UsageError for a pipe, a device or a folder: a plan would be written in its place."""
    if path.exists() and not path.is_file():
        raise UsageError(f"the plan can't be written to {path}: it is not a regular file")


def write_plan_file(path: Path, content: Mapping[str, Any]) -> None:
    """Write a plan (mode 0600). Raises UsageError where the file can't be written, or would replace another thing."""
    refuse_irregular(path)
    try:
        write_atomic(path, (json.dumps(content, indent=2) + "\n").encode())
    except OSError as error:
        raise UsageError(f"the plan can't be written to {path}: {error.strerror}") from error

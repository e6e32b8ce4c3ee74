"""`plan-diffs.json` in a run's folder: the output of `upgrader plan --diff` when the run started.

Only the page shows it; no decision depends on it. If it can't be written, only the diffs are missing.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from upgrader.engine.journal.atomic import write_atomic
from upgrader.model.redaction.printable import mask_secrets
from upgrader.steps.step_document import ObjectChange, StepDocument

__all__ = ["DIFFS", "MAX_BYTES", "NO_DIFFS", "PlanDiffs", "StepDiff", "keep_diffs", "read_diffs"]

DIFFS = "plan-diffs.json"
"""The file's name in a run's folder."""
MAX_BYTES = 2**20
"""Longer diffs are not kept: a page of several megabytes is of no use."""

_LEFT_OUT = "(not kept: the run's diffs are too long)"


@dataclass(frozen=True)
class StepDiff:
    """The objects that a step was to change; at least one."""

    step: str
    changes: tuple[ObjectChange, ...]


@dataclass(frozen=True)
class PlanDiffs:
    """The diffs of a run's steps, in their order."""

    steps: tuple[StepDiff, ...] = ()
    problem: str = ""
    """Why they are not known."""


NO_DIFFS = PlanDiffs()
"""The value if none are shown."""


def keep_diffs(path: Path, steps: Sequence[StepDocument]) -> None:
    """Write the diffs of a plan's steps (mode 0600), with all known secrets masked again. If the file can't be written,
    they are not kept.
    """
    kept = [asdict(each) for each in _bounded(steps)]
    with suppress(OSError):
        write_atomic(path, json.dumps({"steps": kept}).encode())


def read_diffs(path: Path) -> PlanDiffs:
    """The diffs in a file. Never raises for the file."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return PlanDiffs(problem=f"{path.name} in the run's folder is not a file")
            content = file.read(8 * MAX_BYTES)  # JSON escapes
    except FileNotFoundError:
        return PlanDiffs(problem=f"the run's folder has no {path.name}")
    except OSError as error:
        return PlanDiffs(problem=f"{path.name} in the run's folder can't be read: {error.strerror}")
    try:
        return PlanDiffs(
            tuple(
                StepDiff(
                    str(step["step"]),
                    tuple(
                        ObjectChange(str(change["object"]), change["change"], str(change["diff"]))
                        for change in step["changes"]
                        if change["change"] in ("added", "changed", "removed")
                    ),
                )
                for step in json.loads(content)["steps"]
            )
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return PlanDiffs(problem=f"{path.name} in the run's folder is damaged")


def _bounded(steps: Sequence[StepDocument]) -> Iterator[StepDiff]:
    left = MAX_BYTES
    for step in steps:
        changes = []
        for change in step.changes:
            # Line by line, as in plans, so that what looks like a secret hides none of the lines after it.
            diff = "\n".join(map(mask_secrets, change.diff.split("\n"))) if len(change.diff) <= left else _LEFT_OUT
            left -= len(diff)
            changes.append(ObjectChange(change.object, change.change, diff))
        if changes:
            yield StepDiff(step.name, tuple(changes))

"""Findings that the operator has decided to skip, each with the reason."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from upgrader.errors import UsageError
from upgrader.model.check_ids import FOUND_BY_A_RUN, SKIPPABLE, may_be_overruled
from upgrader.model.finding import Finding

__all__ = ["NO_SKIPS", "Skips"]


@dataclass(frozen=True)
class Skips:
    """The ids of findings that don't block the run, and why."""

    ids: tuple[str, ...] = ()
    reason: str = ""

    @classmethod
    def of(cls, ids: Collection[str], reason: str | None) -> Skips:
        """As the command line gives them. Raises UsageError for an id that can't be skipped, or without a reason."""
        for each in ids:
            if not may_be_overruled(each):
                raise UsageError(
                    f"the check {each} can't be skipped",
                    remedy="Fix what it finds. Only these checks can be skipped: "
                    + ", ".join(f"{family}.…" for family in sorted(SKIPPABLE)),
                )
        text = (reason or "").strip()
        if ids and not text:
            raise UsageError("--skip needs a reason", remedy="Add --reason TEXT; it is recorded in the run's journal.")
        if text and not ids:
            raise UsageError("--reason is only valid with --skip", remedy="Add --skip ID.")
        return cls(tuple(dict.fromkeys(ids)), text)

    def apply(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """The findings; those with these ids are marked as skipped."""
        return tuple(replace(item, skipped=self.reason) if item.id in self.ids else item for item in findings)

    @property
    def of_a_run(self) -> tuple[str, ...]:
        """The ids of findings that only a step of the run reports."""
        return tuple(each for each in self.ids if each.partition(".")[0] in FOUND_BY_A_RUN)

    def without_finding(self, findings: Sequence[Finding]) -> tuple[str, ...]:
        """The ids without a finding so far; only those that a step of the run may still report."""
        found = {item.id for item in findings}
        return tuple(each for each in self.ids if each not in {*found, *self.of_a_run})


NO_SKIPS = Skips()

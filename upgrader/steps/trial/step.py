"""The trial of the planned programs, as a step before anything changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from upgrader.errors import StepFailed
from upgrader.model.finding import Finding, Severity
from upgrader.model.own_steps import TRIAL
from upgrader.model.severities import with_policy
from upgrader.model.skips import Skips
from upgrader.steps.one_way import OneWay
from upgrader.steps.plan import Plan
from upgrader.steps.trial.programs import PlannedProgram, planned_programs
from upgrader.steps.trial.trial import Trial

__all__ = ["TrialStep"]


@dataclass(frozen=True)
class TrialStep(OneWay):
    """Changes nothing: what it creates is gone when it ends."""

    programs: tuple[PlannedProgram, ...]
    trial: Trial
    severities: Mapping[str, Severity]
    skips: Skips

    NAME = TRIAL

    @classmethod
    def of(cls, plan: Plan, trial: Trial, severities: Mapping[str, Severity], skips: Skips) -> TrialStep | None:
        """The step for a plan; None where no program is started anew."""
        programs = planned_programs(plan)
        return cls(programs, trial, severities, skips) if programs else None

    @property
    def name(self) -> str:
        return self.NAME

    def summary(self) -> str:
        names = dict.fromkeys(f"{program.command.component} {program.command.version}" for program in self.programs)
        return "flags and files validated by " + ", ".join(names)

    def findings(self, note: Callable[[str], None]) -> tuple[Finding, ...]:
        """What is found, as the operator's policy has it. Raises ApiError."""
        found = self.trial.run(self.programs, note)
        return self.skips.apply(tuple(with_policy(found, self.severities)))

    def apply(self, note: Callable[[str], None]) -> None:
        findings = self.findings(note)
        for finding in findings:
            if not finding.blocking:
                why = f"skipped: {finding.skipped}" if finding.skipped else finding.severity
                note(f"{finding.id} ({why}): {finding.title}. {finding.diagnosis}")
        blocking = [finding for finding in findings if finding.blocking]
        if blocking:
            raise StepFailed(
                "\n".join(f"{finding.id}: {finding.title}. {finding.diagnosis}" for finding in blocking),
                remedy=" ".join(dict.fromkeys(finding.remedy for finding in blocking))
                + f" Then run the same command again; to override: --skip {blocking[0].id} --reason TEXT",
            )

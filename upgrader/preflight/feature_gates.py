"""The components of the control plane accept the feature gates that the run sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upgrader.model.emulation import emulated_by
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.flag_lifecycle import GateStage, fate, judged_by, known_gates
from upgrader.preflight.flags import listed, them
from upgrader.preflight.given_gates import given_gates
from upgrader.steps.release.planned_commands import PlannedCommand, planned_commands

__all__ = ["check_feature_gates"]

_VALUES = {
    text: value
    for value, texts in ((True, "1 t T TRUE true True"), (False, "0 f F FALSE false False"))
    for text in texts.split()
}
_STAGES = {"GA": "in every cluster now", "Deprecated": "deprecated"}


def check_feature_gates(context: PreflightContext) -> Iterator[Finding]:
    """A component ends at once at a gate that it doesn't know, or that is locked to the other value."""
    for command in planned_commands(context.changing, context.target):
        gates = given_gates(command)
        if gates and judged_by(command.version) is None:
            yield Finding(
                "feature-gates.no-data",
                "unknown",
                f"{command}: its feature gates are unknown",
                f"{command.place} This version of upgrader doesn't know v{command.version.major}."
                f"{command.version.minor}.",
                "Use a newer upgrader; or look the gates up in Kubernetes' documentation, and skip this finding.",
            )
        elif gates:
            yield from _judged(command, gates)


def _judged(command: PlannedCommand, gates: Mapping[str, str]) -> Iterator[Finding]:
    unknown: dict[str, str] = {}
    unsure: dict[str, str] = {}
    locked: dict[str, str] = {}
    deprecated: dict[str, str] = {}
    # It has the gates of its own version, in the stages that they had in the emulated one.
    emulated = emulated_by([f"--emulated-version={command.value('emulated-version')}"])
    as_in = KubernetesVersion(*emulated, 0) if emulated else command.version
    read = judged_by(command.version)
    for gate, text in gates.items():
        known = known_gates().get(gate)
        stage = known.stage_at(command.version) if known else None
        if stage is None:
            # Patches take no gate away, but bring some: to go back from a change that breaks something.
            brought = (known is None or known.removed is None) and read is not None and read < command.version
            (unsure if brought else unknown)[gate] = fate(known, command.version)
            continue
        if known is None or judged_by(as_in) is None:
            continue  # of the emulated minor nothing is known
        stage = known.stage_at(as_in)
        if stage is None:
            unknown[gate] = f"{fate(known, as_in)}, and v{as_in.major}.{as_in.minor} is emulated"
        elif stage.locked is not None and _VALUES.get(text, stage.locked) is not stage.locked:
            locked[f"{gate}={text}"] = f"locked to {str(stage.locked).lower()}"
        elif stage.name in _STAGES and not emulated:
            deprecated[gate] = _why(stage)
    if unknown:
        yield Finding(
            "feature-gates.removed",
            "error",
            f"{command} doesn't know feature gate {first_few(list(unknown))}",
            f"{listed(unknown)}\n{command.place} The component would exit at every start (crash loop).",
            f"Remove {them(unknown)} from the values of release {command.release.name}.",
        )
    if unsure:
        yield Finding(
            "feature-gates.unsure",
            "warning",
            f"{command} might not know feature gate {first_few(list(unsure))}",
            f"{listed(unsure)}\n{command.place} This version of upgrader knows the feature gates of {read}, which "
            f"don't include {them(unsure)}; a later patch might have added {them(unsure)}. A component exits if it "
            "doesn't know one of its feature gates.",
            f"Look for {them(unsure)} in the changelog of {command.version}.",
        )
    if locked:
        yield Finding(
            "feature-gates.locked",
            "error",
            f"{command} refuses {first_few(list(locked))}",
            f"{listed(locked)}\n{command.place} The component would exit at every start (crash loop).",
            f"Remove {them(locked)} from the values of release {command.release.name}: the feature can no longer be "
            "switched.",
        )
    if deprecated:
        yield Finding(
            "feature-gates.deprecated",
            "warning",
            f"{command} uses deprecated feature gate {first_few(list(deprecated))}",
            f"{listed(deprecated)}\n{command.place} A later version will reject {them(deprecated)} and exit.",
            f"Remove {them(deprecated)} from the values of release {command.release.name}, if the feature's default "
            "is acceptable.",
        )


def _why(stage: GateStage) -> str:
    fixed = "" if stage.locked is None else f", locked to {str(stage.locked).lower()}"
    return f"{_STAGES[stage.name]} (stage {stage.name}{fixed})"

"""The planned programs read their flags and files, on each controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from upgrader.errors import ApiError
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.steps.trial.programs import PlannedProgram
from upgrader.steps.trial.reading import Reading

__all__ = ["Tried", "findings_of", "untried"]

Tried = tuple[PlannedProgram, str, Reading]
"""A program, the controller, and what became of it there."""


def untried(error: ApiError) -> Finding:
    """Where the API could not be asked at all."""
    return Finding(
        "trial.unknown", "unknown", "the planned components could not be tested", error.message, error.remedy
    )


def findings_of(tried: Iterable[Tried]) -> Iterator[Finding]:
    """One for all controllers where a program says the same."""
    groups: dict[tuple[str, Reading], tuple[PlannedProgram, list[str]]] = {}
    for program, node, reading in tried:
        if reading.state != "read":
            groups.setdefault((str(program.command), reading), (program, []))[1].append(node)
    for (name, reading), (program, nodes) in groups.items():
        said = f"On {first_few(nodes)}: {reading.words}\n{program.command.place}"
        if reading.state == "refused":
            yield Finding(
                "trial.refused",
                "error",
                f"{name} rejects its flags or files",
                f"{said} It was started in a pod without access to the cluster; in the run, it would crash-loop.",
                f"Change the values of release {program.command.release.name}, or the file on the controllers that the "
                "error names.",
            )
        else:
            yield Finding(
                "trial.unknown",
                "unknown",
                f"{name}: its flags and files could not be tested",
                said,
                "Make sure that the test pod can run: it needs the image on the controller, and permission in the "
                "namespace to mount the component's volumes, read-only.",
            )

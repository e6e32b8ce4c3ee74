"""Streams to read, and a run's events."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from upgrader.model.event import Event, GateChecked, RunStarted, StepApplied, StepStarted
from upgrader.model.outcome import Verdict
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion(1, 37, 1)

BEGIN: tuple[Event, ...] = (
    RunStarted(
        "20260101T000000-v1.37.1",
        RunKind.UPGRADE,
        ("kube-apiserver", "kubernetes"),
        "/c/runs/x",
        TARGET,
    ),
    StepStarted("kube-apiserver", "v1.36.3 → v1.37.1", RestorePoint("kube-apiserver", "kube-system", 3)),
)
"""A run whose first step has begun."""

APPLIED: tuple[Event, ...] = (*BEGIN, StepApplied("kube-apiserver", 12.0))
"""…and was applied."""


def looked(verdict: Verdict, consecutive: int = 0) -> GateChecked:
    """A check of the gate of kube-apiserver."""
    return GateChecked("kube-apiserver", "deployment/kube-apiserver", verdict, consecutive, 3, 95.0)


def text(*renderables: RenderableType, width: int = 80, height: int = 25) -> str:
    """What a terminal of that size would show, without colours and trailing spaces."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False
    )
    for renderable in renderables:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

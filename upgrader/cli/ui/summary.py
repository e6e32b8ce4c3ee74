"""Shows a run's state at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from rich.text import Text

from upgrader.cli.ui.availability import availability_line
from upgrader.cli.ui.live_display import INTERRUPTED, MARKS
from upgrader.cli.ui.terminal import console, duration, grid_with_times, print_line, show
from upgrader.config.yaml_document import shown
from upgrader.engine.state.run_state import RecoveryState, RunState, StepState
from upgrader.model.run_kind import describe_run

__all__ = ["outcome_of", "print_report", "step_row"]

_OUTCOMES = {
    "succeeded": ("✔", "succeeded in", "green"),
    "rolled-back": ("↶", "failed and was rolled back in", "yellow"),
    "failed": ("✘", "failed after", "bold red"),
    "interrupted": ("■", "was interrupted after", "magenta"),
}


_DOING = {"applying": "being applied", "gating": "its gates were checked", "undoing": "being rolled back"}
"""The activity of a step that is in one of these phases."""
_REQUESTED = ("↶", "was rolled back as requested; total time", "yellow")


def outcome_of(state: RunState) -> tuple[str, str, str]:
    """A run's mark, words that go before its time, and style."""
    if state.result == "rolled-back" and state.rollback_by and state.failure is None:
        return _REQUESTED  # it hadn't failed
    return _OUTCOMES[state.result]


def print_report(state: RunState, folder: Path, stream: TextIO | None = None) -> None:
    """Print how the run ended, each step with its time, what clients of the API saw, and where the files are."""
    out = console(stream)
    mark, text, style = outcome_of(state)
    if state.untouched and state.over:
        text = "failed, with nothing changed, after"
    goal = describe_run(state.kind, state.target, state.current)
    title = Text.assemble(f" {mark} ", (goal, "bold"), f" {text} {duration(state.seconds)}", style=style)
    out.print("\n", title, "\n", sep="")
    table = grid_with_times()
    for step in state.steps:
        table.add_row(*step_row(step))
    show(out, table)
    if state.emulated and state.result == "succeeded":
        kept = (
            f"It emulates {state.emulated} until `upgrader finalize`; until then `upgrader rollback` can undo the "
            "upgrade."
        )
        out.print()
        print_line(out, Text(f" {kept}"), 1)
    for webhook in state.webhooks_off:
        out.print()
        print_line(
            out,
            Text(f" guard's webhook {webhook} is off. Once it answers, run `upgrader guard on`.", style="yellow"),
            1,
        )
    for recovery in state.recoveries:
        out.print()
        print_line(out, Text.assemble(" ", _recovery(recovery)), 6)
    if state.availability:
        out.print()
        print_line(out, Text.assemble(" ", availability_line(state.availability)), 6)
        for line in state.availability.failures[:5]:
            print_line(out, Text(f"   {line}", style="dim"), 5)
    out.print(Text(f"\n Report: {shown(folder / 'report.html')}\n", style="dim"), soft_wrap=True)


def _recovery(recovery: RecoveryState) -> Text:
    style = {"succeeded": "yellow", "failed": "bold red"}.get(recovery.outcome, "magenta")
    outcomes = {"succeeded": "recovered over SSH in", "failed": "could not be recovered over SSH, after"}
    what = outcomes.get(recovery.outcome, "was being recovered over SSH:")
    return Text.assemble(("API  ", "bold"), (f"{what} {duration(recovery.seconds)}", style), f" ({recovery.reason})")


def step_row(step: StepState) -> tuple[Text, Text, Text, Text]:
    """A step's line: its mark and name, its gates, its time, and its summary or the reason of its failure."""
    sign, style = MARKS.get(step.phase, INTERRUPTED)
    seconds = step.seconds + step.undo_seconds
    gates = f"{len(step.gates)} gate{'s' * (len(step.gates) != 1)}" if step.gates else ""
    ended = {"undone": "rolled back", "undo-failed": "could not be rolled back"}
    phase = f"interrupted while {_DOING[step.phase]}" if step.active else ended.get(step.phase, step.phase)
    what = step.summary if step.phase == "passed" else f"{phase}: {step.summary}"
    return (
        Text.assemble(" ", (sign, style), f" {step.name}"),
        Text(gates, style="dim"),
        Text(duration(seconds) if seconds else ""),
        Text(what, style="dim" if step.phase == "passed" else style),
    )

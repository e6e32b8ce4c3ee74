"""The runs of a cluster folder as tables: all of them, or the newest step by step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from upgrader.cli.ui.as_typed import program
from upgrader.cli.ui.live_display import MARKS
from upgrader.cli.ui.summary import outcome_of, step_row
from upgrader.cli.ui.terminal import console, duration, filled, grid_with_times, printable_text, show, steps_grid
from upgrader.engine.history.past_runs import PastRun
from upgrader.engine.history.run_status import Status
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.model.first_words import first_words
from upgrader.reporting.report.headline import headline

__all__ = ["print_history", "print_run", "print_status", "print_rollback_order"]

_NONE = "no run yet"
_NONE_KNOWN = "no run was found; the runs of other machines could not be read"
_UNKNOWN = ("?", "can't be read", "magenta")


def print_history(
    runs: Sequence[PastRun], *, running: bool = False, complete: bool = True, stream: TextIO | None = None
) -> None:
    """Print a line for each run: when, where to, how it ended, how long it took, and why it failed.

    `running`: the last one is still running. `complete`: the runs of other machines are among them.
    """
    out = console(stream)
    table, rows = grid_with_times(), list[tuple[Text, Text, Text, Text]]()
    for run in runs:
        mark, text, style = ("▸", "is running", "cyan") if running and run is runs[-1] else _outcome(run)
        reason = _problem(run) or run.state.reason
        why = first_words(reason) if reason else _stopped_at(run.state)
        if run.place:
            why = f"{why} (its journal is in {run.place})".lstrip()
        seconds = duration(run.seconds) if run.seconds else ""
        rows.append((Text(run.name), Text(f"{mark} {text}", style=style), Text(seconds), Text(why, style="dim")))
    if not rows:
        out.print(_NONE if complete else _NONE_KNOWN)
    elif out.is_terminal:
        _print_below(out, rows)
    else:
        for row in rows:
            table.add_row(*row)
        show(out, table)


def _print_below(out: Console, rows: Sequence[tuple[Text, Text, Text, Text]]) -> None:
    """Each row with its last text below it: beside the others, a reason would have a few columns."""
    widths = [max(row[column].cell_len for row in rows) for column in range(3)]
    for name, outcome, seconds, why in rows:
        name.pad_right(widths[0] - name.cell_len + 2)
        outcome.pad_right(widths[1] - outcome.cell_len + 2)
        seconds.pad_left(widths[2] - seconds.cell_len)
        out.print(Text.assemble(name, outcome, seconds), soft_wrap=True)
        if why:
            out.print(filled(printable_text(Text.assemble("  ", why)), out, 2), soft_wrap=True)


def print_run(state: RunState, stream: TextIO | None = None) -> None:
    """Print a run and its steps, as they are before a command continues it."""
    out = console(stream)
    began = f", started {state.started:%Y-%m-%dT%H:%M:%S}Z" if state.started else ""
    out.print(Text.assemble("\n", (state.run, "bold"), began), soft_wrap=True)
    show(out, _steps(state, running=False))


def print_rollback_order(steps: Sequence[StepState], stream: TextIO | None = None) -> None:
    """Print what a rollback would do, in its order."""
    out = console(stream)
    table = steps_grid()
    for number, step in enumerate(steps, 1):
        goal = _goal(step)
        table.add_row(Text(f" {number}", style="dim"), Text(step.name, style="bold"), Text(goal))
    out.print()
    show(out, table)
    out.print()


def _goal(step: StepState) -> str:
    point = step.restore_point
    was = f" (the change was: {step.summary})" if step.summary else ""
    if point is not None and point.nodes:
        return f"return its nodes to {point}{was}"
    if point is not None and point.etcd:
        return f"return its members to {point}, unless etcd's cluster version has changed to another minor{was}"
    if point is not None and (point.kubeadm is not None or point.kubelet):
        return f"restore {point}{was}"
    if point is None or (not point.release and not point.playbook):
        return "cannot be undone, because it has no `undo` in upgrader.yaml: the rollback stops here"
    if point.playbook:
        return f"run {point.playbook}{was}"
    return f"roll back to {point}{was}" if point.revision is not None else f"remove{was}"


def print_status(status: Status, now: datetime, folder: Path, stream: TextIO | None = None) -> None:
    """Print the holders of the locks, the newest run of a folder step by step, and whether it can be resumed."""
    out = console(stream)
    if status.holder is not None:
        held = duration((now - status.holder.since).total_seconds())
        out.print(
            Text.assemble("this folder is locked by ", (status.holder.holder, "bold"), f" for {held}"), soft_wrap=True
        )
    else:
        out.print("no run in progress in this folder")
    if status.cluster_problem:
        unread = Text(f"the cluster's lock could not be read: {status.cluster_problem}", style="magenta")
        out.print(filled(printable_text(unread), out), soft_wrap=True)
        if not status.answered:
            why = f"`{program(folder)} recover --dry-run` finds out over SSH why the API doesn't answer."
            out.print(filled(Text(why), out), soft_wrap=True)
    elif status.cluster_holder is None:
        out.print("the cluster's lock is free")
    else:
        out.print(Text.assemble("the cluster's lock is held by ", (str(status.cluster_holder), "bold")), soft_wrap=True)
    run = status.run
    if run is None:
        out.print(_NONE_KNOWN if status.cluster_problem else _NONE)
        return
    out.print(filled(printable_text(_headline(status, run, now)), out, 2), soft_wrap=True)
    if run.problem:
        out.print(Text(f"  {_problem(run)}", style="magenta"), soft_wrap=True)
        return
    show(out, _steps(run.state, running=status.state == "running"))
    if run.state.reason:
        for line in run.state.reason.splitlines():
            out.print(filled(printable_text(Text(line, style="dim")), out), soft_wrap=True)
    if run.state.unknown:
        names = ", ".join(run.state.unknown)
        out.print(Text(f"A newer version of upgrader wrote records that this one doesn't know: {names}"))
    if status.resumable:
        command = program(folder)
        again = run.state.kind.command.replace("upgrader", command, 1)
        text = (
            _choice(run.state, command)
            if run.state.is_upgrade
            else f"Run `{again}` again to continue: completed steps are only checked."
        )
        out.print(filled(Text(text), out), soft_wrap=True)
    elif status.state == "idle":
        _print_next(run.state, folder, out)


def _choice(state: RunState, command: str) -> str:
    if state.rollback_to is not None:
        return f"Resume it with `{command} resume`: the rollback continues."
    return f"Resume it with `{command} resume`, or undo it with `{command} rollback`."


def _print_next(state: RunState, folder: Path, out: Console) -> None:
    """What is left to do after a run that has ended, as in its report; mostly nothing if it succeeded."""
    said = headline(state)
    for number, line in enumerate(said.advice.splitlines()):
        shown = Text.assemble("" if number else ("Remedy: ", "bold green"), printable_text(Text(line)))
        out.print(filled(shown, out), soft_wrap=True)
    if said.commands:
        typed = ", then ".join(f"`{each.replace('upgrader', program(folder), 1)}`" for each in said.commands)
        out.print(filled(Text(f"Next: {typed}"), out), soft_wrap=True)


def _headline(status: Status, run: PastRun, now: datetime) -> Text:
    if status.state == "running":
        began = run.state.active_since
        since = duration((now - began).total_seconds()) if began else "an unknown time"
        return Text.assemble((run.name, "bold"), f" is running for {since}: {run.state.doing}")
    mark, text, style = _outcome(run)
    where = _stopped_at(run.state)
    place = f" (its journal is in {run.place})" if run.place else ""
    last = f"; {where}" if where else ""
    return Text.assemble((mark, style), " ", (run.name, "bold"), (f" {text}", style), last, (place, "dim"))


def _problem(run: PastRun) -> str:
    """The problem of the journal, without the folder, which is shown beside it."""
    return run.problem.replace(f"{run.folder}/", "")


def _stopped_at(state: RunState) -> str:
    """The last activity of a run without an end."""
    return f"last: {state.doing}" if state.doing else ""


def _steps(state: RunState, *, running: bool) -> Table:
    table = grid_with_times()
    sign, style = MARKS["waiting"]
    for step in state.all_steps:
        if step.phase == "waiting":
            table.add_row(Text.assemble(" ", (sign, style), f" {step.name}"), "", "", Text("pending", style=style))
        else:
            table.add_row(*(_active(step) if running and step.active else step_row(step)))
    return table


def _active(step: StepState) -> tuple[Text, Text, Text, Text]:
    """An active step: the gates that it waits for, with their last answers."""
    waiting = [f"{gate.name}: {gate.reason}" for gate in step.gates if gate.outcome != "passed" and gate.reason]
    held = sum(gate.outcome == "passed" for gate in step.gates)
    gates = f"{held} of {len(step.gates)} gates" if step.gates else ""
    name = Text.assemble(" ", ("▸", "cyan"), f" {step.name}")
    return name, Text(gates, style="dim"), Text(), Text("; ".join(waiting) or step.summary)


def _outcome(run: PastRun) -> tuple[str, str, str]:
    mark, text, style = _UNKNOWN if run.problem else outcome_of(run.state)
    return mark, text.removesuffix(" in").removesuffix(" after").partition(";")[0], style

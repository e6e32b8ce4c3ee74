"""A fleet on the terminal: its plans, and its campaign, which fits 80 columns with 5 clusters and with 500."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from math import ceil
from typing import Any, TextIO

from rich.text import Text

from upgrader.cli.ui.as_typed import with_program
from upgrader.cli.ui.terminal import console, print_line
from upgrader.fleet.decide import Decision, Wait
from upgrader.fleet.inputs import Inputs
from upgrader.fleet.model import Fleet, Stage
from upgrader.fleet.plans import NoRoom, PlanClass, SharedCause
from upgrader.fleet.reports.to_do import to_do
from upgrader.fleet.reports.words import detail, first_line, minute, some, waiting
from upgrader.fleet.state import CampaignState
from upgrader.fleet.traits import NewTrait
from upgrader.fleet.use_cases import FleetStatus
from upgrader.model.counted import counted
from upgrader.model.first_few import first_few

__all__ = [
    "MARKS",
    "changed_lines",
    "phase_lines",
    "print_classes",
    "print_fleet",
    "print_fleet_status",
    "print_new_traits",
    "print_shared",
    "print_unrehearsed",
    "print_without_room",
    "status_json",
]

_TRAITS = 6
"""How many of them are named."""

MARKS = {
    "waiting": ("·", "dim"),
    "running": ("▸", "cyan"),
    "succeeded": ("✓", "green"),
    "skipped": ("-", "yellow"),
    "blocked": ("✗", "red"),
    "rolled-back": ("↺", "red"),
    "broken": ("✗", "bold red"),
    "interrupted": ("!", "yellow"),
}


def print_fleet(fleet: Fleet, stream: TextIO | None = None) -> None:
    """Print what a campaign would do: its stages with their clusters."""
    out = console(stream)
    out.print(f"{fleet.goal}: {counted(len(fleet.clusters), 'cluster')} in {counted(len(fleet.stages), 'stage')}")
    for stage in fleet.stages:
        names = [each.name for each in fleet.listed[stage.name]]
        rules = [f"{stage.max_concurrency.at_once(len(names))} at a time"]
        rules += ["after an approval"] if stage.approval else []
        needs = f" and {stage.soak_requests} requests" if stage.soak_requests else ""
        needs += f", with {', '.join(stage.soak_gates)}" if stage.soak_gates else ""
        needs += ", with the restart of a pod" if stage.soak_restart else ""
        rules += [f"then soaks for {_length(stage.soak_seconds)}{needs}"] if stage.soaks else []
        print_line(out, Text.assemble("  ", (stage.name, "bold"), f"  {', '.join(rules)}: {first_few(names)}"), 4)
    if fleet.excluded:
        print_line(out, Text(f"  excluded: {some(fleet.excluded)}"), 4)


def print_fleet_status(status: FleetStatus, stream: TextIO | None = None, program: str = "upgrader") -> None:
    """Print how far the campaign is, stage by stage; clusters that wait for the same thing have one line. `program` is
    how the operator calls upgrader for this folder.
    """
    out = console(stream)
    state = status.state
    if status.campaign is None:
        out.print(f"no campaign yet: {program} fleet plan, then {program} fleet run")
        print_fleet(status.fleet, stream)
        return
    out.print(Text.assemble((state.campaign, "bold")), soft_wrap=True)
    if state.ended is not None:
        print_line(out, Text(f"ended {minute(state.ended)}"))
        if status.changed:
            print_line(out, Text(f"its files have changed since: `{program} fleet run` starts a new campaign"))
    elif status.coordinator is None:
        print_line(out, Text(f"not in progress: `{program} fleet run` is not active", style="yellow"))
    else:
        print_line(out, Text(f"run by {status.coordinator.holder} since {minute(status.coordinator.since)}"))
    if status.decision.stop and state.ended is None:
        stop = with_program(status.decision.stop, ("fleet",), program)
        print_line(out, Text(f"no run starts: {stop}{_way_out(status, program)}", style="red"))
    for stage in status.fleet.stages:
        out.print()
        print_line(out, _stage_line(stage, status, program), 2)
        for names in _groups(stage, status):
            each = status.state.clusters[names[0]]
            mark, style = MARKS[each.phase]
            count = f"{len(names)}  " if len(names) > 1 else ""
            print_line(out, Text.assemble("  ", (f"{mark} {each.phase}", style), f"  {count}{first_few(names)}"), 6)
            if said := _detail(names, status):
                print_line(out, Text(f"      {with_program(said, ('fleet',), program)}", style="dim"), 6)
            if steps := to_do(names, status):
                how = "; ".join(f"{step.what}: {step.command}" for step in steps)
                print_line(out, Text(f"      to do: {with_program(how, ('fleet',), program)}"), 6)


def _way_out(status: FleetStatus, program: str) -> str:
    """What lets clusters begin again, where the reason doesn't say it."""
    if status.changed:
        return f"; restore it, or start a new campaign: {program} fleet run --new"
    return f"; to continue: {program} fleet resume" if status.state.paused is not None else ""


def _stage_line(stage: Stage, status: FleetStatus, program: str) -> Text:
    members = [status.state.clusters[each.name] for each in status.fleet.members[stage.name]]
    done = sum(each.phase in ("succeeded", "skipped") for each in members)
    failed = sum(each.failed for each in members)
    counts = f"{done} of {len(members)} done" + (f", {failed} failed" if failed else "")
    line = Text.assemble((stage.name, "bold"), f"  {counts}")
    wait = status.decision.stages.get(stage.name)
    known = {*status.decision.waits, *(start.cluster for start in status.decision.starts)}
    held = all(each.phase == "waiting" and each.name not in known for each in members)
    if status.state.ended is None and wait is not None and (done + failed == len(members) or wait.person or held):
        line.append(with_program(f", {waiting(wait)}", ("fleet",), program))
    return line


def _groups(stage: Stage, status: FleetStatus) -> Iterable[list[str]]:
    """Clusters of a stage in the same state that wait for the same thing."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for cluster in status.fleet.listed[stage.name]:
        each, wait = status.state.clusters[cluster.name], status.decision.waits.get(cluster.name)
        key = (each.phase, each.cause or each.reason, wait.reason if wait else "", wait.until if wait else None)
        groups.setdefault(key, []).append(cluster.name)
    return groups.values()


def _detail(names: Sequence[str], status: FleetStatus) -> str:
    each = status.state.clusters[names[0]]
    if each.phase == "running" and each.name not in status.decision.waits:
        begun = sorted(since for name in names if (since := status.state.clusters[name].since) is not None)
        return f"since {minute(begun[0])}" + (f", the last one since {minute(begun[-1])}" if len(begun) > 1 else "")
    return detail(each, status.decision)


def changed_lines(decision: Decision, before: Decision | None) -> Iterator[str]:
    """What is new since the last look: a line for clusters or stages that wait for the same other thing than before."""
    known = {**before.waits, **before.stages} if before else {}
    yield from _grouped(
        (name, waiting(wait, "waiting"))
        for name, wait in (*decision.waits.items(), *decision.stages.items())
        if name not in known or known[name].reason != wait.reason
    )


def phase_lines(state: CampaignState, before: CampaignState | None) -> Iterator[str]:
    """A line for each cluster whose phase has changed since the last look, of which there may be none; then, those in
    the same phase for the same reason have one line.
    """
    if before is None:
        phases = ((each.name, each.phase, each.reason) for each in state.clusters.values() if each.phase != "waiting")
        yield from _grouped((name, f"{phase}{_because(reason)}") for name, phase, reason in phases)
        return
    for name, each in state.clusters.items():
        if each.phase != before.clusters[name].phase:
            run = f", run {each.run}" if each.run and not each.reason else ""
            yield f"{name}: {each.phase}{_because(each.reason)}{run}"


def _because(reason: str) -> str:
    first = first_line(reason)
    return f": {first}" if first else ""


def _grouped(said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line for each text, with the first of the names that it is said of."""
    names: dict[str, list[str]] = {}
    for name, text in said:
        names.setdefault(text, []).append(name)
    for text, mine in names.items():
        yield f"{some(mine)}: {text}"


def print_classes(classes: Sequence[PlanClass], stream: TextIO | None = None) -> None:
    """Print each class of equal plans: its clusters, and what its plan would change."""
    out = console(stream)
    for number, each in enumerate(classes, 1):
        count = counted(len(each.clusters), "cluster")
        title = f"plan {number}: {count} of {', '.join(each.stages)}: {some(each.clusters)}"
        print_line(out, Text(title, style="bold"))
        if each.digests:
            print_line(out, Text(f"  digests of the folders: {some(each.digests)}", style="dim"), 4)
        if each.plan is None:
            why = Text(f"  can't be planned: {each.problem}", style="red") if each.problem else Text("  nothing to do")
            print_line(out, why, 4)
            continue
        for hop in each.plan.hops:
            print_line(out, Text(f"  {hop.start} → {hop.target}"), 4)
            for step in hop.steps:
                print_line(out, Text(f"    {step.name}  {step.action}  {step.summary}"), 6)
            for finding in hop.findings:
                if finding.blocking:
                    print_line(out, Text(f"    ✗ {finding.id}: {finding.title}", style="red"), 6)


def print_new_traits(new: Sequence[NewTrait], stream: TextIO | None = None) -> None:
    """Print what no earlier stage has: per stage, traits that the same clusters have are one line."""
    out = console(stream)
    for stage in dict.fromkeys(each.stage for each in new):
        print_line(out, Text(f"new in stage {stage}, in no earlier stage:", style="yellow"), 2)
        mine: dict[tuple[str, ...], list[str]] = {}
        for each in new:
            if each.stage == stage:
                mine.setdefault(each.clusters, []).append(each.trait)
        for clusters, traits in mine.items():
            print_line(out, Text(f"  {some(clusters)}: {first_few(traits, _TRAITS)}"), 4)


def print_unrehearsed(clusters: Sequence[str], fleet: Fleet, stream: TextIO | None = None) -> None:
    """Print which clusters were not rehearsed, and how they are."""
    if clusters:
        how = f"upgrader -C FOLDER rehearse --to {fleet.target}"
        print_line(console(stream), Text(f"not rehearsed: {some(clusters)}: {how}", style="yellow"), 2)


def print_without_room(found: Sequence[NoRoom], stream: TextIO | None = None) -> None:
    """Print which clusters' windows are too short, and for how long a run."""
    for each in found:
        text = (
            f"no time for a run: {first_few(each.clusters)}: a run and its rollback need "
            f"{ceil(each.needed_seconds / 60)} min (from earlier runs, or expectedRun), and no window outside the "
            "exclusions is that long"
        )
        print_line(console(stream), Text(text, style="yellow"), 2)


def print_shared(shared: Sequence[SharedCause], stream: TextIO | None = None) -> None:
    """Print which clusters that wait would fail as others have failed in the campaign, and why."""
    for each in shared:
        would = f"{some(each.waiting)} would fail as {some(each.failed)} did: {each.cause}"
        print_line(console(stream), Text(would, style="red"), 2)


def status_json(status: FleetStatus) -> dict[str, Any]:
    """For programs; times are ISO 8601 in UTC."""
    state, decision = status.state, status.decision
    return {
        "campaign": state.campaign,
        "action": str(status.fleet.goal.kind),
        "target": str(status.fleet.target),
        "started": _iso(state.started),
        "ended": _iso(state.ended),
        "coordinator": status.coordinator.holder if status.coordinator else "",
        "stop": decision.stop if state.ended is None else "",
        "stages": [
            {"stage": stage.name, "waits": _wait_json(decision.stages.get(stage.name))} for stage in status.fleet.stages
        ],
        "clusters": [
            {
                "cluster": cluster.name,
                "stage": status.fleet.stage_of[cluster.name].name,
                "phase": each.phase,
                "since": _iso(each.since),
                "attempt": each.attempt,
                "run": each.run,
                "reason": each.reason,
                "cause": each.cause,
                "digest": Inputs.parse(each.digest).shown if each.digest else "",
                "waits": _wait_json(decision.waits.get(cluster.name)),
            }
            for cluster in status.fleet.clusters
            for each in [state.clusters[cluster.name]]
        ],
    }


def _wait_json(wait: Wait | None) -> dict[str, Any] | None:
    return {"for": wait.reason, "until": _iso(wait.until), "person": wait.person} if wait else None


def _iso(time: datetime | None) -> str:
    return time.isoformat().replace("+00:00", "Z") if time else ""


def _length(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:g} h" if hours >= 1 else f"{seconds / 60:g} min"

"""`upgrader fleet run` on a terminal: a line for each change, and below them a picture that is redrawn in place."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from upgrader.cli.ui.as_typed import with_program
from upgrader.cli.ui.fleet import MARKS, changed_lines, phase_lines
from upgrader.cli.ui.fleet_overview import Failures, Overview, Running, Soaking, StageCounts, one_line, overview
from upgrader.cli.ui.live_picture import live_picture, row, seconds_since
from upgrader.cli.ui.terminal import console, duration, filled, is_interactive, printable_text
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.decide import Decision
from upgrader.fleet.model import Fleet
from upgrader.fleet.run_steps import RunSteps
from upgrader.fleet.state import CampaignState
from upgrader.fleet.use_cases import FleetStatus
from upgrader.model.counted import counted
from upgrader.ports import Clock

__all__ = ["CampaignDisplay", "CampaignPicture", "LiveCampaign", "campaign_display"]

_A_SECOND = 1.0
"""How often the picture is redrawn: it has times in seconds, and may be open for weeks."""
_ABOVE = 2
"""Lines of the terminal that are left to what stands above the picture."""
_LEAST_WORK, _LEAST_FAILURES = 4, 3
"""Rows that clusters in progress, and failures, have at least, if there are as many: stages leave them free."""
_SOAKING = 2
"""Rows of clusters that soak, if not all have room."""
_MOST = 20
"""So many runs are shown at most, however large the terminal is: the output of each is read for it."""
_NAME_CHARACTERS = 30
_BAR = 10
_BAR_COLUMNS = 60
"""A narrower terminal has no bars."""


class CampaignDisplay:
    """Lines for what has changed since the last look."""

    def __init__(self, say: Callable[[str], None], program: str = "upgrader") -> None:
        self.say, self._program = say, program
        self._seen: tuple[Decision | None, CampaignState | None] = (None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def look(self, decision: Decision, state: CampaignState) -> None:
        """Take a look of the coordinator."""
        for line in self._lines(decision, state):
            self.say(line)

    def _lines(self, decision: Decision, state: CampaignState) -> Sequence[str]:
        before, self._seen = self._seen, (decision, state)
        lines = [*phase_lines(state, before[1]), *changed_lines(decision, before[0])]
        return [with_program(line, ("fleet",), self._program) for line in lines]


def campaign_display(of: Coordinator, stream: TextIO, say: Callable[[str], None], program: str) -> CampaignDisplay:
    """The display of a campaign: on a terminal the live one. `program` is how the operator calls upgrader there.

    A CI job's terminal only keeps what was written, and NO_COLOR is the wish for plain output; both get `say`'s lines.
    """
    plain = any(os.environ.get(name) for name in ("CI", "NO_COLOR"))
    if plain or not is_interactive(stream):
        return CampaignDisplay(say, program)
    return LiveCampaign(console(stream), of.fleet, of.campaign, of.clock, program)


class LiveCampaign(CampaignDisplay):
    """The lines, and below them a picture of the campaign, from the first look until the context is closed. The last
    picture stays.
    """

    def __init__(self, out: Console, fleet: Fleet, campaign: Campaign, clock: Clock, program: str) -> None:
        super().__init__(self._say, program)
        self._console, self._clock = out, clock
        self._fleet, self._campaign = fleet, campaign
        self._steps = RunSteps()
        self._overview: Overview | None = None
        self._over = self._failed = False
        self._live = live_picture(out, self._draw, _A_SECOND)
        self._live.transient = False
        self._sigterm: Any = None

    def __enter__(self) -> Self:
        """Let SIGTERM end the command as Ctrl-C does: without an end, the terminal would keep its cursor hidden."""
        if threading.current_thread() is threading.main_thread():
            self._sigterm = signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        with suppress(Exception):  # how the campaign has ended is said below the picture, whatever is wrong with that
            self._live.stop()
        if self._sigterm is not None:
            signal.signal(signal.SIGTERM, self._sigterm)

    def look(self, decision: Decision, state: CampaignState) -> None:
        """Take a look of the coordinator."""
        news = self._seen != (decision, state)
        if lines := self._lines(decision, state):
            self._say("\n".join(lines))
        if self._failed or not (news or self._live.failure):
            return
        try:
            self._show(FleetStatus(self._fleet, self._campaign, state, decision, None))
        except Exception as error:  # noqa: BLE001  # a fault of ours in a picture must not end a campaign
            self._failed, self._overview = True, None
            with suppress(Exception):
                self._live.stop()
            self._say(f"The display failed, and the campaign continues without it: {type(error).__name__}: {error}")

    def _show(self, status: FleetStatus) -> None:
        self._overview = overview(status, self._clock.now(), self._program)
        self._steps.forget({each.output for each in self._overview.running})
        if self._live.failure:
            raise self._live.failure
        if not self._live.is_started:
            self._live.start(refresh=True)

    def _say(self, text: str) -> None:
        """All of it at once, as the picture is drawn anew below each text. No look waits for the terminal."""
        self._live.say(*(filled(printable_text(Text(line)), self._console) for line in text.split("\n")))

    def _draw(self) -> RenderableType:
        """Called once a second, between the looks of the coordinator, which wait for none of it."""
        shown = self._overview
        if shown is None:
            return Text("")
        doing = {each.output: one_line(self._steps.doing(each.output)) for each in shown.running[:_MOST]}
        return CampaignPicture(shown, doing, self._clock.now(), "" if self._over else self._program)


@dataclass(frozen=True)
class CampaignPicture:
    """The campaign at `now`, in as many lines as the terminal has room for."""

    shown: Overview
    doing: Mapping[Path, str]
    """By the place of the run's output."""
    now: datetime
    program: str
    """With which commands begin; "" once the display ends."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(1, options.max_height - _ABOVE - 1)
        head, foot = [Text(""), self._head(), *self._stop(), Text("")], self._foot(options.max_width)
        lines = [*head, *self._middle(room - len(head) - len(foot), options.max_width), *foot]
        # The last line is empty, not padded: a `^C` that the terminal echoes would wrap, and shift the next picture.
        yield from lines[:room]
        yield Text("")

    def _head(self) -> RenderableType:
        elapsed = duration(seconds_since(self.shown.started, self.shown.ended or self.now))
        title = _line((f" {self.shown.title}", "bold"), (f"  {self.shown.campaign}", "dim"))
        return row((title, None), (Text(elapsed, style="dim"), max(12, len(elapsed))))

    def _stop(self) -> list[RenderableType]:
        return [_line((f" no run starts: {self.shown.stop}", "red"))] if self.shown.stop else []

    def _foot(self, columns: int) -> list[RenderableType]:
        lines: list[RenderableType] = []
        if coming := self.shown.next:
            left = (coming.until - self.now).total_seconds() if coming.until else 0.0
            time = f"in {duration(left)}  " if left > 0 else ""
            lines.append(_line((" next  ", "dim"), f"{time}{coming.said}"))
        if self.program and not self.shown.ended:
            lines.append(self._hint(columns))
        return [Text(""), *lines] if lines else []

    def _hint(self, columns: int) -> Text:
        """What to type in another terminal; without the folder if both commands have no room."""
        commands = ("fleet status", "fleet resume" if self.shown.paused else "fleet pause")
        texts = [" · ".join(f"{program} {each}" for each in commands) for program in (self.program, "upgrader")]
        text = next((each for each in texts if cell_len(each) < columns), texts[-1])
        return _line((f" {text}", "dim"))

    def _middle(self, room: int, columns: int) -> list[RenderableType]:
        """Stages, clusters in progress and failures. The stages get what the others leave, then each what is left."""
        shown = self.shown
        stages = [self._stage(each, columns) for each in shown.stages]
        work, failed = len(shown.running) + len(shown.soaking), len(shown.failures)
        reserved = min(work, _LEAST_WORK) + min(failed, _LEAST_FAILURES) + (1 if work or failed else 0)
        lines = _stages_within(shown.stages, stages, max(2, room - reserved))
        if not work and not failed:
            return lines
        left = room - len(lines) - 1
        failures = self._failures(shown.failures, max(left - min(work, _LEAST_WORK), 0))
        return [*lines, Text(""), *self._work(max(left - len(failures), 0)), *failures]

    def _stage(self, stage: StageCounts, columns: int) -> list[RenderableType]:
        """One line, or two: the second one says what it waits for."""
        width = min(max(cell_len(each.name) for each in self.shown.stages), _NAME_CHARACTERS)
        counts = Text(f"{stage.succeeded} of {stage.total} done")
        for number, what, style in (
            (stage.running, "running", "cyan"),
            (stage.failed, "failed", "red"),
            (stage.waiting, "waiting", ""),
            (stage.left_out, "skipped", "yellow"),
        ):
            counts.append(f", {number} {what}" if number else "", style=style)
        style = "dim" if stage.over or not stage.begun else "bold"
        bar = [(_bar(stage), _BAR)] if columns >= _BAR_COLUMNS else []
        first = row((Text(f" {stage.name}", style=style), width + 1), *bar, (counts, None), (Text(""), 1))
        return [first, _line((f"   {stage.waits}", "dim"))] if stage.waits else [first]

    def _work(self, room: int) -> list[RenderableType]:
        running, soaking = self.shown.running, self.shown.soaking
        soaks = soaking if len(running) + len(soaking) <= room else soaking[:_SOAKING]
        soaks = soaks[: max(0, room - min(2, len(running)))]
        runs = running[: _fit(len(running), min(room - len(soaks), _MOST))]
        lines = [self._run(each) for each in runs]
        if more := len(running) - len(runs):
            lines.append(_line((f"   and {more} more running", "dim")))
        return [*lines, *map(self._soak, soaks)][:room]

    def _run(self, each: Running) -> RenderableType:
        return self._cluster(MARKS["running"], each.name, self.doing.get(each.output) or "running", each.since)

    def _soak(self, each: Soaking) -> RenderableType:
        mark = ("!", "yellow") if each.troubled else MARKS["succeeded"]
        return self._cluster(mark, each.names, each.said, each.since)

    def _cluster(self, mark: tuple[str, str], name: str, said: str, since: datetime | None) -> RenderableType:
        text = _line(name, (f"  {said}", "dim"))
        elapsed = Text(duration(seconds_since(since, self.now)))
        return row((_line((f" {mark[0]}", mark[1])), 2), (text, None), (elapsed, 12))

    def _failures(self, failures: Sequence[Failures], room: int) -> list[RenderableType]:
        first = failures[: _fit(len(failures), room)]
        lines: list[RenderableType] = []
        for each in first:
            mark, style = MARKS.get(each.phase, ("!", "yellow"))
            lines.append(_line((f" {mark} {each.phase}", style), f"  {each.names}: {each.reason}"))
        if (more := len(failures) - len(first)) and room > 0:
            lines.append(_line((f"   and {more} more causes", "dim")))
        return lines


def _line(*parts: str | tuple[str, str]) -> Text:
    """One line, truncated at the terminal's edge."""
    text = Text.assemble(*parts)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _fit(count: int, room: int) -> int:
    """How many of so many rows are shown: if not all, the last line of the room says how many more there are."""
    return count if count <= room else max(0, room - 1)


def _bar(stage: StageCounts) -> Text:
    """Where its clusters are, in cells; at least one if any run, or have failed."""
    over, cells, left = stage.succeeded + stage.left_out, list[tuple[str, str]](), _BAR
    for count, sign, style, least in (
        (stage.running, "▒", "cyan", 1),
        (stage.failed, "▓", "red", 1),
        (over, "█", "green", 0),
    ):
        taken = min(left, max(least if count else 0, _BAR * count // stage.total))
        cells.insert(0, (sign * taken, style))
        left -= taken
    return Text.assemble(*cells, ("░" * left, "dim"))


def _stages_within(
    stages: Sequence[StageCounts], lines: Sequence[Sequence[RenderableType]], room: int
) -> list[RenderableType]:
    """The lines of all stages; if they have no room, those of the first one that isn't over and of its neighbours."""
    if sum(map(len, lines)) <= room:
        return list(chain.from_iterable(lines))
    current = next((place for place, each in enumerate(stages) if not each.over), len(stages) - 1)
    kept, left = dict[int, Sequence[RenderableType]](), room - 2
    for place in (*range(current, len(stages)), *reversed(range(current))):
        fitting = lines[place] if len(lines[place]) <= left else lines[place][:1]
        if len(fitting) > left and kept:
            break
        kept[place], left = fitting, left - len(fitting)
    first, last = min(kept), max(kept)
    before = [_line((f" {counted(first, 'stage')} before, done", "dim"))] if first else []
    after = [_line((f" and {counted(len(stages) - 1 - last, 'more stage')}", "dim"))] if last < len(stages) - 1 else []
    return [*before, *chain.from_iterable(kept[place] for place in sorted(kept)), *after]

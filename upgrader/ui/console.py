"""The live display: every step with its state, the gate that is waited for and why, and what clients of the API see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from upgrader.engine.journal.decode import UnknownEvent
from upgrader.model.event import AvailabilityMeasured, Event, GateLooked, Note
from upgrader.model.outcome import VerdictKind
from upgrader.ui.availability import availability_line
from upgrader.ui.progress import Progress, State, StepProgress, follow
from upgrader.ui.terminal import duration

__all__ = ["ConsoleReporter", "draw"]

MARKS: dict[State, tuple[str, str]] = {
    "waiting": ("·", "dim"),
    "passed": ("✔", "green"),
    "failed": ("✘", "red"),
    "undone": ("↶", "yellow"),
    "undo-failed": ("✘", "bold red"),
    "in-doubt": ("?", "magenta"),
}
_VERDICTS = {
    VerdictKind.HOLDS: "green",
    VerdictKind.PENDING: "yellow",
    VerdictKind.BROKEN: "red",
    VerdictKind.UNKNOWN: "magenta",
}

_DETAIL_LINES = 2
_BEADS = 10
"""A gate that must hold more often than this is counted in digits."""


class ConsoleReporter:
    """A Reporter on a terminal, drawn anew a few times a second while the context is open."""

    def __init__(self, console: Console, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._monotonic = monotonic
        self._lock = threading.RLock()  # a signal handler may come by while it is held
        self._progress = Progress()
        self._noted = ""
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(
            console=console, get_renderable=self._draw, refresh_per_second=8, transient=True, redirect_stdout=False
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A run that ends well is followed by its report; one that breaks off leaves the last picture standing.
        self._live.transient = kind is None
        self._live.stop()

    def catch_up(self, earlier: Iterable[Event | UnknownEvent]) -> None:
        """Show what another process did of this run before."""
        with self._lock:
            for event in earlier:
                if not isinstance(event, UnknownEvent | AvailabilityMeasured):
                    self._progress = follow(self._progress, event, self._monotonic())

    def emit(self, event: Event) -> None:
        """Take note of an event; the next redraw shows it."""
        with self._lock:
            self._progress = follow(self._progress, event, self._monotonic())
            news = isinstance(event, Note) and event.text != self._noted
            if isinstance(event, Note):
                self._noted = event.text
        if isinstance(event, Note) and news:
            self._console.print(Text(f"  {event.text}", style="dim"))

    def _draw(self) -> RenderableType:
        return draw(self._progress, self._monotonic(), self._spinner)


def draw(progress: Progress, now: float, spinner: RenderableType) -> RenderableType:
    """One picture of the run at `now`."""
    if not progress.run:
        return Text("")
    rows: list[RenderableType] = [_head(progress, now)]
    width = max((len(step.name) for step in progress.steps), default=0)
    for step in progress.steps:
        rows.append(_line(step, now, width, spinner))
        rows.extend(_detail(step))
    if progress.availability is not None:
        rows += [Text(""), Padding(availability_line(progress.availability), (0, 0, 0, 1), expand=False)]
    return Padding(Group(*rows), (1, 0))


def _row(*cells: tuple[RenderableType, int | None]) -> Table:
    """One line of cells: a fixed width each, but None, which takes what is left and is cut off there."""
    table = Table.grid(padding=(0, 1), expand=True)
    for _, width in cells:
        table.add_column(width=width, ratio=None if width else 1, no_wrap=True, overflow="ellipsis")
    table.columns[-1].justify = "right"
    table.add_row(*(cell for cell, _ in cells))
    return table


def _head(progress: Progress, now: float) -> RenderableType:
    verb = " Upgrade to " if progress.target.startswith("v") else " "
    title = Text.assemble((verb, "bold"), (progress.target, "bold cyan"), (f"  {progress.run}", "dim"))
    return Padding(_row((title, None), (Text(duration(now - progress.started), style="dim"), 12)), (0, 0, 1, 0))


def _line(step: StepProgress, now: float, width: int, spinner: RenderableType) -> RenderableType:
    sign, style = MARKS.get(step.state, ("", "cyan"))
    mark = spinner if step.active else Text(sign, style=style)
    seconds = now - step.since if step.active else step.seconds
    name = Text(step.name, style="bold" if step.active else style if step.state == "waiting" else "")
    said = {"failed": "failed", "undone": "rolled back", "undo-failed": "could not be rolled back"}.get(step.state, "")
    summary = Text(said, style=style) if said else Text(step.summary, style="dim" if step.state == "passed" else "")
    return _row(
        (Text(""), 1),
        (mark, 1),
        (name, width + 1),
        (summary, None),
        (Text("" if seconds is None else duration(seconds)), 12),
    )


def _detail(step: StepProgress) -> list[RenderableType]:
    """What an active step waits for, or why a finished one failed."""
    lines: list[Text] = []
    if step.look is not None:
        lines += _gate(step.look)
    elif step.active and step.note:
        lines.append(Text(step.note, style="dim"))
    elif step.state in ("failed", "undo-failed") and step.reason:
        lines.append(Text(step.reason.splitlines()[0], style="red"))
    return [Padding(_AtMost(line, _DETAIL_LINES), (0, 0, 0, 6), expand=False) for line in lines]


@dataclass(frozen=True)
class _AtMost:
    """Text that takes a few lines at most, so that a long reason doesn't push the steps out of sight."""

    text: Text
    lines: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wrapped = self.text.wrap(console, options.max_width)
        if len(wrapped) > self.lines:
            last = wrapped[self.lines - 1]
            last.truncate(options.max_width - 1)
            last.append("…")
        yield from wrapped[: self.lines]


def _gate(look: GateLooked) -> list[Text]:
    style = _VERDICTS[look.verdict.kind]
    beads = Text("●" * look.consecutive, style="green") + Text("○" * (look.needed - look.consecutive), style="dim")
    if look.needed > _BEADS:
        beads = Text(f"{look.consecutive} of {look.needed}")
    left = Text(f"  {duration(look.seconds_left)} left", style="dim")
    return [
        Text.assemble((look.gate, "cyan"), "  ", beads, left),
        Text.assemble((look.verdict.kind.value, style), f"  {look.verdict.reason}"),
    ]

"""The live display: every step with its phase, the gate that is waited for and why, and what clients of the API see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.spinner import Spinner
from rich.text import Text

from upgrader.cli.ui.approval_question import ApprovalQuestion
from upgrader.cli.ui.availability import availability_line
from upgrader.cli.ui.live_picture import live_picture, row, seconds_since
from upgrader.cli.ui.terminal import duration, printable_text
from upgrader.engine.state.event_fold import follow, switched
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.model.event import ApprovalRequested, Event, GateChecked, Note, StepApproved, WebhookSwitched
from upgrader.model.first_words import first_words
from upgrader.model.outcome import StepPhase, VerdictKind
from upgrader.model.run_kind import RunKind

__all__ = ["ConsoleReporter", "Recording", "draw"]

MARKS: dict[StepPhase, tuple[str, str]] = {
    "waiting": ("·", "dim"),
    "passed": ("✔", "green"),
    "failed": ("✘", "red"),
    "undone": ("↶", "yellow"),
    "undo-failed": ("✘", "bold red"),
}
INTERRUPTED = ("?", "magenta")
"""The mark of a step that was active when its run was interrupted."""

_VERDICTS = {
    VerdictKind.HOLDS: "green",
    VerdictKind.PENDING: "yellow",
    VerdictKind.BROKEN: "red",
    VerdictKind.UNKNOWN: "magenta",
}

_A_SECOND = 8.0
"""How often the picture is redrawn: a gate is checked every second, and the spinner shows that it lives."""
_DETAIL_LINES = 2
"""How many lines of a reason are shown, however small the screen is."""
_OTHER_LINES = 8
"""Rows besides steps and details: the head, the clients' view, and empty lines."""
_NAME_CHARACTERS = 32
"""The maximum width of a step's name, as its status needs room, too."""
_BEADS = 10
"""A gate that must hold more often than this is counted in digits."""


@dataclass(frozen=True)
class Recording:
    """What tells a recorded run from a live one: when it began, and the line that is always shown with it."""

    began: datetime
    mark: str


class ConsoleReporter:
    """A Reporter on a terminal, redrawn a few times a second while the context is open."""

    def __init__(
        self,
        console: Console,
        monotonic: Callable[[], float] = time.monotonic,
        recording: Recording | None = None,
        question: ApprovalQuestion | None = None,
        program: str = "upgrader",
    ) -> None:
        """With a `recording`, `monotonic` has its seconds, and all that is shown is marked as one.

        `question` asks for approvals on the same terminal; None: there is no question. `program` is how the operator
        calls upgrader for this cluster.
        """
        self._console = console
        self._monotonic = monotonic
        self._recording = recording
        self._question, self._program = question, program
        self._began = recording.began if recording else datetime.now(UTC) - timedelta(seconds=monotonic())
        self._lock = threading.RLock()  # a signal handler may run while it is held
        self._state = RunState()
        self._noted = ""
        self._expected_seconds: float | None = None
        self._spinner = Spinner("dots", style="cyan")
        self._live = live_picture(self._console, self._draw, _A_SECOND)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._question is not None:
            self._question.withdraw()
        # A normal end is followed by the report; after an exception, and of a recording, the last picture stays.
        self._live.transient = kind is None and self._recording is None
        self._live.stop()

    def catch_up(self, state: RunState) -> None:
        """Show what other processes did in this run before, without the requests that they counted."""
        with self._lock:
            self._state = replace(state, availability=None)

    def emit(self, event: Event) -> None:
        """Handle an event; the next redraw shows it."""
        with self._lock:
            self._state = follow(self._state, event, self._now())
            text = _told(event)
            is_new = bool(text) and text != self._noted
            if text:
                self._noted = text
        question = self._question
        if is_new:
            recorded = "recorded: " if self._recording else ""
            behind = "\n" if question and question.open else ""
            self._live.say(Text(f"{behind}  {recorded}{text}", style="dim"))
        if question is not None:
            self._ask(question, event)
            if is_new:
                question.repeat()

    def expect(self, seconds: float) -> None:
        """Shown beside how long the run has taken so far."""
        self._expected_seconds = seconds

    def approval(self) -> StepApproved | None:
        """The answer to the question below the last picture."""
        return self._question.answer() if self._question is not None else None

    def _ask(self, question: ApprovalQuestion, event: Event) -> None:
        """No one can type on a display that is redrawn: it stops until there is an answer."""
        if isinstance(event, ApprovalRequested):
            self._live.transient = False
            self._live.stop()
            waits = f"  {event.step} waits for an approval, for {duration(event.seconds)}"
            self._console.print(Text(f"{waits}; or, from anywhere: {self._program} approve {event.step} --reason TEXT"))
            question.ask(event.step)
        elif isinstance(event, StepApproved):
            question.withdraw()
            self._console.print(Text(f"  {event.step}: approved by {event.by}: {event.reason}", style="dim"))
            self._live = live_picture(self._console, self._draw, _A_SECOND)
            self._live.start(refresh=True)

    def _draw(self) -> RenderableType:
        picture = draw(self._state, self._now(), self._spinner, self._expected_seconds)
        if self._recording is None:
            return picture
        return Group(Text(f" {self._recording.mark} ", style="reverse", no_wrap=True, overflow="ellipsis"), picture)

    def _now(self) -> datetime:
        """A clock that is never set, so that durations stay right."""
        return self._began + timedelta(seconds=self._monotonic())


def _told(event: Event) -> str:
    """The text that is written above the picture, and stays; "" for none."""
    match event:
        case Note():
            return event.text
        case WebhookSwitched():
            return switched(event)
        case _:
            return ""


def draw(
    state: RunState, now: datetime, spinner: RenderableType, expected_seconds: float | None = None
) -> RenderableType:
    """One picture of the run at `now`. `expected_seconds` is how long all of it probably takes; None: unknown."""
    if not state.run:
        return Text("")
    rows: list[RenderableType] = [_head(state, now, expected_seconds)]
    steps = state.all_steps
    width = min(max((len(step.name) for step in steps), default=0), _NAME_CHARACTERS)
    details = {step.name: _detail(step) for step in steps}
    taken = len(steps) + sum(map(len, details.values())) + _OTHER_LINES
    for step in steps:
        rows.append(_line(step, now, width, spinner))
        rows += [Padding(_AtMost(line, taken), (0, 0, 0, 6), expand=False) for line in details[step.name]]
    if state.availability is not None:
        rows += [Text(""), Padding(availability_line(state.availability), (0, 0, 0, 1), expand=False)]
    # The last line is empty, not padded: a `^C` that the terminal echoes would wrap, and shift the next picture.
    return Group(Text(""), *rows, Text(""))


def _head(state: RunState, now: datetime, expected_seconds: float | None) -> RenderableType:
    verb, to, goal = f" {state.title}".rpartition(" to " if state.kind is RunKind.UPGRADE else " ")
    verb = f"{verb[:2].upper()}{verb[2:]}{to}"
    title = Text.assemble((verb, "bold"), (goal, "bold cyan"), (f"  {state.run}", "dim"))
    elapsed = duration(seconds_since(state.active_since, now))
    if expected_seconds is not None and not state.rolling_back:
        elapsed += f" of about {duration(expected_seconds)}"
    return Padding(row((title, None), (Text(elapsed, style="dim"), max(12, len(elapsed)))), (0, 0, 1, 0))


def _line(step: StepState, now: datetime, width: int, spinner: RenderableType) -> RenderableType:
    sign, style = MARKS.get(step.phase, ("", "cyan"))
    mark = spinner if step.active else Text(sign, style=style)
    name = Text(step.name, style="bold" if step.active else style if step.phase == "waiting" else "")
    ended = {"failed": "failed", "undone": "rolled back", "undo-failed": "could not be rolled back"}.get(step.phase, "")
    change = f"back to {step.goal}" if step.phase == "undoing" else step.summary
    summary = Text(ended, style=style) if ended else Text(change, style="dim" if step.phase == "passed" else "")
    return row(
        (Text(""), 1),
        (mark, 1),
        (name, width + 1),
        (summary, None),
        (Text(_time(step, now)), 12),
    )


def _time(step: StepState, now: datetime) -> str:
    """How long the current phase of an active step has lasted, or how long a finished one took."""
    if step.active:
        return duration(seconds_since(step.since, now))
    if step.phase == "waiting":
        return ""
    return duration(step.undo_seconds if step.phase in ("undone", "undo-failed") else step.seconds)


def _detail(step: StepState) -> list[Text]:
    """The gate that an active step waits for, or why a finished one failed."""
    lines: list[Text] = []
    reason = step.undo_reason if step.phase == "undo-failed" else step.reason if step.phase == "failed" else ""
    if step.check is not None:
        lines += _gate(step.check)
    elif step.active and step.note:
        lines.append(Text(step.note, style="dim"))
    elif reason:
        lines.append(Text(first_words(reason), style="red"))
    return lines


@dataclass(frozen=True)
class _AtMost:
    """Text of as many lines as the screen has room for, so that a long reason doesn't push the steps off it."""

    text: Text
    taken: int
    """How many lines the picture has if this text has one."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = max(_DETAIL_LINES, 1 + options.max_height - self.taken)
        wrapped = printable_text(self.text).wrap(console, options.max_width)
        if len(wrapped) > lines:
            last = wrapped[lines - 1]
            last.truncate(options.max_width - 1)
            last.append("…")
        yield from wrapped[:lines]


def _gate(check: GateChecked) -> list[Text]:
    style = _VERDICTS[check.verdict.kind]
    beads = Text("●" * check.consecutive, style="green") + Text("○" * (check.needed - check.consecutive), style="dim")
    if check.needed > _BEADS:
        beads = Text(f"{check.consecutive} of {check.needed}")
    left = Text(f"  {duration(check.seconds_left)} left", style="dim")
    return [
        Text.assemble((check.gate, "cyan"), "  ", beads, left),
        Text.assemble((check.verdict.kind.value, style), f"  {check.verdict.reason}"),
    ]

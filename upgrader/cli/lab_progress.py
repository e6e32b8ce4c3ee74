"""Progress of the lab on standard error: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Live
from rich.progress import Task as LiveTask
from rich.text import Text

from upgrader.lab.progress_port import LabProgress

__all__ = ["estimate", "progress"]

_PLAIN_INTERVAL_S = 30.0


def estimate(elapsed_seconds: float, expected_seconds: float | None, done: float, total: float | None) -> float | None:
    """Seconds that are left, or None if that is unknown.

    An average of the extrapolation from what is done and of the usual duration, weighted by the share that is done.
    """
    usual = max(0.0, expected_seconds - elapsed_seconds) if expected_seconds is not None else None
    if not total or not done:
        return usual
    share = min(1.0, done / total)
    measured = elapsed_seconds / share - elapsed_seconds
    return measured if usual is None else share * measured + (1 - share) * usual


@contextmanager
def progress() -> Iterator[LabProgress]:
    """The display that fits standard error, for the time of one command."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Plain(console)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=28), _Left())
    with Live(*columns, console=console, transient=True) as live:
        yield _Terminal(console, live)


class _Terminal:
    def __init__(self, console: Console, live: Live) -> None:
        self._console = console
        self._live = live

    @contextmanager
    def task(self, title: str, *, seconds: float | None = None) -> Iterator[_TerminalTask]:
        identity = self._live.add_task(title, total=None, expected=seconds)
        started = time.monotonic()
        try:
            yield _TerminalTask(self._live, identity)
        finally:
            self._live.remove_task(identity)
        self._console.print(f"[green]✔[/] {title} [dim]{_duration(time.monotonic() - started)}[/]", highlight=False)


class _TerminalTask:
    def __init__(self, live: Live, identity: object) -> None:
        self._live = live
        self._identity = identity

    def total(self, units: int) -> None:
        self._live.update(self._identity, total=units)  # type: ignore[arg-type]

    def advance(self, units: int = 1) -> None:
        self._live.advance(self._identity, units)  # type: ignore[arg-type]


class _Left(ProgressColumn):
    """Elapsed time, and an estimate of what is left."""

    def render(self, task: LiveTask) -> Text:
        elapsed = task.elapsed or 0.0
        left = estimate(elapsed, task.fields.get("expected"), task.completed, task.total)
        text = _duration(elapsed)
        if left:
            text += f", about {_duration(left)} left"
        return Text(text, style="dim")


class _Plain:
    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def task(self, title: str, *, seconds: float | None = None) -> Iterator[_PlainTask]:
        about = f" (about {_duration(seconds)})" if seconds else ""
        self._print(f"{title}…{about}")
        task = _PlainTask(self._console, title, seconds)
        yield task
        self._print(f"{title}: done in {_duration(task.elapsed())}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class _PlainTask:
    def __init__(self, console: Console, title: str, seconds: float | None) -> None:
        self._console = console
        self._title = title
        self._expected = seconds
        self._started = self._printed = time.monotonic()
        self._done = 0
        self._total: int | None = None

    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def total(self, units: int) -> None:
        self._total = units

    def advance(self, units: int = 1) -> None:
        self._done += units
        now = time.monotonic()
        if self._total and now - self._printed >= _PLAIN_INTERVAL_S:
            self._printed = now
            left = estimate(self.elapsed(), self._expected, self._done, self._total)
            share = min(99, 100 * self._done // self._total)
            text = f"{self._title}: {share} %, about {_duration(left or 0)} left"
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"

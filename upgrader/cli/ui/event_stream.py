"""A run's events for programs, one line each, in place of its display; the last line has the command's result."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from upgrader.app.event_lines import CommandEnded, error_form, line_of
from upgrader.cli.ui.repeats import Repeats
from upgrader.engine.state.run_state import RunState
from upgrader.errors import UsageError
from upgrader.model.event import Event, Note

__all__ = ["EventStream"]


def _utc() -> datetime:
    return datetime.now(UTC)


class EventStream:
    """A display of runs that writes lines of JSON. A reader that is gone loses the lines, and ends no run."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        warn: Callable[[str], None],
        now: Callable[[], datetime] = _utc,
        repeats: Repeats | None = None,
    ) -> None:
        """`write` writes a whole line, and raises OSError; `warn` is called once if that fails."""
        self._write, self._warn, self._now = write, warn, now
        self._repeats = repeats or Repeats()
        self._lines: deque[bytes] = deque()
        self._writing = threading.Lock()
        self._run: tuple[RunState, Path] | None = None
        self._lost = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def catch_up(self, state: RunState) -> None:
        """Nothing to write: other processes reported what they did."""

    def expect(self, seconds: float) -> None:
        """Nothing to write: it is no event of the run."""

    def approval(self) -> None:
        """None: a program reads the output, so there is no question."""

    def emit(self, event: Event) -> None:
        """Write the event, unless it repeats the last one."""
        if not self._repeats.skip(event):
            self._put(event)

    def notify(self, text: str) -> None:
        """A message outside of a run, such as what a command waits for before it."""
        self.emit(Note(text))

    def ended(self, state: RunState, folder: Path) -> None:
        """A run of this command has ended; of several hops, the last one counts."""
        self._run = state, folder

    def end(self, exit_code: int, error: BaseException | None, cluster_folder: Path) -> None:
        """Write the last line."""
        state, folder = self._run or (RunState(), Path())
        where = str(cluster_folder)
        if state.failure is not None and not isinstance(error, UsageError):
            where = f"step {state.failure.name}, run {state.run}"
        self._put(
            CommandEnded(
                exit_code,
                state.run,
                str(folder) if self._run else "",
                state.result if self._run else None,
                error_form(error, where) if error is not None else None,
            )
        )

    def _put(self, item: Event | CommandEnded) -> None:
        """Whole lines, one after the other: a signal's handler may come in the middle of one, and must not wait."""
        self._lines.append(line_of(item, self._now()).encode())
        while self._lines and self._writing.acquire(blocking=False):
            try:
                while self._lines:
                    self._write_one(self._lines.popleft())
            finally:
                self._writing.release()

    def _write_one(self, line: bytes) -> None:
        if self._lost:
            return
        try:
            self._write(line)
        except OSError as error:
            self._lost = True
            self._warn(
                f"Standard output can't be written ({error.strerror}): the command continues without its events."
            )

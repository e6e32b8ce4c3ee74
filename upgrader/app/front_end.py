"""What a use case needs from its caller: a place for notices, and a display for runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from upgrader.engine.state.run_state import RunState
from upgrader.model.event import Event, StepApproved
from upgrader.ports import Reporter

__all__ = ["READS_FOLDER", "SILENT", "FrontEnd", "RunDisplay", "SilentDisplay"]

READS_FOLDER = "reading the cluster's folder…"


class RunDisplay(Reporter, Protocol):
    """Shows a run while it is open."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def catch_up(self, state: RunState) -> None:
        """Show what other processes did in this run before."""
        ...

    def expect(self, seconds: float) -> None:
        """Say how long the whole run probably takes."""
        ...

    def approval(self) -> StepApproved | None:
        """What a person at this display has answered since the newest ApprovalRequested; it doesn't wait.

        None: no answer yet, or this display can't ask. Raises Interrupted after a refusal.
        """
        ...


class SilentDisplay:
    """Shows nothing: the journal and the report have everything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def catch_up(self, state: RunState) -> None: ...

    def expect(self, seconds: float) -> None: ...

    def approval(self) -> StepApproved | None:
        return None

    def emit(self, event: Event) -> None: ...


@dataclass(frozen=True)
class FrontEnd:
    """`notify` takes one line for the operator; `display` makes a display for one run.

    `doing` takes what is being done before there is anything to show, in place of what it was given before; "" ends it.
    """

    notify: Callable[[str], None] = lambda _: None
    display: Callable[[], RunDisplay] = SilentDisplay
    doing: Callable[[str], None] = lambda _: None

    @contextmanager
    def busy(self, first: str = READS_FOLDER) -> Iterator[None]:
        """What is being done is said in it, `first` at its beginning, and no longer behind it, however it ends."""
        self.doing(first)
        try:
            yield
        finally:
            self.doing("")


SILENT = FrontEnd()
"""For a caller that wants neither notices nor progress."""

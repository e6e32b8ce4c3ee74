"""Publishes the metrics of a run while it is running, in a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import UpgraderError
from upgrader.model.event import Event, GateChecked, Note
from upgrader.ports import Clock
from upgrader.reporting.observability.exposition import rendered
from upgrader.reporting.observability.run_metrics import run_metrics
from upgrader.reporting.observability.sinks import MetricSink

__all__ = ["EVERY_SECONDS", "MetricsPublisher"]

EVERY_SECONDS = 10.0
"""How often at most while only gates are checked, which they are every second."""


class MetricsPublisher:
    """A Reporter that never waits for any of its sinks. `note` is called once for each that can't be written."""

    def __init__(
        self,
        state: RunState,
        sinks: Sequence[MetricSink],
        *,
        cluster: str,
        clock: Clock,
        last_success: Callable[[RunState], datetime | None],
        note: Callable[[str], None],
    ) -> None:
        """`state` is the run's so far. `last_success`: when the newest run of that kind that succeeded before ended;
        called once, in the thread; raises UpgraderError."""
        self._state, self._sinks, self._cluster, self._clock = state, tuple(sinks), cluster, clock
        self._last_success, self._note = last_success, note
        self._due, self._over, self._at = threading.Event(), threading.Event(), float("-inf")
        self._failed: set[str] = set()
        self._thread = threading.Thread(target=self._publish_all, name="metrics", daemon=True)
        self._thread.start()

    def emit(self, event: Event) -> None:
        """Remember the event, and have it published soon."""
        self._state = follow(self._state, event, self._clock.now())
        now = self._clock.monotonic()
        if not isinstance(event, GateChecked | Note) or now - self._at >= EVERY_SECONDS:
            self._at = now
            self._due.set()

    def end(self) -> None:
        """No more events will come: publish the end."""
        self._over.set()
        self._due.set()

    def close(self, seconds: float) -> None:
        """Wait until that is done. A sink that takes longer is abandoned, and its result is not reported."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._note("the last metrics of this run are not published yet, and may be lost")
            self._note = lambda _: None

    def _publish_all(self) -> None:
        before: datetime | None = None
        known = over = False
        while not over:
            self._due.wait()
            self._due.clear()
            over = self._over.is_set()
            state = self._state
            if not state.run:
                continue
            if not known:
                before, known = self._success_before(state), True
            content = rendered(run_metrics(state, self._cluster, before, over=over))
            for sink in self._sinks:
                self._write(sink, str(state.kind), content)

    def _success_before(self, state: RunState) -> datetime | None:
        try:
            return self._last_success(state)
        except (UpgraderError, OSError) as error:
            self._note(f"metrics: the time of the last successful run is unknown: {error}")
            return None

    def _write(self, sink: MetricSink, kind: str, content: bytes) -> None:
        try:
            sink.write(kind, content)
        except (UpgraderError, OSError) as error:
            self._tell(sink, str(error))
        except Exception as error:  # noqa: BLE001  # a fault of ours must not end the thread: other sinks go on
            self._tell(sink, f"{type(error).__name__}: {error}")

    def _tell(self, sink: MetricSink, why: str) -> None:
        if sink.name not in self._failed:
            self._failed.add(sink.name)
            self._note(f"metrics can't be written to {sink.name}, but the run continues: {why}")

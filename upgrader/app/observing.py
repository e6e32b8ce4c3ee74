"""Has the systems that watch over the cluster know of a run while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from upgrader.app.wiring import Session
from upgrader.engine.state.run_state import RunState
from upgrader.observability.metrics_publisher import MetricsPublisher
from upgrader.ports import Reporter

__all__ = ["observing"]

_LAST_SECONDS = 6.0
"""How long the end of a run waits for what is still to be told; a little longer than one request may take."""


@contextmanager
def observing(
    session: Session, earlier: RunState | None, note: Callable[[str], None]
) -> Iterator[tuple[Reporter, ...]]:
    """Reporters that tell of the run while the context is open; none where upgrader.yaml names nobody to tell.

    `earlier` is the run so far, if another process began it. `note` takes messages for the operator.
    """
    sinks = session.metric_sinks()
    if not sinks:
        yield ()
        return
    publisher = MetricsPublisher(
        earlier or RunState(),
        sinks,
        cluster=session.settings.observability.cluster,
        clock=session.tools.clock,
        last_success=lambda state: _last_success(session, state),
        note=note,
    )
    try:
        yield (publisher,)
    finally:
        publisher.close(_LAST_SECONDS)


def _last_success(session: Session, now: RunState) -> datetime | None:
    """Of the same kind, in this folder or in the cluster, as a CI job begins with no runs. Raises UpgraderError."""
    found = (run.state for run in reversed(session.find_brief_runs().runs) if run.name != now.run)
    return next((each.updated for each in found if each.kind is now.kind and each.outcome == "succeeded"), None)

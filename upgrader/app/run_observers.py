"""Has the systems that watch over the cluster, and its people, know of a run while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from upgrader.app.wiring import Session
from upgrader.engine.state.run_state import RunState
from upgrader.pipeline import Pipeline
from upgrader.ports import Reporter
from upgrader.reporting.observability.messages import TOPICS
from upgrader.reporting.observability.metrics_publisher import MetricsPublisher
from upgrader.reporting.observability.object_events import ObjectEvents, workloads_of
from upgrader.reporting.observability.trace import Trace
from upgrader.reporting.observability.webhook import Webhook

__all__ = ["observing"]

_LAST_SECONDS = 6.0
"""How long the end of a run waits for what is still to be told; a little longer than one request may take."""

_Note = Callable[[str], None]


@contextmanager
def observing(
    session: Session, pipeline: Pipeline, earlier: RunState | None, note: _Note
) -> Iterator[tuple[Reporter, ...]]:
    """Reporters of the run while the context is open; none if upgrader.yaml configures none.

    `earlier` is the run so far, if another process began it. `note` takes messages for the operator.
    """
    observers = tuple(_observers(session, pipeline, earlier or RunState(), note))
    clock = session.tools.clock
    try:
        yield observers
    finally:
        for observer in observers:
            observer.end()
        deadline = clock.monotonic() + _LAST_SECONDS
        for observer in observers:
            observer.close(max(0.0, deadline - clock.monotonic()))


def _observers(
    session: Session, pipeline: Pipeline, state: RunState, note: _Note
) -> Iterator[MetricsPublisher | Webhook | ObjectEvents | Trace]:
    wanted, clock = session.settings.observability, session.tools.clock
    sinks, service = session.metric_sinks(), session.webhook_service()
    if sinks:
        yield MetricsPublisher(
            state,
            sinks,
            cluster=wanted.cluster,
            clock=clock,
            last_success=lambda now: _last_success(session, now),
            note=note,
        )
    if wanted.object_events:
        yield ObjectEvents(state, session.brief_kube, workloads_of(pipeline), clock=clock, note=note)
    collector = session.trace_service()
    if collector:
        yield Trace(state, collector, cluster=wanted.cluster, clock=clock, note=note)
    if wanted.webhook and service:
        topics = tuple(topic for topic in TOPICS if topic in wanted.webhook.topics)
        yield Webhook(
            state,
            service,
            cluster=wanted.cluster,
            topics=topics,
            secret_file=wanted.webhook.secret_file,
            clock=clock,
            note=note,
        )


def _last_success(session: Session, now: RunState) -> datetime | None:
    """Of the same kind, in this folder or in the cluster, as a CI job begins with no runs. Raises UpgraderError."""
    found = (run.state for run in reversed(session.find_brief_runs().runs) if run.name != now.run)
    return next((each.updated for each in found if each.kind is now.kind and each.outcome == "succeeded"), None)

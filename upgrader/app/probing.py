"""The availability prober beside a run: its counts are shown while they grow, and journaled at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upgrader.app.wiring import Session
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.gates.availability.series_file import SeriesWriter
from upgrader.model.availability import Availability
from upgrader.model.event import AvailabilityMeasured, Note
from upgrader.ports import Reporter

__all__ = ["probe_of", "probing", "recording"]


@contextmanager
def recording(path: Path, display: Reporter) -> Iterator[SeriesWriter]:
    """Where samples are kept while the context is open. What could not be kept is shown at the end, and no error."""
    with SeriesWriter(path) as writer:
        yield writer
    if writer.problem:
        display.emit(Note(f"{path.name}: {writer.problem}; the report's API graphs are incomplete"))


def probe_of(
    session: Session, display: Reporter, series: SeriesWriter, *, must_answer: bool
) -> AvailabilityProbe | None:
    """A probe that sends requests as the API's clients do, shows the counts, and keeps its samples in `series`; None
    when it is turned off.

    `must_answer`: without a good answer before the first change, a run would be taken back for faults of the prober's
    own way to the API.
    """
    settings = session.settings
    rate = settings.availability.requests_per_second
    if rate <= 0:
        return None
    return AvailabilityProbe(
        settings.kubeconfig,
        context=session.cluster.context,
        requests_per_second=rate,
        addresses=settings.availability.addresses,
        must_answer=must_answer,
        on_change=lambda seen: display.emit(_measured(seen)),
        keep=series.append,
    )


@contextmanager
def probing(probe: AvailabilityProbe | None, reporter: Reporter) -> Iterator[None]:
    """Probe while the context is open, and journal the counts at the end."""
    if probe is None:
        yield
        return
    with probe:
        try:
            yield
        finally:
            reporter.emit(_measured(probe.stop()))


def _measured(seen: Availability) -> AvailabilityMeasured:
    return AvailabilityMeasured(
        seen.requests,
        seen.failed,
        seen.raw_failed,
        seen.longest_gap_ms,
        failures=tuple(map(str, seen.failures[:20])),
        raw_failures=tuple(map(str, seen.raw_failures[:20])),
        latency=seen.latency,
        watches=seen.watches,
        phases=tuple(phase for phase in seen.phases if phase.requests),
    )

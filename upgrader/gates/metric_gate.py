"""The gate of a metric: what Prometheus says stays within limits for a while after a change. Fails closed."""

from __future__ import annotations

from math import isfinite

from upgrader.errors import ServiceError
from upgrader.model.gate_settings import MetricGateSettings
from upgrader.model.observability import Series
from upgrader.model.outcome import Verdict, VerdictKind, holds, pending, unknown
from upgrader.ports import Clock, Prometheus

__all__ = ["MetricGate", "asked_after", "judge", "resolution_seconds"]

_POINTS = 30
"""In how many values a window is looked at; a shorter one has a value each second."""
_SHOWN = 3
_MOST_CHARACTERS = 300
"""Of a series' labels: they are journaled with each answer."""


class MetricGate:
    """Every value of a whole window since the change is within the limits.

    The window is measured by this machine's clock, and read by the server's: the two are not compared. Make one for
    each wait.
    """

    def __init__(self, prometheus: Prometheus, clock: Clock, settings: MetricGateSettings) -> None:
        self.name = f"metric/{settings.name}"
        self._prometheus, self._clock, self._settings = prometheus, clock, settings
        self._began: float | None = None
        self._asked: float | None = None
        self._verdict = unknown("the metric has not been queried yet", remedy="Wait for the first query.")

    def check(self) -> Verdict:
        """Ask the server; more often than `interval` says, it is the last verdict again."""
        now = self._clock.monotonic()
        self._began = now if self._began is None else self._began
        if self._asked is None or now - self._asked >= self._settings.policy.interval_seconds:
            self._verdict = asked_after(self._prometheus, self._settings, now - self._began)
            self._asked = now
        return self._verdict


def asked_after(prometheus: Prometheus, settings: MetricGateSettings, elapsed: float) -> Verdict:
    """Ask the server, so many seconds after a change."""
    step, window = resolution_seconds(settings), settings.window_seconds
    # Never before the change. At least one, so that a query without an answer is known at once.
    points = max(1, int(min(elapsed, window) // step))
    try:
        found = prometheus.values(settings.query, points=points, step_seconds=step)
    except ServiceError as error:
        return _unknown(settings, error.message, "Check that Prometheus is up, and that this machine can reach it.")
    verdict = judge(settings, found, points)
    if elapsed >= window or verdict.kind is not VerdictKind.HOLDS:
        return verdict
    return pending(
        f"{verdict.reason}, for {elapsed:.0f} of {window:.0f} s",
        remedy="Wait, or set a shorter `window` of the gate in upgrader.yaml.",
    )


def judge(settings: MetricGateSettings, found: tuple[Series, ...], points: int) -> Verdict:
    """The verdict on what the server has answered, when `points` values were asked for."""
    if not found:
        return _unknown(
            settings,
            "the query returned no series",
            "Run the query in Prometheus, and check that its target is scraped. For a series that exists only after "
            "errors, write `… or vector(0)`.",
        )
    if len(found) > 1:
        several = [_labels(each) for each in found[:_SHOWN]]
        return _unknown(
            settings,
            f"the query returned {len(found)} series instead of one",
            "Aggregate them: sum(…), max(…).",
            *several,
        )
    values = found[0].values
    odd = next((value for value in values if not isfinite(value)), None)
    if odd is not None:
        return _unknown(settings, f"the value {odd}", "Write the query so that it doesn't divide by zero.")
    if len(values) < points:
        return _unknown(
            settings,
            f"only {len(values)} of {points} values since the step's change",
            "Prometheus was restarted, lost data or did not scrape. The gate can pass once the window is complete.",
        )
    low, high = min(values), max(values)
    minimum, maximum = settings.minimum, settings.maximum
    if maximum is not None and high > maximum:
        return _outside(settings, high)
    if minimum is not None and low < minimum:
        return _outside(settings, low)
    seen = f"{high:g}" if low == high else f"{low:g} to {high:g}"
    return holds(f"{_asked(settings)} is {seen}, {_limits(settings)}")


def resolution_seconds(settings: MetricGateSettings) -> int:
    """How far apart the values are that are looked at."""
    return max(1, int(settings.window_seconds // _POINTS))


def _outside(settings: MetricGateSettings, value: float) -> Verdict:
    return pending(
        f"{_asked(settings)} was {value:g} in the last {settings.window_seconds:.0f} s, {_limits(settings)}",
        remedy="Find out what the change made worse. If this value is normal, change the gate's `min`, `max` or "
        "`deadline` in upgrader.yaml.",
    )


def _unknown(settings: MetricGateSettings, why: str, remedy: str, *details: str) -> Verdict:
    return unknown(f"{_asked(settings)} ({_limits(settings)}): {why}", *details, remedy=remedy)


def _asked(settings: MetricGateSettings) -> str:
    return f"`{' '.join(settings.query.split())}`"


def _limits(settings: MetricGateSettings) -> str:
    low, high = settings.minimum, settings.maximum
    parts = [*([f"at least {low:g}"] if low is not None else []), *([f"at most {high:g}"] if high is not None else [])]
    return f"allowed: {' and '.join(parts)}"


def _labels(series: Series) -> str:
    text = ", ".join(f'{name}="{value}"' for name, value in series.labels.items())
    return "{" + (text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + " …") + "}"

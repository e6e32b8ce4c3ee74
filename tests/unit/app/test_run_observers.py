"""Whom a run is told to, and what is known of earlier ones."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from testkit.example_runs import GOOD, ROLLED_BACK, journal_of, state_of
from testkit.fakes.clock import FakeClock
from testkit.fakes.http_service import FakeHttpService
from upgrader.app.run_observers import observing
from upgrader.engine.history.journal_replicas import LocalJournals
from upgrader.engine.history.run_discovery import find_runs
from upgrader.model.observability import HttpEndpoint, ObservabilitySettings, WebhookSettings
from upgrader.pipeline import Pipeline
from upgrader.reporting.observability.sinks import Textfile


def session(
    folder: Path,
    *sinks: Any,
    webhook: WebhookSettings | None = None,
    service: Any = None,
    collector: Any = None,
) -> Any:
    """No more than observing a run needs."""
    return SimpleNamespace(
        settings=SimpleNamespace(observability=ObservabilitySettings("one", webhook=webhook)),
        tools=SimpleNamespace(clock=FakeClock()),
        metric_sinks=lambda: sinks,
        webhook_service=lambda: service,
        trace_service=lambda: collector,
        find_brief_runs=lambda: find_runs([LocalJournals(folder)]),
    )


def test_nobody_to_tell(tmp_path: Path) -> None:
    """A run of a folder without sinks has no observers, and no thread."""
    with observing(session(tmp_path), Pipeline(()), None, lambda _: None) as observers:
        assert observers == ()


def test_last_success_is_that_of_an_earlier_run(tmp_path: Path) -> None:
    """A failed run is published with when the newest one that succeeded ended."""
    metrics = tmp_path / "metrics"
    metrics.mkdir()
    journal_of(GOOD, tmp_path, "20250101T000000-v1.37.1")
    journal_of(ROLLED_BACK, tmp_path, "20250102T000000-v1.37.1")
    notes: list[str] = []
    with observing(session(tmp_path / "runs", Textfile(metrics, "one")), Pipeline(()), None, notes.append) as (
        observer,
    ):
        for _, event in ROLLED_BACK:
            observer.emit(event)
    (file,) = metrics.iterdir()
    ended = state_of(GOOD).updated
    assert ended is not None and notes == []
    assert f"}} {ended.timestamp()!r}\n" in file.read_text()


def test_people_are_told_to_the_end(tmp_path: Path) -> None:
    """What upgrader.yaml has people told of is sent before the run's process ends."""
    service, wanted = FakeHttpService(), WebhookSettings(HttpEndpoint("https://h"), ("end",))
    opened = session(tmp_path / "runs", webhook=wanted, service=service)
    with observing(opened, Pipeline(()), None, lambda _: None) as (observer,):
        for _, event in ROLLED_BACK:
            observer.emit(event)
    (sent,) = service.sent
    assert b"rolled-back" in sent.body


def test_trace_is_sent_at_the_end(tmp_path: Path) -> None:
    """A collector gets the whole run in one request."""
    collector = FakeHttpService()
    opened = session(tmp_path / "runs", collector=collector)
    with observing(opened, Pipeline(()), None, lambda _: None) as (observer,):
        for _, event in ROLLED_BACK:
            observer.emit(event)
        assert collector.sent == []
    assert [sent.path for sent in collector.sent] == ["/v1/traces"]

"""`upgrader check --metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testkit.fakes.clock import FakeClock
from testkit.fakes.http_service import FakeHttpService
from upgrader.app import check_metrics
from upgrader.app.upgrade import CheckedPlan
from upgrader.errors import ServiceError, UsageError
from upgrader.model.finding import Finding
from upgrader.model.version import KubernetesVersion
from upgrader.reporting.observability.sinks import MetricSink, Pushgateway, Textfile
from upgrader.steps.plan import Plan

ERROR = Finding("webhooks.no-backend", "error", "webhook x refuses pods")
WARNING = Finding("apis.unavailable", "warning", "APIService y is not Available")


def published(monkeypatch: pytest.MonkeyPatch, *sinks: MetricSink, findings: tuple[Finding, ...]) -> list[str]:
    """What is noted while the metrics of these findings are written there."""

    @contextmanager
    def session(_: Path) -> Iterator[SimpleNamespace]:
        settings = SimpleNamespace(observability=SimpleNamespace(cluster="north-1"))
        yield SimpleNamespace(metric_sinks=lambda: sinks, settings=settings, tools=SimpleNamespace(clock=FakeClock()))

    notes: list[str] = []
    monkeypatch.setattr(check_metrics, "open_session", session)
    plan = Plan(KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1), ())
    check_metrics.publish_check(Path(), CheckedPlan(plan, findings), notes.append)
    return notes


def test_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings are counted by severity, those that were skipped aren't, and Prometheus' own parser reads it."""
    skipped = replace(ERROR, skipped="known")
    assert published(monkeypatch, Textfile(tmp_path, "north-1"), findings=(ERROR, skipped, WARNING)) == []
    text = (tmp_path / "upgrader-north-1-check.prom").read_text()
    found = {
        (sample.name, sample.labels.get("severity", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert (found["upgrader_check_findings", "error"], found["upgrader_check_findings", "warning"]) == (1, 1)
    assert found["upgrader_check_findings", "unknown"] == 0 and found["upgrader_check_blocked", ""] == 1
    assert found["upgrader_check_timestamp_seconds", ""] == 1767225600


def test_nothing_that_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning doesn't."""
    published(monkeypatch, Textfile(tmp_path, "north-1"), findings=(WARNING,))
    assert 'upgrader_check_blocked{cluster="north-1"} 0.0' in (tmp_path / "upgrader-north-1-check.prom").read_text()


def test_one_that_fails_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named; the check itself is as good as without."""
    gateway = Pushgateway(FakeHttpService(ServiceError("no answer within 5 s")), "north-1")
    (note,) = published(monkeypatch, gateway, Textfile(tmp_path, "north-1"), findings=())
    assert "the Pushgateway: no answer" in note and list(tmp_path.iterdir())


def test_nowhere_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for metrics and has named no place gets an error, not silence."""
    with pytest.raises(UsageError, match="no destination for metrics"):
        published(monkeypatch, findings=())

"""Publishing metrics: what a run is spared when their sinks are slow, broken or refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from testkit.example_runs import GOOD
from testkit.fakes.clock import FakeClock
from testkit.fakes.http_service import FakeHttpService
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiUnavailable, ServiceError
from upgrader.model.event import Event, GateChecked
from upgrader.model.observability import HttpAnswer
from upgrader.reporting.observability.metrics_publisher import EVERY_SECONDS, MetricsPublisher
from upgrader.reporting.observability.sinks import MetricSink, Pushgateway, Textfile

EVENTS = [event for _, event in GOOD]


@dataclass
class Sink:
    """Keeps what it was given; `hold` makes it wait, `error` refuse."""

    name: str = "the sink"
    error: Exception | None = None
    hold: threading.Event | None = None
    written: list[str] = field(default_factory=list)
    entered: threading.Event = field(default_factory=threading.Event)

    def write(self, kind: str, content: bytes) -> None:
        self.written.append(content.decode())
        self.entered.set()
        if self.hold:
            self.hold.wait()
        if self.error:
            raise self.error


def nobody(_: RunState) -> datetime | None:
    return None


def publisher(
    *sinks: MetricSink,
    notes: list[str] | None = None,
    clock: FakeClock | None = None,
    last_success: Callable[[RunState], datetime | None] = nobody,
) -> MetricsPublisher:
    note = notes.append if notes is not None else lambda _: None
    return MetricsPublisher(
        RunState(), sinks, cluster="one", clock=clock or FakeClock(), last_success=last_success, note=note
    )


def run(publishing: MetricsPublisher, events: list[Event] = EVENTS) -> None:
    for event in events:
        publishing.emit(event)


def test_end_is_published() -> None:
    """When the run's process ends, every sink has its outcome."""
    sinks = Sink(), Sink("another")
    publishing = publisher(*sinks)
    run(publishing)
    publishing.end()
    publishing.close(60)
    for sink in sinks:
        assert 'outcome="succeeded"} 1.0' in sink.written[-1]


def test_interrupted_run_is_not_running_for_ever() -> None:
    """A run whose process ends without an end of the run is published as interrupted."""
    sink = Sink()
    publishing = publisher(sink)
    run(publishing, EVENTS[:6])
    publishing.end()
    publishing.close(60)
    assert 'outcome="interrupted"} 1.0' in sink.written[-1]


def test_slow_sink_holds_nothing_back() -> None:
    """Events are taken while a sink hangs, and the end of the run leaves it behind, with a note."""
    hold, notes = threading.Event(), list[str]()
    sink = Sink(hold=hold)
    publishing = publisher(sink, notes=notes)
    run(publishing)
    sink.entered.wait()
    run(publishing)
    publishing.end()
    publishing.close(0.01)
    assert "not published yet" in notes[0]
    hold.set()


def test_failure_is_noted_once() -> None:
    """A sink that refuses is named once, and the others still get everything."""
    notes = list[str]()
    bad, good = Sink("the Pushgateway", ServiceError("it answered 503")), Sink()
    publishing = publisher(bad, good, notes=notes)
    run(publishing)
    good.entered.wait()
    run(publishing)
    publishing.end()
    publishing.close(60)
    assert notes == ["metrics can't be written to the Pushgateway, but the run continues: it answered 503"]
    assert len(bad.written) == len(good.written) > 1


def test_unknown_last_success() -> None:
    """Where the earlier runs can't be read, all other metrics are published."""

    def unreachable(_: RunState) -> datetime | None:
        raise ApiUnavailable("no route to host")

    notes, sink = list[str](), Sink()
    publishing = publisher(sink, notes=notes, last_success=unreachable)
    run(publishing, EVENTS[:4])
    publishing.end()
    publishing.close(60)
    assert "no route to host" in notes[0] and "upgrader_run_outcome" in sink.written[-1]


def test_checks_of_gates_are_not_all_published() -> None:
    """Gates are checked every second: what they add is published every ten, and other events at once."""
    clock = FakeClock()
    publishing = publisher(clock=clock)
    check = next(event for event in EVENTS if isinstance(event, GateChecked))

    def due(event: Event) -> bool:
        before = publishing._at
        publishing.emit(event)
        return publishing._at != before

    assert due(EVENTS[0])
    clock.sleep(1)
    assert not due(check)
    clock.sleep(EVERY_SECONDS)
    assert due(check)
    publishing.end()
    publishing.close(60)


def test_textfile(tmp_path: Path) -> None:
    """node_exporter, a user of its own, can read the file; nothing else is left in its folder."""
    sink = Textfile(tmp_path, "../a b")
    sink.write("upgrade", b"m 1\n")
    sink.write("upgrade", b"m 2\n")
    (file,) = tmp_path.iterdir()
    assert file.name == "upgrader-.._a_b-upgrade.prom"
    assert file.read_bytes() == b"m 2\n" and file.stat().st_mode & 0o777 == 0o644


def test_pushgateway() -> None:
    """The group is the cluster's and the kind's, and is replaced as a whole."""
    service = FakeHttpService()
    Pushgateway(service, "a b/c").write("upgrade", b"m 1\n")
    (sent,) = service.sent
    assert (sent.method, sent.path) == ("PUT", "/metrics/job/upgrader/instance/a%20b%2Fc/kind/upgrade")
    assert sent.body == b"m 1\n"


def test_pushgateway_that_refuses() -> None:
    """What it says is passed on, cut short."""
    service = FakeHttpService(HttpAnswer(400, b"pushed metrics are invalid " + b"x" * 1000))
    with pytest.raises(ServiceError, match="it answered 400: pushed metrics are invalid") as caught:
        Pushgateway(service, "one").write("upgrade", b"")
    assert len(caught.value.message) < 300


def test_fault_of_ours_keeps_no_other_sink_from_its_metrics() -> None:
    """It is noted by its name, and the thread goes on."""
    notes: list[str] = []
    broken, good = Sink(error=KeyError("x")), Sink("another")
    publishing = publisher(broken, good, notes=notes)
    run(publishing)
    publishing.end()
    publishing.close(60)
    assert 'outcome="succeeded"} 1.0' in good.written[-1]
    assert notes == ["metrics can't be written to the sink, but the run continues: KeyError: 'x'"]

"""What a run tells other systems, over HTTP to a server that is well, slow, broken, or hangs."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from testkit import example_runs as runs
from testkit.example_runs import Story
from testkit.fakes.clock import FakeClock
from testkit.http_server import Handler, HttpServer, http_server
from upgrader.adapters.http_service import HttpClient
from upgrader.engine.state.run_state import RunState
from upgrader.model.event import Event
from upgrader.model.observability import HttpEndpoint
from upgrader.reporting.observability.messages import TOPICS
from upgrader.reporting.observability.trace import Trace
from upgrader.reporting.observability.webhook import Webhook

SECRET = "s3cret-of-mine"
PATIENT, BRIEF = 60.0, 0.05


class Observer(Protocol):
    """What a run tells its events."""

    def emit(self, event: Event) -> None: ...

    def end(self) -> None: ...

    def close(self, seconds: float) -> None: ...


Make = Callable[[str, float, list[str]], Observer]
"""An observer that tells the server at this URL, waits for so long for an answer, and notes failures there."""


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A server that accepts everything."""
    with http_server(lambda request: request.reply(200)) as state:
        yield state


@pytest.fixture
def webhook(tmp_path: Path) -> Make:
    """The webhook, with a secret."""
    (tmp_path / "secret").write_text(f"{SECRET}\n")

    def make(url: str, seconds: float, notes: list[str]) -> Observer:
        service = HttpClient(HttpEndpoint(f"{url}/hook"), seconds)
        clock, secret = FakeClock(), tmp_path / "secret"
        return Webhook(
            RunState(), service, cluster="north-1", topics=TOPICS, secret_file=secret, clock=clock, note=notes.append
        )

    return make


def trace(url: str, seconds: float, notes: list[str]) -> Observer:
    """The trace."""
    service = HttpClient(HttpEndpoint(url), seconds)
    return Trace(RunState(), service, cluster="north-1", clock=FakeClock(), note=notes.append)


@pytest.fixture(params=["webhook", "trace"])
def make(request: pytest.FixtureRequest, webhook: Make) -> Make:
    """Both of them."""
    return webhook if request.param == "webhook" else trace


def told(make: Make, server: HttpServer, seconds: float = PATIENT, story: Story = runs.ROLLED_BACK) -> list[str]:
    """What is noted while a run is told of, until all is sent."""
    notes: list[str] = []
    observer = make(server.url, seconds, notes)
    for _, event in story:
        observer.emit(event)
    observer.end()
    observer.close(PATIENT)
    return notes


def test_receiver_verifies_each_message(server: HttpServer, webhook: Make) -> None:
    """A receiver that knows the secret, and reads docs/observability.md, refuses none of ours, and any other body."""
    verified: list[bool] = []

    def verify(request: Handler) -> None:
        stamp, signed = request.headers["X-Upgrader-Timestamp"], request.headers["X-Upgrader-Signature"]

        def expected(body: bytes) -> str:
            return "v1=" + hmac.new(SECRET.encode(), f"v1:{stamp}:".encode() + body, hashlib.sha256).hexdigest()

        verified.append(hmac.compare_digest(signed, expected(request.body)))
        verified.append(not hmac.compare_digest(signed, expected(request.body + b" ")))
        request.reply(200, b"ok")

    server.answer = verify
    assert told(webhook, server) == []
    assert verified == [True] * 8 and server.requests == ["POST /hook"] * 4
    events = [json.loads(body)["attachments"][0]["fields"][1]["value"] for body in server.bodies]
    assert events == ["start", "failure", "rollback", "end"]
    assert SECRET.encode() not in b"".join(server.bodies)


def test_collector_gets_one_whole_trace(server: HttpServer) -> None:
    """As OTLP over HTTP wants it: its path, its type of content, and JSON with spans."""
    assert told(trace, server) == []
    assert server.requests == ["POST /v1/traces"] and server.headers["Content-Type"] == "application/json"
    (spans,) = json.loads(server.bodies[0])["resourceSpans"][0]["scopeSpans"]
    assert spans["spans"][0]["name"] == "upgrade to v1.37.1"


def test_slow_server_gets_everything_in_order(server: HttpServer, webhook: Make) -> None:
    """The run has gone on to its end before the first answer; then each message comes, once."""
    go, notes = threading.Event(), list[str]()

    def late(request: Handler) -> None:
        go.wait()
        request.reply(200)

    server.answer = late
    observer = webhook(server.url, PATIENT, notes)
    for _, event in runs.GOOD:
        observer.emit(event)
    observer.end()
    go.set()
    observer.close(PATIENT)
    assert notes == [] and len(server.bodies) == 2
    assert ["has started" in json.loads(body)["text"] for body in server.bodies] == [True, False]


def test_server_that_fails(server: HttpServer, make: Make) -> None:
    """500, again and again, costs the run one note, which says what it answered."""
    server.answer = lambda request: request.reply(500, b"out of order")
    (note,) = told(make, server)
    assert "but the run continues" in note and "500" in note


def test_server_that_hangs(server: HttpServer, make: Make) -> None:
    """It is left at the deadline of a request: one note says so, and the run's end waits no longer."""
    server.answer = lambda request: (server.over.wait(), None)[1]
    (note,) = told(make, server, seconds=BRIEF)
    assert "but the run continues" in note and "no answer within 0.05 s" in note


def test_server_that_is_gone(make: Make) -> None:
    """Nobody listens: one note."""
    with http_server(lambda request: None) as gone:
        pass
    (note,) = told(make, gone)
    assert "refused" in note

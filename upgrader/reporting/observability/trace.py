"""A run as an OpenTelemetry trace, sent by OTLP over HTTP when the run's process ends.

By hand, as JSON: the SDK samples, batches and retries for servers that make spans all day, and a run makes one trace.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from upgrader import __version__
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.engine.state.timeline import Span
from upgrader.errors import ServiceError
from upgrader.model.event import Event
from upgrader.model.redaction.printable import printable
from upgrader.model.run_kind import describe_run
from upgrader.ports import Clock, HttpService
from upgrader.reporting.observability.delivery import Delivery

__all__ = ["Trace", "trace_of"]

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")
_INTERNAL, _OK, _ERROR = 1, 1, 2
_GOOD = ("passed", "applied", "undone", "succeeded", "holds", "")
_MOST_CHARACTERS = 1000
_Json = dict[str, Any]


class Trace:
    """A Reporter that sends one trace at the end. `note` is called if that fails."""

    def __init__(
        self, state: RunState, service: HttpService, *, cluster: str, clock: Clock, note: Callable[[str], None]
    ) -> None:
        """`state` is the run's so far: its trace includes the actions of other processes."""
        self._state, self._service, self._cluster, self._clock = state, service, cluster, clock
        self._delivery = Delivery("trace", self._send, "the trace can't be sent", note)

    def emit(self, event: Event) -> None:
        """Remember the event."""
        self._state = follow(self._state, event, self._clock.now())

    def end(self) -> None:
        """No more events will come: send the trace."""
        if self._state.run and self._state.started is not None:
            self._delivery.put(trace_of(self._state, self._cluster))
        self._delivery.end()

    def close(self, seconds: float) -> None:
        """Wait until it is sent, for so long at most."""
        self._delivery.close(seconds)

    def _send(self, trace: _Json) -> None:
        body = json.dumps(trace).encode(errors="replace")
        answer = self._service.send("POST", "/v1/traces", body, {"Content-Type": "application/json"})
        if answer.status != 200:
            raise ServiceError(f"it answered {answer.status}")


def trace_of(state: RunState, cluster: str) -> _Json:
    """An ExportTraceServiceRequest. Its ids come from the run's name: a run that is resumed continues its trace."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": "upgrader", "k8s.cluster.name": cluster})},
                "scopeSpans": [
                    {"scope": {"name": "upgrader", "version": __version__}, "spans": list(_spans(state))},
                ],
            }
        ]
    }


def _spans(state: RunState) -> Iterator[_Json]:
    began, last = state.started or _EPOCH, state.updated or state.started or _EPOCH
    trace, root = _id(32, state.run), _id(16, state.run, "run")
    texts = {"upgrader.run": state.run, "upgrader.kind": str(state.kind), "upgrader.outcome": state.result}
    yield _span(
        {"traceId": trace, "spanId": root, "name": describe_run(state.kind, state.target)},
        (began, last),
        texts,
        error=state.reason or state.result if state.result not in ("succeeded", "") else "",
    )
    parents: dict[str, str] = {}
    for number, span in enumerate(state.spans):
        own = _id(16, state.run, str(number), span.kind, span.step, span.gate)
        if span.kind == "gates":
            parents[span.step] = own
        parent = parents.get(span.step, root) if span.kind == "gate" else root
        about = {"upgrader.step": span.step, "upgrader.gate": span.gate, "upgrader.outcome": span.outcome}
        yield _span(
            {"traceId": trace, "spanId": own, "parentSpanId": parent, "name": _name(span)},
            (span.began, span.ended or last),
            about,
            error="" if span.outcome in _GOOD else span.outcome,
        )


def _span(named: _Json, times: tuple[datetime, datetime], about: dict[str, str], *, error: str) -> _Json:
    began, ended = times
    return {
        **named,
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(began),
        "endTimeUnixNano": _nanoseconds(max(began, ended)),  # a machine's clock may be set back
        "attributes": _attributes(about),
        "status": {"code": _ERROR, "message": printable(error)[:_MOST_CHARACTERS]} if error else {"code": _OK},
    }


def _name(span: Span) -> str:
    return " ".join(filter(None, [span.kind, span.step, span.gate]))


def _attributes(texts: dict[str, str]) -> list[_Json]:
    return [{"key": key, "value": {"stringValue": printable(text)}} for key, text in texts.items() if text]


def _nanoseconds(time: datetime) -> str:
    """As text: JSON's numbers are too small for them."""
    return str((time - _EPOCH) // timedelta(microseconds=1) * 1000)


def _id(digits: int, *parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:digits]

"""A run as a trace."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from testkit import example_runs as runs
from testkit.example_runs import Story, state_of
from testkit.fakes.clock import FakeClock
from testkit.fakes.http_service import FakeHttpService
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ServiceError
from upgrader.model.observability import HttpAnswer
from upgrader.reporting.observability.trace import Trace, trace_of


def spans(story: Story) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = trace_of(state_of(story), "one")["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return found


@pytest.mark.parametrize("story", [runs.GOOD, runs.ROLLED_BACK, runs.RECOVERED, runs.INTERRUPTED, runs.HOSTILE])
def test_one_tree(story: Story) -> None:
    """Every span has an id of its own, in OTLP's form, and a parent in the same trace; none ends before it began."""
    found = spans(story)
    ids = [span["spanId"] for span in found]
    assert len(set(ids)) == len(ids) and all(re.fullmatch("[0-9a-f]{16}", each) for each in ids)
    assert {span["traceId"] for span in found} == {found[0]["traceId"]}
    assert re.fullmatch("[0-9a-f]{32}", found[0]["traceId"]) and "parentSpanId" not in found[0]
    assert all(span["parentSpanId"] in ids for span in found[1:])
    assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in found)


def test_good_run() -> None:
    """The root has the run's name and length, and gates are below the wait that they belong to."""
    root, *others = spans(runs.GOOD)
    state = state_of(runs.GOOD)
    assert root["name"] == "upgrade to v1.37.1" and root["status"] == {"code": 1}
    assert state.started is not None and int(root["startTimeUnixNano"]) == int(state.started.timestamp()) * 10**9
    names = {span["spanId"]: span["name"] for span in others}
    gates = [span for span in others if span["name"].startswith("gate ")]
    assert gates and all(names[span["parentSpanId"]].startswith("gates ") for span in gates)


def test_what_failed_is_an_error() -> None:
    """The run, the step's gates and what else went wrong have the status of an error; the rest doesn't."""
    found = {span["name"]: span["status"]["code"] for span in spans(runs.ROLLED_BACK)}
    assert found["upgrade to v1.37.1"] == 2 and found["gates kube-apiserver"] == 2
    assert found["apply pod-checkpointer"] == 1 and found["undo kube-apiserver"] == 1


def sent(service: FakeHttpService, notes: list[str]) -> None:
    trace = Trace(RunState(), service, cluster="one", clock=FakeClock(), note=notes.append)
    for _, event in runs.GOOD:
        trace.emit(event)
    trace.end()
    trace.close(60)


def test_is_sent_once() -> None:
    """One request, when the run's process ends, to the path that every collector has."""
    service, notes = FakeHttpService(), list[str]()
    sent(service, notes)
    (request,) = service.sent
    assert (request.method, request.path, notes) == ("POST", "/v1/traces", [])
    assert json.loads(request.body)["resourceSpans"][0]["resource"]["attributes"][1] == {
        "key": "k8s.cluster.name",
        "value": {"stringValue": "one"},
    }


@pytest.mark.parametrize("answer", [HttpAnswer(404), ServiceError("no answer within 5 s")])
def test_collector_that_fails(answer: HttpAnswer | ServiceError) -> None:
    """It costs the run one note."""
    notes: list[str] = []
    sent(FakeHttpService(answer), notes)
    assert len(notes) == 1 and "but the run continues" in notes[0]


def test_nothing_to_send() -> None:
    """A run that never began has no trace."""
    service = FakeHttpService()
    trace = Trace(RunState(), service, cluster="one", clock=FakeClock(), note=lambda _: None)
    trace.end()
    trace.close(60)
    assert service.sent == []

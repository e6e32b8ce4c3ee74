"""What a Prometheus may answer, and what is made of it."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from testkit.fakes.http_service import FakeHttpService
from upgrader.adapters.prometheus import PrometheusApi
from upgrader.errors import ServiceError
from upgrader.model.observability import HttpAnswer, Series


def answer(code: int, **content: object) -> HttpAnswer:
    return HttpAnswer(code, json.dumps(content).encode())


def matrix(*series: object, **more: object) -> HttpAnswer:
    return answer(200, status="success", data={"resultType": "matrix", "result": series}, **more)


def values(service: FakeHttpService, query: str = "up") -> tuple[Series, ...]:
    return PrometheusApi(service).values(query, points=2, step_seconds=5)


def test_question() -> None:
    """A comment at a query's end doesn't hide the window, and no time is sent: the server's counts."""
    service = FakeHttpService(matrix())
    assert values(service, "up # mine") == ()
    (sent,) = service.sent
    assert sent.method == "GET" and urlsplit(sent.path).path == "/api/v1/query"
    assert parse_qs(urlsplit(sent.path).query) == {"query": ["(up # mine\n)[10s:5s]"]}


def test_values() -> None:
    """The newest values, NaN and infinities among them; what was asked for, and no more."""
    service = FakeHttpService(matrix({"metric": {"a": "b"}, "values": [[1, "1"], [6, "2"], [11, "+Inf"]]}))
    assert values(service) == (Series({"a": "b"}, (2.0, float("inf"))),)


def test_remark_on_the_query() -> None:
    """A remark on how a query is written doesn't make the answer incomplete."""
    found = matrix({"metric": {}, "values": [[1, "1"]]}, warnings=["PromQL info: metric might not be a counter"])
    assert values(FakeHttpService(found)) == (Series({}, (1.0,)),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            HttpAnswer(502, b"<html>bad gateway"),
            "it answered 502, but not in the format of Prometheus' API: <html>bad gateway",
        ),
        (HttpAnswer(302, b""), "it answered 302, but not in the format"),
        (HttpAnswer(200, b"[]"), "not in the format of Prometheus' API"),
        (HttpAnswer(200, b"[" * 100_000), "not in the format of Prometheus' API"),
        (answer(400, status="error", error="parse error: x"), "it refused the query: parse error: x"),
        (answer(401, message="who are you"), "it refused the query: status 401"),
        (answer(200, status="error", error="query timed out"), "it refused the query: query timed out"),
        (matrix(warnings=5), "not in the format of Prometheus' API"),
        (matrix({"metric": {}, "values": [[1, 10**400]]}), "is not a range of values"),
        (matrix(warnings=["store a is not reachable"]), "its response is incomplete: store a is not reachable"),
        (answer(200, status="success", data={"resultType": "scalar", "result": [1, "1"]}), "is not a range of values"),
        (answer(200, status="success"), "is not a range of values"),
        (matrix({"metric": {}, "values": [[1, "one"]]}), "is not a range of values"),
        (matrix({"metric": {}, "histograms": [[1, {}]], "values": [[1, "1"]]}), "is not a range of values"),
    ],
)
def test_no_answer(given: HttpAnswer, said: str) -> None:
    """Whatever is no complete answer is an error that quotes the server, never an empty one."""
    with pytest.raises(ServiceError) as caught:
        values(FakeHttpService(given))
    assert said in caught.value.message and len(caught.value.message) < 400

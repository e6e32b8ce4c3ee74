"""Asks a Prometheus, or a server with its HTTP API."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from upgrader.errors import ServiceError
from upgrader.model.observability import Series
from upgrader.ports import HttpService

__all__ = ["PrometheusApi"]

_SHOWN = 300
_OWN_REMARK = "PromQL "
"""With this begin remarks on how a query is written; any other warning says that the answer is not complete."""


class PrometheusApi:
    """`ports.Prometheus`, by subqueries of an instant query without a time: so the server's clock alone counts."""

    def __init__(self, service: HttpService) -> None:
        self._service = service

    def values(self, query: str, *, points: int, step_seconds: int) -> tuple[Series, ...]:
        # The line's end closes a comment at the query's end.
        window = f"({query}\n)[{points * step_seconds}s:{step_seconds}s]"
        # GET, as proxies that allow reading alone know no other method.
        answer = self._service.send("GET", f"/api/v1/query?{urlencode({'query': window})}")
        try:
            content = json.loads(answer.body)
            if not isinstance(content, dict) or not isinstance(content.get("warnings") or [], list):
                raise ValueError("not what the API answers")
        except (ValueError, RecursionError):
            raise ServiceError(
                f"it answered {answer.status}, but not in the format of Prometheus' API: {_short(answer.body)}"
            ) from None
        if answer.status != 200 or content.get("status") != "success":
            said = content.get("error") or f"status {answer.status}"
            raise ServiceError(f"it refused the query: {str(said)[:_SHOWN]}")
        lacking = [text for text in content.get("warnings") or [] if not str(text).startswith(_OWN_REMARK)]
        if lacking:
            raise ServiceError(f"its response is incomplete: {str(lacking[0])[:_SHOWN]}")
        try:
            # A range that doesn't begin after its start, but with it, has one value more.
            return tuple(_series(each, points) for each in content["data"]["result"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise ServiceError(f"its response is not a range of values: {_short(answer.body)}") from None


def _series(found: dict[str, Any], points: int) -> Series:
    if found.get("histograms"):
        raise ValueError("a histogram is not a number")
    labels = {str(name): str(value) for name, value in found["metric"].items()}
    return Series(labels, tuple(float(value) for _, value in found["values"])[-points:])


def _short(body: bytes) -> str:
    return body[:_SHOWN].decode(errors="replace").strip()

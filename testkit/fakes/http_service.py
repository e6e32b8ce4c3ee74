"""A service that answers as a test says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from upgrader.errors import ServiceError
from upgrader.model.observability import HttpAnswer

__all__ = ["FakeHttpService", "Sent"]


@dataclass(frozen=True)
class Sent:
    """A request."""

    method: str
    path: str
    body: bytes
    headers: Mapping[str, str]


@dataclass
class FakeHttpService:
    """`ports.HttpService`. Its answer is `answer`; an error is raised."""

    answer: HttpAnswer | ServiceError = field(default_factory=lambda: HttpAnswer(200))
    sent: list[Sent] = field(default_factory=list)

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})
    ) -> HttpAnswer:
        self.sent.append(Sent(method, path, body, headers))
        if isinstance(self.answer, ServiceError):
            raise self.answer
        return self.answer

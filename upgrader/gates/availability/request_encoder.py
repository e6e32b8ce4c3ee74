"""Encodes requests. The same few are sent repeatedly, so each is encoded once."""

from __future__ import annotations

import h11
import hpack

from upgrader.gates.availability.api_endpoint import ApiEndpoint
from upgrader.gates.availability.http_exchange import Request, fields

__all__ = ["Encoder"]


class Encoder:
    """A client's requests to an endpoint, without their bodies."""

    def __init__(self, endpoint: ApiEndpoint) -> None:
        self.endpoint = endpoint
        self._http1: dict[tuple[str, str, int, int], h11.Request] = {}
        self._http2: dict[tuple[str, str, int, int], bytes] = {}

    def _key(self, request: Request) -> tuple[str, str, int, int]:
        return request.method, request.path, len(request.body or b""), self.endpoint.credentials.version

    def http1(self, request: Request) -> h11.Request:
        """Request line and header fields."""
        key = self._key(request)
        if key not in self._http1:
            to = self.endpoint
            found = {"host": to.authority, **fields(to, request)}
            if request.body is not None:
                found["content-length"] = str(len(request.body))
            self._http1[key] = h11.Request(
                method=request.method, target=to.path + request.path, headers=list(found.items())
            )
        return self._http1[key]

    def http2(self, request: Request) -> bytes:
        """The compressed header fields, without references to earlier ones: valid on every connection."""
        key = self._key(request)
        if key not in self._http2:
            found = [
                (":method", request.method),
                (":scheme", "https"),
                (":path", self.endpoint.path + request.path),
                (":authority", self.endpoint.authority),
                *fields(self.endpoint, request).items(),
            ]
            if request.body:
                found.append(("content-length", str(len(request.body))))
            self._http2[key] = hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*item) for item in found])
        return self._http2[key]

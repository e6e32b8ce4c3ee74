"""Answers that no API server gives: of a proxy, a load balancer or a login page between it and this machine.

They say nothing of the cluster: their 404 isn't an object that is gone, their 403 isn't kube-apiserver's refusal, and
their 200 isn't an API that is ready.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from upgrader.errors import ApiUnavailable

__all__ = ["is_foreign", "not_kubernetes"]

_SHOWN_BYTES = 80
_OWN_STATUSES = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS})
"""They mean the same, from an API server or from a proxy."""


def is_foreign(status: int, content_type: str, body: bytes) -> bool:
    """Whether something else than an API server has answered.

    kube-apiserver writes no HTML, sends no client elsewhere, and its errors in JSON name their kind, as each of its
    objects does. What it says in plain text may be anyone's.
    """
    if content_type.partition(";")[0].strip().lower() == "text/html":
        return status not in _OWN_STATUSES
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return True
    refused = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _OWN_STATUSES
    return refused and _has_no_kind(body)


def not_kubernetes(text: bytes, what: str, status: int = HTTPStatus.OK) -> ApiUnavailable:
    """The error of such an answer: the API server itself has not answered."""
    counted = f"HTTP {status} " if status >= HTTPStatus.MULTIPLE_CHOICES else ""
    return ApiUnavailable(
        f"the response to '{what}' is not from a Kubernetes API: {counted}{text[:_SHOWN_BYTES]!r}",
        remedy="Check the kubeconfig's server address and proxy-url, and any load balancer in front of the API server.",
    )


def _has_no_kind(body: bytes) -> bool:
    if not body.lstrip().startswith(b"{"):
        return False
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and not isinstance(found.get("kind"), str)

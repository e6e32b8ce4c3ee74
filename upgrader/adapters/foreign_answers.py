"""Answers that no API server gives: of a proxy, a load balancer or a login page between it and this machine.

They say nothing of the cluster: their 404 isn't an object that is gone, their 403 isn't kube-apiserver's refusal, and
their 200 isn't an API that is ready. Nor is it known what an aggregated API means by a 404 in words of its own, if it
isn't made with Kubernetes' library: of an object that is gone, of a path that it doesn't have, or of its own backend.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from upgrader.errors import ApiUnavailable

__all__ = ["is_foreign", "not_kubernetes"]

_SHOWN_BYTES = 80
_OWN_STATUSES = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS})
"""They mean the same, from an API server or from a proxy."""
_UNSERVED = b"404 page not found"


def is_foreign(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether something else than an API server has answered. `headers`: whatever the case of their names.

    kube-apiserver writes no HTML, and sends no client elsewhere. What it refuses, it refuses with an object that names
    its kind. The one exception are paths that it doesn't serve; other programs in Go have the same words for these, but
    only an API server gives each answer an ID for its audit log.
    """
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() == "text/html":
        return status not in _OWN_STATUSES
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return True
    if not HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR or status in _OWN_STATUSES:
        return False
    unserved = status == HTTPStatus.NOT_FOUND and body.strip() == _UNSERVED and "Audit-Id" in headers
    return not unserved and not _has_kind(body)


def not_kubernetes(text: bytes, what: str, status: int = HTTPStatus.OK) -> ApiUnavailable:
    """The error of such an answer: the API server itself has not answered."""
    counted = f"HTTP {status} " if status >= HTTPStatus.MULTIPLE_CHOICES else ""
    if status == HTTPStatus.NOT_FOUND and text.strip() == _UNSERVED:
        return ApiUnavailable(
            f"the response to '{what}' might not be from a Kubernetes API: HTTP {status} {_UNSERVED.decode()!r}, "
            "without the header Audit-Id, which an API server gives each of its responses",
            remedy="Check what is between this machine and the API server (the kubeconfig's server and proxy-url, load "
            "balancers): either it sent this response itself, or it removes response headers. Configure it to keep the "
            "header Audit-Id.",
        )
    return ApiUnavailable(
        f"the response to '{what}' is not from a Kubernetes API: {counted}{text[:_SHOWN_BYTES]!r}",
        remedy="Check the kubeconfig's server address and proxy-url, and any load balancer in front of the API server. "
        "If the resource belongs to an aggregated API (kubectl get apiservices), check that API's server.",
    )


def _has_kind(body: bytes) -> bool:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and isinstance(found.get("kind"), str)

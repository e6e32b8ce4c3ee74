"""AdmissionReviews: the API server's request, and the response.

Any client in the cluster can reach a webhook's port, so every body is parsed as untrusted input. A body that isn't an
AdmissionReview v1 with all that a decision needs raises `NotAnAdmissionReview`, and nothing else is ever raised; it is
answered with HTTP 400 and decides nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

__all__ = [
    "API_VERSION",
    "AdmissionRequest",
    "Answer",
    "NotAnAdmissionReview",
    "BAD_REQUEST",
    "CONFLICT",
    "FORBIDDEN",
    "NOT_FOUND",
    "TOO_MANY_REQUESTS",
    "allow",
    "deny",
    "names_an_object",
    "names_one_pod",
    "parse",
    "review",
    "unmet_precondition",
]

API_VERSION = "admission.k8s.io/v1"

BAD_REQUEST, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY_REQUESTS = 400, 403, 404, 409, 429
_REASONS = {
    BAD_REQUEST: "BadRequest",
    FORBIDDEN: "Forbidden",
    NOT_FOUND: "NotFound",
    CONFLICT: "Conflict",
    TOO_MANY_REQUESTS: "TooManyRequests",
}
_PRECONDITIONS = {"uid": "UID", "resourceVersion": "resourceVersion"}
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_LONGEST_WARNING = 256  # the API server cuts what is longer
_LONGEST_MESSAGE = 2048
_MOST_UID = 128
_LONGEST_NAME = 253
_LONGEST_USER = 256


class NotAnAdmissionReview(Exception):
    """The body isn't an AdmissionReview v1; the message says why, in one line, and is fit for an HTTP answer."""


@dataclass(frozen=True)
class AdmissionRequest:
    """A request of the API server. `resource` is as the webhook's rule names it (`statefulsets`), with no "/scale".

    `object` and `old_object` are None where the review has none. `dry_run`: nothing will be stored, so that nothing
    may be reserved, written or called.
    """

    uid: str
    operation: str
    group: str
    version: str
    resource: str
    subresource: str
    kind: str
    namespace: str
    name: str
    dry_run: bool
    user: str = ""
    object: Mapping[str, Any] | None = None
    old_object: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.resource}/{self.name} in {self.namespace}"


@dataclass(frozen=True)
class Answer:
    """The response. `code` and `reason` are those of a Status; both are empty if the request is allowed."""

    allowed: bool
    code: int = 0
    reason: str = ""
    message: str = ""
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def allow(*warnings: str, audit: Mapping[str, str] | None = None) -> Answer:
    """Allowed; the client sees each warning."""
    return Answer(allowed=True, warnings=tuple(_warning(w) for w in warnings), audit=dict(audit or {}))


def deny(code: int, message: str, audit: Mapping[str, str] | None = None) -> Answer:
    """Refused with an HTTP status: 400, 403, 409, 404 (`kubectl drain` takes it for done), or 429 (it tries again)."""
    return Answer(
        allowed=False, code=code, reason=_REASONS[code], message=message[:_LONGEST_MESSAGE], audit=dict(audit or {})
    )


def review(uid: str, answer: Answer) -> dict[str, Any]:
    """The AdmissionReview that answers the request with this UID."""
    response: dict[str, Any] = {"uid": uid, "allowed": answer.allowed}
    if not answer.allowed:
        response["status"] = {
            "status": "Failure",
            "code": answer.code,
            "reason": answer.reason,
            "message": answer.message,
        }
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    if answer.audit:
        response["auditAnnotations"] = dict(answer.audit)
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def names_an_object(text: str) -> bool:
    """Whether an object may have this name in the API's paths: `.` would be a list of all objects, readable by any
    client."""
    return text not in ("", ".", "..") and text.isprintable() and not {"/", "%"} & set(text)


def parse(body: bytes | bytearray) -> AdmissionRequest:
    """The request in a review's JSON, whose size `roles.request_limits` limits; raises only `NotAnAdmissionReview`."""
    try:
        document = _DECODER.decode(body.decode())
    except RecursionError:
        raise NotAnAdmissionReview("the body is nested too deeply") from None
    except ValueError as error:  # no UTF-8, no JSON, a number of thousands of digits, a key that is there twice
        raise NotAnAdmissionReview(f"the body isn't JSON: {_one_line(str(error))}") from None
    if not isinstance(document, dict):
        raise NotAnAdmissionReview("the body isn't a JSON object")
    if (document.get("apiVersion"), document.get("kind")) != (API_VERSION, "AdmissionReview"):
        raise NotAnAdmissionReview(f"the body isn't an AdmissionReview of {API_VERSION}")
    request = document.get("request")
    if not isinstance(request, dict):
        raise NotAnAdmissionReview("the review has no request")
    return _request(request)


def _request(request: Mapping[str, Any]) -> AdmissionRequest:
    uid = _text(request, "uid")
    if not 0 < len(uid) <= _MOST_UID:
        raise NotAnAdmissionReview(f"request.uid has {len(uid)} characters")
    operation = _text(request, "operation")
    if operation not in _OPERATIONS:
        raise NotAnAdmissionReview(f"request.operation isn't one of {', '.join(_OPERATIONS)}")
    if operation == "UPDATE" and not request.get("name"):  # without one, the API would be asked for all that there are
        raise NotAnAdmissionReview("request.name is missing")
    resource = _mapping(request, "resource")
    if resource is None or not _text(resource, "resource"):
        raise NotAnAdmissionReview("request.resource doesn't name a resource")
    new = _mapping(request, "object")
    return AdmissionRequest(
        uid=uid,
        operation=operation,
        group=_text(resource, "group"),
        version=_text(resource, "version"),
        resource=_text(resource, "resource"),
        subresource=_text(request, "subResource"),
        kind=_text(_mapping(request, "kind") or {}, "kind"),
        namespace=_name(request, "namespace"),
        name=_name(request, "name"),
        dry_run=_flag(request, "dryRun") or _evicts_nothing(request, new),
        user=_one_line(str((_mapping(request, "userInfo") or {}).get("username") or "")[:_LONGEST_USER]),
        object=new,
        old_object=_mapping(request, "oldObject"),
    )


def _evicts_nothing(request: Mapping[str, Any], new: Mapping[str, Any] | None) -> bool:
    """Whether it is an eviction on a dry run that only its own body tells of, as `kubectl drain` sends it."""
    if request.get("subResource") != "eviction" or new is None:
        return False
    options = new.get("deleteOptions")
    return isinstance(options, dict) and options.get("dryRun") == ["All"]


def unmet_precondition(request: AdmissionRequest, item: Mapping[str, Any]) -> str:
    """What the pod of an eviction should have and doesn't, such as "the UID …"; "" if nothing. `item`: the API's pod.

    The API server looks at an eviction's preconditions after it has asked all webhooks. No pod gets a UID or
    resourceVersion back that it had before; but one that it is going to have can be guessed. So it has to be refused at
    once. Before a deletion, the API server looks first.
    """
    for key, value in _preconditions(request).items():
        if value != item["metadata"].get(key):
            return f"the {_PRECONDITIONS[key]} {_one_line(value[:_MOST_UID])}"
    return ""


def names_one_pod(request: AdmissionRequest) -> bool:
    """Whether an eviction can't delete another pod of the name, as its preconditions name this one."""
    return bool(_preconditions(request))


def _preconditions(request: AdmissionRequest) -> Mapping[str, str]:
    options = (request.object or {}).get("deleteOptions") if request.subresource == "eviction" else None
    wanted = options.get("preconditions") if isinstance(options, dict) else None
    if not isinstance(wanted, dict):
        return {}
    return {key: value for key in _PRECONDITIONS if isinstance(value := wanted.get(key), str)}


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    value = parent.get(key)
    if value is not None and not isinstance(value, dict):
        raise NotAnAdmissionReview(f"{key} isn't an object")
    return value


def _text(parent: Mapping[str, Any], key: str) -> str:
    value = parent.get(key)
    if value is not None and not isinstance(value, str):
        raise NotAnAdmissionReview(f"{key} isn't a string")
    if value and not value.isprintable():  # no half of a character, no line that a log would take for its own
        raise NotAnAdmissionReview(f"{key} has characters that aren't allowed in a name")
    if value and len(value) > _LONGEST_NAME:  # it is written into logs, and asked for
        raise NotAnAdmissionReview(f"{key} has {len(value)} characters, more than {_LONGEST_NAME}")
    return value or ""


def _name(parent: Mapping[str, Any], key: str) -> str:
    value = _text(parent, key)
    if value and not names_an_object(value):
        raise NotAnAdmissionReview(f"{key} isn't a valid name of an object")
    return value


def _flag(parent: Mapping[str, Any], key: str) -> bool:
    value = parent.get(key)
    if value is not None and not isinstance(value, bool):
        raise NotAnAdmissionReview(f"{key} isn't true or false")
    return bool(value)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:_LONGEST_WARNING]} isn't a JSON number")
    return number


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; refused if a key is there twice, because parsers differ in which of the two they use."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


_DECODER = json.JSONDecoder(parse_constant=_number, parse_float=_number, object_pairs_hook=_without_twins)
"""Made once: `json.loads` with these makes one for each call."""


def _warning(text: str) -> str:
    return _one_line(text)[:_LONGEST_WARNING]


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)

"""AdmissionReviews of friends and enemies."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import request_of, review_of
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, NotAnAdmissionReview, allow, deny, parse, review

EVICTION = {
    "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "subResource": "eviction",
    "name": "web-0",
    "oldObject": None,
}


def _eviction(dry_run: bool = False, **options: Any) -> AdmissionRequest:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0"}, "deleteOptions": options}
    return request_of(review_of("CREATE", object=body, dryRun=dry_run, **EVICTION))


def test_a_review_is_read() -> None:
    """Everything that decisions need is taken from where the API server puts it."""
    seen = request_of(review_of())
    assert (seen.operation, seen.group, seen.version, seen.resource) == ("UPDATE", "apps", "v1", "statefulsets")
    assert (seen.subresource, seen.kind, seen.user, seen.dry_run) == ("", "StatefulSet", "alice", False)
    assert str(seen) == "statefulsets/web in ns"
    assert seen.object is not None
    assert seen.old_object is not None


def test_a_dry_run_is_known_by_the_request_or_by_the_evictions_options() -> None:
    """`kubectl drain --dry-run=server` says so only in the eviction that it sends."""
    assert request_of(review_of(dryRun=True)).dry_run
    assert _eviction(dry_run=True).dry_run
    assert _eviction(dryRun=["All"]).dry_run
    assert not _eviction(dryRun=[]).dry_run
    assert not _eviction().dry_run


def test_only_an_eviction_can_be_a_dry_run_by_its_own_body() -> None:
    """An object that happens to have `deleteOptions` isn't a dry run."""
    assert not request_of(review_of(object={"deleteOptions": {"dryRun": ["All"]}})).dry_run


@pytest.mark.parametrize(
    "change",
    [
        {"apiVersion": "admission.k8s.io/v1beta1"},
        {"kind": "ConversionReview"},
        {"request": None},
        {"request": []},
    ],
)
def test_another_document_is_refused(change: dict[str, Any]) -> None:
    """Another version or kind, or no request: 400, whatever else is right."""
    with pytest.raises(NotAnAdmissionReview):
        request_of({**review_of(), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"uid": ""},
        {"uid": None},
        {"uid": 7},
        {"uid": "u" * 129},
        {"operation": "PATCH"},
        {"operation": None},
        {"resource": None},
        {"resource": "pods"},
        {"resource": {"resource": ""}},
        {"resource": {"resource": "pods", "group": []}},
        {"subResource": 1},
        {"kind": "Pod"},
        {"name": ""},
        {"name": None},
        {"name": "a" * 254},
        {"namespace": "a" * 254},
        {"subResource": "a" * 254},
        {"name": {"a": 1}},
        {"name": "web\nlevel=info"},
        {"name": "\ud800"},
        {"name": "."},
        {"name": ".."},
        {"name": "a/../b"},
        {"name": "a%2Fb"},
        {"namespace": ".."},
        {"namespace": True},
        {"dryRun": "false"},
        {"dryRun": 0},
        {"userInfo": []},
        {"object": []},
        {"oldObject": "x"},
    ],
)
def test_a_request_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    """A field of the wrong type is never guessed at."""
    with pytest.raises(NotAnAdmissionReview):
        request_of(review_of(**change))


def test_who_asks_has_no_name_that_fills_logs() -> None:
    """It stands in the line of each denial; whoever reaches the port chooses it."""
    assert len(request_of(review_of(userInfo={"username": "a" * 1_000_000})).user) == 256


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"7",
        b"{",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"a": %s}' % (b"9" * 5000),
        b"[" * 200_000,
        b'{"a":' * 200_000,
    ],
    ids=lambda body: body[:12].decode(errors="replace"),
)
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    """Neither its depth, nor its numbers, nor its bytes end in anything but 400."""
    with pytest.raises(NotAnAdmissionReview) as refusal:
        parse(body)
    assert "\n" not in str(refusal.value)


def test_a_refusal_has_a_size() -> None:
    """Many quote what a tenant has written; the API server hands them on to the client, and into its audit log."""
    assert len(deny(403, "x" * 300_000).message) == 2048


def test_a_users_name_is_one_line() -> None:
    """A name from a token can't begin a line of a log."""
    assert request_of(review_of(userInfo={"username": "eve\nalice"})).user == "eve alice"


def test_an_answer_repeats_the_uid() -> None:
    """The API server takes an answer for its own question only."""
    assert review("u1", allow()) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u1", "allowed": True},
    }


def test_a_refusal_has_code_reason_and_message() -> None:
    """`kubectl` shows the message, and its retries go by the code."""
    answer = review("u1", deny(429, "later", audit={"budget": "ns/web"}))["response"]
    assert answer["status"] == {"status": "Failure", "code": 429, "reason": "TooManyRequests", "message": "later"}
    assert answer["auditAnnotations"] == {"budget": "ns/web"}
    assert answer["allowed"] is False
    assert [deny(code, "").reason for code in (400, 403, 409)] == ["BadRequest", "Forbidden", "Conflict"]


def test_warnings_are_short_lines() -> None:
    """They travel as HTTP headers: no line breaks, and not longer than the API server passes on."""
    (warning,) = review("u1", allow("a\r\nb" + "c" * 300, audit={"k": "v"}))["response"]["warnings"]
    assert warning.startswith("a  bc") and len(warning) == 256


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A review with fields replaced or taken away, and perhaps with bytes changed."""
    document = copy.deepcopy(review_of())
    for _ in range(draw(st.integers(0, 3))):
        place: Any = draw(st.sampled_from([document, document["request"]]))
        if isinstance(place, dict) and place:
            key = draw(st.sampled_from(sorted(place)))
            if draw(st.booleans()):
                place[key] = draw(json_values)
            else:
                del place[key]
        if not isinstance(document.get("request"), dict):
            break
    body = bytearray(json.dumps(document).encode())
    for _ in range(draw(st.integers(0, 2))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    return bytes(body)


def _read(body: bytes) -> AdmissionRequest | str:
    try:
        return parse(body)
    except NotAnAdmissionReview as refusal:
        return str(refusal)


@settings(max_examples=200)
@given(st.binary() | mutated() | json_values.map(lambda value: json.dumps(value).encode()))
def test_whatever_arrives_is_a_request_or_no_review(body: bytes) -> None:
    """Nothing but `NotAnAdmissionReview` is ever raised, and what is read has the types that it says."""
    seen = _read(body)
    if isinstance(seen, str):
        assert seen.isprintable()
        return
    assert seen.uid and seen.resource and isinstance(seen.dry_run, bool)
    assert seen.operation in ("CREATE", "UPDATE", "DELETE", "CONNECT")
    assert all(isinstance(o, dict | None) for o in (seen.object, seen.old_object))
    str(seen).encode()

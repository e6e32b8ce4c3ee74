"""Hostile reviews against each webhook's decision: none crashes it, none is allowed that a well-formed one isn't.

Each begins with a review that is refused, and changes anything but what it is about. `GUARD_FUZZ=100000` takes more
reviews than the tests' own.
"""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import Json, member, members, review_of, scale, workload, zone
from tests.unit.in_cluster.guard.core.test_admission import json_values
from upgrader.in_cluster.guard.core import downscale, prepare, protector, zone_budget
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, NotAnAdmissionReview, parse, review
from upgrader.in_cluster.guard.core.ledger import Ledger
from upgrader.in_cluster.guard.core.rollout import pods_by_owner
from upgrader.in_cluster.guard.core.selectors import Selector

PODS = {"group": "", "version": "v1", "resource": "pods"}
A, B = "web-zone-a", "web-zone-b"
SETS = (zone(A), zone(B))
STATE = zone_budget.State(SETS, pods_by_owner(SETS, members(B)))  # zone a has no pod at all
LABELS = {downscale.NO_DOWNSCALE: "true"}
ABOUT = {"operation", "resource", "subResource", "name", "namespace", "object", "oldObject", "kind"}

Decide = Callable[[AdmissionRequest], int]


def _no_downscale(request: AdmissionRequest) -> int:
    return downscale.decide(request, downscale.Parent(LABELS)).code


def _prepare(request: AdmissionRequest) -> int:
    which = zone("web", labels={prepare.PREPARE: "true"})
    answer = prepare.decide(request, which, prepare.GroupState((which,), (), {}, 3), "cluster.local.", 0.0)
    return answer.code if not isinstance(answer, prepare.Preparation) else 0


def _evict_zone(request: AdmissionRequest) -> int:
    if (answer := zone_budget.misdirected(request)) is not None:
        return answer.code
    budget = zone_budget.ZoneBudget("ns", "web", {"rollout-group": "web"})
    return zone_budget.judge(member(f"{B}-0"), budget, STATE, Ledger(), 0.0).answer.code


def _store_budget(request: AdmissionRequest) -> int:
    return zone_budget.validate(request).code


def _protect(request: AdmissionRequest) -> int:
    if (answer := protector.misdirected(request)) is not None:
        return answer.code
    if request.operation == "DELETE":
        protector.pod_of_delete(request)
    subject = member("web-0")  # as the API has it, not as the request says
    asked = protector.request_for(request, subject, "a")
    counts = protector.Counts(3, 3, 3, 3, 3)
    guarded = protector.Protector("ns", "p", 3, Selector(), Selector(), cells=(protector.Cell("a", counts),))
    return protector.judge(asked, guarded).answer.code


POD: Json = {"metadata": {"name": "web-0", "namespace": "ns", "uid": "u"}}
EVICTION: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0", "namespace": "ns"}}
EVICT: Json = review_of("CREATE", resource=PODS, subResource="eviction", name="web-0", object=EVICTION, oldObject=None)
SCALE: Json = {"kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "subResource": "scale"}
CASES: dict[str, tuple[Decide, Json]] = {
    "no-downscale": (_no_downscale, review_of(oldObject=workload(3, LABELS), object=workload(2, LABELS))),
    "no-downscale by scale": (_no_downscale, review_of(oldObject=scale(3), object=scale(0), **SCALE)),
    "prepare-downscale": (_prepare, review_of(oldObject=workload(3), object=workload(2))),
    "pod-eviction": (_evict_zone, EVICT),
    "zpdb-validation": (_store_budget, review_of("CREATE", object={"spec": {"maxUnavailable": -1}})),
    "protector, eviction": (_protect, EVICT),
    "protector, deletion": (_protect, review_of("DELETE", resource=PODS, name="web-0", object=None, oldObject=POD)),
}


@st.composite
def disguised(draw: st.DrawFn, document: Json) -> bytes:
    """The review with more written into it, and with everything changed that it isn't about."""
    made: Any = copy.deepcopy(document)
    request = made["request"]
    for key in draw(st.sets(st.sampled_from(sorted({*request, "x", "requestKind", "userInfo", "options"})))):
        if key not in ABOUT:
            request[key] = draw(json_values)
        elif isinstance(request.get(key), dict) and key in ("object", "oldObject"):
            request[key][draw(st.sampled_from(["status", "deleteOptions", "extra"]))] = draw(json_values)
    made.update(draw(st.dictionaries(st.sampled_from(["x", "response", "metadata"]), json_values)))
    body = json.dumps(made)
    if draw(st.booleans()):  # a second key of a name that is there
        body = body.replace('"request": {', f'"request": {{"{draw(st.sampled_from(sorted(request)))}": null, ', 1)
    return body.encode()


@pytest.mark.parametrize("case", CASES)
@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
    deadline=None,
)
@given(data=st.data())
def test_no_disguise_lets_a_refused_request_through(case: str, data: st.DataObject) -> None:
    """Refused as before, or no review at all; and what is answered can be sent."""
    decide, document = CASES[case]
    assert decide(parse(json.dumps(document).encode())) in (400, 403, 429)
    try:
        request = parse(data.draw(disguised(document)))
        code = decide(request)
    except NotAnAdmissionReview:
        return
    assert code in (400, 403, 409, 429)
    json.dumps(review(request.uid, downscale.decide(request))).encode()


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_whatever_a_request_is_about_nothing_crashes(case: str, data: st.DataObject) -> None:
    """Any value in any field, objects too: an answer, or no review."""
    decide, document = CASES[case]
    made = copy.deepcopy(document)
    for key in data.draw(st.sets(st.sampled_from(sorted(ABOUT)), min_size=1, max_size=3)):
        made["request"][key] = data.draw(json_values)
        if key in ("object", "oldObject") and data.draw(st.booleans()):
            parts = st.sampled_from(["metadata", "spec", "status", "kind"])
            made["request"][key] = data.draw(st.dictionaries(parts, json_values))
    try:
        decide(parse(json.dumps(made).encode()))
    except NotAnAdmissionReview:
        return


STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**63, "", "true", "All", "\ud800", "a\nb", "x" * 5000, [], [None], {}, {"": {}}),
    *({"dryRun": ["All"]}, {"replicas": 9}, {"metadata": {"labels": 7}}, {"annotations": {"a": None}}, [[[[]]]]),
)


def _spoilt(rng: random.Random, document: Json) -> tuple[bytes, bool]:
    """A review with strange values and bytes in it, and whether what it is about is as it was."""
    made = copy.deepcopy(document)
    same = True
    for _ in range(rng.randint(1, 4)):
        at: Any = made if rng.random() < 0.1 else made["request"]
        path = [rng.choice([*sorted(at), "x"])]
        while isinstance(at, dict) and isinstance(at.get(path[-1]), dict) and at[path[-1]] and rng.random() < 0.6:
            at = at[path[-1]]
            path.append(rng.choice([*sorted(at), "x"]))
        beside = path[-1] == "x" or path[0] in ("options", "userInfo", "dryRun", "x")
        same = same and beside
        if rng.random() < 0.2 and path[-1] in at:
            del at[path[-1]]
        else:
            at[path[-1]] = copy.deepcopy(rng.choice(STRANGE))
        if not isinstance(made.get("request"), dict):
            break
    body = bytearray(json.dumps(made).encode())
    for _ in range(rng.choice([0, 0, 0, 1, 5])):
        body[rng.randrange(len(body))] = rng.randrange(256)
        same = False
    return bytes(body[: rng.randrange(len(body))] if rng.random() < 0.02 else body), same


def test_thousands_of_spoilt_reviews_change_no_answer() -> None:
    """Only `NotAnAdmissionReview` is raised, and where what it is about is as it was, a refusal stays one."""
    rng = random.Random(19)
    read = refused = 0
    for number in range(int(os.environ.get("GUARD_FUZZ", "3000"))):
        decide, document = CASES[sorted(CASES)[number % len(CASES)]]
        body, same = _spoilt(rng, document)
        try:
            code = decide(parse(body))
        except NotAnAdmissionReview:
            continue
        read += 1
        refused += code != 0
        assert code != 0 or not same, body
    assert read > 0 and refused > 0

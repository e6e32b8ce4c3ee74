"""No-downscale: upstream's TestNoDownscale_* and the table of answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import request_of, review_of, scale, workload
from tests.unit.in_cluster.guard.core.test_admission import json_values
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, NotAnAdmissionReview, parse
from upgrader.in_cluster.guard.core.downscale import NO_DOWNSCALE, Parent, decide, moved, needs_parent, shrinks

LABELLED = {NO_DOWNSCALE: "true"}


def _update(before: Any, after: Any, labels: dict[str, str] | None = None, **changes: Any) -> AdmissionRequest:
    old, new = workload(before, labels), workload(after, labels)
    return request_of(review_of(oldObject=old, object=new, **changes))


def _scale(before: int, after: int, **changes: Any) -> AdmissionRequest:
    changes = {"kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "subResource": "scale", **changes}
    return request_of(review_of(oldObject=scale(before), object=scale(after), **changes))


def test_an_unlabelled_object_shrinks_by_itself_and_by_scale() -> None:
    """TestNoDownscale_CanDownscaleUnrelatedResource: both ways, with nothing to say."""
    assert decide(_update(3, 2)).allowed
    answer = decide(_scale(3, 2), Parent({}))
    assert answer.allowed and not answer.warnings
    assert decide(_update(3, 2, {NO_DOWNSCALE: "false"})).allowed


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_labelled_object_does_not_shrink(dry_run: bool) -> None:
    """TestNoDownscale_DownscalingNotAllowed: 403 in the words that its users' alerts look for, on a dry run too."""
    answer = decide(_update(3, 2, LABELLED, dryRun=dry_run))
    assert (answer.allowed, answer.code, answer.reason) == (False, 403, "Forbidden")
    assert answer.message == (
        "downscale of statefulsets/web in ns from 3 to 2 replicas is not allowed because it has the label "
        "'grafana.com/no-downscale=true'"
    )


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_labelled_object_does_not_shrink_by_scale(dry_run: bool) -> None:
    """A Scale has no labels: those of its parent count, and the words are the same."""
    request = _scale(3, 2, dryRun=dry_run)
    assert needs_parent(request)
    assert decide(request, Parent(LABELLED)) == decide(_update(3, 2, LABELLED))


def test_scaling_to_nothing_is_a_downscale() -> None:
    """Go writes a Scale of 0 with no replicas at all; that is no null."""
    assert decide(_scale(3, 0), Parent(LABELLED)).code == 403
    request = replace(_scale(3, 0), object={"kind": "Scale"})
    assert decide(request, Parent(LABELLED)).code == 403
    assert decide(_scale(0, 3), Parent(LABELLED)).allowed


def test_upscales_and_other_changes_are_allowed() -> None:
    """TestNoDownscale_UpscalingAllowed; and a change of nothing, and what isn't an update."""
    assert decide(_update(2, 3, LABELLED)).allowed
    assert decide(_update(3, 3, LABELLED)).allowed
    assert decide(_scale(2, 3)).allowed and not needs_parent(_scale(2, 3))
    assert decide(replace(_update(3, 2, LABELLED), operation="CREATE")).allowed
    assert not needs_parent(_update(3, 2, LABELLED))


def _start(number: object) -> dict[str, Any]:
    return {"ordinals": {"start": number}}


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ((0, 3), (2, 3), "web-0 to web-1"),
        ((2, 3), (0, 3), "web-3 to web-4"),
        ((0, 3), (9, 3), "web-0 to web-2"),
        ((9, 3), (0, 3), "web-9 to web-11"),
        ((0, 3), (1, 1), "web-0 and web-2"),
        ((0, 3), (1, 2), "web-0"),
        ((0, 3), (1, 7), "web-0"),
        ((0, 3), (1, 0), "web-0 and web-1 to web-2"),
        ((0, None), (1, None), "web-0"),
    ],
)
def test_another_first_ordinal_takes_pods_away(before: Any, after: Any, lost: str) -> None:
    """With as many replicas, or more. Of an object with the label that is refused, and the pods have names."""
    old, new = (workload(number, LABELLED, **_start(start)) for start, number in (before, after))
    request = request_of(review_of(oldObject=old, object=new))
    move = moved(request)
    assert move is not None and move.pods("web") == lost
    assert shrinks(request)
    answer = decide(request)
    assert answer.code == 403
    assert answer.message == (
        f"change of spec.ordinals.start of statefulsets/web in ns from {before[0]} to {after[0]} is not allowed "
        "because it has the label 'grafana.com/no-downscale=true'"
    )


def test_a_first_ordinal_by_which_no_pod_is_lost_may_change() -> None:
    """Lower with as many more replicas, as where pods move to this cluster from another one; or with no pods at all."""
    for before, after in (((3, 2), (0, 5)), ((3, 0), (0, 0)), ((3, 0), (5, 2))):
        old, new = (workload(number, LABELLED, **_start(start)) for start, number in (before, after))
        request = request_of(review_of(oldObject=old, object=new))
        assert moved(request) is None and decide(request).allowed and not shrinks(request)
    same = request_of(review_of(oldObject=workload(3, LABELLED, **_start(0)), object=workload(3, LABELLED)))
    assert moved(same) is None and decide(same).allowed
    other = request_of(
        review_of(
            resource={"group": "apps", "version": "v1", "resource": "deployments"},
            oldObject=workload(3, LABELLED),
            object=workload(3, LABELLED, **_start(1)),
        )
    )
    assert decide(other).allowed


@pytest.mark.parametrize("ordinals", [[], 7, {"start": "1"}, {"start": -1}, {"start": True}, {"start": 2**31}])
def test_a_first_ordinal_that_is_none_is_allowed_with_a_warning(ordinals: object) -> None:
    """As replicas that are none are; the API server stores neither."""
    request = request_of(review_of(oldObject=workload(3, LABELLED), object=workload(3, LABELLED, ordinals=ordinals)))
    answer = decide(request)
    assert answer.allowed and ("first ordinal" in str(answer.warnings) or not ordinals)
    assert not shrinks(request)


@pytest.mark.parametrize(("before", "after"), [(None, 2), (3, None)])
def test_from_and_to_null_is_allowed_with_a_warning(before: int | None, after: int | None) -> None:
    """Nobody can say whether it is a downscale."""
    answer = decide(_update(before, after, LABELLED))
    assert answer.allowed and "null" in answer.warnings[0]
    assert not decide(_update(None, None, LABELLED)).warnings


@pytest.mark.parametrize("parent", [None, Parent(None, "the API server doesn't answer")])
def test_an_unreadable_parent_is_allowed_with_a_warning(parent: Parent | None) -> None:
    """An object that may not have the label isn't stuck because the API is away."""
    answer = decide(_scale(3, 2), parent)
    assert answer.allowed and "can't be read" in answer.warnings[0]


@pytest.mark.parametrize("replicas", ["2", 2.5, True, -1, 2**40, [2]])
def test_what_has_no_replicas_is_allowed_with_a_warning(replicas: object) -> None:
    """Undecodable: let through, and said."""
    answer = decide(_update(3, replicas, LABELLED))
    assert answer.allowed and answer.warnings


@pytest.mark.parametrize("content", [None, {}, {"spec": 3}])
def test_what_is_no_workload_is_allowed_with_a_warning(content: dict[str, Any] | None) -> None:
    """No object, or one without a spec."""
    request = replace(_update(3, 2, LABELLED), object=content)
    assert decide(request).warnings and not needs_parent(replace(request, subresource="scale", object={"spec": 3}))


def test_the_labels_before_the_change_count() -> None:
    """Taking the label off and shrinking in one request is refused; shrinking in a second one is not."""
    taken_off = review_of(oldObject=workload(3, LABELLED), object=workload(2))
    assert decide(request_of(taken_off)).code == 403
    assert decide(replace(request_of(taken_off), old_object={"spec": {"replicas": 3}})).allowed
    assert decide(replace(request_of(taken_off), old_object={"metadata": 1, "spec": {"replicas": 3}})).allowed


@given(
    st.dictionaries(st.sampled_from(["options", "userInfo", "requestKind", "dryRun", "x"]), json_values), json_values
)
def test_nothing_beside_the_two_objects_lets_a_downscale_through(changes: dict[str, Any], extra: object) -> None:
    """A review that would be refused is refused, or is no review, whatever else is written into it."""
    old, new = workload(3, LABELLED), workload(2, LABELLED)
    document = review_of(oldObject={**old, "extra": extra}, object={**new, "status": extra}, **changes)
    try:
        request = parse(json.dumps(document).encode())
    except NotAnAdmissionReview:
        return
    assert decide(request).code == 403

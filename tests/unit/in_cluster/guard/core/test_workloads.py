"""What is read from the API's objects."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import Json
from upgrader.contract.times import duration_of, micro_timestamp, seconds_of, timestamp
from upgrader.in_cluster.guard.core.workloads import natural, pod, stateful_set

POD: Json = {
    "metadata": {
        "name": "web-0",
        "namespace": "ns",
        "uid": "u",
        "labels": {"controller-revision-hash": "web-1"},
        "ownerReferences": [
            {"kind": "Other", "name": "x", "uid": "x"},
            {"kind": "StatefulSet", "name": "web", "uid": "s", "controller": True},
        ],
    },
    "spec": {"nodeName": "n1"},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"},
        ],
        "containerStatuses": [{"name": "web", "ready": True}],
    },
}


def _pod(**status: object) -> Json:
    return {**POD, "status": {**POD["status"], **status}}


def test_a_pod_is_read() -> None:
    """Its owner is its controller, and Ready has a time."""
    seen = pod(POD)
    assert (seen.owner_kind, seen.owner_name, seen.owner_uid) == ("StatefulSet", "web", "s")
    assert (seen.revision, seen.node, seen.scheduled, seen.ready_since, seen.ready) == ("web-1", "n1", True, 60.0, True)
    assert not seen.finished


@pytest.mark.parametrize(
    "item",
    [
        _pod(phase="Pending"),
        _pod(phase="Succeeded"),
        _pod(conditions=[]),
        _pod(conditions=[{"type": "Ready", "status": "Unknown"}]),
        _pod(containerStatuses=[{"name": "web", "ready": True}, {"name": "side", "ready": False}]),
        {**POD, "metadata": {**POD["metadata"], "deletionTimestamp": "1970-01-01T00:01:00Z"}},
        {"metadata": {"name": "web-0", "uid": "u"}},
    ],
)
def test_what_is_not_known_to_be_ready_is_not(item: Json) -> None:
    """Not Running, going, one container unready, or nobody has said."""
    assert not pod(item).ready


def test_ready_since_nobody_knows_when_is_ready_for_no_time() -> None:
    """A condition without its time doesn't count as old."""
    seen = pod(_pod(conditions=[{"type": "Ready", "status": "True"}]))
    assert seen.ready and seen.ready_since == math.inf
    assert pod(_pod(phase="Failed")).finished


@pytest.mark.parametrize(
    ("status", "stuck"),
    [
        ({"phase": "Failed"}, True),
        ({"conditions": [{"type": "PodScheduled", "status": "False"}]}, True),
        ({"containerStatuses": [{}, {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}, True),
        ({"initContainerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}, True),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, False),
        (
            {"containerStatuses": [{"state": {"running": {}}}], "conditions": [{"type": "Ready", "status": "False"}]},
            False,
        ),
        ({"containerStatuses": [{"state": {"waiting": None}}, {"state": None}]}, False),
    ],
)
def test_a_pod_that_will_not_get_ready_by_itself_is_stuck(status: Json, stuck: bool) -> None:
    """By what the kubelet and the scheduler say of it; a probe that fails may be good again in a moment."""
    assert pod(_pod(**status)).stuck is stuck


def test_a_stateful_set_is_read() -> None:
    """With the API's defaults for what isn't there."""
    seen = stateful_set(
        {
            "metadata": {"name": "web", "namespace": "ns", "uid": "s", "generation": 3},
            "spec": {
                "replicas": 0,
                "updateStrategy": {"type": "OnDelete"},
                "serviceName": "web",
                "minReadySeconds": 5,
                "ordinals": {"start": 7},
            },
            "status": {
                "observedGeneration": 3,
                "currentRevision": "a",
                "updateRevision": "b",
                "replicas": 2,
                "availableReplicas": 1,
            },
        }
    )
    assert (seen.min_ready_seconds, seen.available_replicas, seen.ordinals) == (5, 1, range(7, 7))
    assert (seen.replicas, seen.update_strategy, seen.service_name, seen.status_replicas) == (0, "OnDelete", "web", 2)
    assert (seen.current_revision, seen.update_revision, seen.observed) == ("a", "b", True)
    bare = stateful_set({"metadata": {"name": "web", "uid": "s", "generation": 1}, "spec": {}})
    assert (bare.replicas, bare.update_strategy, bare.observed) == (1, "RollingUpdate", False)


def test_names_are_sorted_as_people_count() -> None:
    """Digits by their value, wherever they are."""
    names = ["a-10", "a-2", "a", "b-1", "10-a", "9-a", "a-2-x"]
    assert sorted(names, key=natural) == ["9-a", "10-a", "a", "a-2", "a-2-x", "a-10", "b-1"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("12h", 43200),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        (".5m", 30),
        ("250ms", 0.25),
        ("3µs", 3e-6),
        ("", None),
        ("5", None),
        ("-1h", None),
        ("1h ", None),
        ("1 h", None),
        ("1d", None),
        (5, None),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: object, seconds: float | None) -> None:
    """Units are needed, and nothing lasts less than no time."""
    found = duration_of(text)
    assert found is None if seconds is None else found == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01T01:01:00+01:00", 60),
        ("1970-01-01T00:01:00.250000Z", 60.25),
        ("1970-01-01T00:01:00.123456789Z", 60.123456),
        ("1970-02-30T00:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("1969-12-31T23:59:59Z", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("1970-01-01", None),
        ("1970-01-01T00:01:00", None),
        ("60", None),
        (60, None),
        (None, None),
    ],
)
def test_a_timestamp_is_read(text: object, seconds: float | None) -> None:
    """RFC 3339 with a zone, or nothing."""
    found = seconds_of(text)
    assert found is None if seconds is None else found == pytest.approx(seconds)


@given(st.integers(0, 2**33))
def test_timestamps_come_back(seconds: int) -> None:
    """What is written is what is read."""
    assert seconds_of(timestamp(seconds)) == seconds
    assert seconds_of(micro_timestamp(seconds + 0.5)) == seconds + 0.5

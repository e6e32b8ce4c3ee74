"""What keeps pods and Secrets out of a scratch kube-apiserver's memory, and lists complete."""

from __future__ import annotations

import base64
import json

import pytest

from upgrader.onhost.rehearsal.unwatched import KEYS, block_informers, first, only_these


@pytest.mark.parametrize("plural", ["pods", "secrets"])
def test_lists_begin_after_what_can_not_be_read(plural: str) -> None:
    """And before the first namespace of any name, as etcd sorts its keys."""
    token = first("", plural, 7)
    said = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    (key,) = (key for key in KEYS if key.startswith(f"/{plural}/"))
    assert said["rv"] == 7 and key < f"/{plural}/{said['start']}" <= f"/{plural}/0/a" < f"/{plural}/a/a"


def test_other_lists_begin_at_their_beginning() -> None:
    """So do those of a server whose data has no such key."""
    assert [first("", "configmaps", 7), first("metrics.k8s.io", "pods", 7), first("", "pods", 0)] == ["", "", ""]


@pytest.mark.parametrize(
    ("informers", "only"),
    [("*v1.Pod", True), ("*v1.Secret *v1.Pod", True), ("*v1.Pod *v1.Namespace", False), ("*v1.PodTemplate", False)],
)
def test_other_informers_are_waited_for(informers: str, only: bool) -> None:
    """One that never has all objects is a finding, as admission refuses everything then."""
    count = len(informers.split())
    assert only_these(f"internal server error: {count} informers not started yet: [{informers}]") is only


def test_what_says_nothing_of_informers_is_waited_for() -> None:
    """Such as a server that no longer checks them."""
    assert not only_these("ok") and not only_these("")


def test_real_objects_that_can_not_be_read_keep_the_target_from_getting_ready() -> None:
    """On the cluster itself, its informers have nothing before them."""
    assert block_informers([{"what": "added", "resource": "pods"}, {"what": "unreadable", "resource": "secrets"}])
    assert not block_informers([{"what": "unreadable", "resource": "configmaps"}, {"what": "gone", "resource": "pods"}])

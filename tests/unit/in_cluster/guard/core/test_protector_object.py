"""PodProtectors as the API has them."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.in_cluster.guard.core.protector import Tuning
from upgrader.in_cluster.guard.core.protector_object import InvalidProtector, read


@pytest.mark.parametrize(
    ("config", "tuning"),
    [
        ({}, Tuning(1, 1000, 0.01)),
        ({"compactThreshold": 20, "aggregationRateMillis": 500, "maxConcurrentLag": 3}, Tuning(3, 20, 0.5)),
        ({"compactThreshold": 2**31 - 1, "aggregationRateMillis": 0}, Tuning(1, 200, 0.1)),
    ],
    ids=["defaults", "given", "extreme"],
)
def test_a_tenant_tunes_within_limits(config: dict[str, Any], tuning: Tuning) -> None:
    """Else a status would grow up to what etcd stores, and pods be counted again for each of their changes. What the
    operator of guard sets as a default counts as it is.
    """
    item = {"metadata": {"name": "web"}, "spec": {"selector": {}, "admissionHistoryConfig": config}}
    assert read(item, Tuning(1, 1000, 0.01)).tuning == tuning


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"spec": None}, "'NoneType' object has no attribute 'get'"),
        ({"spec": {"selector": {}, "minAvailable": True}}, "minAvailable isn't a whole number"),
        ({"spec": {"selector": {}, "minReadySeconds": 1.5}}, "minReadySeconds isn't a whole number"),
        ({"spec": {"selector": {}, "admissionHistoryConfig": {"compactThreshold": 1.5}}}, "compactThreshold isn't"),
        ({"spec": {"selector": {}, "admissionHistoryConfig": {"aggregationRateMillis": 1.5}}}, "aggregationRateMillis"),
        ({"status": {"cells": [{"aggregation": {}}]}}, "cellID is missing"),
        ({"status": {"cells": [{"cellID": 1}]}}, "a cellID isn't a string"),
        ({"status": {"cells": [{"cellID": "a", "aggregation": {"readyReplicas": None}}]}}, "readyReplicas isn't"),
        ({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "x" * 1000}]}}}, "an expression has no"),
    ],
)
def test_nothing_is_believed_of_one_with_a_field_of_another_type(changes: dict[str, Any], why: str) -> None:
    """What decides by it, later, would fail with any error, or take text for a number of pods. The reason is kept, and
    is short.
    """
    item = {"metadata": {"name": "web"}, "spec": {"selector": {}}, **changes}
    with pytest.raises(InvalidProtector) as raised:
        read(item, Tuning())
    assert str(raised.value).startswith(why) and len(str(raised.value)) <= 256

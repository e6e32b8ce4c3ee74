"""PodProtectors as the API has them."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.in_cluster.guard.core.protector import Tuning
from upgrader.in_cluster.guard.core.protector_object import read


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

"""How many pods are told about a change of a StatefulSet's replicas."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from upgrader.in_cluster.guard.core.delayed_downscale import Delay, calls
from upgrader.in_cluster.guard.core.prepare import PATH, PORT, endpoints
from upgrader.in_cluster.guard.core.scaling import NotScaled
from upgrader.in_cluster.guard.core.workloads import StatefulSet

DELAY = Delay(3600.0, urlsplit("http://pod/prepare"))


def of(replicas: int) -> StatefulSet:
    """A set whose pods are prepared."""
    annotations = {PATH: "/prepare", PORT: "80"}
    return StatefulSet("shop", "db", "uid", annotations=annotations, replicas=replicas, service_name="db")


@pytest.mark.parametrize("replicas", [10_001, 2**31 - 1])
def test_a_set_that_never_had_so_many_pods_is_not_prepared(replicas: int) -> None:
    """The API server stores any number of replicas, and a list of two billion pods is all of guard's memory, and its
    end.
    """
    found = endpoints(of(replicas), replicas, 0, "cluster.local")
    assert found == f"it has {replicas} pods to notify, more than 10000"
    with pytest.raises(NotScaled, match=f"db has {replicas} replicas, more than the 10000 that guard can prepare"):
        calls(of(replicas), 0, DELAY, "cluster.local")


def test_a_few_pods_of_a_large_set_are_prepared() -> None:
    """Only those that go are told; of a set with a delay, all are."""
    assert len(endpoints(of(20_000), 20_000, 19_998, "cluster.local")) == 2
    assert len(calls(of(10_000), 9_999, DELAY, "cluster.local").delete) == 9_999

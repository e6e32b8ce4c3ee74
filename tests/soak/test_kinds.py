"""Kinds of clusters, each the whole way: adopted, broken, upgraded, without power, recovered."""

from __future__ import annotations

import pytest

from testkit.kinds.catalogue import KINDS, Kind
from testkit.kinds.clusters import cluster_of
from testkit.kinds.columns import COLUMNS, PASSED, whole_way

_OTHERS = ("plain", "dual-stack", "private-registry")
"""What tests of their own have."""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name not in _OTHERS], ids=lambda kind: kind.name)
def test_the_whole_way(kind: Kind) -> None:
    """No client fails but at the power cuts, and the cluster is of its kind after each step."""
    with cluster_of(kind) as cluster:
        seen = dict(whole_way(cluster, kind))
    assert {column: cell.result for column, cell in seen.items()} == dict.fromkeys(COLUMNS, PASSED), seen

"""Who asks what when."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from upgrader.gates.availability.schedule import FRESH_PER_SECOND, deal


@pytest.mark.parametrize(("rate", "fresh"), [(1.0, 0.5), (10.0, 0.5), (100.0, 0.05), (1000.0, 0.005)])
def test_new_connections_are_limited(rate: float, fresh: float) -> None:
    """Half of a light load connects anew; of a heavy one as many as five a second, so that its cost stays small."""
    plan = list(islice(deal(["f1", "f2"], ["k1", "k2"], ["get"], rate), 1000))
    share = sum(client.startswith("f") for client, _ in plan) / 1000
    assert share == pytest.approx(fresh, abs=0.002)
    assert share * rate <= FRESH_PER_SECOND + 1


def test_every_client_sends_every_kind() -> None:
    """No client and kind is left out, whatever their numbers: none has a rhythm that keeps it from the others'."""
    plan = islice(deal(["f1", "f2"], ["k1", "k2", "k3", "k4"], ["get", "write", "list"], 10.0), 120)
    counts = Counter(plan)
    assert len(counts) == 6 * 3
    assert max(counts[key] for key in counts if key[0] == "f1") - min(counts[k] for k in counts if k[0] == "f1") <= 1

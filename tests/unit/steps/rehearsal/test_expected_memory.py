"""How much memory a rehearsal takes is known beforehand, by what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import upgrader
from upgrader.steps.rehearsal.unit import MEMORY_BYTES, expected_bytes, memory_warning

ROWS = json.loads((Path(upgrader.__file__).parent.parent / "bench" / "results" / "rehearsal.json").read_text())


def test_what_was_measured_is_what_is_expected() -> None:
    """From a new cluster up to the largest one, with small and with large pods: enough, and at most twice too much."""
    measured = {row["name"]: (row["objects"], row["peak_mib"] << 20) for row in ROWS if row["objects"]}
    assert len(measured) > 20
    for name, (objects, peak) in measured.items():
        assert 0.5 < peak / expected_bytes(objects) <= 1, name


def test_a_cluster_of_the_size_that_is_promised_fits() -> None:
    """100,000 pods and 20,000 ConfigMaps, of however many containers, and a tenth more."""
    assert expected_bytes(132_000) < MEMORY_BYTES and not memory_warning(132_000)
    assert memory_warning(400_000).startswith("400,000 keys are expected to need 2,111 MiB of memory")
